"""How a job sorts, and when that changes by itself: its minimum run time, and queues by attained service.

Times are compared, never services, and service snaps to the threshold it crosses: no epsilon, no drift (Tiresias, section 3.2.3).
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.options import CHANGE_SIGNATURE, WORTH_SIGNATURE, Options
from headway.job_state import JobState

TURNS: Final = 4.0  # a turn, as a multiple of what stopping a job and starting it again costs


@jit
def turn(job: Any, options: Options) -> float:
    """Seconds that an attempt of the job runs before it may lose its GPUs."""
    return max(options.min_runtime, job.min_runtime, job.turns * (job.save + job.resume))


@jit
def free_at(job: Any, options: Options) -> float:
    """When a running job may lose its GPUs."""
    return job.started + turn(job, options)


@jit
def pinned(job: Any, now: float, options: Options) -> bool:
    """Whether a job with GPUs must keep them."""
    return job.state == JobState.STARTING or not options.preempts or now < free_at(job, options)


@jit
def set_key(job: Any, now: float, options: Options, key: Any) -> None:
    """Write the job's key into its row."""
    job.k1, job.k2 = key(job, now, options)


@jit(CHANGE_SIGNATURE)
def crossing(job: Any, now: float, options: Options) -> float:
    """When the job crosses its threshold (running), or has waited PROMOTEKNOB times what it ran (waiting)."""
    if job.state == JobState.RUNNING:
        return job.since + (options.thresholds[job.level] - job.service) / job.gpus
    if job.state == JobState.PENDING and job.level > 0 and options.promote < np.inf:
        return job.since + max(0.0, options.promote * job.ran - job.waited)
    return np.inf


@jit(CHANGE_SIGNATURE)
def never(job: Any, now: float, options: Options) -> float:
    """For policies whose keys do not change by themselves."""
    return np.inf


@jit(WORTH_SIGNATURE)
def rented(job: Any, stops: Any, now: float, options: Options) -> float:
    """When a waiting job will have waited for as much GPU-time as stopping others costs: to rent, then to buy (ski rental)."""
    return job.queued + options.rent * stops.gpu_s / job.gpus


@jit
def cross(job: Any, options: Options, late: bool) -> None:
    """Demote a running job to the next queue; promote a waiting one to the first, both counters at zero again.

    With a quantum a crossing is seen late: then the service beyond the threshold counts.
    """
    if job.state == JobState.RUNNING:
        if not late:
            job.service = options.thresholds[job.level]
        job.level += 1
    else:
        job.level = 0
        job.service = 0.0
        job.ran = 0.0
        job.waited = 0.0


@jit
def next_look(options: Options, at: float, now: float) -> float:
    """When a job whose turn is over at `at` is looked at, after `now`: policies with a quantum and moving keys do so at its end only."""
    if not options.moving or options.quantum == np.inf:
        return at
    look = np.ceil(at / options.quantum) * options.quantum
    return look if look > now else look + options.quantum
