"""Topologies: shorthand, YAML, presets, and what is refused."""

import pytest

from headway.collectives.simulate.cost import CollectiveKind, phase_latency_ps, split_bytes, steps
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import PAPER, PRESETS, preset
from headway.errors import BadInput
from headway.sim.network_files import topology_from

AR, A2A = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL


def test_shorthand_reads_kinds_sizes_bandwidths_and_latencies():
    network = topology_from("switch:16:1200Gbps:700ns, ring:8:0.8Tbps:1.7us,fullyconnected:4:50Gbps")
    assert [d.kind for d in network.dimensions] == [
        DimensionKind.SWITCH,
        DimensionKind.RING,
        DimensionKind.FULLY_CONNECTED,
    ]
    assert network.sizes == (16, 8, 4)
    assert network.bandwidths_gbps == (1200, 800, 50)
    assert [d.latency_ns for d in network.dimensions] == [700, 1700, 0]
    assert network.npus == 512


def test_a_yaml_file_reads_the_same(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("dimensions:\n  - {kind: switch, size: 16, bandwidth: 1200Gbps, latency: 700ns}\n")
    assert topology_from(str(file)) == Topology("mine", (Dimension(DimensionKind.SWITCH, 16, 1200, 700),))


def test_the_papers_topologies_have_1024_npus_each():
    assert [topology.npus for topology in PAPER] == [1024] * 6
    assert len(PRESETS) == 8
    assert preset("2d-sw_sw") is PRESETS["2D-SW_SW"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2D-SW_S", "did you mean '2D-SW_SW'"),
        ("switch:1:100Gbps:0ns", "2 to 1,048,576 NPUs"),
        ("switch:0:100Gbps:0ns", "2 to 1,048,576 NPUs"),
        ("switch:-4:100Gbps:0ns", "not a whole number"),
        ("switch:4:0Gbps:0ns", "must be between 1 Mbps and 1 million Tbps"),
        ("switch:4:100Gbps:-5ns", "of at least 0"),
        ("switch:4:100:0ns", "has no unit"),
        ("switch:4:100Gbps:5", "has no unit"),
        ("swich:4:100Gbps:5ns", "did you mean 'switch'"),
        ("switch:4", "kind:size:bandwidth:latency"),
        ("switch:4:100Gbps:0ns,,", "kind:size:bandwidth:latency"),
        ("no-such-file.yaml", "cannot read the topology no-such-file.yaml: no such file"),
    ],
)
def test_bad_topologies_are_refused_with_the_reason(text, said):
    with pytest.raises(BadInput, match=said):
        topology_from(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dimensions: []", "0 dimensions"),
        ("dimensions: [{kind: ring, size: 4}]", r"dimensions\[0\].bandwidth is missing, such as bandwidth: 1200Gbps"),
        (
            "dimensions: [{kind: ring, size: '4', bandwidth: 1Gbps}]",
            r"dimensions\[0\].size: should be a valid integer, got '4'",
        ),
        (
            "dimensions: [{kind: ring, size: 4, bandwidth: 1Gbps, speed: 3}]",
            r"unknown key 'speed': .*\(at dimensions\[0\].speed\)",
        ),
        ("dimensions: [{kind: ring, size: 1, bandwidth: 1Gbps}]", r"dimensions\[0\]: a ring dimension of size 1"),
        ("dimensions: {", "not YAML"),
        ("just text", "a topology is a mapping of keys to values, such as dimensions: "),
        ("", "a topology is a mapping of keys to values, such as dimensions: "),
    ],
)
def test_bad_yaml_names_file_and_field(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(BadInput, match=said) as caught:
        topology_from("t.yaml")
    assert str(caught.value).startswith("t.yaml")
    assert "\n" not in str(caught.value)


def test_steps_per_kind_also_off_powers_of_two():
    assert steps(Dimension(DimensionKind.RING, 6, 1), AR) == 5
    assert steps(Dimension(DimensionKind.FULLY_CONNECTED, 6, 1), AR) == 1
    assert [steps(Dimension(DimensionKind.SWITCH, size, 1), AR) for size in (2, 3, 4, 5, 8, 9, 64)] == [
        1,
        2,
        2,
        3,
        3,
        4,
        6,
    ]
    assert steps(Dimension(DimensionKind.SWITCH, 6, 1), A2A) == 1
    assert steps(Dimension(DimensionKind.RING, 6, 1), A2A) == 3


def test_a_switch_step_takes_two_links_and_a_ring_step_one():
    assert phase_latency_ps(Dimension(DimensionKind.SWITCH, 16, 1, 700), AR) == 4 * 2 * 700_000
    assert phase_latency_ps(Dimension(DimensionKind.RING, 4, 1, 20), AR) == 3 * 20_000


def test_split_is_exact_and_even():
    parts = split_bytes(1003, 10)
    assert parts.sum() == 1003
    assert parts.max() - parts.min() <= 1
    with pytest.raises(BadInput, match="at most 5 chunks"):
        split_bytes(5, 6)
    with pytest.raises(BadInput, match="at least 1"):
        split_bytes(5, 0)
