"""Records of jobs, of rows of the journal, and of what executors report of nodes.

The record of a job is changed by `learn` (state/learn.py), and by the job's own reports between two rows of the journal.
"""

from dataclasses import dataclass, field
from typing import Any

from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.rows import BLOCKER_REASONS, NO_BLOCKERS, Blocker
from headway.live.state.attempts import Attempts


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress that a job reported."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    checkpointed: int | None = None  # the last step saved in this attempt

    @property
    def finished(self) -> bool:
        """Return whether the job reported that all its steps are done."""
        return self.step is not None and self.total is not None and self.step >= self.total

    def as_dict(self) -> dict[str, Any]:
        """Return the values that were reported, by name."""
        every = {"step": self.step, "total": self.total, "loss": self.loss, "checkpointed": self.checkpointed}
        return {name: value for name, value in every.items() if value is not None}


NO_PROGRESS = JobProgress()  # shared by all jobs without reports


@dataclass(slots=True)
class Job:
    """One job (a task of an array is a job)."""

    id: int
    user: str
    spec: JobSpec
    submitted: float
    array_id: int | None = None
    array_index: int | None = None
    known: bool = False  # the engine has recorded its Submitted
    blockers: Blocker = NO_BLOCKERS
    waits_for: set[int] = field(default_factory=set)  # jobs of `after` that have not completed
    not_before: float = 0.0  # end of the back-off
    failures: int = 0
    ran_before: float = 0.0  # run time before its last requeue after an end, in seconds; not counted against its limit
    preemptions: int = 0
    stop_reason: str = ""  # why it is being stopped
    kill: bool = False  # it is being stopped without a grace
    first_started: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    message: str = ""
    final: JobState | None = None  # how it ended
    places: tuple[tuple[int, int], ...] = ()  # (node, GPUs), in the order that the placement decided
    seats: tuple[int, ...] = ()  # GPUs, in the order of ranks
    links: tuple[tuple[int, int], ...] = ()  # (leaf, a bit per spine) that are its own
    progress: JobProgress = NO_PROGRESS
    noted: JobProgress = NO_PROGRESS  # `progress` as the journal has it
    noted_at: float | None = None  # when `noted` was written; None after an end
    saved: float | None = None  # when it reported its last checkpoint of this attempt
    attempts: Attempts = field(default_factory=Attempts)
    ran_on: tuple[str, ...] = ()  # the nodes of its last attempt
    row: int = -1  # its row in the engine's tables, which moves up when jobs before it are retired

    @property
    def active_task(self) -> bool:
        """Return whether the job counts against the limit of its array."""
        return self.known and self.final is None and not self.blockers & Blocker.ARRAY_LIMIT

    @property
    def blocked_by(self) -> str:
        """Return the reason code of the first blocker; empty if there is none."""
        return next((name for blocker, name in BLOCKER_REASONS.items() if self.blockers & blocker), "")


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One fact or action. `job` is 0 for facts about nodes or the manager itself."""

    time: float
    kind: str
    job: int
    attempt: int
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = 0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The present state of a node: why it takes no jobs (empty: it does), and its GPUs that are used outside Headway."""

    node: str
    away: str = ""
    taken: int = 0
