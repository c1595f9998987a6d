"""sjf: shortest job first, without preemption. An oracle: it knows how long jobs take."""

from typing import Any

from headway.core.jobs import left
from headway.core.options import Options
from headway.core.protocols import Policy


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By length: all of it is left while a job waits."""
    return left(job, now), 0.0


POLICY = Policy("sjf", key, preempts=False, oracle=True)
