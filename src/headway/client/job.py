"""A job as people see it: what the manager answers, and what commands print."""

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


def job_view(row: Mapping[str, Any]) -> JobView:
    """A job from its JSON; fields that this client does not know are left out, so that a newer manager can be asked."""
    known = {field.name for field in fields(JobView)}
    return JobView(**{name: value for name, value in row.items() if name in known})
