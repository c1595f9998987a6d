"""Bounds of a wiring by cuts: no plan, of whatever kind, is quicker.

*All-gather* of S bytes over N ranks: the data of the ranks in a set X must reach every rank outside, so
T >= |X| S / N / (bandwidth that leaves X). The worst set is found by maximum flows: with every rank's shard as a source,
each rank must be able to receive all N of them in T; a flow that falls short shows a worse cut, whose ratio is the next
T (Dinkelbach's method; it ends at the exact maximum, and any cut on the way is a bound). *Reduce-scatter* is the
all-gather of the transposed network.

*All-reduce* without reduction inside the network: for every partition into n parts, each value is sent between parts at
least 2 (n - 1) times (decision 0080), so T >= 2 (n - 1) S / (bandwidth that leaves its part). And for every set X the
sum over X must leave it once: T >= S / (bandwidth that leaves X). We try the sets that the flows found, and partitions
made by joining, again and again, the two parts with the most bandwidth between them.

*All-to-all*: the messages from a set of ranks to the others must leave it; `exchange` adds what hops cost.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from headway.collectives.limit import BITS_PER_BYTE, BPS_PER_GBPS
from headway.collectives.simulate.cost import CollectiveKind
from headway.errors import BadInput
from headway_wiring.model import Wiring

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# A shard in units of the flow: capacities are whole numbers below 2^31, and 128 shards leave room.
SHARD = 1 << 22
# The flow sees a millionth of a shard; a cut that is worse by less is the same.
SAME = 1e-5


@dataclass(frozen=True, slots=True)
class Cut:
    """A bound, the parts of the network that it comes from, and the bytes per second that leave the first (of a partition:
    all) of them."""

    time_s: float
    parts: tuple[tuple[str, ...], ...]
    leaving: float


def bound(wiring: Wiring, collective: CollectiveKind, size_bytes: int) -> Cut:
    """The strongest bound that we find; it holds for every plan."""
    if collective is CollectiveKind.ALL_GATHER:
        return max(_gather_cuts(wiring, size_bytes), key=_time)
    if collective is CollectiveKind.REDUCE_SCATTER:
        return max(_gather_cuts(wiring.transposed(), size_bytes), key=_time)
    if collective is CollectiveKind.ALL_TO_ALL:
        return max((_exchange_cut(wiring, size_bytes, side) for side in _gather_cuts(wiring, size_bytes)), key=_time)
    sides = [*_gather_cuts(wiring, size_bytes), *_gather_cuts(wiring.transposed(), size_bytes)]
    once = [Cut(size_bytes / side.leaving, side.parts, side.leaving) for side in sides]
    return max(*once, *_partitions(wiring, size_bytes), key=_time)


def _exchange_cut(wiring: Wiring, size_bytes: int, side: Cut) -> Cut:
    """Every rank inside has a message for every rank outside."""
    messages = len(side.parts[0]) * len(side.parts[1])
    return Cut(messages * size_bytes / len(wiring.ranks) / side.leaving, side.parts, side.leaving)


def _time(cut: Cut) -> float:
    return cut.time_s


def _bandwidth(wiring: Wiring) -> Floats:
    """Bytes per second from vertex to vertex."""
    place = {name: number for number, name in enumerate(wiring.vertices)}
    table = np.zeros((len(place), len(place)))
    for link in wiring.links:
        table[place[link.source], place[link.target]] = link.link_gbps * BPS_PER_GBPS / BITS_PER_BYTE
    return table


@lru_cache(maxsize=32)
def _gather_cuts(wiring: Wiring, size_bytes: int) -> list[Cut]:
    """Cuts of an all-gather, the last the worst of all: by growing T until every rank can receive everything."""
    table, count = _bandwidth(wiring), len(wiring.ranks)
    shard = size_bytes / count
    cuts = []
    for rank in range(count):
        for inside in (np.arange(len(table)) == rank, np.arange(len(table)) != rank):
            cuts.append(_gather_cut(wiring, table, inside, shard))
    worst = max(cuts, key=_time)
    while True:
        cut = worst
        for rank in range(count):
            inside = _starved(table, count, rank, worst.time_s / shard)
            if inside is not None:
                cut = max(cut, _gather_cut(wiring, table, inside, shard), key=_time)
        if cut.time_s <= worst.time_s * (1 + SAME):
            return [*cuts, worst]
        cuts.append(cut)
        worst = cut


def _gather_cut(wiring: Wiring, table: Floats, inside: Bools, shard: float) -> Cut:
    leaving = float(table[inside][:, ~inside].sum())
    ranks = tuple(name for name, member in zip(wiring.ranks, inside, strict=False) if member)
    if not leaving:
        there = next(name for name, member in zip(wiring.ranks, inside, strict=False) if not member)
        raise BadInput(f"network {wiring.name!r}: nothing leads from {', '.join(ranks[:3])} to rank {there}")
    others = tuple(name for name in wiring.ranks if name not in ranks)
    return Cut(len(ranks) * shard / leaving, (ranks, others), leaving)


def _starved(table: Floats, count: int, rank: int, seconds_per_byte: float) -> Bools | None:
    """If this rank cannot receive a shard of each rank in time: the vertices that it is cut off from."""
    size = len(table)
    capacity = np.zeros((size + 1, size + 1))
    capacity[:size, :size] = np.minimum(np.floor(table * seconds_per_byte * SHARD * (1 + SAME / 10)), count * SHARD)
    capacity[size, :count] = SHARD
    whole = csr_array(capacity.astype(np.int32))
    flow = maximum_flow(whole, size, rank)
    if flow.flow_value >= count * SHARD:
        return None
    residual = csr_array(((whole - flow.flow) > 0).astype(np.int32))
    inside = np.zeros(size + 1, bool)
    inside[breadth_first_order(residual, size, return_predecessors=False)] = True
    return inside[:size]


def _partitions(wiring: Wiring, size_bytes: int) -> list[Cut]:
    """Partitions from single ranks to two parts; a switch belongs to a part once all its neighbours do."""
    table, count = _bandwidth(wiring), len(wiring.ranks)
    near = _between_ranks(table, count)
    parts = [[rank] for rank in range(count)]
    cuts = []
    while len(parts) > 1:
        owner = np.full(len(table), -1)
        for number, part in enumerate(parts):
            owner[part] = number
        for switch in range(count, len(table)):
            around = {int(owner[v]) for v in np.flatnonzero(table[switch] + table[:, switch]) if v < count}
            owner[switch] = around.pop() if len(around) == 1 else -1
        crossing = (owner[:, None] != owner[None, :]) & (owner[:, None] >= 0)
        leaving = float(table[crossing].sum())
        names = tuple(tuple(wiring.ranks[rank] for rank in part) for part in parts)
        cuts.append(Cut(2 * (len(parts) - 1) * size_bytes / leaving, names, leaving))
        size = np.array([len(part) for part in parts])
        strength = (near + near.T) / (size[:, None] * size[None, :])
        np.fill_diagonal(strength, -1)
        first, second = sorted(int(place) for place in np.unravel_index(int(strength.argmax()), strength.shape))
        parts[first] = parts[first] + parts.pop(second)
        near[first] += near[second]
        near[:, first] += near[:, second]
        near = np.delete(np.delete(near, second, 0), second, 1)
    return cuts


def _between_ranks(table: Floats, count: int) -> Floats:
    """Bandwidth between ranks, direct and through one switch, as a measure of nearness only."""
    up, down = table[:count, count:], table[count:, :count]
    through = np.zeros((count, count))
    for switch in range(up.shape[1]):
        through += np.minimum(up[:, switch][:, None], down[switch][None, :])
    near: Floats = table[:count, :count] + through
    np.fill_diagonal(near, 0)
    return near
