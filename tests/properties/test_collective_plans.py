"""What holds for every plan on every network: no byte lost, no deadlock, never above the limit, never worse than others."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bench.collective_steps import MAKERS, both_s
from bench.random_topologies import random_size_bytes, random_topology
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from headway.collectives.advice import advise
from headway.collectives.limit import TOLERANCE, bytes_per_s, limit, order_loads
from headway.collectives.plan import phases
from headway.collectives.schedulers import schedule
from headway.collectives.shares import optimal_mix
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.simulate.graph import CollectiveRequest, run_together
from headway.collectives.simulate.play import play
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import PAPER

AR = CollectiveKind.ALL_REDUCE


dimension = st.builds(
    Dimension,
    st.sampled_from(list(DimensionKind)),
    st.integers(2, 9),
    st.floats(1, 4000),
    st.sampled_from([0.0, 20.0, 1700.0]),
)
topologies = st.lists(dimension, min_size=1, max_size=4).map(lambda dims: Topology("drawn", tuple(dims)))


@settings(max_examples=60, deadline=None)
@given(
    topologies,
    st.integers(1, 10**7),
    st.sampled_from(["baseline", "themis", "best"]),
    st.sampled_from(list(CollectiveKind)),
    st.integers(1, 20),
    st.integers(1, 3),
)
def test_plans_are_whole_deterministic_and_replayable(topology, size, scheduler, kind, chunks, in_flight):
    options = {"scheduler": scheduler, "collective": kind, "chunks": min(chunks, size), "in_flight": in_flight}
    outcome = schedule(topology, size, **options)
    plan = outcome.plan
    assert sum(chunk.bytes for chunk in plan.chunks) == size
    assert all(chunk.bytes > 0 for chunk in plan.chunks)
    assert len(plan.chunks) <= min(chunks, size) if scheduler == "best" else len(plan.chunks) == min(chunks, size)
    assert plan == schedule(topology, size, **options).plan
    assert play(plan, topology, in_flight).time_s == outcome.time_s
    assert outcome.time_s >= outcome.limit.limit_s * (1 - 1e-9)
    assert outcome.limit.limit_s >= outcome.limit.ideal_s * (1 - 1e-9)
    assert outcome.time_s >= outcome.latency_limit_s * (1 - 1e-9)
    assert outcome.utilisation <= 1 + 1e-9


def test_a_time_below_a_bound_is_an_error_of_the_model():
    outcome = schedule(Topology("t", (Dimension(DimensionKind.RING, 4, 100),)), 10**6)
    quick = replace(outcome.timeline, finish_ps=outcome.timeline.finish_ps // 2)
    with pytest.raises(ArithmeticError, match="below"):
        replace(outcome, timeline=quick)


def all_to_all_on_a_ring(ranks: int) -> tuple[int, int]:
    """Shards that every direction of every link must carry if each takes the shorter way, by walking; and the steps."""
    load = {(rank, way): 0.0 for rank in range(ranks) for way in (1, -1)}
    farthest = 0
    for source in range(ranks):
        for target in range(ranks):
            ahead = (target - source) % ranks
            ways = [(1, ahead), (-1, ranks - ahead)]
            short = min(hops for _, hops in ways)
            used = [(way, hops) for way, hops in ways if hops == short] if ahead else []
            for way, hops in used:
                for step in range(hops):
                    load[(source + way * step) % ranks, way] += 1 / len(used)
                farthest = max(farthest, hops)
    assert max(load.values()) == pytest.approx(min(load.values())) or ranks == 2
    return round(2 * max(load.values())), farthest


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 9, 16])
def test_an_all_to_all_on_a_ring_pays_for_every_hop(ranks):
    """Against a walk over the ring, message by message; each direction has half of the bandwidth."""
    carried, farthest = all_to_all_on_a_ring(ranks)
    network = Topology("ring", (Dimension(DimensionKind.RING, ranks, 800.0, 1000.0),))
    outcome = schedule(network, 16 * 10**6 * ranks, collective=CollectiveKind.ALL_TO_ALL, chunks=1)
    assert outcome.time_s == pytest.approx(carried * 16e6 / 100e9 + farthest * 1e-6, rel=1e-9)


def test_16_ranks_on_a_ring_cannot_exchange_a_gigabyte_in_less_than_40_ms():
    ring = Topology("ring", (Dimension(DimensionKind.RING, 16, 800.0),))
    torus = Topology("torus", (Dimension(DimensionKind.RING, 16, 800.0), Dimension(DimensionKind.RING, 4, 800.0)))
    for network in (ring, torus):
        for scheduler in ("baseline", "themis", "best"):
            outcome = schedule(network, 10**9, collective=CollectiveKind.ALL_TO_ALL, scheduler=scheduler)
            assert outcome.time_s >= 0.04 * (1 - 1e-9)
            assert outcome.limit.limit_s == pytest.approx(0.04)


def test_with_latencies_the_bound_is_met_by_small_messages(rounds):
    """One chunk on a network that is all latency: nothing is left to gain; with much bandwidth to fill, T* rules."""
    rng = np.random.default_rng(8)
    for _ in range(rounds(20, 200)):
        topology, kind = random_topology(rng), list(CollectiveKind)[int(rng.integers(4))]
        tiny = schedule(topology, topology.npus, collective=kind, chunks=4)
        assert tiny.bound_s <= tiny.time_s
        if any(dimension.latency_ns for dimension in topology.dimensions):
            assert tiny.bound_s / tiny.time_s > 0.5
        for in_flight in (1, 3):
            size = random_size_bytes(rng)
            for scheduler in ("baseline", "themis", "best"):
                outcome = schedule(
                    topology, size, collective=kind, scheduler=scheduler, in_flight=in_flight, most_chunks=32
                )
                assert outcome.time_s >= outcome.bound_s * (1 - 1e-9)


def complete_in_any_interleaving(plan, rng) -> bool:
    """Walk the lists by a random choice among the dimensions whose next operation may start; True if all get done."""
    chains = [phases(plan.collective, chunk) for chunk in plan.chunks]
    done, heads = [0] * len(chains), [0] * len(plan.lists)
    left = sum(len(steps) for steps in plan.lists)
    while left:
        able = []
        for dim, steps in enumerate(plan.lists):
            if heads[dim] < len(steps):
                chunk, kind = steps[heads[dim]]
                if chains[chunk][done[chunk]] == (kind, dim):
                    able.append(dim)
        if not able:
            return False
        dim = able[int(rng.integers(len(able)))]
        done[plan.lists[dim][heads[dim]][0]] += 1
        heads[dim] += 1
        left -= 1
    return True


@pytest.mark.parametrize("scheduler", ["baseline", "themis", "best"])
def test_no_interleaving_deadlocks(scheduler, rounds):
    rng = np.random.default_rng(11)
    for _ in range(rounds(12, 150)):
        topology, size = random_topology(rng), random_size_bytes(rng)
        intra = None if scheduler == "best" else str(rng.choice(["fifo", "scf", "scf-public"]))
        kind = list(CollectiveKind)[int(rng.integers(4))]
        plan = schedule(topology, size, scheduler=scheduler, intra=intra, collective=kind, chunks=16).plan
        for _ in range(5):
            assert complete_in_any_interleaving(plan, rng)


def test_the_interleaving_check_can_fail():
    plan = schedule(
        Topology("t", (Dimension(DimensionKind.RING, 2, 1), Dimension(DimensionKind.RING, 2, 1))), 100, chunks=2
    ).plan
    crossed = type(plan)(plan.collective, plan.chunks, tuple(tuple(reversed(steps)) for steps in plan.lists))
    assert not complete_in_any_interleaving(crossed, np.random.default_rng(0))


def limit_by_lp(topology: Topology) -> tuple[float, dict[tuple[int, ...], float]]:
    """The same limit from a linear programme over all D! orders: time per byte (half an all-reduce), and a share per order."""
    orders = list(itertools.permutations(range(len(topology.dimensions))))
    loads = np.stack([order_loads(topology.sizes, order) for order in orders], axis=1)
    seconds = loads / bytes_per_s(topology)[:, None]
    scale = seconds.max()
    bound = linprog(
        np.append(np.zeros(len(orders)), 1.0),
        A_ub=np.hstack([seconds / scale, -np.ones((len(seconds), 1))]),
        b_ub=np.zeros(len(seconds)),
        A_eq=np.append(np.ones(len(orders)), 0.0)[None, :],
        b_eq=[1.0],
    )
    found = np.asarray(bound.x)
    shares = {order: float(share) for order, share in zip(orders, found, strict=False) if share > TOLERANCE}
    return float(found[-1] * scale), shares


def test_the_formula_agrees_with_the_linear_programme_and_the_mix_reaches_it(rounds):
    rng = np.random.default_rng(7)
    for _ in range(rounds(40, 400)):
        topology = random_topology(rng)
        per_byte, shares = limit_by_lp(topology)
        formula = limit(topology, AR, 10**9).limit_s
        assert 2e9 * per_byte == pytest.approx(formula, rel=1e-9)
        assert sum(shares.values()) == pytest.approx(1)
        for turn in range(len(topology.dimensions)):
            mix = optimal_mix(topology, turn)
            loads = sum(share * order_loads(topology.sizes, order) for order, share in mix)
            assert sum(share for _, share in mix) == pytest.approx(1)
            assert len(mix) <= len(topology.dimensions)
            assert 2e9 * (loads / bytes_per_s(topology)).max() == pytest.approx(formula, rel=1e-6)
            for block in limit(topology, AR, 10**9).blocks:
                assert (loads / bytes_per_s(topology))[list(block.dims)] == pytest.approx(block.level, rel=1e-6)


def test_the_limit_is_the_maximum_over_sets():
    """The closed formula as it is written, set by set, against the blocks."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        topology = random_topology(rng)
        sizes, rates = topology.sizes, bytes_per_s(topology)
        dims = range(len(sizes))
        worst = 0.0
        for count in range(1, len(sizes) + 1):
            for members in itertools.combinations(dims, count):
                outside = np.prod([1 / sizes[dim] for dim in dims if dim not in members])
                worst = max(worst, (outside - 1 / topology.npus) / sum(rates[dim] for dim in members))
        assert limit(topology, AR, 10**9).limit_s == pytest.approx(2e9 * worst, rel=1e-9)


def test_the_best_split_of_a_budget_reaches_the_ideal():
    rng = np.random.default_rng(5)
    for _ in range(30):
        topology = random_topology(rng)
        advice = advise(topology, AR, 10**9, 1000.0)
        split = [row.split_gbps for row in advice.dimensions]
        assert sum(split) == pytest.approx(1000)
        dimensions = [Dimension(d.kind, d.size, gbps) for d, gbps in zip(topology.dimensions, split, strict=True)]
        bound = limit(Topology("split", tuple(dimensions)), AR, 10**9)
        assert advice.budget_limit_s == bound.limit_s
        assert bound.limit_s == pytest.approx(bound.ideal_s, rel=1e-6)


def test_best_never_loses_to_the_baseline_or_themis(rounds):
    rng = np.random.default_rng(2022)
    for _ in range(rounds(25, 500)):
        topology, size = random_topology(rng), random_size_bytes(rng)
        for most in (64, 256):
            others = [schedule(topology, size, scheduler="baseline", most_chunks=most)]
            for intra in ("fifo", "scf", "scf-public"):
                others.append(schedule(topology, size, scheduler="themis", intra=intra, most_chunks=most))
            quickest = min(outcome.time_s for outcome in others)
            # The search stops a hundredth of a percent from the limit.
            assert schedule(topology, size, most_chunks=most).time_s <= quickest


def test_the_cost_does_not_depend_on_the_number_of_npus():
    small = Topology("s", (Dimension(DimensionKind.SWITCH, 16, 1200), Dimension(DimensionKind.SWITCH, 64, 800)))
    large = Topology("l", (Dimension(DimensionKind.SWITCH, 400, 1200), Dimension(DimensionKind.SWITCH, 256, 800)))
    counts = [sum(map(len, schedule(t, 10**9, scheduler="themis", chunks=64).plan.lists)) for t in (small, large)]
    assert large.npus > 100_000
    assert counts[0] == counts[1] == 64 * 4


@pytest.mark.parametrize("name", MAKERS)
def test_chunks_in_flight_agree_with_a_player_of_single_steps(name):
    """A second implementation, in plain Python, plays the same lists step by step (docs/results/themis.md)."""
    for topology in PAPER[::3] if name == "best" else PAPER:
        for size, in_flight in ((10**7, 1), (10**7, 2), (10**8, 4), (10**9, 16)):
            ours, again = both_s(MAKERS[name], topology, size, in_flight)
            assert ours == pytest.approx(again, rel=1e-6)


def test_chunks_in_flight_agree_on_drawn_networks():
    rng = np.random.default_rng(14)
    for _ in range(40):
        topology, size, in_flight = random_topology(rng), random_size_bytes(rng), int(rng.integers(2, 9))
        ours, again = both_s(MAKERS["themis-scf@64"], topology, size, in_flight)
        assert ours == pytest.approx(again, rel=1e-5)


def test_one_collective_of_a_graph_takes_what_its_plan_takes():
    for topology in PAPER:
        for in_flight in (1, 4):
            plan = schedule(topology, 10**8, scheduler="themis", intra="scf", chunks=64, in_flight=in_flight)
            alone = run_together(topology, [CollectiveRequest(AR, 10**8)], "themis-scf", 64, in_flight)
            assert alone == pytest.approx([plan.time_s], rel=1e-9)
