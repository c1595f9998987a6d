"""Traffic step by step, routing rules, collisions against the closed form, and what sharing costs."""

import math

import numpy as np
import pytest

from headway.errors import BadInput
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.flows import FlowModel
from headway.network.fabric.file import fabric_from
from headway.network.sharing.links import SNAPSHOTS, WHOLE, new_links
from headway.network.sharing.patterns import clean_patterns, parse_pattern, why_undefined
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step
from headway.network.sharing.rules import Sharing, parse_network
from headway.network.sharing.slowdown import join, leave
from headway.network.sharing.steps import HALVING_DOUBLING, RING, SHIFT, STEP, destination, steps_of, steps_on
from headway.sim.network_files import load_fabric


def loads_of(fabric, rule, pattern, gpus, seed=0):
    """The load of the fullest link in every step of a job alone on the fabric."""
    steps, links = steps_of(pattern, len(gpus)), new_links(fabric, Sharing(rule), seed, 1, 1 << 20)
    assert join(links, 0, np.asarray(gpus), steps) == 0
    worst, at = [], int(links.jobs["first_stage"][0])
    while at >= 0:
        stage = links.stages[at]
        use, most = int(stage["first_use"]), 0
        while use >= 0:
            most = max(most, int(links.uses[use]["flows"]))
            use = int(links.uses[use]["next"])
        worst.append(most)
        at = int(stage["next"])
    assert not links.directed["count"].any(), "scratch must be left clean"
    return np.array([0] * (len(steps) - len(worst)) + worst)


def test_patterns_carry_their_bytes_in_steps():
    """Halving-doubling sends half of its bytes to the nearest rank, a quarter of them twice as far, and so on."""
    assert steps_of("ring", 16)["weight"].tolist() == [1.0]
    assert steps_of("ring", 64, 8)["weight"] == pytest.approx(np.array([8, 1]) / 9), (
        "7/8 in servers, 7/8 of 1/8 between"
    )
    halving = steps_of("halving-doubling", 16)["weight"]
    assert halving == pytest.approx(np.array([8, 4, 2, 1]) / 15)
    assert steps_of("all-to-all", 16)["weight"] == pytest.approx(np.full(15, 1 / 15))


def test_destinations():
    (shift,), exchange = steps_of("ring", 4), steps_of("halving-doubling", 4)[1]
    assert [destination(shift, 4, rank) for rank in range(4)] == [1, 2, 3, 0]
    assert [destination(exchange, 4, rank) for rank in range(4)] == [2, 3, 0, 1]


def test_pairwise_all_to_all_meets_every_pair_once():
    met = [(rank, destination(step, 7, rank)) for step in steps_of("all-to-all", 7) for rank in range(7)]
    assert sorted(met) == [(a, b) for a in range(7) for b in range(7) if a != b]


def test_bad_patterns():
    for text, complaint in [("rings", "did you mean 'ring'"), ("ring:3", "takes no group"), ("hybrid:x", "a number")]:
        with pytest.raises(BadInput, match=complaint):
            parse_pattern(text)
    assert "power of two" in why_undefined(parse_pattern("halving-doubling"), 12)
    assert "multiple of 8 ranks, not 12" in why_undefined(parse_pattern("hybrid"), 12)


def slice_load(fabric, pattern, gpus, spines):
    """The fullest link of a slice whose ranks leave by spine rank mod width, by the verifier's count."""
    routing = {"rule": "rank-mod", "modulus": len(spines), "spines": spines}
    certificate = allocate(occupied_by(fabric), 8, "vclos").certificate.as_json()
    model = FlowModel(certificate | {"rank_order": list(gpus), "routing": routing})
    model.follow()
    return model.worst(pattern)[0].flows


def test_isolated_routing_is_clean_and_source_routing_only_when_aligned():
    fabric = load_fabric("vclos-512")
    aligned, spines = range(128), list(range(32))
    assert slice_load(fabric, "all-to-all", aligned, spines) == 1
    assert loads_of(fabric, "source", "all-to-all", aligned).max() == 1
    assert slice_load(fabric, "ring", range(80), spines) == 1, "leaves of 32, 32 and 16 ranks: the ring stays clean"
    assert slice_load(fabric, "all-to-all", range(80), spines) == 2, "other shifts do not"
    scattered = [*range(8), *range(40, 48), *range(64, 72), *range(112, 120)]
    assert slice_load(fabric, "all-to-all", scattered, [3, 5, 7, 9, 11, 13, 15, 17]) == 1
    assert loads_of(fabric, "source", "halving-doubling", scattered).max() == 1
    mixed = [*range(4), *range(32, 36), *range(64, 72)]
    assert loads_of(fabric, "source", "all-to-all", mixed).max() == 2, "a global index collides when not aligned"


def test_ecmp_depends_on_the_seed_and_balanced_never_collides_upwards():
    fabric = load_fabric("vclos-512")
    gpus = np.arange(512)
    one, same, other = (loads_of(fabric, "ecmp", "all-to-all", gpus, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert loads_of(fabric, "balanced", "all-to-all", gpus).mean() < one.mean()


@pytest.mark.parametrize(("flows", "published"), [(2, 0.5), (4, 0.094), (8, 0.0024)])
def test_ecmp_avoids_collisions_as_often_as_n_factorial_over_n_to_the_n(flows, published):
    """n flows from one leaf over n uplinks: the closed form n!/n^n, within four standard errors."""
    content = {"leaves": 2, "servers_per_leaf": 1, "gpus_per_server": flows, "spines": flows}
    fabric = fabric_from(content, "x")
    links, gpus = new_links(fabric, Sharing(), 0, 1, 1), np.arange(2 * flows)
    across = np.array([(SHIFT, flows, 1.0)], STEP)[0]  # every GPU of a leaf sends to the other leaf
    trials, clean = 20_000, 0
    paths = np.empty((gpus.size, LINKS_PER_FLOW), np.int64)
    for seed in range(trials):
        links.head["seed"] = seed
        assert route_step(links, 0, gpus, across, paths) == 2 * flows
        clean += len(set(paths[:flows, 0].tolist())) == flows
    expected = math.factorial(flows) / flows**flows
    assert expected == pytest.approx(published, rel=0.02)
    error = math.sqrt(expected * (1 - expected) / trials)
    assert abs(clean / trials - expected) < 4 * error


def test_a_full_permutation_under_ecmp_has_a_mean_worst_load_near_five():
    """16 leaves x 32 uplinks, every GPU sends across leaves: the note's figure of 5."""
    fabric = load_fabric("vclos-512")
    links, across = new_links(fabric, Sharing(), 0, 1, 1 << 11), np.array([(SHIFT, 32, 1.0)], STEP)
    worst = []
    for seed in range(200):
        links.head["seed"] = seed
        assert join(links, 0, np.arange(512), across) == 0
        worst.append(links.jobs["factor"][0])
        leave(links, 0)
    assert 4.5 < np.mean(worst) < 6.0


def test_factors_follow_joining_and_leaving_and_come_back_exactly():
    """Factors kept up job by job equal those computed from nothing, and leaving restores every total."""
    fabric = load_fabric("vclos-512")
    links, fresh = (new_links(fabric, Sharing(), 5, 40, 200_000) for _ in range(2))
    links.jobs["duty"] = fresh.jobs["duty"] = 0.5
    rng = np.random.default_rng(9)
    placed = {}

    def start(into, job, gpus):
        return join(into, job, gpus, steps_of("all-to-all" if job % 2 else "ring", len(gpus)))

    for job in range(40):
        placed[job] = rng.choice(512, 24, replace=False)
        assert start(links, job, placed[job]) >= 0
        if job % 3 == 2:
            gone = int(rng.choice(list(placed)))
            leave(links, gone)
            del placed[gone]
            assert links.jobs["factor"][gone] == 1.0
    for job, gpus in placed.items():
        start(fresh, job, gpus)
    assert (fresh.directed["total"] == links.directed["total"]).all()
    assert (fresh.crowd == links.crowd).all()
    assert (fresh.jobs["factor"] == links.jobs["factor"]).all()
    assert links.jobs["factor"].max() > 1.5
    for job in placed:
        leave(links, job)
    assert not links.directed["total"].any()
    assert not links.crowd.any()
    assert (links.directed["first_share"] == -1).all()


def test_a_full_pool_refuses_and_changes_nothing():
    links = new_links(load_fabric("vclos-512"), Sharing(), 5, 2, 64)
    assert join(links, 0, np.arange(0, 512, 8), steps_of("all-to-all", 64)) == -1
    assert not links.directed["total"].any()
    assert not links.directed["count"].any()
    assert not links.crowd.any()
    assert join(links, 0, np.array([0, 511]), steps_of("ring", 2)) == 0
    assert links.directed["total"].sum() == 4 * WHOLE, "two flows, up and down"
    assert links.crowd.sum() == 4 * SNAPSHOTS, "with duty 1 it sends in every snapshot"


def test_a_step_inside_a_server_is_ten_times_quicker():
    """Halving-doubling on 64 GPUs of two leaves: the step across them takes 8 % of the time, not 1/63 of it."""
    steps = np.zeros(32, STEP)
    count = steps_on(HALVING_DOUBLING, np.arange(64), 8, 10.0, steps)
    assert count == 6
    bytes_of = steps_of("halving-doubling", 64)["weight"]
    assert bytes_of[-1] == pytest.approx(1 / 63)
    assert steps["weight"][5] == pytest.approx(0.0794, abs=0.0001)
    assert steps["weight"][:count].sum() == pytest.approx(1.0)
    apart = np.arange(64) * 8  # a GPU on each server: every step is on the network, and bytes are times
    assert steps_on(HALVING_DOUBLING, apart, 8, 10.0, steps) == 6
    assert steps["weight"][:6] == pytest.approx(bytes_of)


def test_a_ring_drives_every_nic():
    """Eight servers on two leaves: eight flows at once go from each leaf to the other, so a ring alone meets itself."""
    fabric, steps = load_fabric("vclos-512"), np.zeros(32, STEP)
    links, order = new_links(fabric, Sharing(), 3, 1, 1 << 12), np.arange(64)
    count = steps_on(RING, order, 8, 10.0, steps)
    assert (steps["kind"][count - 1], steps["amount"][count - 1]) == (SHIFT, 8)
    paths = np.empty((64, LINKS_PER_FLOW), np.int64)
    assert route_step(links, 0, order, steps[count - 1], paths) == 16
    factors = []
    for seed in range(50):
        links.head["seed"] = seed
        join(links, 0, order, steps[:count])
        factors.append(links.jobs["factor"][0])
        leave(links, 0)
    assert np.mean(factors) > 1.3


def test_queue_pairs_share_a_flow_and_spray_uses_every_uplink():
    fabric, order, across = load_fabric("vclos-512"), np.arange(64), np.array([(SHIFT, 32, 1.0)], STEP)

    def alone(sharing):
        found = []
        for seed in range(40):
            links = new_links(fabric, sharing, seed, 1, 1 << 12)
            assert join(links, 0, order, across) == 0
            found.append(links.jobs["factor"][0])
        return np.mean(found)

    one, four, sixteen = (alone(Sharing("ecmp", pairs)) for pairs in (1, 4, 16))
    assert one > four > sixteen >= 1
    assert one > 3
    assert alone(Sharing("spray")) == 1.0
    assert alone(Sharing("spray", efficiency=0.8)) == pytest.approx(1.25)


def test_jobs_that_take_turns_wait_only_when_the_turns_do_not_fit():
    """Two jobs on one link, each 0.4 of its time: interleaved they do not meet; each 0.6, they wait for each other."""
    fabric = fabric_from({"leaves": 2, "servers_per_leaf": 2, "gpus_per_server": 1, "spines": 1}, "x")
    for duty, expected in ((0.4, 1.0), (0.6, 1.2)):
        links = new_links(fabric, Sharing(interleaved=True), 0, 2, 64)
        links.jobs["duty"] = duty
        assert join(links, 0, np.array([0, 2]), steps_of("ring", 2)) == 0
        assert join(links, 1, np.array([1, 3]), steps_of("ring", 2)) == 1
        assert links.jobs["factor"] == pytest.approx([expected, expected], rel=1e-3)


def test_the_mean_of_the_maximum_over_snapshots_is_what_chance_gives():
    """Two jobs on one link, the other there for a part d of its time: the mean over many pairs is 1 + d."""
    fabric = fabric_from({"leaves": 2, "servers_per_leaf": 2, "gpus_per_server": 1, "spines": 1}, "x")
    factors = []
    for seed in range(300):
        links = new_links(fabric, Sharing(), seed, 2, 64)
        links.jobs["duty"] = 0.3
        join(links, 0, np.array([0, 2]), steps_of("ring", 2))
        join(links, 1, np.array([1, 3]), steps_of("ring", 2))
        factors += links.jobs["factor"].tolist()
    assert np.mean(factors) == pytest.approx(1.3, abs=0.005)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("ecpm", "did you mean 'ecmp'"),
        ("ecmp?qp=4", "did you mean 'qps'"),
        ("ecmp?qps=0", "from 1 to 16"),
        ("ecmp?exact=0", "from 1 to 1,000"),
        ("ecmp?exact=1e9", "whole number"),
        ("ideal?exact=3", "takes no options"),
        ("spray?efficiency=1.5", "above 1"),
        ("ecmp?interleave=perhaps", "yes or no"),
        ("ecmp?interleave=yes&exact=3", "give one of them"),
        ("balanced?qps=4", "unknown option"),
    ],
)
def test_bad_networks(spec, complaint):
    """What is accepted is obeyed."""
    with pytest.raises(BadInput, match=complaint):
        parse_network(spec)


def test_networks_with_options():
    assert parse_network("ecmp") == Sharing("ecmp")
    assert parse_network("ecmp?exact=yes") == Sharing("ecmp", exact=10)
    assert parse_network("ecmp?qps=4&exact=3&failed=spine1+leaf0-spine2@1h") == Sharing(
        "ecmp", queue_pairs=4, exact=3, failed=("spine1", "leaf0-spine2@1h")
    )
    assert parse_network("spray?efficiency=0.95").efficiency == 0.95
    assert not parse_network("isolated").is_shared


def test_what_the_theorem_promises():
    names = [str(one) for one in clean_patterns(24, 12, 8)]
    assert names == ["ring", "all-to-all", "pipeline"], "blocks of 8 on 12 ranks a leaf are not covered"
    assert "hybrid:4" in [str(one) for one in clean_patterns(24, 12, 4)]
    assert "halving-doubling" in [str(one) for one in clean_patterns(64, 16, 8)]
