"""Sort keys of jobs and teams, and the times at which they change: minimum run times, queues by attained service, decayed usage.

Times are compared, never services, and service snaps to the threshold it crosses: no epsilon, no drift (Tiresias, section 3.2.3).
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.jobs import run_s
from headway.core.tables.options import CHANGE_SIGNATURE, PREEMPT_AT_SIGNATURE, Options
from headway.job_state import JobState

AUTO_MULTIPLE: Final = 4.0  # minimum run time `auto`: a multiple of what stopping a job and starting it again costs
INSTANT_S: Final = 1e-9  # times closer than that are one instant
LEAST_RUN_S: Final = 1.0  # a job that has just started is stopped for a guarantee after this time at the earliest


@jit
def min_runtime(job: Any, options: Options) -> float:
    """Return the seconds that an attempt of the job runs before it may be preempted (infinity: it never is)."""
    return max(options.min_runtime, job.min_runtime, job.turns * (job.save + job.resume))


@jit
def is_non_preemptible(job: Any, options: Options) -> bool:
    """Return whether the job can never be preempted."""
    return min_runtime(job, options) == np.inf


@jit
def preemptible_from(job: Any, options: Options) -> float:
    """Return when the minimum run time of a running job is over."""
    return job.started + min_runtime(job, options)


@jit
def keeps_gpus(job: Any, now: float, options: Options) -> bool:
    """Return whether a job with GPUs may not be preempted now."""
    return job.state == JobState.STARTING or not options.preempts or now + INSTANT_S < preemptible_from(job, options)


@jit
def notice_over_at(job: Any) -> float:
    """Return when a job under notice is to be stopped: no job runs for less than a second (infinity: no notice, or not running)."""
    return max(job.until, job.started + LEAST_RUN_S) if job.state == JobState.RUNNING else np.inf


@jit
def resumes_in(job: Any) -> float:
    """Return the seconds from the next start of a waiting job until it runs: its first start is free."""
    return job.resume if job.attempt > 0 else 0.0


@jit
def time_left(job: Any, now: float, options: Options) -> float:
    """Return the seconds left of the job's time limit (infinity: none)."""
    return max(0.0, min(job.limit, options.limit) - run_s(job, now))


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


@jit(PREEMPT_AT_SIGNATURE)
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
def next_check(options: Options, at: float, now: float) -> float:
    """Return when a job is checked whose minimum run time is over at `at`: policies with a quantum and dynamic keys check at its end."""
    if not options.dynamic_keys or options.quantum == np.inf:
        return at
    check = np.ceil(at / options.quantum) * options.quantum
    return check if check > now else check + options.quantum


@jit
def usage_at(team: Any, now: float, half_life: float) -> float:
    """Return the GPU-seconds that a team has held, halved at every multiple of the half-life; 0 without a half-life.

    All teams are halved at the same times, so halving never changes their order.
    """
    if half_life == np.inf:
        return 0.0
    held, first, last = team.used + team.leaving, np.floor(team.since / half_life), np.floor(now / half_life)
    if first == last:
        return team.usage + (now - team.since) * held
    usage = (team.usage + ((first + 1.0) * half_life - team.since) * held) / 2.0
    decay = 0.5 ** (last - first - 1.0)
    return usage * decay + half_life * held * (1.0 - decay) + (now - last * half_life) * held
