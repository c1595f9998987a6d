"""The sorted list of running jobs and the trees of waiting ones against Python's sorted()."""

import numpy as np
import pytest

from headway.core.order import (
    add_running,
    add_waiting,
    as_list,
    before,
    drop_running,
    drop_waiting,
    first_waiting,
    insert,
    next_waiting,
    rank,
)
from headway.core.tables.state import new_state

JOBS, CLASS_COUNT = 200, 6


def new(rng: np.random.Generator, distinct: int):
    """A state whose jobs have keys with many ties (few distinct values) or none."""
    state = new_state(JOBS, np.array([100, 150]))
    state.jobs["k1"] = rng.integers(0, distinct, JOBS)
    state.jobs["k2"] = rng.integers(0, distinct, JOBS)
    return state


def by_key(state):
    """The order as Python has it."""
    return lambda j: (state.jobs["k1"][j], state.jobs["k2"][j], j)


@pytest.mark.parametrize("distinct", [1, 3, 10**6])
def test_jobs_compare_by_both_keys_then_by_number(distinct):
    rng = np.random.default_rng(distinct)
    state = new(rng, distinct)
    key = by_key(state)
    for a, b in rng.integers(0, JOBS, (500, 2)):
        assert before(state.jobs, a, b) == (key(a) < key(b))


@pytest.mark.parametrize("distinct", [1, 3, 10**6])
def test_running_jobs_stay_sorted(distinct, rounds):
    for seed in range(rounds(3, 100)):
        rng = np.random.default_rng(seed)
        state = new(rng, distinct)
        inside: set[int] = set()
        for j in rng.integers(0, JOBS, 600).tolist():
            if j in inside:
                assert state.run[rank(state, j)] == j
                drop_running(state, j)
                inside.remove(j)
            else:
                add_running(state, j)
                inside.add(j)
            assert state.run[: int(state.counts["running"][0])].tolist() == sorted(inside, key=by_key(state)), seed


@pytest.mark.parametrize("distinct", [1, 3, 10**6])
def test_waiting_jobs_come_in_order_class_by_class(distinct, rounds):
    for seed in range(rounds(3, 100)):
        rng = np.random.default_rng(seed)
        state = new(rng, distinct)
        class_of = rng.integers(1, CLASS_COUNT, JOBS).tolist()
        inside: dict[int, set[int]] = {c: set() for c in range(CLASS_COUNT)}
        for step, j in enumerate(rng.integers(0, JOBS, 800).tolist()):
            c = class_of[j]
            if j in inside[c]:
                drop_waiting(state, c, j)
                inside[c].remove(j)
            else:
                add_waiting(state, c, j)
                inside[c].add(j)
            if step % 40 == 0 or step > 780:
                expected = [j for c in sorted(inside) for j in sorted(inside[c], key=by_key(state))]
                assert list_waiting(state) == expected, seed
        check_classes(state, inside)


def list_waiting(state):
    """All waiting jobs, class by class, in order."""
    found = []
    for c in state.classes["open"][: int(state.counts["classes"][0])]:
        j = first_waiting(state, c)
        while j >= 0:
            found.append(j)
            j = next_waiting(state, c, j)
    return found


def check_classes(state, inside: dict[int, set[int]]) -> None:
    """Counts, the classes in which someone waits, and walking a class by `next`."""
    used = [c for c in sorted(inside) if inside[c]]
    assert int(state.counts["waiting"][0]) == sum(map(len, inside.values()))
    assert state.classes["open"][: int(state.counts["classes"][0])].tolist() == used
    for c in used:
        order = sorted(inside[c], key=by_key(state))
        assert first_waiting(state, c) == order[0]
        assert [next_waiting(state, c, j) for j in order] == [*order[1:], -1]


def test_an_emptied_tree_is_like_a_new_one():
    state = new(np.random.default_rng(0), 3)
    for _ in range(2):
        for j in range(50):
            add_waiting(state, 2, j)
        assert list_waiting(state) == sorted(range(50), key=by_key(state))
        for j in range(50):
            drop_waiting(state, 2, j)
        assert (int(state.counts["waiting"][0]), int(state.counts["classes"][0]), state.classes[2]["root"]) == (
            0,
            0,
            -1,
        )


def test_a_tree_unrolls_to_a_list_and_fills_again(rounds):
    for seed in range(rounds(5, 100)):
        state = new(np.random.default_rng(seed), 5)
        members = np.random.default_rng(seed).permutation(JOBS)[: 1 + 20 * seed % JOBS].tolist()
        for j in members:
            add_waiting(state, 1, j)
        order = sorted(members, key=by_key(state))
        j, found = as_list(state, 1), []
        assert (int(state.counts["waiting"][0]), state.classes[1]["root"]) == (0, -1)
        while j >= 0:
            following = int(state.jobs[j]["high"])
            found.append(j)
            insert(state, 1, j)
            j = following
        assert found == order == list_waiting(state), seed
        check_classes(state, {1: set(members)})


def test_a_tree_filled_in_order_stays_shallow():
    """Sorted input is the worst case of a plain tree: 200 deep. A treap's depth is a few times log2 of 200."""
    state = new(np.random.default_rng(0), 1)
    for j in range(JOBS):
        add_waiting(state, 1, j)

    def depth(j: int) -> int:
        return 0 if j < 0 else 1 + max(depth(state.jobs["low"][j]), depth(state.jobs["high"][j]))

    assert depth(state.classes[1]["root"]) < 30
