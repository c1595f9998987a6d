"""Random networks, to try schedulers on what no paper shows: under-provisioned, lopsided, with real latencies."""

import numpy as np

from headway.collectives.topology.model import Dimension, DimensionKind, Topology

SIZES = (2, 3, 4, 5, 6, 8, 12, 16, 32)
# From a slow Ethernet port to a fast link inside a node, in Gb/s.
BANDWIDTH_GBPS = (25.0, 3200.0)
LATENCIES_NS = (20.0, 500.0, 700.0, 1700.0, 5000.0)
# Six in ten networks have latencies; the others are bandwidth-bound.
WITH_LATENCY = 0.6
BYTES = (1e6, 1e9)


def random_topology(rng: np.random.Generator) -> Topology:
    """2 to 5 dimensions of any kind and size; bandwidths even on a log scale, so most networks are out of balance."""
    with_latency = rng.random() < WITH_LATENCY
    dimensions = []
    for _ in range(int(rng.integers(2, 6))):
        kind = list(DimensionKind)[int(rng.integers(len(DimensionKind)))]
        size = int(rng.choice(SIZES))
        link_gbps = float(np.exp(rng.uniform(*np.log(BANDWIDTH_GBPS))))
        latency_ns = float(rng.choice(LATENCIES_NS)) if with_latency else 0.0
        dimensions.append(Dimension(kind, size, link_gbps, latency_ns))
    return Topology("random", tuple(dimensions))


def random_size_bytes(rng: np.random.Generator) -> int:
    """1 MB to 1 GB, even on a log scale."""
    return int(np.exp(rng.uniform(*np.log(BYTES))))
