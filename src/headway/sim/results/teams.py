"""Usage by queue: share, guarantee and use of each queue, borrowed and unused GPUs, and the times of its jobs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.queues import Queue, Queues
from headway.core.events import WAIT_QUOTA
from headway.core.receipts import MICROSECONDS
from headway.core.tables.teams import NO_MOST
from headway.sim.results.timeline import alone_s
from headway.sim.run import Run, TeamsOfRun

HOUR_S = 3600.0


def queue_summaries(run: Run) -> list[dict[str, Any]]:
    """The figures of each queue, those below it included; [] for a run without queues."""
    if run.teams is None:
        return []
    asked = run.teams.queues.shares()
    return [_summary(run, run.teams, queue, asked[queue.name]) for queue in run.teams.queues.as_tree()]


def _summary(run: Run, teams: TeamsOfRun, queue: Queue, share: float) -> dict[str, Any]:
    row, jobs = teams.table[teams.queues.rows[queue.name]], run.jobs
    span = float(jobs["end"].max() - jobs["submit"].min())
    used, borrowed = float(row["gpu_s"]), float(row["borrowed_gpu_s"])
    mine = np.isin(teams.queue, [teams.queues.rows[name] for name in _below(teams.queues, queue.name)])
    figures = {
        "queue": queue.name,
        "parent": queue.parent or None,
        "weight": queue.weight,
        "priority": queue.priority,
        "share": share,
        "guaranteed_gpus": queue.guaranteed_gpus,
        "jobs": int(mine.sum()),
        "gpus_used": used / span if span else 0.0,
        "used_gpu_h": used / HOUR_S,
        "borrowed_gpu_h": borrowed / HOUR_S,
        "left_gpu_h": max(0.0, queue.guaranteed_gpus * span - (used - borrowed)) / HOUR_S,
        "preemptions": int(jobs["preemptions"][mine].sum()),
    }
    if not mine.any():
        return figures | dict.fromkeys(("jct_s", "queue_s", "quota_s", "fairness", "unfair"))
    fair = _fairness(run, mine, share * run.cluster.total)
    return figures | {
        "jct_s": float((jobs["end"] - jobs["submit"])[mine].mean()),
        "queue_s": float(jobs["pending"][mine].mean()),
        "quota_s": float(run.receipts_us[mine, WAIT_QUOTA].mean() / MICROSECONDS),
        "fairness": float(fair.mean()),
        "unfair": float((fair > 1 + 1e-9).mean()),
        **_over_waiting(run, teams, queue, mine),
    }


def _below(queues: Queues, name: str) -> list[str]:
    """A queue and all below it."""
    return [queue.name for queue in queues.queues if name in (above.name for above in queues.path(queue.name))]


def _fairness(run: Run, mine: NDArray[np.bool_], gpus: float) -> NDArray[np.float64]:
    """Finish-time fairness of the jobs of a team: JCT over the time on an equal part of the share of their team."""
    jobs = run.jobs[mine]
    return (jobs["end"] - jobs["submit"]) / alone_s(jobs, run.workload.duration_s[mine], gpus)


def _over_waiting(run: Run, teams: TeamsOfRun, queue: Queue, mine: NDArray[np.bool_]) -> dict[str, int]:
    """Jobs that a manager would have refused because too many waited: a simulation takes them all the same."""
    if queue.limits.waiting == NO_MOST:
        return {}
    submit, first = np.sort(run.jobs["submit"][mine]), np.sort(run.jobs["first"][mine])
    waiting = np.arange(len(submit)) - np.searchsorted(first, submit, side="right")
    return {"over_waiting": int((waiting >= queue.limits.waiting).sum())}
