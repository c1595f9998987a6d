"""Topologies by name: the six of the Themis paper (table 2), the system of its introduction, and a present-day one."""

from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.errors import unknown

SW, RING, FC = DimensionKind.SWITCH, DimensionKind.RING, DimensionKind.FULLY_CONNECTED


def _topology(name: str, *dimensions: tuple[DimensionKind, int, float, float]) -> Topology:
    return Topology(name, tuple(Dimension(*dimension) for dimension in dimensions))


# Kind, size, Gb/s per NPU, link latency in ns. 1024 NPUs each; the bandwidths of the last one are chosen to match the
# published utilisation, the others are the paper's.
PAPER = (
    _topology("2D-SW_SW", (SW, 16, 1200, 700), (SW, 64, 800, 1700)),
    _topology("3D-SW_SW_SW_homo", (SW, 16, 800, 700), (SW, 8, 800, 700), (SW, 8, 800, 1700)),
    _topology("3D-SW_SW_SW_hetero", (SW, 16, 1600, 700), (SW, 8, 800, 700), (SW, 8, 400, 1700)),
    _topology("3D-FC_Ring_SW", (FC, 8, 1400, 700), (RING, 16, 800, 700), (SW, 8, 400, 1700)),
    _topology("4D-Ring_SW_SW_SW", (RING, 4, 2000, 20), (SW, 4, 1600, 700), (SW, 8, 800, 700), (SW, 8, 400, 1700)),
    _topology("4D-Ring_FC_Ring_SW", (RING, 4, 3000, 20), (FC, 8, 1400, 700), (RING, 4, 1200, 700), (SW, 8, 800, 1700)),
)

OTHERS = (
    # The paper's picture of systems of its day: fast inside a node, one slow network outside; under-provisioned
    # outside.
    _topology("current-16x64", (SW, 16, 1200, 700), (SW, 64, 100, 1700)),
    # Eight GPUs behind NVLink switches (450 GB/s each way per GPU), 32 nodes on a rail, 8 such groups on a spine. One
    # 400 Gb/s adapter per GPU serves both outer dimensions: we give three quarters to the rail and one to the spine.
    _topology("dgx-rail-spine", (SW, 8, 3600, 500), (SW, 32, 300, 700), (SW, 8, 100, 1700)),
)

PRESETS = {topology.name: topology for topology in PAPER + OTHERS}


def preset(name: str) -> Topology:
    """The topology of that name, or an error that names the closest."""
    by_lower_case = {known.lower(): topology for known, topology in PRESETS.items()}
    if name.lower() not in by_lower_case:
        raise unknown("topology", name, PRESETS)
    return by_lower_case[name.lower()]
