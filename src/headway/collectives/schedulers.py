"""Plan and simulate one collective with a given scheduler: the entry point of this package for the rest of Headway."""

from dataclasses import dataclass
from typing import Any

from headway.collectives.best import best, chunk_counts
from headway.collectives.draft import Task
from headway.collectives.latency_limit import latency_limit_s
from headway.collectives.limit import Limit, limit
from headway.collectives.plan import CollectivePlan
from headway.collectives.published import baseline, themis
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.simulate.play import PhaseTimeline
from headway.collectives.topology.model import Topology
from headway.errors import BadInput, unknown
from headway.io.json_file import shown
from headway.io.numbers import plain_whole

SCHEDULERS = ("baseline", "themis", "best")
# Themis cuts a collective into 64 chunks by default (section 5).
DEFAULT_CHUNKS = 64
# What a scheduler may use when the number is left to it: more gains less than 0.01 % on the paper's topologies.
AUTO_CHUNKS = 256
# Times and bounds are computed in different ways, in double precision.
ROUNDING = 1e-9
# A method may fix its number of chunks: `themis-scf@64` is the paper's row.
FIXED = "@"


@dataclass(frozen=True, slots=True)
class SchedulerOutcome:
    """A plan, when it runs, and how good that is."""

    topology: Topology
    collective: CollectiveKind
    size_bytes: int
    scheduler: str
    intra: str
    maker: str
    method: str  # the name in tables: with its discipline, and its number of chunks if that was fixed
    in_flight: int
    plan: CollectivePlan
    timeline: PhaseTimeline
    limit: Limit
    latency_limit_s: float

    def __post_init__(self) -> None:
        # Every bound is proven, so a time below one is an error of the model, never a good plan.
        if self.time_s < self.bound_s * (1 - ROUNDING):
            raise ArithmeticError(f"{self.method} takes {self.time_s} s on {self.topology}, below {self.bound_s} s")

    @property
    def time_s(self) -> float:
        """How long the collective takes."""
        return self.timeline.time_s

    @property
    def bound_s(self) -> float:
        """No plan is quicker: the larger of T* and the bound that counts latencies."""
        return max(self.limit.limit_s, self.latency_limit_s)

    @property
    def utilisation(self) -> float:
        """Ideal over actual time: the share of all bandwidth that was used (the paper's measure)."""
        return self.limit.ideal_s / self.time_s


def schedule(
    topology: Topology,
    size_bytes: int,
    *,
    scheduler: str = "best",
    collective: CollectiveKind = CollectiveKind.ALL_REDUCE,
    intra: str | None = None,
    chunks: int | None = None,
    in_flight: int = 1,
    most_chunks: int = AUTO_CHUNKS,
) -> SchedulerOutcome:
    """Plan and simulate one collective.

    `chunks` is exact for baseline and themis and a maximum for best. Left out, each of them chooses the quickest of the
    same numbers, `most_chunks` and its halves. `intra` defaults to fifo for the baseline and scf for themis, their
    papers' choices; best chooses for itself.
    """
    if size_bytes < 1:
        raise BadInput(f"a collective of {size_bytes} bytes: there is nothing to send")
    if scheduler not in SCHEDULERS:
        raise unknown("scheduler", scheduler, SCHEDULERS)
    task = Task(topology, collective, size_bytes, in_flight)
    if scheduler == "best":
        draft, method = best(task, chunks or most_chunks), scheduler
    else:
        inside = intra or ("scf" if scheduler == "themis" else "fifo")
        make = themis if scheduler == "themis" else baseline
        counts = [chunks] if chunks else chunk_counts(size_bytes, most_chunks)
        draft = min((make(task, inside, count) for count in counts), key=lambda draft: draft.end_ps)
        method = f"{scheduler}-{inside}" if scheduler == "themis" else scheduler
        method += f"{FIXED}{chunks}" if chunks else ""
    details = draft.intra, draft.maker, method, in_flight, draft.plan(), draft.timeline()
    return SchedulerOutcome(topology, collective, size_bytes, scheduler, *details, *bounds(task))


def bounds(task: Task) -> tuple[Limit, float]:
    """What no plan for this task can beat: bandwidth alone, and with latencies."""
    with_latencies_s = latency_limit_s(task.topology, task.collective, task.size_bytes, task.in_flight)
    return limit(task.topology, task.collective, task.size_bytes), with_latencies_s


def schedule_named(
    method: str,
    topology: Topology,
    size_bytes: int,
    collective: CollectiveKind,
    most_chunks: int | None,
    in_flight: int,
) -> SchedulerOutcome:
    """The same by the name of a method: `themis-scf` is the scheduler themis with scf inside a dimension, and
    `themis-scf@64` that with exactly 64 chunks. Whatever is not fixed chooses among up to `most_chunks`."""
    name, fixed = fixed_chunks(method)
    scheduler, _, intra = name.partition("-")
    inside: dict[str, Any] = {"intra": intra or None, "chunks": fixed, "in_flight": in_flight}
    inside["most_chunks"] = most_chunks or AUTO_CHUNKS
    return schedule(topology, size_bytes, scheduler=scheduler, collective=collective, **inside)


def fixed_chunks(method: str) -> tuple[str, int | None]:
    """`themis-scf@64` as its name and its number of chunks, None if that is left to it."""
    name, sign, count = method.partition(FIXED)
    if not sign:
        return name, None
    fixed = plain_whole(count)
    if not fixed or name == "best":
        raise BadInput(
            f"method '{shown(method)}': write baseline@64 or themis-scf@64 (best chooses its chunks by itself)"
        )
    return name, fixed
