"""Plan and simulate one collective with the scheduler of your choice: where the rest of Headway comes in."""

from dataclasses import dataclass
from typing import Any

from headway.collectives.best import best
from headway.collectives.draft import Task
from headway.collectives.limit import Limit, limit
from headway.collectives.plan import Plan
from headway.collectives.published import baseline, themis
from headway.collectives.simulate.cost import Collective
from headway.collectives.simulate.play import Timeline
from headway.collectives.topology.model import Topology
from headway.errors import BadInput, unknown

SCHEDULERS = ("baseline", "themis", "best")
# Themis cuts a collective into 64 chunks by default (section 5).
DEFAULT_CHUNKS = 64
# What `best` may use when the number is left to it: more gains less than 0.01 % on the paper's topologies.
AUTO_CHUNKS = 256


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
    if scheduler not in SCHEDULERS:
        raise unknown("scheduler", scheduler, SCHEDULERS)
    task = Task(topology, collective, size_bytes, in_flight)
    count = chunks or min(AUTO_CHUNKS if scheduler == "best" else DEFAULT_CHUNKS, size_bytes)
    if scheduler == "best":
        draft = best(task, count)
    elif scheduler == "themis":
        draft = themis(task, intra or "scf", count)
    else:
        draft = baseline(task, intra or "fifo", count)
    made = draft.intra, draft.maker, in_flight, draft.plan(), draft.timeline()
    return Outcome(topology, collective, size_bytes, scheduler, *made, limit(topology, collective, size_bytes))


def schedule_named(
    method: str, topology: Topology, size_bytes: int, collective: Collective, chunks: int | None, in_flight: int
) -> Outcome:
    """The same by the name of a method: `themis-scf` is the scheduler themis with scf inside a dimension."""
    scheduler, _, intra = method.partition("-")
    inside: dict[str, Any] = {"intra": intra or None, "chunks": chunks, "in_flight": in_flight}
    return schedule(topology, size_bytes, scheduler=scheduler, collective=collective, **inside)
