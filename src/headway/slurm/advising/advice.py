"""Replay of a Slurm cluster's jobs under other policies in the simulator: what would change, and for which users.

The replay of Slurm's own order (first come first served, with backfilling by time limits) beside what was measured shows how far the rest
can be trusted. Jobs may have been preemptible or not, which Slurm does not know: policies that preempt are replayed both ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io import units
from headway.slurm.snapshot import SlurmJob

OURS = (
    "backfill",
    "fifo",
    "best-effort",
)  # orders that a Slurm can have; the one that comes closest is taken for its own
SHORTEST_S = 1e-3
MUCH = 0.1  # a job is better or worse off when its completion time changes by more than this share
TRUSTED = 0.25  # a replay whose mean is further off than this says little
SIZES = ((1, 1), (2, 4), (5, 8), (9, 32), (33, 1_000_000))
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "DEADLINE")


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Some jobs: their mean completion time as measured and under a policy, and how many are much better or worse off."""

    name: str
    jobs: int
    measured_s: float
    then_s: float
    better: int
    worse: int


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What a policy would have changed."""

    policy: str
    preempts: bool
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    mean_wait_s: float
    preemptions: int
    ratio: float  # mean completion time measured / then, both as the simulator sees them
    users: tuple[JobGroup, ...]
    sizes: tuple[JobGroup, ...]


@dataclass(frozen=True, slots=True)
class QueueAdvice:
    """What was measured, how well the replay does on it, and what other policies would have changed."""

    source: str
    jobs: int
    measured_jct_s: float
    measured_wait_s: float
    replayed_as: str
    replayed_jct_s: float
    error: float  # of the replayed mean completion time
    wait_error_s: float  # mean over jobs of how far the replayed wait is off
    changes: tuple[PolicyChange, ...]
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Past:
    """The jobs to replay, as columns."""

    jobs: list[SlurmJob]
    arrive: NDArray[np.float64]
    run_s: NDArray[np.float64]
    end: NDArray[np.float64]
    counted: NDArray[np.bool_]  # its completion time is known

    def jct(self, end: NDArray[np.float64]) -> NDArray[np.float64]:
        """Completion times of the counted jobs."""
        return (end - self.arrive)[self.counted]


def advise(
    jobs: Sequence[SlurmJob], cluster: Cluster, policies: Sequence[str], placement: str, now: float, source: str
) -> QueueAdvice:
    """Replay the queue."""
    past, caveats = _past(jobs, cluster, now)
    tried = {name: _replay(past, cluster, name, placement, preemptible=False)[0] for name in OURS}
    measured = past.jct(past.end)
    off = {name: abs(float(past.jct(end).mean() / measured.mean()) - 1.0) for name, end in tried.items()}
    own = min(off, key=lambda name: (off[name], OURS.index(name)))
    base = past.jct(tried[own])
    changes = []
    for policy in policies:
        for preempts in (True, False):
            end, preemptions = _replay(past, cluster, policy, placement, preempts)
            changes.append(_change(policy, preempts, past, base, end, preemptions))
    runs, error = past.run_s[past.counted], float(base.mean() / measured.mean() - 1.0)
    if abs(error) > TRUSTED:
        caveats.insert(0, f"the replay of Slurm itself is off by {100 * error:+.0f} %: do not build on the rest")
    return QueueAdvice(
        source=source,
        jobs=int(past.counted.sum()),
        measured_jct_s=float(measured.mean()),
        measured_wait_s=float((measured - runs).mean()),
        replayed_as=own,
        replayed_jct_s=float(base.mean()),
        error=error,
        wait_error_s=float(np.abs(base - measured).mean()),
        changes=tuple(changes),
        caveats=tuple(caveats),
    )


def _past(jobs: Sequence[SlurmJob], cluster: Cluster, now: float) -> tuple[_Past, list[str]]:
    """What can be replayed, and what cannot."""
    asked = [job for job in jobs if job.gpus]
    ran = sorted(
        (job for job in asked if job.started and not job.waits and job.started <= now), key=lambda job: job.submitted
    )
    fit = [job for job in ran if job.gpus <= cluster.total]
    end = np.array([job.ended if job.ended and not job.holds else now for job in fit])
    started = np.array([job.started for job in fit])
    run_s = np.maximum(SHORTEST_S, end - started)
    # A job that was held, or waited for another, arrives when nothing but GPUs kept it.
    arrive = np.array([min(max(job.submitted, job.eligible), job.started) for job in fit])
    counted = np.array([job.state in ENDED for job in fit], np.bool_)
    if not counted.any():
        raise BadInput("no job with GPUs has ended in that time: there is nothing to replay; give a longer --last")
    words = [
        (len(jobs) - len(asked), "left out: {} that asked for no GPU"),
        (len(asked) - len(ran), "left out: {} that did not start: nobody knows for how long"),
        (len(ran) - len(fit), "left out: {} larger than the cluster is now"),
        (int((~counted).sum()), "not averaged, though the GPU time is taken: {} still running, cancelled or requeued"),
    ]
    caveats = [what.format(units.counted(count, "job")) for count, what in words if count]
    caveats.append("nodes are taken to have been there all the time, and a preemption to cost nothing")
    return _Past(fit, arrive, run_s, end, counted), caveats


def _replay(
    past: _Past, cluster: Cluster, policy: str, placement: str, preemptible: bool
) -> tuple[NDArray[np.float64], int]:
    """When each job would have ended, and how often one would have been preempted."""
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy
    from headway.sim.run import Setting, simulate_run
    from headway.workloads.workload import workload

    began, order = float(past.arrive.min()), np.argsort(past.arrive, kind="stable")
    limits = np.array([job.limit_s if job.limit_s else np.inf for job in past.jobs])
    load = workload(
        "Slurm's history",
        (past.arrive - began)[order],
        [past.jobs[k].gpus for k in order],
        past.run_s[order],
        user=[past.jobs[k].user for k in order],
        preemptible=np.full(len(order), preemptible),
        limit_s=np.maximum(limits, past.run_s)[order],
    )
    run = simulate_run(load, cluster, find_policy(policy), find_placement(placement), Setting())
    end = np.empty(len(order))
    end[order] = began + run.jobs["end"]
    return end, int(run.jobs["preemptions"].sum())


def _change(
    policy: str, preempts: bool, past: _Past, base: NDArray[np.float64], end: NDArray[np.float64], preemptions: int
) -> PolicyChange:
    then, runs = past.jct(end), past.run_s[past.counted]
    jobs = [job for job, counts in zip(past.jobs, past.counted, strict=True) if counts]
    users, gpus = np.array([job.user for job in jobs]), np.array([job.gpus for job in jobs])
    by_user = {str(user): users == user for user in np.unique(users)}
    by_size = {_size(low, high): (gpus >= low) & (gpus <= high) for low, high in SIZES}
    return PolicyChange(
        policy=policy,
        preempts=preempts,
        mean_jct_s=float(then.mean()),
        median_jct_s=float(np.median(then)),
        p95_jct_s=float(np.percentile(then, 95)),
        mean_wait_s=float((then - runs).mean()),
        preemptions=preemptions,
        ratio=float(base.mean() / then.mean()),
        users=tuple(_group(name, base[rows], then[rows]) for name, rows in by_user.items()),
        sizes=tuple(_group(name, base[rows], then[rows]) for name, rows in by_size.items() if rows.any()),
    )


def _size(low: int, high: int) -> str:
    last = SIZES[-1][0]
    return f"{low} GPU" if low == high == 1 else f"{low} or more GPUs" if low == last else f"{low}-{high} GPUs"


def _group(name: str, base: NDArray[np.float64], then: NDArray[np.float64]) -> JobGroup:
    better, worse = int((then < base * (1 - MUCH)).sum()), int((then > base * (1 + MUCH)).sum())
    return JobGroup(name, len(base), float(base.mean()), float(then.mean()), better, worse)
