"""2d-las: least attained service in two dimensions, GPUs times time (Tiresias, section 3.2.1)."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By GPU-seconds attained."""
    return served(job, now), 0.0


POLICY = Policy("2d-las", key, moving=True, tidies=True, quantum=60.0)
