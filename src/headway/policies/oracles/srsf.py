"""srsf: shortest remaining service first, service being GPU-time (Tiresias, section 3.1). An oracle: it knows how long jobs take."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import left
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By the GPU-time left."""
    return left(job, now) * job.gpus, 0.0


POLICY = Policy("srsf", key, moving=True, oracle=True, clears=3600.0)
