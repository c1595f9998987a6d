"""2d-las: least attained service in two dimensions, GPUs times time (Tiresias, section 3.2.1)."""

from math import inf
from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options
from headway.policies import DefragmentAfter, Quantum


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By GPU-seconds attained."""
    return served(job, now), 0.0


SUMMARY = "least attained service in GPU-time"


def make(quantum: Quantum = 60.0, defragment_after: DefragmentAfter = inf) -> Policy:
    """Return the policy."""
    return Policy("2d-las", key, dynamic_keys=True, quantum=quantum, defragment_after=defragment_after)
