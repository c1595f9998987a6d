"""What the manager remembers of a job beside the engine's row: who, what, and how it went so far. Changed by `Book.learn` only."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line reads views only, and starts in half the time without pydantic
    from headway.live.jobfile.spec import JobSpec

# Gates: why a job is not offered to the engine, a bit each, in the order in which `explain` names them.
HELD, DEPENDENCY, ARRAY_LIMIT, RETRY_BACKOFF, IMPOSSIBLE = 1, 2, 4, 8, 16
GATES = {
    HELD: "held",
    DEPENDENCY: "dependency",
    ARRAY_LIMIT: "array_limit",
    RETRY_BACKOFF: "retry_backoff",
    IMPOSSIBLE: "impossible",
}

# What a job that is being stopped was asked: to make room, or by a person, or because its time was up.
PREEMPT, CANCEL, TIME_UP, REQUEUE, HOLD = "preempt", "cancel", "timeout", "requeue", "hold"

FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


@dataclass(slots=True)
class Progress:
    """What the job reported of itself."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    checkpointed: int | None = None  # the last step saved in this attempt

    @property
    def finished(self) -> bool:
        """Whether it said that all its steps are done."""
        return self.step is not None and self.total is not None and self.step >= self.total

    def as_dict(self) -> dict[str, Any]:
        """What was reported, without what was not."""
        every = {"step": self.step, "total": self.total, "loss": self.loss, "checkpointed": self.checkpointed}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(slots=True)
class Job:
    """One job (a task of an array is a job)."""

    id: int
    user: str
    spec: "JobSpec"
    submitted: float
    array_id: int | None = None
    array_index: int | None = None
    known: bool = False  # the engine has recorded its Submitted
    gates: int = 0
    waits_for: set[int] = field(default_factory=set)  # jobs of `after` that have not completed
    not_before: float = 0.0  # end of the back-off
    failures: int = 0
    preemptions: int = 0
    asked: str = ""  # why it is being stopped
    first_started: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    message: str = ""
    final: str = ""
    places: tuple[tuple[int, int], ...] = ()  # (node, GPUs), in the order that the placement decided
    seats: tuple[int, ...] = ()  # GPUs, in the order of ranks
    progress: Progress = field(default_factory=Progress)

    @property
    def row(self) -> int:
        """Its row in the engine's table."""
        return self.id - 1

    @property
    def active_task(self) -> bool:
        """Whether it counts against the limit of its array."""
        return self.known and not self.final and not self.gates & ARRAY_LIMIT

    @property
    def gate(self) -> str:
        """The first gate that is closed."""
        return next((name for bit, name in GATES.items() if self.gates & bit), "")


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as people see it."""

    job_id: int
    name: str
    user: str
    state: str
    gpus: int
    attempt: int
    exit_code: int | None
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    service_gpu_s: float
    reason: str
    queue: str
    level: int
    command: str
    nodes: tuple[str, ...]
    progress: dict[str, Any]
    preemptions: int
    array_id: int | None
    array_index: int | None
    message: str
    first_started_at: float | None
