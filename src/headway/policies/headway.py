"""headway: short jobs first without run-time estimates, and no preemption that costs more than it gains. The default.

Jobs are in queues by attained GPU-time. Each queue is four times as long as the one before: one set of bounds serves minutes and months.
A waiting job preempts only jobs of later queues, after their minimum run time of at least 15 minutes, and once it has waited in
proportion to their cost and size (`preempt_at`). After 20 minutes of waiting for whole nodes, smaller jobs are migrated for it
(`defragment_after`).

- Run times that vary little: jobs are served first come, first served; attained GPU-time then says little about the rest (`is_usual`).
- Starvation: a job that has waited for MOST_WAIT times its run time is due. Due jobs come before all others, ordered by due time.
- Progress reports: the queue of a job that reports progress follows from its remaining GPU-time, until the report turns out to be wrong.
"""

from math import inf, log
from typing import Annotated, Any

from headway.core.compiler.jit import jit
from headway.core.keys import crossing
from headway.core.protocols import Policy
from headway.core.tables.groups import EVERY
from headway.core.tables.jobs import left, run_s
from headway.core.tables.options import Options
from headway.io.options import Option, number_or_0, show_number
from headway.job_state import JobState
from headway.policies import DefragmentAfter

FIRST_GPU_S = 800.0  # bound of the first queue in GPU-seconds
GROWTH = 4.0  # ratio of the bounds of two neighbouring queues
QUEUES = 12
MIN_RUNTIME_S = 900.0  # minimum run time
SOON_S = 1e-3  # a timer never rings at the time at which it is set
ROUNDING = 1e-9  # a job is due at the time of its timer, in spite of rounding
# Chosen by the first table of docs/results/headway.md; decision 0113 has the values that were tried.
MOST_WAIT = 192.0  # a job is due once it has waited for MOST_WAIT * (run time + MIN_RUNTIME_S)
GPU_PATIENCE_S = 10.0  # seconds that a job waits for each GPU that it takes from others
MOST_PATIENCE_S = 3600.0  # and at most this long
MEMORY = 500.0  # ended jobs that count: moments of run times decay by 1 / MEMORY per job
LEAST_JOBS = 100  # with fewer ended jobs the variation is unknown: short jobs end first
LEAST_VARIATION = 0.5  # squared coefficient of variation of run times; 1: attained GPU-time says nothing
OUTLIER = 2.0  # a job that takes longer than OUTLIER times the mean run time is not a usual job


@jit
def waited(job: Any, now: float) -> float:
    """Return the seconds that a job has waited in all its waits."""
    return job.pending + (now - job.since) * (job.state == JobState.PENDING)


@jit
def believed(job: Any, now: float) -> bool:
    """Return whether the job reports its remaining work and has not run beyond it."""
    return left(job, now) > 0.0


@jit
def queue_of_rest(job: Any, now: float) -> float:
    """Return the queue of the remaining GPU-time, as a fraction between two queues; at most the last queue."""
    return min(QUEUES - 1.0, max(0.0, 1.0 + log(left(job, now) * job.gpus / FIRST_GPU_S) / log(GROWTH)))


@jit
def queue(job: Any, now: float) -> float:
    """Return the job's queue: by its remaining GPU-time if that is known, else by its attained GPU-time."""
    return queue_of_rest(job, now) if believed(job, now) else float(job.level)


@jit
def is_usual(job: Any, now: float, options: Options) -> bool:
    """Return whether run times of ended jobs vary little and this job is not known to take much longer than they did."""
    past = options.history.groups[EVERY].own
    count, total, squares = past[0], past[1], past[2]
    takes = run_s(job, now) + (left(job, now) if believed(job, now) else 0.0)
    alike = squares * count < (1.0 + LEAST_VARIATION) * total * total
    return count >= LEAST_JOBS and alike and takes * count < OUTLIER * total


@jit
def bound(job: Any, now: float, options: Options) -> float:
    """Return the seconds of waiting, in all, after which the job is due. A usual job stays due while it runs; other jobs get a turn."""
    usual_attempt_s = (now - job.started) * (job.state == JobState.RUNNING and is_usual(job, now, options))
    return MOST_WAIT * (run_s(job, now) - usual_attempt_s + MIN_RUNTIME_S)


@jit
def is_due(job: Any, now: float, options: Options) -> bool:
    """Return whether the job has waited for its bound."""
    return waited(job, now) >= bound(job, now, options) * (1.0 - ROUNDING)


def ended(job: Any, now: float, group: Any, options: Options) -> None:
    """Add the run time of an ended job to the decayed count, sum and sum of squares of run times."""
    if job.attempt > 0:
        for power in range(3):
            group.own[power] = group.own[power] * (1.0 - 1.0 / MEMORY) + run_s(job, now) ** power


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """Order due jobs by due time, usual jobs by submission, other jobs by queue and size; running before waiting jobs."""
    waits = 0.5 * (job.state == JobState.PENDING)
    if is_due(job, now, options):
        return -1.0, job.submit + bound(job, now, options)
    if is_usual(job, now, options):
        return waits, job.submit
    return queue(job, now) + waits, float(job.gpus)


def change(job: Any, now: float, options: Options) -> float:
    """Return when the job becomes due or changes its queue."""
    if job.state == JobState.PENDING:
        wait_s = bound(job, now, options) - waited(job, now)
        return inf if is_due(job, now, options) else now + max(SOON_S, wait_s)
    if job.state == JobState.RUNNING and believed(job, now):
        return now + max(SOON_S, left(job, now) / 2.0 / job.rate)
    return crossing(job, now, options)


def preempt_at(job: Any, stops: Any, now: float, options: Options) -> float:
    """Return when stopping jobs pays: after a wait for the cost (ski rental) and, unless all are migrated, for their GPUs.

    A large job that is preempted does not get its GPUs back soon.
    """
    patience_s = min(MOST_PATIENCE_S, GPU_PATIENCE_S * stops.gpus) * (stops.jobs > stops.moves)
    return job.queued + patience_s + options.rent * stops.gpu_s / job.gpus


SUMMARY = "queues by attained GPU-time, four times as long each; preempts jobs only if that pays (the default)"
Rent = Annotated[
    float,
    Option(
        "a waiting job preempts others once it has waited for this multiple of the GPU-time that this costs",
        number_or_0,
        show_number,
    ),
]


def make(rent: Rent = 0.3, defragment_after: DefragmentAfter = 1200.0) -> Policy:
    """Return the policy."""
    return Policy(
        "headway",
        key,
        change=change,
        preempt_at=preempt_at,
        ended=ended,
        thresholds=tuple(FIRST_GPU_S * GROWTH**i for i in range(QUEUES - 1)),
        auto_min_runtime=MIN_RUNTIME_S,
        rent=rent,
        defragment_after=defragment_after,
        reports=True,
    )
