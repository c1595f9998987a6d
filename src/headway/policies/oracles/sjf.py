"""sjf: shortest job first, without preemption. An oracle: it knows how long jobs take."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import left
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By length: all of it is left while a job waits."""
    return left(job, now), 0.0


SUMMARY = "shortest job first, without preemption (oracle)"


def make() -> Policy:
    """Return the policy."""
    return Policy("sjf", key, preempts=False, reserves=False, oracle=True)
