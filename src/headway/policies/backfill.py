"""backfill: first come, first served, without preemption; others pass the first in line only if that does not delay it (EASY).

What a job takes at most is what it asked for, or `limit` where it did not say, as Slurm takes the limit of the partition.
"""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By time of submission."""
    return job.submit, 0.0


POLICY = Policy("backfill", key, preempts=False)
