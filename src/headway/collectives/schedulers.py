"""The published schedulers: the hierarchical baseline and Themis (sections 2.3 and 4)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.collectives import kernels
from headway.collectives.cost import Collective, latencies_ps, ps_per_byte, split_bytes
from headway.collectives.draft import Draft, draft_by_queues
from headway.collectives.limit import Limit, limit
from headway.collectives.plan import Plan
from headway.collectives.simulate import Timeline
from headway.collectives.topology import Topology
from headway.core.errors import BadInput, unknown

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCHEDULERS = ("baseline", "themis", "best")
# Themis cuts a collective into 64 chunks by default (section 5).
DEFAULT_CHUNKS = 64
# What `best` may use when the number is left to it: more gains less than 0.01 % on the paper's topologies.
MOST_CHUNKS = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan, when it runs, and how good that is."""

    topology: Topology
    collective: Collective
    size_bytes: int
    scheduler: str
    intra: str
    maker: str
    in_flight: int
    plan: Plan
    timeline: Timeline
    limit: Limit

    @property
    def time_s(self) -> float:
        """How long the collective takes."""
        return self.timeline.time_s

    @property
    def utilisation(self) -> float:
        """Ideal over actual time: the share of all bandwidth that was used (the paper's measure)."""
        return self.limit.ideal_s / self.time_s


def baseline(
    topology: Topology, collective: Collective, size_bytes: int, intra: str, chunks: int, in_flight: int
) -> Draft:
    """Hierarchical: reduce-scatter on dimension 1 to D - 1, all-reduce on D, all-gather back; every chunk alike."""
    parts = split_bytes(size_bytes, chunks)
    dims = len(topology.dimensions)
    rs = np.tile(np.arange(dims), (chunks, 1))
    fused = dims if collective is Collective.ALL_REDUCE else -1
    return draft_by_queues(topology, collective, parts, rs, intra, in_flight, "baseline", fused)


def themis(
    topology: Topology, collective: Collective, size_bytes: int, intra: str, chunks: int, in_flight: int
) -> Draft:
    """Themis as published: each chunk visits the least loaded dimension first. An idle network: a fresh tracker."""
    parts = split_bytes(size_bytes, chunks)
    rs = themis_orders(topology, collective, parts, fresh_tracker(topology, collective))
    return draft_by_queues(topology, collective, parts, rs, intra, in_flight, "themis")


def fresh_tracker(topology: Topology, collective: Collective) -> Floats:
    """The load tracker when the network is idle: the fixed delay of one phase on each dimension (section 4.3)."""
    return latencies_ps(topology, collective).astype(np.float64)


def themis_orders(topology: Topology, collective: Collective, parts: Ints, tracker_ps: Floats) -> Ints:
    """One order per chunk; the tracker keeps the loads for collectives that are issued on top of this one.

    An all-gather takes the reverse of what a reduce-scatter would (most loaded first). An all-to-all loads every
    dimension alike whatever the order, so its chunks keep the default one.
    """
    sizes = np.array(topology.sizes, np.int64)
    inverse = ps_per_byte(topology)
    if collective is Collective.ALL_TO_ALL:
        tracker_ps += (1 - 1 / sizes) * inverse * parts.sum()
        return np.tile(np.arange(len(sizes)), (len(parts), 1))
    orders: Ints = kernels.themis_orders(parts, sizes, inverse, tracker_ps)
    return orders


def schedule(
    topology: Topology,
    size_bytes: int,
    *,
    scheduler: str = "best",
    collective: Collective = Collective.ALL_REDUCE,
    intra: str | None = None,
    chunks: int | None = None,
    in_flight: int = 1,
) -> Outcome:
    """Plan and simulate one collective.

    `chunks` is exact for baseline and themis (64 if left out) and a maximum for best (256 if left out). `intra`
    defaults to fifo for the baseline and scf for themis, their papers' choices; best chooses for itself.
    """
    if size_bytes < 1:
        raise BadInput(f"a collective of {size_bytes} bytes: there is nothing to send")
    if scheduler == "best":
        from headway.collectives.best import best

        draft = best(topology, collective, size_bytes, chunks or min(MOST_CHUNKS, size_bytes), in_flight)
    elif scheduler in SCHEDULERS:
        make, usual = (baseline, "fifo") if scheduler == "baseline" else (themis, "scf")
        draft = make(topology, collective, size_bytes, intra or usual, chunks or DEFAULT_CHUNKS, in_flight)
    else:
        raise unknown("scheduler", scheduler, SCHEDULERS)
    return Outcome(
        topology,
        collective,
        size_bytes,
        scheduler,
        draft.intra,
        draft.maker,
        in_flight,
        draft.plan(),
        draft.timeline(),
        limit(topology, collective, size_bytes),
    )
