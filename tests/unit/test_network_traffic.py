"""Traffic step by step, routing rules, collisions against the closed form, and what sharing costs."""

import math

import numpy as np
import pytest

from headway.errors import BadInput
from headway.network.fabric.file import fabric_from, load_fabric
from headway.network.sharing.fairness import max_min
from headway.network.sharing.routing import BALANCED, ECMP, IDEAL, ISOLATED, SOURCE, rule_code, wiring_of
from headway.network.sharing.slowdown import ONE_FLOW, join, leave, new_shares, worst_loads
from headway.network.sharing.traffic import (
    clean_patterns,
    destinations,
    parse_pattern,
    step_rows,
    steps_of,
    why_undefined,
)

NONE = np.empty(0, np.int64)


def loads_of(fabric, rule, pattern, gpus, spines=NONE, seed=0):
    rows, _ = step_rows(steps_of(parse_pattern(pattern), len(gpus)))
    scratch = np.zeros(fabric.directed_links, np.int64)
    worst = worst_loads(rule, seed, 0, rows, np.asarray(gpus), wiring_of(fabric), spines, 1, scratch)
    assert not scratch.any(), "scratch must be left clean"
    return worst


def test_patterns_move_the_bytes_they_should():
    """All-reduce: 2 (N-1)/N of the buffer per rank, by ring, by halving-doubling and by the hierarchical ring."""
    for name in ("ring", "halving-doubling", "hierarchical-ring:4"):
        moved = sum(step.share * step.times for step in steps_of(parse_pattern(name), 16))
        assert moved == pytest.approx(2 * 15 / 16)
    assert sum(step.share for step in steps_of(parse_pattern("all-to-all"), 16)) == pytest.approx(15 / 16)


def test_destinations():
    assert destinations(0, 1, 4, 4).tolist() == [1, 2, 3, 0]
    assert destinations(0, 1, 2, 4).tolist() == [1, 0, 3, 2], "shifts turn inside blocks"
    assert destinations(1, 2, 4, 4).tolist() == [2, 3, 0, 1]
    assert destinations(2, -1, 4, 4).tolist() == [-1, 0, 1, 2], "a line has ends"


def test_pairwise_all_to_all_meets_every_pair_once():
    met = set()
    for step in steps_of(parse_pattern("all-to-all"), 7):
        met |= {(a, int(b)) for a, b in enumerate(destinations(step.kind, step.amount, step.block, 7))}
    assert met == {(a, b) for a in range(7) for b in range(7) if a != b}


def test_bad_patterns():
    for text, complaint in [("rings", "did you mean 'ring'"), ("ring:3", "takes no group"), ("hybrid:x", "a number")]:
        with pytest.raises(BadInput, match=complaint):
            parse_pattern(text)
    assert "power of two" in why_undefined(parse_pattern("halving-doubling"), 12)
    with pytest.raises(BadInput, match="multiple of 8 ranks, not 12"):
        steps_of(parse_pattern("hybrid"), 12)
    with pytest.raises(BadInput, match="unknown network"):
        rule_code("fastest")


def test_isolated_routing_is_clean_and_source_routing_only_when_aligned():
    fabric = load_fabric("vclos-512")
    aligned = np.arange(128)
    spines = np.arange(32)
    assert loads_of(fabric, ISOLATED, "all-to-all", aligned, spines).max() == 1
    assert loads_of(fabric, SOURCE, "all-to-all", aligned).max() == 1
    remainder = loads_of(fabric, ISOLATED, "all-to-all", np.arange(80), spines)  # leaves of 32, 32 and 16 ranks
    assert remainder[0] == 1, "the ring stays clean"
    assert remainder.max() == 2, "other shifts do not"
    scattered = np.concatenate([np.arange(8), np.arange(40, 48), np.arange(64, 72), np.arange(112, 120)])
    assert loads_of(fabric, ISOLATED, "all-to-all", scattered, np.array([3, 5, 7, 9, 11, 13, 15, 17])).max() == 1
    assert loads_of(fabric, SOURCE, "halving-doubling", scattered).max() == 1
    mixed = np.concatenate([np.arange(4), np.arange(32, 36), np.arange(64, 72)])
    assert loads_of(fabric, SOURCE, "all-to-all", mixed).max() == 2, "a global index collides when not aligned"
    assert loads_of(fabric, IDEAL, "all-to-all", aligned).max() == 0


def test_ecmp_depends_on_the_seed_and_balanced_never_collides_upwards():
    fabric = load_fabric("vclos-512")
    gpus = np.arange(512)
    one, same, other = (loads_of(fabric, ECMP, "all-to-all", gpus, seed=seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert loads_of(fabric, BALANCED, "all-to-all", gpus).mean() < one.mean()


@pytest.mark.parametrize(("flows", "published"), [(2, 0.5), (4, 0.094), (8, 0.0024)])
def test_ecmp_avoids_collisions_as_often_as_n_factorial_over_n_to_the_n(flows, published):
    """n flows from one leaf over n uplinks: the closed form n!/n^n, within four standard errors."""
    content = {"leaves": 2, "servers_per_leaf": 1, "gpus_per_server": flows, "spines": flows}
    fabric = fabric_from(content, "x")
    ring = np.arange(2 * flows)
    rows = np.array([[0, flows, 2 * flows]])  # every GPU of a leaf sends to the other leaf
    wiring, scratch = wiring_of(fabric), np.zeros(fabric.directed_links, np.int64)
    trials, clean = 20_000, 0
    from headway.network.sharing.routing import LINKS_PER_FLOW, route_step

    senders, links = np.empty(ring.size, np.int64), np.empty((ring.size, LINKS_PER_FLOW), np.int64)
    for seed in range(trials):
        count = route_step(ECMP, seed, 0, *rows[0], ring, wiring, NONE, 1, senders, links)
        up = links[:count, 0][senders[:count] < flows]
        clean += len(set(up.tolist())) == flows
    expected = math.factorial(flows) / flows**flows
    assert expected == pytest.approx(published, rel=0.02)
    error = math.sqrt(expected * (1 - expected) / trials)
    assert abs(clean / trials - expected) < 4 * error
    assert not scratch.any()


def test_a_full_permutation_under_ecmp_has_a_mean_worst_load_near_five():
    """16 leaves x 32 uplinks, every GPU sends across leaves: the note's figure of 5."""
    fabric = load_fabric("vclos-512")
    rows = np.array([[0, 32, 512]])
    scratch = np.zeros(fabric.directed_links, np.int64)
    worst = [
        int(worst_loads(ECMP, seed, 0, rows, np.arange(512), wiring_of(fabric), NONE, 1, scratch)[0])
        for seed in range(200)
    ]
    assert 4.5 < np.mean(worst) < 6.0


def test_max_min_rates():
    """Two jobs share link 0, one of them also link 1 with a third: 1/3 of link 1 each for the weighted pair."""
    first, link, need = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 1.0, 2.0])
    rate = max_min(first, link, need, np.ones(2), 1.0)
    assert rate == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    alone = max_min(np.array([0, 1]), np.array([0]), np.array([1.0]), np.ones(1), 1.0)
    assert alone == pytest.approx([1.0])


def test_max_min_is_fair_on_random_networks():
    """Nobody can be faster without a full link on which nobody is faster than him."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        jobs, links = int(rng.integers(2, 8)), int(rng.integers(2, 8))
        uses = rng.random((jobs, links)) < 0.5
        need = rng.integers(1, 4, (jobs, links)) * uses
        first = np.concatenate([[0], np.cumsum(uses.sum(axis=1))])
        where = np.nonzero(uses)
        rate = max_min(first, where[1], need[where].astype(float), np.ones(links), 1.0)
        load = (need * rate[:, None]).sum(axis=0)
        assert (load <= 1 + 1e-9).all()
        for job in range(jobs):
            full = [one for one in range(links) if uses[job, one] and load[one] > 1 - 1e-9]
            fair = any(
                all(rate[other] <= rate[job] + 1e-9 for other in range(jobs) if uses[other, one]) for one in full
            )
            assert rate[job] > 1 - 1e-9 or fair


def test_factors_follow_joining_and_leaving_and_come_back_exactly():
    """Factors kept up job by job equal those computed from nothing, and leaving restores every total."""
    fabric = load_fabric("vclos-512")
    wiring, scratch = wiring_of(fabric), np.zeros(fabric.directed_links, np.int64)
    shares = new_shares(fabric.directed_links, 40, 200_000)
    out = np.empty(40, np.int64)
    rng = np.random.default_rng(9)
    placed = {}

    def start(into, job, gpus):
        rows, weights = step_rows(steps_of(parse_pattern("all-to-all" if job % 2 else "ring"), len(gpus)))
        return join(into, job, ECMP, 5, rows, weights, 0.5, gpus, wiring, NONE, 1, scratch, out)

    for job in range(40):
        placed[job] = rng.choice(512, 24, replace=False)
        assert start(shares, job, placed[job]) >= 0
        if job % 3 == 2:
            gone = int(rng.choice(list(placed)))
            leave(shares, gone, out)
            del placed[gone]
            assert shares.factor[gone] == 1.0
    fresh = new_shares(fabric.directed_links, 40, 200_000)
    for job, gpus in placed.items():
        start(fresh, job, gpus)
    assert (fresh.total == shares.total).all()
    assert fresh.factor == pytest.approx(shares.factor)
    assert shares.factor.max() > 1.5
    for job in placed:
        leave(shares, job, out)
    assert not shares.total.any()
    assert (shares.first_on_link == -1).all()


def test_a_full_pool_refuses_and_changes_nothing():
    fabric = load_fabric("vclos-512")
    shares = new_shares(fabric.directed_links, 2, 64)
    rows, weights = step_rows(steps_of(parse_pattern("all-to-all"), 64))
    scratch, out = np.zeros(fabric.directed_links, np.int64), np.empty(2, np.int64)
    gpus = np.arange(0, 512, 8)
    assert join(shares, 0, ECMP, 5, rows, weights, 1.0, gpus, wiring_of(fabric), NONE, 1, scratch, out) == -1
    assert not shares.total.any()
    assert not scratch.any()
    ring, weight = step_rows(steps_of(parse_pattern("ring"), 2))
    two = np.array([0, 511])
    assert join(shares, 0, ECMP, 5, ring, weight, 1.0, two, wiring_of(fabric), NONE, 1, scratch, out) == 0
    assert shares.total.sum() == 4 * ONE_FLOW, "two flows, up and down"


def test_what_the_theorem_promises():
    names = [str(one) for one in clean_patterns(24, 12, 8)]
    assert names == ["ring", "all-to-all", "pipeline"], "blocks of 8 on 12 ranks a leaf are not covered"
    assert "hybrid:4" in [str(one) for one in clean_patterns(24, 12, 4)]
    assert "halving-doubling" in [str(one) for one in clean_patterns(64, 16, 8)]
