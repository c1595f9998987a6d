"""las: least attained service by time alone: the job that ran the shortest so far."""

from math import inf
from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import ran
from headway.core.tables.options import Options
from headway.policies import DefragmentAfter, Quantum


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By seconds run."""
    return ran(job, now), 0.0


SUMMARY = "least attained service: the job that ran the shortest so far"


def make(quantum: Quantum = 60.0, defragment_after: DefragmentAfter = inf) -> Policy:
    """Return the policy."""
    return Policy("las", key, dynamic_keys=True, quantum=quantum, defragment_after=defragment_after)
