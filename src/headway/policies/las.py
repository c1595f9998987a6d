"""las: least attained service by time alone: the job that ran the shortest so far."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import ran
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By seconds run."""
    return ran(job, now), 0.0


POLICY = Policy("las", key, moving=True, tidies=True, quantum=60.0)
