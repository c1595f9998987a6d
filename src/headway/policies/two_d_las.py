"""2d-las: least attained service in two dimensions, GPUs times time (Tiresias, section 3.2.1)."""

from typing import Any

from headway.core.jobs import served
from headway.core.options import Options
from headway.core.protocols import Policy


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By GPU-seconds attained."""
    return served(job, now), 0.0


POLICY = Policy("2d-las", key, moving=True, quantum=60.0)
