"""The manager's record of a job, beside the engine's row: user, specification, and attempts so far.

Changed by `learn` (store/learn.py), and by the job's own reports between two rows of the journal.
"""

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.attempts import Attempts


class Blocker(IntFlag):
    """Why a job is not offered to the engine, one bit per cause, in the order in which `explain` names them."""

    HELD = 1
    DEPENDENCY = 2
    ARRAY_LIMIT = 4
    RETRY_BACKOFF = 8
    NODE_DOWN = 16  # the cluster has become smaller than the job


NOTHING = Blocker(0)
# The names of the causes in the closed list of `explain`.
BLOCKER_REASONS = {blocker: str(blocker.name).lower() for blocker in Blocker}

# Why a job is being stopped: to make room (MIGRATE: and to run elsewhere), or because a person asked for it, or because its time was up.
PREEMPT, CANCEL, TIME_UP, REQUEUE, HOLD, MIGRATE = "preempt", "cancel", "timeout", "requeue", "hold", "migrate"


@dataclass(frozen=True, slots=True)
class Progress:
    """What the job reported of itself."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    checkpointed: int | None = None  # the last step saved in this attempt

    @property
    def finished(self) -> bool:
        """Whether the job reported that all its steps are done."""
        return self.step is not None and self.total is not None and self.step >= self.total

    def as_dict(self) -> dict[str, Any]:
        """The values that were reported."""
        every = {"step": self.step, "total": self.total, "loss": self.loss, "checkpointed": self.checkpointed}
        return {name: value for name, value in every.items() if value is not None}


NO_PROGRESS = Progress()  # of all jobs that reported nothing


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
    blockers: Blocker = NOTHING
    waits_for: set[int] = field(default_factory=set)  # jobs of `after` that have not completed
    not_before: float = 0.0  # end of the back-off
    failures: int = 0
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
    progress: Progress = NO_PROGRESS
    noted: Progress = NO_PROGRESS  # the same as the journal has it
    saved: float | None = None  # when it reported its last checkpoint of this attempt
    attempts: Attempts = field(default_factory=Attempts)
    ran_on: tuple[str, ...] = ()  # the nodes of its last attempt
    row: int = -1  # its row in the engine's tables, which moves up when jobs before it are retired

    @property
    def active_task(self) -> bool:
        """Whether it counts against the limit of its array."""
        return self.known and self.final is None and not self.blockers & Blocker.ARRAY_LIMIT

    @property
    def blocked_by(self) -> str:
        """The first cause that keeps it from the engine, by its name in the closed list; empty when there is none."""
        return next((name for blocker, name in BLOCKER_REASONS.items() if self.blockers & blocker), "")
