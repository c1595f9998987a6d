"""tiresias-l: discretised 2D-LAS, the policy that Tiresias ships (section 3.2.3).

Queues by attained GPU-time; inside a queue by the time of the first start, not of submission: a job that did not fit was skipped, and the
order of submission would then preempt for nothing. PROMOTEKNOB lifts a job that waited too long.
"""

from typing import Any

from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.options import Options

THRESHOLD_GPU_S = 3200.0  # the testbed's, section 5.1


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By queue, then by first start."""
    return float(job.level), job.first


POLICY = Policy("tiresias-l", key, change=crossing, tidies=True, thresholds=(THRESHOLD_GPU_S,))
