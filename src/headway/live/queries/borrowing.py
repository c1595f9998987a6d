"""Borrowed GPUs: which running jobs use a guarantee and which borrow, which queues lend, and which jobs return GPUs under notice."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.cluster.queues import Queue, Queues
from headway.core.tables.teams import CLUSTER
from headway.job_state import JobState
from headway.live.queries.reservations import MOST_NAMED, NOTICE, Holder, Sees
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job


@dataclass(frozen=True, slots=True)
class Notice:
    """When the GPUs of a running job are taken back, and the queue that gets them (empty: it is no longer in the queues file)."""

    until: float
    queue: str


@dataclass(frozen=True, slots=True)
class Promised:
    """GPUs of jobs under notice that a waiting job is promised."""

    nodes: dict[str, int]  # GPUs by node
    holders: tuple[Holder, ...]  # jobs under notice there that the caller may see, the first to leave first
    ready_by: float  # the last notice is over, and its job has saved


def notice_in(state: ClusterState, row: Any) -> Notice | None:
    """Return the notice of a job by its row of the engine's table; None: it has none."""
    until, team = float(row["until"]), int(row["notice_for"])
    if until == np.inf:
        return None
    return Notice(until, state.teams.label(team)[0] if state.teams and team > CLUSTER else "")


def promised_to(state: ClusterState, job: Job, sees: Sees) -> Promised | None:
    """Return the GPUs of jobs under notice that a waiting job is promised, or None."""
    row: Any = state.tables.jobs[job.row]
    if row["promise"] < 0 or row["ready_by"] == -np.inf:
        return None
    first, last = state.tables.promises.rows["seat_at"][int(row["promise"]) :][:2]
    gpus = {int(place["node"]): int(place["gpus"]) for place in state.tables.promises.seats[first:last]}
    leaving = [
        (other, float(state.tables.jobs["until"][other.row]))
        for other in state.active_jobs()
        if any(node in gpus for node, _ in other.places)
    ]
    leaving = [(other, until) for other, until in leaving if until < np.inf]
    grace_s = max((state.site.grace_s(other.spec) for other, _ in leaving), default=0.0)
    seen = [(until, other) for other, until in leaving if sees(other.id, other.user)]
    holders = [
        Holder(other.id, other.spec.gpus, until, NOTICE)
        for until, other in sorted(seen, key=lambda pair: (pair[0], pair[1].id))
    ]
    nodes = {state.cluster.nodes[node]: count for node, count in gpus.items()}
    return Promised(nodes, tuple(holders[:MOST_NAMED]), float(row["ready_by"]) + grace_s)


def promised_in(state: ClusterState, queue: Queue, job: Job) -> int:
    """Return the GPUs under notice that are promised to jobs other than `job` of a queue and the queues below it."""
    jobs = state.tables.jobs[: len(state.by_row)]
    waiting = (jobs["state"] == JobState.PENDING) & (jobs["promise"] >= 0) & (jobs["ready_by"] > -np.inf)
    specs = [state.at(int(row)).spec for row in np.flatnonzero(waiting) if row != job.row]
    return sum(spec.gpus for spec in specs if queue in state.teams.path(spec))


def shared_out(state: ClusterState, queues: Queues) -> tuple[dict[int, int], tuple[tuple[str, int], ...]]:
    """Return the team whose guarantee a running job uses, by row; and the lowest queues that lend, with the GPUs that they lend."""
    teams, jobs = state.tables.teams, state.tables.jobs
    parents, levels, guarantees = (teams[name].tolist() for name in ("parent", "level", "guarantee"))
    running = state.tables.run[: int(state.tables.counts["running"][0])].tolist()
    keeps = {row: bool(jobs["min_runtime"][row] == np.inf) for row in running}
    owner: dict[int, int] = {}
    covered = [0] * len(teams)
    for row in (row for row in running if keeps[row]):  # even if less is left of the guarantee than they hold
        t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
        while t > CLUSTER:
            unused = guarantees[t] - covered[t]
            if unused >= gpus:
                owner.setdefault(row, t)
            covered[t] += max(0, min(unused, gpus))
            t = parents[t]
    deepest = max((level for level, gpus in zip(levels, guarantees, strict=True) if gpus), default=0)
    for level in range(deepest, 0, -1):
        for row in (row for row in running if not keeps[row]):
            t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
            while levels[t] > level:
                t = parents[t]
            if row in owner or levels[t] != level or covered[t] + gpus > guarantees[t]:
                continue
            owner[row] = t
            while t >= CLUSTER:
                covered[t] += gpus
                t = parents[t]
    idle = {queue.name: queue.guaranteed_gpus - covered[queues.rows[queue.name]] for queue in queues.queues}
    below = {
        queue.name: sum(idle[one.name] for one in queues.queues if one.parent == queue.name) for queue in queues.queues
    }
    return owner, tuple((name, gpus - below[name]) for name, gpus in idle.items() if gpus > below[name])
