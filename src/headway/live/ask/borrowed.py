"""Whether the GPUs of a running job are part of a guarantee or borrowed; if so, from whom, and how long it keeps them once they are asked
for (docs/semantics.md, rules 21 and 23).
"""

from typing import Any

import numpy as np

from headway.core.tables.teams import CLUSTER
from headway.io.units import counted
from headway.live.ask.reserved import joined, within
from headway.live.ask.shares import owing_queue
from headway.live.records import Job
from headway.live.state import ClusterState

MOST_NAMED = 4  # queues


def shared_out(state: ClusterState) -> tuple[dict[int, int], list[int]]:
    """By running job, the team whose guarantee its GPUs are part of, if any; by team, how many GPUs of its guarantee are used."""
    teams, jobs = state.tables.teams, state.tables.jobs
    parents, levels, guarantees = (teams[name].tolist() for name in ("parent", "level", "guarantee"))
    running = state.tables.run[: int(state.tables.counts["running"][0])].tolist()
    firm = {row: bool(jobs["min_runtime"][row] == np.inf) for row in running}
    owner: dict[int, int] = {}
    kept = [0] * len(teams)
    for row in (row for row in running if firm[row]):  # even where less is left than they hold
        t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
        while t > CLUSTER:
            room = guarantees[t] - kept[t]
            if room >= gpus:
                owner.setdefault(row, t)
            kept[t] += max(0, min(room, gpus))
            t = parents[t]
    deepest = max((level for level, gpus in zip(levels, guarantees, strict=True) if gpus), default=0)
    for level in range(deepest, 0, -1):
        for row in (row for row in running if not firm[row]):
            t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
            while levels[t] > level:
                t = parents[t]
            if row in owner or levels[t] != level or kept[t] + gpus > guarantees[t]:
                continue
            owner[row] = t
            while t >= CLUSTER:
                kept[t] += gpus
                t = parents[t]
    return owner, kept


def running_words(state: ClusterState, job: Job, message: str, now: float) -> str:
    """The same sentence with whose GPUs a running job has."""
    queues, owner_of = state.teams.queues, shared_out(state)
    assert queues is not None
    (owner, kept), name = owner_of, state.teams.name_of(job.spec)
    if job.row in owner:
        return f"{message}, on GPUs that queue {state.teams.label(owner[job.row])[0]} is guaranteed"
    if not job.spec.may_preempt:
        return f"{message}, on GPUs that are guaranteed to nobody: it cannot be preempted, and keeps them"
    row = state.teams.table(state.teams.row_of(job.spec, job.user))
    used = int(row["used"] + row["leaving"])
    guaranteed = queues[name].guaranteed_gpus if name in queues.rows else 0
    line = f"{message}, on borrowed GPUs: queue {name} uses {used}, and {guaranteed} are guaranteed to it"
    notice = state.engine.options.notice
    asked = _asked(state, job)
    if asked:
        who, at = asked
        return f"{line}. Queue {who} asked for GPUs back: it may be stopped for that {within(at + notice - now)}"
    lenders = _lenders(state, kept)
    if not lenders:
        return f"{line}. Nobody is guaranteed the GPUs that are borrowed now"
    whose = joined([f"{queue} leaves {counted(gpus, 'GPU')}" for queue, gpus in lenders[:MOST_NAMED]])
    keeps = f"those who borrow keep them for {notice:g} s, and are then stopped, the last in the order first"
    return f"{line}. Of what others are guaranteed {whose} unused: when they are asked for, {keeps}"


def _asked(state: ClusterState, job: Job) -> tuple[str, float] | None:
    """The queue that asked first for GPUs of its guarantee, of those that still do and may have a job's, and when."""
    found, queues, own = list[tuple[float, str]](), state.teams.queues, state.teams.queue_of(job.spec)
    assert queues is not None
    above = {queue.name for queue in queues.path(own.name)} if own else set()
    for other in state.active_jobs():
        asks = state.teams.queue_of(other.spec) if _claimed(state, other) < np.inf else None
        if asks and (owing := owing_queue(state, asks, other.spec.gpus).name) not in above:
            found.append((_claimed(state, other), owing))
    return (min(found)[1], min(found)[0]) if found else None


def _claimed(state: ClusterState, job: Job) -> float:
    found: Any = state.tables.jobs["claimed"][job.row]
    return float(found)


def _lenders(state: ClusterState, kept: list[int]) -> list[tuple[str, int]]:
    """Queues that use less than they are guaranteed, the lowest that do, and by how much."""
    queues = state.teams.queues
    assert queues is not None
    idle = {queue.name: queue.guaranteed_gpus - kept[queues.rows[queue.name]] for queue in queues.queues}
    below = {
        queue.name: sum(idle[child.name] for child in queues.queues if child.parent == queue.name)
        for queue in queues.queues
    }
    return [(name, gpus - below[name]) for name, gpus in idle.items() if gpus > below[name]]
