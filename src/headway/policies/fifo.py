"""fifo: first come, first served, without preemption; a job that does not fit blocks the jobs behind it (YARN's capacity scheduler)."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By time of submission."""
    return job.submit, 0.0


SUMMARY = "first come, first served; a job that does not fit blocks the jobs behind it"


def make() -> Policy:
    """Return the policy."""
    return Policy("fifo", key, preempts=False, reserves=False, head_of_line_blocking=True)
