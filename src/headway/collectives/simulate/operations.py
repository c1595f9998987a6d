"""From chunks with orders to operations on dimensions: the arrays that the kernels run.

Operation `chunk * phases + i` is phase i of a chunk. A reduce-scatter on dimension k starts with `s` bytes and leaves
ceil(s / P_k); an all-gather undoes it, so its phases carry the same data in the opposite order; an all-to-all keeps s.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.collectives.simulate.cost import CollectiveKind, latencies_ps, ps_per_byte, shards
from headway.collectives.simulate.kernels import OPERATION
from headway.collectives.topology.model import Topology
from headway.errors import BadInput, unknown

Ints = NDArray[np.int64]

# Larger than any number of bytes that we rank by (2^52 is four petabytes), small enough that 2^10 priorities fit.
RANKS = 1 << 52
# Time is counted in 64-bit picoseconds: 2^62 of them are 53 days.
LONGEST_PS = float(1 << 62)
MOST_IN_FLIGHT = 1024
INTRA = ("fifo", "scf", "scf-public")


class Chains(NamedTuple):
    """Which operation waits for which: each chunk is a chain."""

    # Operations with predecessors and successors, the rest zero; as bytes, because NumPy copies records field by field.
    raw: NDArray[np.uint8]
    next_op: Ints
    to_come: Ints  # how many phases of its chunk follow each operation
    all: Ints  # their numbers: without release times, they arrive in this order


@dataclass(frozen=True, slots=True)
class Operations:
    """Phases of chunks, flattened. `larger_bytes` is the data at a phase's larger end, `group` the size of its dimension."""

    topology: Topology
    collective: CollectiveKind
    phases: int
    dim: Ints
    group: Ints
    larger_bytes: Ints
    sent_bytes: Ints
    chains: Chains
    rows: NDArray[Any]  # as the kernels take them; whoever runs them through queues sets rank and bid


def phase_dims(collective: CollectiveKind, rs: Ints, ag: Ints) -> Ints:
    """The dimensions that each chunk visits, in time (chunks x phases)."""
    if collective is CollectiveKind.ALL_REDUCE:
        return np.concatenate([rs, ag], axis=1)
    return ag if collective is CollectiveKind.ALL_GATHER else rs


def shrinking_bytes(chunk_bytes: Ints, orders: Ints, sizes: Ints) -> Ints:
    """The data at the start of each phase of a reduce-scatter (chunks x dimensions)."""
    data = np.empty(orders.shape, np.int64)
    remaining = chunk_bytes
    for place in range(orders.shape[1]):
        data[:, place] = remaining
        remaining = -(-remaining // sizes[orders[:, place]])
    return data


def operations(topology: Topology, collective: CollectiveKind, chunk_bytes: Ints, rs: Ints, ag: Ints) -> Operations:
    """All operations of one collective, each chunk a chain."""
    sizes = np.array(topology.sizes, np.int64)
    dims = phase_dims(collective, rs, ag)
    data = []
    if collective is CollectiveKind.ALL_TO_ALL:
        data.append(np.repeat(chunk_bytes[:, None], rs.shape[1], axis=1))
    if collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER):
        data.append(shrinking_bytes(chunk_bytes, rs, sizes))
    if collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER):
        data.append(shrinking_bytes(chunk_bytes, ag[:, ::-1], sizes)[:, ::-1])
    larger = np.concatenate(data, axis=1).ravel()
    chunks, phases = dims.shape
    dim = np.ascontiguousarray(dims).ravel()
    groups = sizes[dim]
    count, shard = shards(topology, collective)[dim], -(-larger // groups)
    latency = latencies_ps(topology, collective)[dim]
    longest = np.dot(count * 1.0, shard * ps_per_byte(topology)[dim])  # in floats, which do not run over
    if longest + float(latency.sum()) > LONGEST_PS or float(count.max()) * float(shard.max()) > LONGEST_PS:
        raise BadInput(f"this {collective} on {topology.name!r} would take months: check its size and the bandwidths")
    sent = count * shard
    # Up to whole picoseconds, so that no plan is quicker than its bandwidth allows; what is whole already stays.
    occupy = np.ceil(sent * ps_per_byte(topology)[dim] * (1 - 1e-12))
    chained = chains(chunks, phases)
    rows = chained.raw.copy().view(OPERATION)
    rows["resource"], rows["occupy_ps"], rows["latency_ps"] = dim, occupy, latency
    return Operations(topology, collective, phases, dim, groups, larger, sent, chained, rows)


@lru_cache(maxsize=256)
def chains(chunks: int, phases: int) -> Chains:
    """Return `chunks` chains, each of `phases` operations in sequence."""
    place = np.tile(np.arange(phases), chunks)
    follows = place < phases - 1
    rows = np.zeros(len(place), OPERATION)
    rows["needs"], rows["next_end"] = place > 0, np.cumsum(follows)
    rows["next_at"] = rows["next_end"] - follows
    numbers = np.arange(len(place))
    return Chains(rows.view(np.uint8), numbers[follows] + 1, phases - 1 - place, numbers)


def _rounded_down(ops: Operations) -> Ints:
    """The data at each phase's larger end when shards are rounded down and an all-gather grows what is left."""
    if ops.collective is not CollectiveKind.ALL_REDUCE:
        return ops.larger_bytes
    data, half = ops.larger_bytes.reshape(-1, ops.phases).copy(), ops.phases // 2
    groups = ops.group.reshape(data.shape)
    for place in range(1, half):
        data[:, place] = data[:, place - 1] // groups[:, place - 1]
    remaining = data[:, half - 1] // groups[:, half - 1]
    for place in range(half, 2 * half):
        remaining = remaining * groups[:, place]
        data[:, place] = remaining
    return data.ravel()


def queue_keys(intra: str, ops: Operations) -> tuple[Ints, Ints]:
    """Rank and bid of every operation under a discipline inside a dimension (section 4.4).

    fifo: as they come. scf: smallest data first, then as they come. scf-public: as in the public implementation, where
    a chunk also overtakes its equals, and one in its second-to-last phase goes to the tail; its sizes are rounded down
    as they shrink and grow again, so that of two equal phases the all-gather counts as smaller.
    """
    if intra == "fifo":
        zero = np.zeros_like(ops.dim)
        return zero, zero
    if intra == "scf":
        return ops.larger_bytes, ops.larger_bytes
    if intra == "scf-public":
        data = _rounded_down(ops)
        return data, np.where(ops.chains.to_come == 1, RANKS - 1, data - 1)
    raise unknown("intra-dimension discipline", intra, INTRA)


def slots(topology: Topology, in_flight: int) -> Ints:
    """How many operations each dimension may have in flight."""
    if not 1 <= in_flight <= MOST_IN_FLIGHT:
        raise BadInput(f"{in_flight} chunks in flight: a dimension carries at least 1 and at most {MOST_IN_FLIGHT}")
    return np.full(len(topology.dimensions), in_flight, np.int64)
