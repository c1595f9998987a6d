"""Each placement on small exact cases: what is on offer, what is asked for, what must come out."""

from collections import Counter

import numpy as np
import pytest

from headway.core.tables.actions import actions, clear
from headway.core.tables.options import options
from headway.core.tables.scratch import new_scratch
from headway.core.tables.state import new_state
from headway.placement.registry import find_placement

SKEWED, EVEN, UNKNOWN = 0.74, 0.05, float("nan")


def place(
    spec: str, sizes: list[int], free: list[int], gpus: int, *, skew: float = UNKNOWN, seed: int = 0, attempt: int = 0
):
    """GPUs taken by node where `free` of each node's GPUs are on offer; None: it waits."""
    placement = find_placement(spec)
    state = new_state(1, np.array(sizes))
    scratch = new_scratch(state)
    scratch.nodes.offer[:] = free
    state.jobs["gpus"] = gpus
    state.jobs["skew"] = skew
    state.jobs["attempt"] = attempt
    out = actions(4, 64, 4)
    clear(out)
    given = options(pack_limit=placement.pack_limit, by_class=placement.by_class, seed=seed)
    placed = placement.place(scratch.nodes, scratch.leaves, state.fewest[0], state.jobs[0], given, out)
    seats = out.seats[: int(out.counts["seats"][0])]
    assert placed == (len(seats) > 0)
    taken = {int(seat["node"]): int(seat["gpus"]) for seat in seats}
    assert len(taken) == len(seats), "a node is named once"
    assert all(0 < count <= free[node] for node, count in taken.items())
    assert not placed or sum(taken.values()) == gpus
    return taken if placed else None


EVERY = ("consolidated", "consolidated?strict=no", "spread", "random", "profile", "profile?strict=no")


@pytest.mark.parametrize("spec", EVERY)
def test_nothing_is_placed_where_there_is_too_little(spec):
    assert place(spec, [4, 4], [2, 1], 4) is None
    assert place(spec, [4, 4], [0, 0], 1) is None


@pytest.mark.parametrize("spec", EVERY)
def test_all_that_is_free_can_be_had(spec):
    assert place(spec, [4, 2, 1], [4, 2, 1], 7) == {0: 4, 1: 2, 2: 1}


@pytest.mark.parametrize("spec", ["consolidated", "consolidated?strict=no"])
@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([4, 2, 3], 2, {1: 2}),  # the fullest node that holds it
        ([4, 3, 4], 3, {1: 3}),
        ([3, 3, 3], 3, {0: 3}),  # ties: the first
        ([4, 4, 1], 5, {0: 4, 2: 1}),  # a whole node, and the rest where it fits best
        ([4, 4, 4], 8, {0: 4, 1: 4}),
        ([4, 4, 3], 11, {0: 4, 1: 4, 2: 3}),
    ],
)
def test_consolidated_takes_the_fewest_nodes_and_the_best_fit(spec, free, gpus, expected):
    assert place(spec, [4, 4, 4], free, gpus) == expected


def test_consolidated_waits_for_the_fewest_nodes_possible_unless_it_is_soft():
    assert place("consolidated", [4, 4, 4], [2, 2, 2], 4) is None  # one empty node would do: wait for it
    assert place("consolidated?strict=no", [4, 4, 4], [2, 2, 2], 4) == {0: 2, 1: 2}
    assert place("consolidated", [4, 4, 4], [3, 3, 3], 8) is None
    assert place("consolidated?strict=no", [4, 4, 4], [3, 3, 3], 8) == {0: 3, 1: 3, 2: 2}


def test_consolidated_counts_nodes_by_the_largest_there_are():
    """Ten GPUs fit on 8 + 2, two nodes; three nodes are refused even though they are free."""
    assert place("consolidated", [8, 2, 4, 4], [0, 2, 4, 4], 10) is None
    assert place("consolidated", [8, 2, 4, 4], [8, 2, 4, 4], 10) == {0: 8, 1: 2}


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([4, 4, 4], 3, {0: 1, 1: 1, 2: 1}),
        ([4, 4, 4], 4, {0: 2, 1: 1, 2: 1}),  # the nodes at the end keep theirs
        ([4, 1, 2], 1, {0: 1}),
        ([4, 1, 2], 2, {0: 2}),
        ([4, 1, 2], 4, {0: 3, 2: 1}),  # levelled to one each
        ([4, 1, 2], 5, {0: 4, 2: 1}),
        ([0, 0, 3], 2, {2: 2}),
    ],
)
def test_spread_levels_the_nodes_down(free, gpus, expected):
    assert place("spread", [4, 4, 4], free, gpus) == expected


def test_spread_leaves_no_node_higher_than_one_it_took_from():
    rng = np.random.default_rng(1)
    for _ in range(300):
        free = rng.integers(0, 9, rng.integers(1, 8)).tolist()
        if not sum(free):
            continue
        taken = place("spread", [8] * len(free), free, int(rng.integers(1, sum(free) + 1)))
        after = [count - taken.get(node, 0) for node, count in enumerate(free)]
        assert all(max(after) <= after[node] + 1 for node in taken)


def test_random_draws_every_choice_alike_over_seeds():
    """2 of 4 GPUs on nodes of 1, 1 and 2: the six pairs of GPUs are equally likely, whichever node they are on."""
    rounds = 3000
    found = Counter(
        tuple(sorted(place("random", [1, 1, 2], [1, 1, 2], 2, seed=seed).items())) for seed in range(rounds)
    )
    expected = {((0, 1), (1, 1)): 1, ((0, 1), (2, 1)): 2, ((1, 1), (2, 1)): 2, ((2, 2),): 1}
    assert set(found) == set(expected)
    chi2 = sum((found[key] - rounds * w / 6) ** 2 / (rounds * w / 6) for key, w in expected.items())
    assert chi2 < 16.3  # 3 degrees of freedom: exceeded once in a thousand


def test_random_repeats_itself_and_draws_anew_at_every_attempt():
    free = [8] * 6
    assert place("random", free, free, 5, seed=3) == place("random", free, free, 5, seed=3)
    assert len({str(place("random", free, free, 5, seed=3, attempt=attempt)) for attempt in range(20)}) > 10


def test_profile_keeps_skewed_models_together_and_gives_leftovers_to_the_others():
    sizes, free = [4, 4, 4, 4], [2, 1, 4, 4]
    assert place("profile", sizes, free, 8, skew=SKEWED) == {2: 4, 3: 4}
    assert place("profile", sizes, free, 8, skew=EVEN) == {0: 2, 1: 1, 2: 4, 3: 1}
    assert place("profile", sizes, free, 8, skew=UNKNOWN) == {0: 2, 1: 1, 2: 4, 3: 1}
    assert place("profile", sizes, free, 2, skew=EVEN) == {0: 2}  # one node where one will do, filled up


def test_profile_waits_with_skewed_models_only():
    sizes, free = [4, 4], [2, 2]
    assert place("profile", sizes, free, 4, skew=SKEWED) is None
    assert place("profile?strict=no", sizes, free, 4, skew=SKEWED) == {0: 2, 1: 2}
    assert place("profile", sizes, free, 4, skew=EVEN) == {0: 2, 1: 2}


def test_profile_splits_at_packlimit():
    sizes, free = [4, 4], [2, 2]
    assert place("profile?packlimit=0.04", sizes, free, 4, skew=EVEN) is None
    assert place("profile?packlimit=0.06", sizes, free, 4, skew=EVEN) is not None
