"""The published schedulers: the hierarchical baseline and Themis (sections 2.3 and 4)."""

import numpy as np
from numpy.typing import NDArray

from headway.collectives.draft import Draft, Task, draft_by_queues
from headway.collectives.simulate import kernels
from headway.collectives.simulate.cost import CollectiveKind, latencies_ps, ps_per_byte, shards, split_bytes
from headway.collectives.topology.model import Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LIKE_THE_PUBLIC_CODE = ("fifo", "scf-public")


def baseline(task: Task, intra: str, chunks: int) -> Draft:
    """Hierarchical: reduce-scatter on dimension 1 to D - 1, all-reduce on D, all-gather back; every chunk alike."""
    parts = split_bytes(task.size_bytes, chunks)
    dims = len(task.topology.dimensions)
    rs = np.tile(np.arange(dims), (chunks, 1))
    return draft_by_queues(
        task, parts, rs, intra, "baseline", dims if task.collective is CollectiveKind.ALL_REDUCE else -1
    )


def themis(task: Task, intra: str, chunks: int) -> Draft:
    """Themis as published: each chunk visits the least loaded dimension first. An idle network: a fresh tracker."""
    parts = split_bytes(task.size_bytes, chunks)
    rs = themis_orders(task.topology, task.collective, parts, fresh_tracker(task.topology, task.collective, intra))
    return draft_by_queues(task, parts, rs, intra, "themis")


def fresh_tracker(topology: Topology, collective: CollectiveKind, intra: str) -> Floats:
    """The load tracker when the network is idle.

    In the text it starts at the fixed delay of one phase on each dimension (section 4.3), as it does here under `scf`,
    the discipline of the text. The public code starts it at zero; so do the disciplines that follow that code.
    """
    if intra in LIKE_THE_PUBLIC_CODE:
        return np.zeros(len(topology.dimensions))
    return latencies_ps(topology, collective).astype(np.float64)


def themis_orders(topology: Topology, collective: CollectiveKind, parts: Ints, tracker_ps: Floats) -> Ints:
    """One order per chunk; the tracker keeps the loads for collectives that are issued on top of this one.

    An all-gather takes the reverse of what a reduce-scatter would (most loaded first). An all-to-all loads every
    dimension alike whatever the order, so its chunks keep the default one.
    """
    sizes = np.array(topology.sizes, np.int64)
    inverse = ps_per_byte(topology)
    if collective is CollectiveKind.ALL_TO_ALL:
        tracker_ps += shards(topology, collective) / sizes * inverse * parts.sum()
        return np.tile(np.arange(len(sizes)), (len(parts), 1))
    orders: Ints = kernels.themis_orders(parts, sizes, inverse, tracker_ps)
    return orders
