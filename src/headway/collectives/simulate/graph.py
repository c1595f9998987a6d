"""Several collectives, and computation, on one network: operations that wait for each other, run by the same kernel.

A collective's chunks are chains, as before. What is new: a collective may start after other operations, others may wait
for it, it may be issued later and have a priority (higher first; within one, the discipline of the dimension decides).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.collectives.best import share_out
from headway.collectives.published import fresh_tracker, themis_orders
from headway.collectives.shares import optimal_mix
from headway.collectives.simulate import kernels
from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind, split_bytes
from headway.collectives.simulate.kernels import OPERATION
from headway.collectives.simulate.operations import LONGEST_PS, RANKS, operations, queue_keys
from headway.collectives.simulate.steps import stepped, steps_of
from headway.collectives.topology.model import Topology
from headway.errors import BadInput, unknown

Ints = NDArray[np.int64]

METHODS = ("baseline", "themis-fifo", "themis-scf", "limit-fifo", "limit-scf")
MOST_PRIORITIES = 512
# Queues that sort are walked through: with more operations than these, one run takes minutes.
MOST_OPERATIONS = 250_000


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """A collective that is wanted: what, how much, when it is issued, and how urgent it is."""

    collective: CollectiveKind
    size_bytes: int
    issue_s: float = 0.0
    priority: int = 0


@dataclass(slots=True)
class Graph:
    """Builds up operations; `method` orders the chunks of every collective, with one load tracker for all of them.

    Themis resets its tracker when the network is idle; collectives of one graph count as issued together.
    """

    topology: Topology
    method: str
    chunks: int
    in_flight: int = 1
    _tables: list[NDArray[Any]] = field(default_factory=list)
    _before: list[Ints] = field(default_factory=list)
    _after: list[Ints] = field(default_factory=list)
    _count: int = 0
    _tracker_ps: NDArray[np.float64] | None = None
    _longest_ps: float = 0.0

    def compute(self, seconds: float, after: Sequence[int]) -> int:
        """An operation on the processor, in the sequence in which they are added; returns its number."""
        here, row = self._count, np.zeros(1, OPERATION)
        self._lasts(seconds * PS_PER_S)
        row["resource"], row["occupy_ps"] = len(self.topology.dimensions), round(seconds * PS_PER_S)
        self._add(row)
        self._edges(after, np.array([here]))
        return here

    def collective(self, request: CollectiveRequest, after: Sequence[int]) -> Ints:
        """All chunks of a collective, starting after all of `after`; returns the last operation of each chunk."""
        if not 0 <= request.priority < MOST_PRIORITIES:
            raise BadInput(f"priority {request.priority}: it must be between 0 and {MOST_PRIORITIES - 1}, higher first")
        parts, rs = self._orders(request)
        ops = operations(self.topology, request.collective, parts, rs, np.ascontiguousarray(rs[:, ::-1]))
        _, _, intra = self.method.partition("-")
        rank, bid = queue_keys(intra or "fifo", ops)
        if self.method == "baseline" and request.collective is CollectiveKind.ALL_REDUCE:
            rank = bid = np.where(ops.chains.to_come == ops.phases // 2 - 1, -1, 0)
        self._lasts(request.issue_s * PS_PER_S + float(ops.rows["occupy_ps"].sum() + ops.rows["latency_ps"].sum()))
        level = (MOST_PRIORITIES - request.priority) * RANKS
        here, rows, chains = self._count, ops.rows, ops.chains
        rows["rank"], rows["bid"] = level + rank, level + bid
        if self.in_flight > 1:
            rows, chains = stepped(ops, steps_of(ops), level + rank, level + bid)
        rows["release_ps"] = round(request.issue_s * PS_PER_S)
        self._add(rows)
        goes_on = np.flatnonzero(chains.to_come > 0)
        self._before.append(here + goes_on)
        self._after.append(here + goes_on + 1)
        self._edges(after, here + np.arange(0, len(rows), len(rows) // len(parts)))
        return here + np.flatnonzero(chains.to_come == 0)

    def run(self) -> Ints:
        """When each operation ends, in ps."""
        before, after = np.concatenate([*self._before, []]).astype(int), np.concatenate([*self._after, []]).astype(int)
        by_source = np.argsort(before, kind="stable")
        counts = np.bincount(before, minlength=self._count)
        # As bytes: NumPy copies records field by field, which takes longer than running them.
        table = np.concatenate([part.view(np.uint8) for part in self._tables]).view(OPERATION)
        table["needs"], table["next_end"] = np.bincount(after, minlength=self._count), np.cumsum(counts)
        table["next_at"] = table["next_end"] - counts
        arrivals = np.argsort(table["release_ps"], kind="stable")
        slots = np.append(np.full(len(self.topology.dimensions), self.in_flight), 1)
        progress, sequence = kernels.run_queues(table, after[by_source], arrivals, slots)
        assert len(sequence) == self._count, "operations wait for each other in a circle"
        result: Ints = progress["finish_ps"]
        return result

    def _orders(self, request: CollectiveRequest) -> tuple[Ints, Ints]:
        chunks = min(self.chunks, request.size_bytes)
        parts = split_bytes(request.size_bytes, chunks)
        dims = len(self.topology.dimensions)
        kind, _, intra = self.method.partition("-")
        if kind == "baseline" or request.collective is CollectiveKind.ALL_TO_ALL:
            return parts, np.tile(np.arange(dims), (chunks, 1))
        if kind == "limit":
            return share_out(optimal_mix(self.topology), request.size_bytes, chunks, 1.0)
        if kind != "themis":
            raise unknown("method", self.method, METHODS)
        if self._tracker_ps is None:
            self._tracker_ps = fresh_tracker(self.topology, request.collective, intra)
        return parts, themis_orders(self.topology, request.collective, parts, self._tracker_ps)

    def _lasts(self, span_ps: float) -> None:
        """Refuse what could not be counted in 64 bits if all of it came one after the other."""
        self._longest_ps += span_ps
        if not self._longest_ps < LONGEST_PS:
            raise BadInput("computation and communication would take months: check times, speeds and sizes")

    def _add(self, table: NDArray[Any]) -> None:
        self._tables.append(table)
        self._count += len(table)
        if self._count > MOST_OPERATIONS:
            raise BadInput(
                f"this is more than {MOST_OPERATIONS:,} phases of chunks: send larger buckets, or fewer collectives or chunks"
            )

    def _edges(self, sources: Sequence[int], targets: Ints) -> None:
        for source in sources:
            self._before.append(np.full(len(targets), source))
            self._after.append(targets)


def chunk_choices(most_chunks: int) -> list[int]:
    """Among which numbers of chunks every method may choose: fewer chunks wait less for latency."""
    return sorted({most_chunks, *(few for few in (1, 4, 16, 64) if few < most_chunks)})


def run_together(
    topology: Topology, requests: Sequence[CollectiveRequest], method: str, chunks: int = 64, in_flight: int = 1
) -> list[float]:
    """When each of several collectives in flight ends, in s, with exactly `chunks` chunks each."""
    graph = Graph(topology, method, chunks, in_flight)
    lasts = [graph.collective(request, ()) for request in requests]
    finish = graph.run()
    return [int(finish[last].max()) / PS_PER_S for last in lasts]


def run_together_freely(
    topology: Topology, requests: Sequence[CollectiveRequest], method: str, most_chunks: int = 64, in_flight: int = 1
) -> list[float]:
    """The same with the number of chunks that ends all of them first; `best` chooses among all methods, too."""
    ways = [(name, count) for name in ways_of(method) for count in chunk_choices(most_chunks)]
    runs = [run_together(topology, requests, name, count, in_flight) for name, count in ways]
    return min(runs, key=lambda ends: (max(ends), sum(ends)))


def ways_of(method: str) -> tuple[str, ...]:
    """What a method may be on a network that several collectives share."""
    return METHODS if method == "best" else (method,)
