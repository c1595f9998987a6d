"""What a phase costs: bytes over bandwidth plus steps of latency (Themis, section 4.3).

| dimension | algorithm | steps | latency of a step |
|---|---|---|---|
| ring | ring | P - 1 | one link |
| fully connected | direct | 1 | one link |
| switch | halving-doubling | ceil(log2 P) | two links, up and down |

All three send the same bytes: (P - 1) shards of the data, a shard being the data over P, rounded up (the NPU with the
largest shard is the slowest, and no byte is lost). A ring works for any size. Halving-doubling needs a power of two;
for another size we count the dissemination schedule (Bruck), which takes ceil(log2 P) steps, sends the same bytes and
equals halving-doubling on powers of two.

An all-to-all sends its messages back to back, in one step; on a ring they are passed on from neighbour to neighbour,
each the shorter way round. The distances from one NPU to all others add up to floor(P^2 / 4), so that is how many
shards every NPU sends, its own and those it passes on, and the farthest travel floor(P / 2) steps. The bandwidth of an
NPU on a ring is that of both directions together.
"""

from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.errors import BadInput

PS_PER_S = 10**12
# Far beyond what any network gains from (a few hundred); more would only take memory.
MOST_CHUNKS = 65_536
# So that bytes, ranks and picoseconds fit into 64 bits; no collective is near it.
MOST_BYTES = 1 << 50
PS_PER_NS = 1000
# One byte at one gigabit a second takes 8 ns.
PS_PER_BYTE_AT_1_GBPS = 8000.0


class CollectiveKind(StrEnum):
    """What is communicated. The size of an all-gather is that of its result, as for the all-reduce that ends with
    it."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"


def steps(dimension: Dimension, collective: CollectiveKind) -> int:
    """How many times a phase on this dimension waits for the network's latency."""
    if dimension.kind is DimensionKind.RING:
        return dimension.size // 2 if collective is CollectiveKind.ALL_TO_ALL else dimension.size - 1
    if dimension.kind is DimensionKind.FULLY_CONNECTED or collective is CollectiveKind.ALL_TO_ALL:
        return 1
    return (dimension.size - 1).bit_length()


def shards_sent(dimension: Dimension, collective: CollectiveKind) -> int:
    """How many shards an NPU sends in a phase on this dimension, with those that it passes on for others."""
    if dimension.kind is DimensionKind.RING and collective is CollectiveKind.ALL_TO_ALL:
        return dimension.size**2 // 4
    return dimension.size - 1


def phase_latency_ps(dimension: Dimension, collective: CollectiveKind) -> int:
    """The fixed delay A_k of one phase (section 4.3): steps x latency of a step."""
    links = 2 if dimension.kind is DimensionKind.SWITCH else 1
    return round(steps(dimension, collective) * links * dimension.latency_ns * PS_PER_NS)


@lru_cache(maxsize=1024)
def latencies_ps(topology: Topology, collective: CollectiveKind) -> NDArray[np.int64]:
    """The fixed delay of a phase on every dimension."""
    return np.array([phase_latency_ps(dimension, collective) for dimension in topology.dimensions], np.int64)


@lru_cache(maxsize=1024)
def shards(topology: Topology, collective: CollectiveKind) -> NDArray[np.int64]:
    """How many shards an NPU sends in a phase on every dimension."""
    return np.array([shards_sent(dimension, collective) for dimension in topology.dimensions], np.int64)


@lru_cache(maxsize=1024)
def ps_per_byte(topology: Topology) -> NDArray[np.float64]:
    """The inverse bandwidth of every dimension."""
    return PS_PER_BYTE_AT_1_GBPS / np.array(topology.bandwidths_gbps)


def split_bytes(total_bytes: int, chunks: int) -> NDArray[np.int64]:
    """Cut `total_bytes` into `chunks` whole parts that differ by at most one byte and add up exactly (the splitter)."""
    if not 1 <= chunks <= MOST_CHUNKS:
        raise BadInput(f"{chunks} chunks: a collective is cut into at least 1 and at most {MOST_CHUNKS}")
    if total_bytes > MOST_BYTES:
        raise BadInput(f"a collective of {total_bytes} bytes: at most {MOST_BYTES} (a pebibyte)")
    if total_bytes < chunks:
        raise BadInput(f"{total_bytes} bytes cannot be cut into {chunks} chunks: ask for at most {total_bytes} chunks")
    parts = np.full(chunks, total_bytes // chunks, np.int64)
    parts[: total_bytes % chunks] += 1
    return parts
