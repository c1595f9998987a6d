"""A policy that looks further, in forty lines: jobs that are usually short go first, and stop others where that pays.

What is usual it learns from the jobs that ended, by user and name, without any estimate (after QSSF of Helios, Hu et al., SC'21).

As an object:          python usual.py
On the command line:   headway compare TRACE --cluster 15x4 --policies "fifo,usual:Usual,usual:Usual?trust=10&rent=1"
Live:                  headway serve --policy usual:Usual
"""

import math

import numpy as np

import headway
from headway.job_state import JobState
from headway.workloads.workload import Workload, workload

MEAN = 0  # of the numbers that it keeps of a group: the mean logarithm of the GPU-seconds that its jobs took
MEMORY = 50  # jobs that the mean goes back
SOON_S = 0.001


class Usual:
    """Fewest expected GPU-seconds first. `trust`: how many jobs of a group say as much as what is usual for all jobs."""

    group = ("user", "name")
    learns = True  # waiting jobs are sorted again as jobs end
    auto_min_runtime = 900.0

    def __init__(self, trust: float = 3.0, rent: float = 0.5) -> None:
        def key(job, now, options):
            mine, every = options.history.groups[job.group], options.history.groups[0]
            mean = (mine.jobs * mine.own[MEAN] + trust * every.own[MEAN]) / (mine.jobs + trust)
            attained = job.total + (now - job.since) * job.gpus * (job.state == JobState.RUNNING)
            expected = 60.0 + math.exp(mean)
            while attained >= expected:  # longer than usual
                expected *= 4.0
            return expected, job.submit

        def change(job, now, options):  # when it will have run for as long as was expected
            if job.state != JobState.RUNNING:
                return math.inf
            return max(now + SOON_S, job.since + (job.k1 - job.total) / job.gpus)

        def preempt_at(
            job, stops, now, options
        ):  # only for one that is clearly shorter than all of them, and has waited
            return math.inf if 2.0 * job.k1 > stops.k1 else job.queued + rent * stops.gpu_s / job.gpus

        def ended(job, now, group, options):
            group.own[MEAN] += (math.log(1.0 + job.total) - group.own[MEAN]) / min(group.jobs, MEMORY)

        self.key, self.change, self.preempt_at, self.ended = key, change, preempt_at, ended


def made_up(jobs: int = 600, users: int = 20) -> Workload:
    """Jobs of users, each of whom has a usual length."""
    chance = np.random.default_rng(1)
    usual, user = chance.lognormal(7.0, 2.0, users), chance.integers(users, size=jobs)
    submit, gpus = chance.exponential(300.0, jobs).cumsum(), chance.choice([1, 1, 2, 4, 8], jobs)
    names = [f"user{one}" for one in user]
    return workload("made up", submit, gpus, usual[user] * chance.uniform(0.5, 2.0, jobs), user=names)


def main() -> None:
    """Compare it with first come, first served, with Tiresias and with the default."""
    policies = ["fifo", "tiresias-l", "headway", Usual()]
    for result in headway.compare(made_up(), "4x8", policies, preemption_cost="60s"):
        print(f"{result.summary['policy']:12} mean JCT {result.summary['jct_s']['mean']:8,.0f} s")


if __name__ == "__main__":
    main()
