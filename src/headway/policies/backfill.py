"""backfill: first come, first served, without preemption; others pass the first in line only if that does not delay it (EASY).

The longest run time of a job is its time limit or, without one, `limit`, as Slurm uses the limit of the partition.
"""

from math import inf
from typing import Annotated, Any

from headway.core.protocols import Policy
from headway.core.tables.options import Options
from headway.errors import BadInput
from headway.io import units
from headway.io.options import Option, number


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By time of submission."""
    return job.submit, 0.0


SUMMARY = "first come, first served; others pass the first in line only if that does not delay it (EASY, as in Slurm)"


def _read_limit(name: str, text: str) -> float:
    limit = units.seconds(text, name)
    if not limit:
        raise BadInput(f"{name}={text} must be a time above 0, such as 8h")
    return limit


Limit = Annotated[
    float, Option("the longest that a job is taken to run, such as 8h", _read_limit, lambda _: "as jobs ask")
]
Requested = Annotated[
    float,
    Option("time limit of jobs that have none, as a multiple of their run time", number, lambda _: "as the trace says"),
]


def make(limit: Limit = inf, requested: Requested = inf) -> Policy:
    """Return the policy; with `requested` it knows how long jobs take, as an oracle does."""
    return Policy("backfill", key, preempts=False, limit=limit, requested=requested, oracle=requested < inf)
