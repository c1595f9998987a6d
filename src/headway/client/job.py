"""The job type that the manager's API returns and that commands print."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class JobView:
    """One job. Times are seconds since 1970; `state` is the name of a JobState."""

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
    notes: tuple[str, ...] = ()  # what was accepted but is not enforced
    unsaved_s: float | None = None  # while it runs: what it has run since its last checkpoint, which a stop may lose
    spec: dict[str, Any] | None = None  # its job file, in the answer about one job
    notice_until: float | None = None  # when its borrowed GPUs are taken back; None: it is under no notice
    notice_for: str | None = None  # the queue that gets them
    slice: dict[str, Any] | None = None  # there too: what it holds of the fabric, its certificate and its plan


def job_view(row: Mapping[str, Any]) -> JobView:
    """A job from its JSON; fields that this client does not know are left out, so that a newer manager can be asked."""
    known = {field.name for field in fields(JobView)}
    return JobView(**{name: value for name, value in row.items() if name in known})
