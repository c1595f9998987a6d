"""headway: short jobs first without being told which are short, and no stop that costs more than it gives. The default.

Queues by attained GPU-time, each four times as long as the one before, so that one set of bounds serves minutes and months. A job is
stopped only for one of an earlier queue, after a turn of at least a quarter of an hour, and once the other has waited for as much GPU-time
as the stop costs (`rent`). One that has waited for an hour for whole nodes has smaller jobs moved (`clears`). A job that has waited long
for what it ran moves up, queue by queue, until it is due: from then on only those that were due earlier come before it, so that nobody
starves. One that reports its progress is in the queue of the GPU-time that it has left, until that turns out to be wrong.
"""

from math import floor, inf, log
from typing import Any

from headway.core.compiler.jit import jit
from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.jobs import left, run_s
from headway.core.tables.options import Options
from headway.job_state import JobState

FIRST_GPU_S = 800.0  # the first queue ends here
GROWTH = 4.0  # each further one is so many times as long
QUEUES = 12
TURN_S = 900.0
CLEARS_S = 3600.0
SOON_S = 1e-3  # a timer never rings at the time at which it is set
ROUNDING = 1e-9  # so that a step is there at the time at which it was to come
PATIENCE = 64.0  # a job that has waited for so many times its run time (and a turn) begins to move up


@jit
def waited(job: Any, now: float) -> float:
    """Seconds that it has waited in all."""
    return job.pending + (now - job.since) * (job.state == JobState.PENDING)


@jit
def credit(job: Any, now: float) -> float:
    """Queues that a job has moved up for waiting."""
    return floor(log(1.0 + waited(job, now) / (PATIENCE * (run_s(job, now) + TURN_S))) / log(GROWTH) + ROUNDING)


@jit
def believed(job: Any, now: float) -> bool:
    """Whether it reports what is left, and has not run beyond it."""
    return left(job, now) > 0.0


@jit
def queue_of_rest(job: Any, now: float) -> float:
    """The queue of the GPU-time that it has left, in between two where it is; whatever it claims, there is none after the last."""
    return min(QUEUES - 1.0, max(0.0, 1.0 + log(left(job, now) * job.gpus / FIRST_GPU_S) / log(GROWTH)))


@jit
def queue(job: Any, now: float) -> float:
    """The queue that it is in, before what it has waited counts."""
    return queue_of_rest(job, now) if believed(job, now) else float(job.level)


@jit
def bound(job: Any, now: float) -> float:
    """Seconds that it waits in all until GPUs are due to it: it has then moved up beyond the first queue. An attempt that runs does not
    count, so that it stays due while it runs.
    """
    ran = run_s(job, now) - (now - job.started) * (job.state == JobState.RUNNING)
    return PATIENCE * (ran + TURN_S) * (GROWTH ** (floor(queue(job, now)) + 1.0) - 1.0)


@jit
def is_due(job: Any, now: float) -> bool:
    """Whether it has waited for that long."""
    return waited(job, now) >= bound(job, now) * (1.0 - ROUNDING)


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By queue, those that run first; then the smaller job. Before all of them those that are due, the first to be so first."""
    if is_due(job, now):
        return -1.0, job.submit + bound(job, now)
    level = queue(job, now) - credit(job, now)
    return level + 0.5 * (job.state == JobState.PENDING), float(job.gpus)


def change(job: Any, now: float, options: Options) -> float:
    """When it comes into another queue: for what it ran, has left, or waited."""
    if job.state == JobState.PENDING:
        if is_due(job, now):
            return inf
        steps = GROWTH ** (credit(job, now) + 1.0)
        return max(now + SOON_S, job.since + (steps - 1.0) * PATIENCE * (run_s(job, now) + TURN_S) - job.pending)
    if job.state == JobState.RUNNING and believed(job, now):
        return now + max(SOON_S, left(job, now) / 2.0 / job.rate)
    return crossing(job, now, options)


POLICY = Policy(
    "headway",
    key,
    change=change,
    thresholds=tuple(FIRST_GPU_S * GROWTH**i for i in range(QUEUES - 1)),
    least_turn=TURN_S,
    rent=0.35,
    clears=CLEARS_S,
    reports=True,
)
