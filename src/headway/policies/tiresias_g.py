"""tiresias-g: discretised 2D-Gittins (Tiresias, section 3.2.3).

Queues as in tiresias-l. All but the last are sorted by the Gittins index with the queue's upper bound as the service quantum; the last
is first come, first served by first start. As in gittins, a job that runs counts with twice its index.
"""

from typing import Any

from headway.core.history import gittins_within, held
from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options
from headway.policies.tiresias_l import THRESHOLD_GPU_S


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By queue, then by index (attained service where nothing is known), or first start in the last queue."""
    if job.level == len(options.thresholds) - 1:
        return float(job.level), job.first
    attained = served(job, now)
    index = held(job, gittins_within(options.history, attained, options.thresholds[job.level]))
    return float(job.level), -index if index > 0.0 else attained


POLICY = Policy(
    "tiresias-g", key, change=crossing, moving=True, learns=True, tidies=True, thresholds=(THRESHOLD_GPU_S,)
)
