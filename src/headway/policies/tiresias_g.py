"""tiresias-g: discretised 2D-Gittins (Tiresias, section 3.2.3).

Queues as in tiresias-l. All but the last are sorted by the Gittins index with the queue's upper bound as the service quantum; the last
is first come, first served by first start. As in gittins, a job that runs counts with twice its index.
"""

from math import inf
from typing import Any

from headway.core.history import gittins_within, held
from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options
from headway.policies import DefragmentAfter, Quantum
from headway.policies.gittins import Distribution
from headway.policies.tiresias_l import Promote, Queues, Threshold, Thresholds, queue_fields


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By queue, then by index (attained service where nothing is known), or first start in the last queue."""
    if job.level == len(options.thresholds) - 1:
        return float(job.level), job.first
    attained = served(job, now)
    index = held(job, gittins_within(options.history, attained, options.thresholds[job.level]))
    return float(job.level), -index if index > 0.0 else attained


SUMMARY = "discretised 2D-Gittins"


def make(
    queues: Queues = None,
    threshold: Threshold = None,
    thresholds: Thresholds = None,
    promote: Promote = inf,
    distribution: Distribution = None,
    quantum: Quantum = inf,
    defragment_after: DefragmentAfter = inf,
) -> Policy:
    """Return the policy."""
    return Policy(
        "tiresias-g",
        key,
        change=crossing,
        dynamic_keys=True,
        **{"learns": True} | queue_fields("tiresias-g", queues, threshold, thresholds),
        promote=promote,
        samples=distribution,
        quantum=quantum,
        defragment_after=defragment_after,
    )
