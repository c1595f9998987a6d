"""srtf: shortest remaining time first. An oracle: it knows how long jobs take."""

from math import inf
from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import left
from headway.core.tables.options import Options
from headway.policies import DefragmentAfter, Quantum


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By the time left."""
    return left(job, now), 0.0


SUMMARY = "shortest remaining time first (oracle)"


def make(quantum: Quantum = inf, defragment_after: DefragmentAfter = inf) -> Policy:
    """Return the policy."""
    return Policy("srtf", key, dynamic_keys=True, oracle=True, quantum=quantum, defragment_after=defragment_after)
