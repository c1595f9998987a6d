"""srtf: shortest remaining time first. An oracle: it knows how long jobs take."""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.jobs import left
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By the time left."""
    return left(job, now), 0.0


POLICY = Policy("srtf", key, moving=True, oracle=True, tidies=True)
