"""srsf: shortest remaining service first, service being GPU-time (Tiresias, section 3.1). An oracle: it knows how long jobs take."""

from math import inf
from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import left
from headway.core.tables.options import Options
from headway.policies import DefragmentAfter, Quantum


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By the GPU-time left."""
    return left(job, now) * job.gpus, 0.0


SUMMARY = "shortest remaining GPU-time first (oracle)"


def make(quantum: Quantum = inf, defragment_after: DefragmentAfter = 3600.0) -> Policy:
    """Return the policy."""
    return Policy("srsf", key, dynamic_keys=True, oracle=True, quantum=quantum, defragment_after=defragment_after)
