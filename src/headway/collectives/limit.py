"""The exact bandwidth limit T* of an all-reduce, and the blocks of dimensions that it falls into.

An order sends a fixed number of bytes on each dimension. Over all orders, the vectors of bytes are the corners of a
base polytope: what a set A of dimensions carries is at most f(A) = 1 - prod over A of 1/P (A goes first) and at least
g(A) = prod outside A of 1/P - prod of all 1/P (A goes last), per byte of the collective. So no mix is faster than

    T* = max over non-empty A of 2 S g(A) / sum over A of BW        (S bytes, all-reduce; half of it for one half)

and the mix that spreads the load most evenly reaches it. T* binds more than mixes of orders: it is a cut that holds for
every all-reduce without reduction inside the network (decision 0080). The set that attains the maximum is
under-provisioned: it must go last, and no order helps it further. What is left, the other dimensions among themselves,
is the same problem again; so the dimensions fall into blocks that run in a fixed sequence, balanced inside. This goes
beyond Themis, which is greedy. An all-to-all is bounded by the hops that its messages must take on each dimension.

Latencies are left out of T*; `latency_limit` counts them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.collectives.simulate.cost import CollectiveKind, shards
from headway.collectives.topology.model import Topology

Floats = NDArray[np.float64]

# Shares are computed in double precision; the smallest meaningful one is 1/P, about 1e-6 for a million NPUs.
TOLERANCE = 1e-12
BITS_PER_BYTE = 8
BPS_PER_GBPS = 1e9


@dataclass(frozen=True, slots=True)
class Block:
    """Dimensions that are balanced among themselves; `level` is their time per byte of data, in s (half an all-
    reduce)."""

    dims: tuple[int, ...]
    level: float


@dataclass(frozen=True, slots=True)
class Limit:
    """The two limits for one collective: `ideal_s` if all bandwidth could be used, `limit_s` the exact one."""

    ideal_s: float
    limit_s: float
    blocks: tuple[Block, ...]


def bytes_per_s(topology: Topology) -> Floats:
    """The bandwidth of one NPU on every dimension."""
    return np.array(topology.bandwidths_gbps) * BPS_PER_GBPS / BITS_PER_BYTE


def sets(dims: int) -> NDArray[np.bool_]:
    """All non-empty sets of `dims` dimensions, one per row."""
    numbers = np.arange(1, 1 << dims)
    return (numbers[:, None] >> np.arange(dims)) & 1 > 0


def first_bytes(sizes: Floats, members: NDArray[np.bool_]) -> Floats:
    """f(A): the bytes that each set carries when it goes first."""
    product: Floats = np.where(members, 1 / sizes, 1.0).prod(axis=1)
    return 1 - product


def blocks(topology: Topology) -> tuple[Block, ...]:
    """The dimensions in blocks, in the sequence in which data must visit them; the last block is the most loaded."""
    sizes, bandwidth = np.array(topology.sizes, np.float64), bytes_per_s(topology)
    dims = np.arange(len(sizes))
    result: list[Block] = []
    while len(dims):
        members = sets(len(dims))
        least = first_bytes(sizes[dims], members[-1:]) - first_bytes(sizes[dims], ~members)
        level = least / (members * bandwidth[dims]).sum(axis=1)
        # Of equally loaded sets the union is as loaded: take the largest, so that a balanced network is one block.
        tied = level >= level.max() * (1 - TOLERANCE)
        worst = members[tied][members[tied].sum(axis=1).argmax()]
        result.append(Block(tuple(int(dim) for dim in dims[worst]), float(level.max())))
        dims = dims[~worst]
    return tuple(reversed(result))


def limit(topology: Topology, collective: CollectiveKind, size_bytes: int) -> Limit:
    """Both limits, latency left out. What an all-to-all sends on a dimension does not depend on the order."""
    bandwidth = bytes_per_s(topology)
    if collective is CollectiveKind.ALL_TO_ALL:
        levels = (shards(topology, collective) / np.array(topology.sizes) / bandwidth).tolist()
        worst_s = size_bytes * max(levels)
        return Limit(worst_s, worst_s, tuple(Block((dim,), level) for dim, level in enumerate(levels)))
    passes = 2 if collective is CollectiveKind.ALL_REDUCE else 1
    parts = blocks(topology)
    ideal = passes * size_bytes * (1 - 1 / topology.npus) / float(bandwidth.sum())
    return Limit(ideal, passes * size_bytes * parts[-1].level, parts)


def order_loads(sizes: tuple[int, ...], order: tuple[int, ...]) -> Floats:
    """Bytes that each dimension carries per byte of data when a reduce-scatter visits them in this order."""
    loads, data = np.zeros(len(sizes)), 1.0
    for dim in order:
        loads[dim] = data * (1 - 1 / sizes[dim])
        data /= sizes[dim]
    return loads
