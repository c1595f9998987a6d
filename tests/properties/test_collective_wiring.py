"""What holds for every plan on every network of links: links are not overbooked, sums are whole, no bound is beaten."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.collectives.limit import limit
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.errors import BadInput
from headway_wiring.bound import bound
from headway_wiring.files import wiring_from
from headway_wiring.model import Link, Wiring, wiring_of
from headway_wiring.plan import replayed
from headway_wiring.spread import plan_wiring
from headway_wiring.text import faults_from

AR, AG, RS = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
A2A = CollectiveKind.ALL_TO_ALL
SPEEDS = (50.0, 100.0, 200.0, 400.0)


def drawn(rng: np.random.Generator, most_ranks: int = 6, with_switch: bool = True) -> Wiring:
    """A random network in which every rank reaches every other: a random circle and random links besides."""
    count = int(rng.integers(2, most_ranks + 1))
    switches = ["s"] if with_switch and rng.random() < 0.4 else []
    names = [str(rank) for rank in range(count)]
    circle = rng.permutation(names + switches).tolist()
    ends = {(circle[i - 1], circle[i]) for i in range(len(circle))}
    for _ in range(2 * count):
        ends.add(tuple(rng.choice(names + switches, 2).tolist()))
    latency = float(rng.choice([0.0, 0.0, 700.0]))
    links = [Link(a, b, float(rng.choice(SPEEDS)), latency) for a, b in sorted(ends) if a != b]
    return Wiring("drawn", tuple(names), tuple(switches), tuple(links))


def check(plan) -> None:
    """Walk through a plan send by send, with nothing of the planner's but its list of sends."""
    ranks, chunks = len(plan.wiring.ranks), len(plan.owners)
    speed = {(link.source, link.target): link for link in plan.wiring.links}
    parts = {(rank, chunk): {rank} for rank in range(ranks) for chunk in range(chunks)}
    if plan.collective is AG:
        parts = {(rank, chunk): ({-1} if plan.owners[chunk] == rank else set()) for rank, chunk in parts}
    whole = {-1} if plan.collective is AG else set(range(ranks))
    busy = {ends: [] for ends in speed}
    rows = list(zip(plan.transfers, plan.start_ps, plan.arrive_ps, strict=True))
    moments = sorted([(row[1], 1, i) for i, row in enumerate(rows)] + [(row[2], 0, i) for i, row in enumerate(rows)])
    flying = {}
    for _, starts, number in moments:
        one, start, arrive = rows[number]
        if starts:
            flying[number] = set(parts[one.source, one.chunk])
            stops = [plan.wiring.ranks[one.source], *one.through, plan.wiring.ranks[one.target]]
            path = [speed[ends] for ends in itertools.pairwise(stops)]
            data = plan.chunk_bytes[one.chunk]
            for link in path:
                busy[link.source, link.target].append((start, start + data * 8000 / link.link_gbps))
            slowest = max(8000 / link.link_gbps for link in path)
            assert arrive == pytest.approx(start + data * slowest + 1000 * sum(link.latency_ns for link in path), abs=2)
            if one.phase == "ag":
                assert flying[number] == whole
        else:
            came, here = flying.pop(number), parts[one.target, one.chunk]
            if one.phase == "rs":
                assert not came & here, "a value is added twice"
                here |= came
            else:
                parts[one.target, one.chunk] = came
    for spans in busy.values():
        for before, after in itertools.pairwise(sorted(spans)):
            assert after[0] >= before[1] - 1
    for chunk, owner in enumerate(plan.owners):
        everywhere = [owner] if plan.collective is RS else range(ranks)
        assert all(parts[rank, chunk] == whole for rank in everywhere)


@pytest.mark.parametrize("kind", [AR, AG, RS])
def test_plans_on_drawn_networks_are_whole_and_respect_every_link(kind, rounds):
    rng = np.random.default_rng(14)
    for _ in range(rounds(12, 150)):
        wiring = drawn(rng)
        plan = plan_wiring(wiring, kind, int(rng.integers(10**4, 10**8)))
        check(plan)
        assert sum(plan.chunk_bytes) == plan.size_bytes
        assert plan.time_s >= plan.bound.time_s * (1 - 1e-9)
        assert replayed(plan, wiring).time_s == plan.time_s


def test_all_to_alls_on_drawn_networks_deliver_every_message(rounds):
    rng = np.random.default_rng(15)
    for _ in range(rounds(12, 100)):
        wiring = drawn(rng)
        plan = plan_wiring(wiring, A2A, int(rng.integers(10**4, 10**8)))
        ranks, speed = len(wiring.ranks), {(link.source, link.target): link.link_gbps for link in wiring.links}
        at = dict(enumerate(plan.owners))
        busy = dict.fromkeys(speed, 0.0)
        for one, _ in sorted(zip(plan.transfers, plan.start_ps, strict=True), key=lambda row: row[1]):
            assert at[one.chunk] == one.source
            at[one.chunk] = one.target
            stops = [wiring.ranks[one.source], *one.through, wiring.ranks[one.target]]
            for ends in itertools.pairwise(stops):
                busy[ends] += plan.chunk_bytes[one.chunk] * 8e-9 / speed[ends]
        pieces = len(plan.owners) // (ranks * (ranks - 1))
        came = [(plan.owners[chunk], end) for chunk, end in at.items()]
        assert sorted(came) == sorted([pair for pair in itertools.permutations(range(ranks), 2) for _ in range(pieces)])
        assert plan.bound.time_s <= max(busy.values()) * (1 + 1e-9)
        assert max(busy.values()) <= plan.time_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("network", "faults", "bound_ms", "least"),
    [
        ("ring:16:800Gbps", [], 40.0, 0.98),  # the same as by dimensions, found link by link
        ("switch:8:400Gbps", [], 17.5, 0.999),
        ("ring:8:800Gbps", ["0-1:0"], 40.0, 0.999),  # a line: 16 pairs across its middle
    ],
)
def test_all_to_alls_come_near_bounds_that_can_be_worked_out(network, faults, bound_ms, least):
    plan = plan_wiring(wiring_from(network).changed(faults_from(faults)), A2A, 10**9)
    assert plan.bound.time_s * 1e3 == pytest.approx(bound_ms, rel=0.01)
    assert plan.bound.time_s / plan.time_s >= least


def crossing(wiring: Wiring, inside: set[str]) -> float:
    return sum(link.link_gbps * 1e9 / 8 for link in wiring.links if link.source in inside and link.target not in inside)


def test_the_bound_of_an_all_gather_is_the_worst_of_all_cuts(rounds):
    rng = np.random.default_rng(3)
    for _ in range(rounds(15, 100)):
        wiring = drawn(rng)
        worst = 0.0
        for count in range(1, len(wiring.vertices)):
            for inside in itertools.combinations(wiring.vertices, count):
                ranks = len(set(inside) & set(wiring.ranks))
                if 0 < ranks < len(wiring.ranks):
                    worst = max(worst, ranks * 1e9 / len(wiring.ranks) / crossing(wiring, set(inside)))
        assert bound(wiring, AG, 10**9).time_s == pytest.approx(worst, rel=1e-4)
        assert bound(wiring, RS, 10**9).time_s == bound(wiring.transposed(), AG, 10**9).time_s


def partitions(items):
    """All ways to part a list."""
    if len(items) == 1:
        yield [items]
        return
    for parted in partitions(items[1:]):
        for place, part in enumerate(parted):
            yield [*parted[:place], [items[0], *part], *parted[place + 1 :]]
        yield [[items[0]], *parted]


def test_the_bound_of_an_all_reduce_is_at_most_the_worst_of_all_partitions_and_cuts(rounds):
    """Ours is found by joining parts: it may miss the worst partition, and is never above it."""
    rng, reached = np.random.default_rng(4), []
    for _ in range(rounds(20, 100)):
        wiring = drawn(rng, with_switch=False)
        worst = 0.0
        for parts in partitions(list(wiring.ranks)):
            if len(parts) > 1:
                out = [crossing(wiring, set(part)) for part in parts]
                worst = max(worst, 2 * (len(parts) - 1) * 1e9 / sum(out), *(1e9 / one for one in out))
        ours = bound(wiring, AR, 10**9).time_s
        assert ours <= worst * (1 + 1e-9)
        reached.append(ours / worst)
    assert np.mean(reached) > 0.98


small = st.lists(
    st.builds(
        Dimension,
        st.sampled_from(list(DimensionKind)),
        st.integers(2, 4),
        st.sampled_from([25.0, 100.0, 400.0, 1600.0]),
    ),
    min_size=1,
    max_size=3,
).map(lambda dims: Topology("drawn", tuple(dims)))


@settings(max_examples=25, deadline=None)
@given(small)
def test_link_by_link_a_topology_has_the_limit_of_its_dimensions(topology):
    """Two proofs of one number: sets of dimensions here, maximum flows there."""
    wiring = wiring_of(topology)
    assert bound(wiring, AG, 10**9).time_s == pytest.approx(limit(topology, AG, 10**9).limit_s, rel=1e-4)
    assert bound(wiring, AR, 10**9).time_s <= limit(topology, AR, 10**9).limit_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("network", "faults", "least"),
    [
        ("ring:8:800Gbps", [], 0.999),
        ("ring:8:800Gbps", ["0-1:0"], 0.97),  # a line: 20 ms instead of 35 in two halves
        ("ring:8:800Gbps", ["0-1:0.5"], 0.91),
        ("ring:4:400Gbps,ring:4:400Gbps", ["0-1:0.5"], 0.87),
        ("fullyconnected:8:700Gbps", ["0>1:0"], 0.9),
        ("switch:8:400Gbps", ["dim1.0>3:0.5"], 0.9),
    ],
)
def test_planned_anew_a_degraded_network_comes_near_its_bound(network, faults, least):
    plan = plan_wiring(wiring_from(network).changed(faults_from(faults)), AR, 10**9)
    check(plan)
    assert plan.bound.time_s / plan.time_s >= least


def test_a_plan_that_does_not_know_is_slower_or_cannot_run():
    whole = wiring_from("ring:8:800Gbps")
    plan = plan_wiring(whole, AR, 10**9)
    slow = whole.changed({("0", "1"): 0.5, ("1", "0"): 0.5})
    assert replayed(plan, slow).time_s > 1.5 * plan_wiring(slow, AR, 10**9).time_s
    with pytest.raises(BadInput, match="sends over 0>1, which"):
        replayed(plan, whole.changed({("0", "1"): 0.0}))


def test_the_plan_file_names_every_send():
    plan = plan_wiring(wiring_from("ring:4:800Gbps"), AR, 10**6, 2)
    rows = json.loads(plan.to_json())
    assert sum(chunk["bytes"] for chunk in rows["chunks"]) == 10**6
    assert len(rows["sends"]) == len(rows["chunks"]) * 2 * 3
    assert {send["phase"] for send in rows["sends"]} == {"rs", "ag"}


FILE = """
name: lopsided
ranks: [a, b, c]
switches: [s]
links:
  - {from: a, to: b, bandwidth: 200Gbps, latency: 700ns, both: true}
  - {from: b, to: s, bandwidth: 100Gbps}
  - {from: s, to: c, bandwidth: 100Gbps}
  - {from: c, to: a, bandwidth: 50Gbps}
"""


def test_a_file_of_links_is_read(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(FILE)
    wiring = wiring_from(str(path))
    assert (wiring.ranks, wiring.switches, len(wiring.links)) == (("a", "b", "c"), ("s",), 5)
    check(plan_wiring(wiring, AR, 10**7))


@pytest.mark.parametrize(
    "text",
    [
        "{ranks: 2, links: [{from: 0, to: 1, bandwidth: 1Gbps, both: true}]}\n",
        '"links":\n  - {from: 0, to: 1, bandwidth: 1Gbps, both: true}\n"ranks": 2\n',
    ],
)
def test_a_file_of_links_in_another_style_of_yaml_is_read(text, tmp_path):
    """Only a line that began with the word was noticed; others were told that a topology has no ranks."""
    path = tmp_path / "net.yaml"
    path.write_text(text)
    assert len(wiring_from(str(path)).links) == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("from: a, to: b", "from: a, to: a", "leads back"),
        ("from: b, to: s", "from: b, to: x", "neither a rank nor a switch"),
        ("200Gbps", "0Gbps", "must be between 1 Mbps and 1 million Tbps"),
        ("200Gbps", "fast", r"links\[0\]"),
        ("[a, b, c]", "[a, a, c]", "named twice"),
        ("[a, b, c]", "1", "needs 2 to 128"),
        ("[a, b, c]", "1000000000", "needs 2 to 128"),
        ("from: s, to: c", "from: b, to: a", "there twice"),
        ("both: true", "bath: true", "bath"),
        ("  - {from: c, to: a, bandwidth: 50Gbps}", "", "nothing leads from"),
        (FILE[FILE.index("links:") :], "links: []", "nothing leads from"),
    ],
)
def test_damaged_files_of_links_are_refused_by_name(old, new, said, tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(BadInput, match=said) as caught:
        plan_wiring(wiring_from(str(path)), AR, 10**7)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["0-1", "0>1:2", "0-1:x", ":0.5", "0-:0.5", "0-1:nan"])
def test_damaged_faults_are_refused(text):
    with pytest.raises(BadInput, match="write FROM>TO:FRACTION"):
        faults_from([text])
