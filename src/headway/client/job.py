"""The query for jobs and the job of the manager's API: for every list of jobs, and what commands print."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

# Columns that lists are sorted by. `order`: on GPUs first, then jobs that wait for them as the policy sorts, then all others.
Order = Literal["order", "job_id", "name", "user", "state", "gpus", "queue", "level", "service", "waited", "reason"]


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs, in which order, and which part of that list. Without a value a field does not restrict."""

    user: str | None = None
    states: frozenset[str] = frozenset()
    name: str = ""  # part of the name
    text: str = ""  # part of the name or of the user, in lower or upper case, or the number
    queue: str | None = None
    array_id: int | None = None
    since: float | None = None  # submitted then or later
    until: float | None = None  # submitted then or before
    ended_since: float | None = None  # not over before
    order: Order = "job_id"
    descending: bool = False
    after_id: int = 0  # by number: only jobs beyond this one in the order asked for; 0: all
    offset: int = 0
    limit: int | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the query of `GET /v1/jobs`."""
        return {
            "user": self.user,
            "state": sorted(self.states) or None,
            "name": self.name or None,
            "queue": self.queue,
            "array_id": self.array_id,
            "since": self.since,
            "until": self.until,
            "newest": "true" if self.descending else None,
            "after_id": self.after_id,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class JobView:
    """One job. Times are seconds since 1970; `state` is the name of a JobState. Lists leave fields with a default out."""

    job_id: int
    name: str
    user: str
    state: str
    gpus: int
    queue: str
    submitted_at: float
    started_at: float | None
    preemptions: int
    attempt: int = 0
    exit_code: int | None = None
    ended_at: float | None = None
    service_gpu_s: float = 0.0
    reason: str = ""
    level: int = 0
    command: str = ""
    nodes: tuple[str, ...] = ()
    progress: dict[str, Any] = field(default_factory=dict)
    array_id: int | None = None
    array_index: int | None = None
    message: str = ""  # why it failed, or which limit it reached
    first_started_at: float | None = None
    wait_s: float | None = None  # all that it waited; None: not known
    gpu_hours: float | None = None  # that it is charged for; None: not known
    position: int | None = None  # in lists: among the jobs that wait for their turn, in the policy's order
    notes: tuple[str, ...] = ()  # what was accepted but is not enforced
    unsaved_s: float | None = None  # while it runs: what it has run since its last checkpoint, which a stop may lose
    spec: dict[str, Any] | None = None  # its job file, in the answer about one job
    notice_until: float | None = None  # when its borrowed GPUs are taken back; None: it is under no notice
    notice_for: str | None = None  # the queue that gets them
    slice: dict[str, Any] | None = None  # there too: what it holds of the fabric, its certificate and its plan


# What lists of the queue, and the history, show of a job. In the history `started_at` is its first start, `nodes` where it ran last.
QUEUE_FIELDS: Final = (
    *("job_id", "name", "user", "state", "gpus", "queue", "level", "service_gpu_s", "reason", "submitted_at"),
    *("started_at", "attempt", "preemptions", "position", "progress"),
)
HISTORY_FIELDS: Final = (
    *("job_id", "user", "queue", "name", "state", "submitted_at", "started_at", "ended_at"),
    *("nodes", "gpus", "wait_s", "gpu_hours", "preemptions", "exit_code", "message"),
)


def job_view(row: Mapping[str, Any]) -> JobView:
    """Return a job from its JSON. Fields that this client does not know are left out: a newer manager may have more."""
    names = {field.name for field in fields(JobView)}
    return JobView(**{name: value for name, value in row.items() if name in names})
