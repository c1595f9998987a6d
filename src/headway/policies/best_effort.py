"""best-effort: first come, first served, without preemption; a job that does not fit is passed over."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By time of submission."""
    return job.submit, 0.0


SUMMARY = "first come, first served; a job that does not fit is passed over"


def make() -> Policy:
    """Return the policy."""
    return Policy("best-effort", key, preempts=False, reserves=False)
