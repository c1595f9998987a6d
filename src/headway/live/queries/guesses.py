"""What a forecast has to guess: how long jobs run, and what stopping them and starting them again takes.

Run times come from a job's own progress reports, if it makes any. Otherwise they are drawn from those of the jobs before it that ran longer
than it has so far. Jobs that still run (or were cancelled) count as what they are, jobs that take at least so long (Kaplan and Meier):
without them the guess would be too short, because short jobs end first. A time limit bounds it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.attempts import Mean
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

Seconds = NDArray[np.float64]
MOST_SAMPLES = 1000
SHORTEST_S = 1e-3
UNKNOWN_S = 1.0  # of a job that has hardly begun, where nothing is known
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)  # a job that was cancelled would have run longer


class RunTimes:
    """The distribution of run times, by jobs of which some have ended and others still run. The one that ran longest counts as ended."""

    def __init__(self, ran_s: Seconds, ended: NDArray[np.bool_]) -> None:
        order, n = np.lexsort((~ended, ran_s)), len(ran_s)
        self.times, ends = ran_s[order], ended[order].astype(float)
        ends[-1:] = 1.0
        self.lives = np.concatenate(
            [[1.0], np.cumprod(1.0 - ends / (n - np.arange(n)))]
        )  # the share beyond the first i

    def left_s(self, ran_s: Seconds, share: Seconds) -> Seconds:
        """Return the remaining seconds of jobs by their run times, at a share (0 to 1) of the jobs that ran as long.

        A job that ran longer than all others is expected to run as long again.
        """
        i = np.searchsorted(self.times, ran_s, side="right")
        is_known = i < len(self.times)
        beyond = np.searchsorted(-self.lives, -share * self.lives[i], side="left")
        at = self.times[np.where(is_known, beyond - 1, 0)] if len(self.times) else ran_s
        seconds: Seconds = np.where(is_known, at - ran_s, np.maximum(UNKNOWN_S, ran_s))
        return seconds


class Guesses:
    """Run times left and costs of every job of the cluster, and of a new one in the last place."""

    def __init__(self, state: ClusterState, spec: JobSpec, now: float) -> None:
        ran = [job for job in list(state.jobs.values())[-MOST_SAMPLES:] if job.first_started is not None]
        ended = np.array([job.final in ENDS for job in ran], bool)
        self.run_times = RunTimes(np.array([worked_s(state, job, now) for job in ran]), ended)
        self.possible = bool(ended.any())
        n = len(state.jobs) + 1
        self.ran_s, self.told_s = np.zeros(n), np.full(n, np.nan)
        for job in state.active_jobs():
            self.ran_s[job.row] = worked_s(state, job, now)
            left_s = job.attempts.left_s(job.progress.step)
            self.told_s[job.row] = np.nan if left_s is None else left_s
        jobs = [*state.jobs.values(), None]
        self.save = _costs(jobs, spec, lambda job: job.attempts.save)
        self.resume = _costs(jobs, spec, lambda job: job.attempts.resume)
        self.saved = np.array([job is not None and job.attempts.save.count > 0 for job in jobs])

    def left_s(self, limit_s: Seconds, share: Seconds) -> Seconds:
        """Return the remaining seconds of each job, at this share of the distribution."""
        guessed = self.run_times.left_s(self.ran_s, share)
        left_s = np.where(np.isnan(self.told_s), guessed, self.told_s)
        bounded: Seconds = np.maximum(SHORTEST_S, np.minimum(left_s, limit_s - self.ran_s))
        return bounded


def worked_s(state: ClusterState, job: Job, now: float) -> float:
    """Return the seconds that a job ran, without its restarts, which a forecast adds itself."""
    again = max(0, state.attempt(job) - 1) if job.attempts.furthest >= 0 else 0
    return max(0.0, state.run_s(job, now) - again * job.attempts.resume.value)


def _costs(jobs: list[Job | None], spec: JobSpec, measured: Callable[[Job], Mean]) -> Seconds:
    """Return the seconds to save or to resume: measured, or the mean of jobs with as many GPUs, or of all jobs."""
    by_size: dict[int, Mean] = {}
    for job in jobs:
        if job is not None and measured(job).count:
            for size in (job.spec.gpus, 0):
                by_size[size] = by_size.get(size, Mean()).plus(measured(job).value)
    every = by_size.get(0, Mean())
    costs = []
    for job in jobs:
        own, gpus = (Mean(), spec.gpus) if job is None else (measured(job), job.spec.gpus)
        costs.append(own.value if own.count else by_size.get(gpus, every).value)
    return np.array(costs)
