"""A lower bound that includes latencies: the reference for small messages.

T* (see `limit`) leaves latencies out, so a small collective is far from it whatever the plan. This bound holds for every
plan of this model: chunks that visit all dimensions, with any number of chunks of any sizes in any orders. Let A_k be
the fixed delay of a phase on dimension k, and let there be c chunks and `in_flight` slots per dimension.

- The largest chunk has at least S / c bytes. It waits for all its delays, and its bytes take the least time if it visits
  the fastest dimension first (exchange two neighbours: the difference has the sign of 1/BW_i - 1/BW_j).
- With one slot, dimension k sends nothing during the delays of its c phases (twice c for an all-reduce). So for every
  set A of dimensions: sum over A of BW_k (T - delays_k) is at least the bytes that A must carry. With more slots, delays
  hide behind each other and behind bytes: then T slots hold the bytes and the delays of k.

The first falls with c and the second grows, so the bound is the least over c of the larger of the two. Independent of
plans: no data arrives before it has crossed the network's diameter, and no set of dimensions beats its cut.
"""

import bisect

import numpy as np
from numpy.typing import NDArray

from headway.collectives.limit import bytes_per_s, first_bytes, order_loads, sets
from headway.collectives.simulate.cost import MOST_CHUNKS, PS_PER_S, CollectiveKind, latencies_ps, shards
from headway.collectives.topology.model import Topology

Floats = NDArray[np.float64]


def latency_limit_s(topology: Topology, collective: CollectiveKind, size_bytes: int, in_flight: int = 1) -> float:
    """No plan is quicker, with however many chunks."""
    passes = 2 if collective is CollectiveKind.ALL_REDUCE else 1
    delays_s = passes * latencies_ps(topology, collective) / PS_PER_S
    bandwidth = bytes_per_s(topology)
    members, least = _least_carried(topology, collective)
    rate = (members * bandwidth).sum(axis=1)
    sending_s = passes * size_bytes * least / rate
    waiting_s = (members * (bandwidth * delays_s)).sum(axis=1) / rate
    alone = members.sum(axis=1) == 1
    chain_s = passes * size_bytes * _quickest_s_per_byte(topology, collective)

    def through(chunks: int) -> float:
        """The largest chunk's way through the network: less with more chunks."""
        return float(delays_s.sum()) + chain_s / chunks

    def busy(chunks: int) -> float:
        """What the dimensions need for all chunks: more with more chunks."""
        if in_flight == 1:
            return float((sending_s + chunks * waiting_s).max())
        slots_s = (sending_s + chunks * waiting_s)[alone] / in_flight
        return max(float(sending_s.max()), float(slots_s.max()))

    crossing = 1 + bisect.bisect_left(range(1, MOST_CHUNKS), True, key=lambda chunks: busy(chunks) >= through(chunks))
    return min(max(busy(chunks), through(chunks)) for chunks in {max(1, crossing - 1), crossing})


def _least_carried(topology: Topology, collective: CollectiveKind) -> tuple[NDArray[np.bool_], Floats]:
    """Sets of dimensions, one per row, and what each carries at least per byte and pass."""
    sizes = np.array(topology.sizes, np.float64)
    if collective is CollectiveKind.ALL_TO_ALL:
        return np.eye(len(sizes), dtype=np.bool_), shards(topology, collective) / sizes
    members = sets(len(sizes))
    return members, first_bytes(sizes, members[-1:]) - first_bytes(sizes, ~members)


def _quickest_s_per_byte(topology: Topology, collective: CollectiveKind) -> float:
    """How long the bytes of one chunk take at least, alone on the network, per byte and pass."""
    bandwidth = bytes_per_s(topology)
    if collective is CollectiveKind.ALL_TO_ALL:
        return float((shards(topology, collective) / np.array(topology.sizes) / bandwidth).sum())
    order = tuple(int(dim) for dim in np.argsort(-bandwidth, kind="stable"))
    return float((order_loads(topology.sizes, order) / bandwidth).sum())
