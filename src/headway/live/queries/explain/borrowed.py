"""Borrowed GPUs: whether a running job's GPUs are part of a guarantee or borrowed, and which jobs return them under notice, by when and for
which queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.tables.teams import CLUSTER
from headway.io.units import counted
from headway.live.queries.explain.reserved import MOST_NAMED, NOTICE, Holder, Sees, joined, within
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

MOST_LENDERS = 4  # queues


@dataclass(frozen=True, slots=True)
class Notice:
    """When the GPUs of a running job are taken back, and the queue that gets them (empty: it is no longer in the queues file)."""

    until: float
    queue: str


def notice_in(state: ClusterState, row: Any) -> Notice | None:
    """Return the notice of a job by its row of the engine's table; None: it has none."""
    until, team = float(row["until"]), int(row["notice_for"])
    if until == np.inf:
        return None
    return Notice(until, state.teams.label(team)[0] if state.teams and team > CLUSTER else "")


def waits_for_notice(state: ClusterState, job: Job) -> bool:
    """Return whether a waiting job is promised GPUs of jobs under notice."""
    row: Any = state.tables.jobs[job.row]
    return bool(row["promise"] >= 0 and row["ready_by"] > -np.inf)


def promised(state: ClusterState, job: Job) -> dict[int, int]:
    """Return the GPUs that a job is promised, by node."""
    row, promises = int(state.tables.jobs["promise"][job.row]), state.tables.promises
    if row < 0:
        return {}
    first, last = (int(promises.rows["seat_at"][end]) for end in (row, row + 1))
    return {int(place["node"]): int(place["gpus"]) for place in promises.seats[first:last]}


def _under_notice(state: ClusterState) -> Iterator[Job]:
    if state.tables.counts["notices"][0]:
        yield from (job for job in state.active_jobs() if state.tables.jobs["until"][job.row] < np.inf)


def returning(state: ClusterState, job: Job, sees: Sees) -> tuple[Holder, ...]:
    """Return the jobs under notice on the nodes that a waiting job is promised, those that leave first first."""
    nodes = promised(state, job) if waits_for_notice(state, job) else {}
    jobs = [one for one in _under_notice(state) if any(node in nodes for node, _ in one.places)] if nodes else []
    holders = [
        Holder(one.id, one.spec.gpus, float(state.tables.jobs["until"][one.row]), NOTICE)
        for one in jobs
        if sees(one.id, one.user)
    ]
    return tuple(sorted(holders, key=lambda holder: (holder.until or 0.0, holder.job_id)))[:MOST_NAMED]


def ready_by(state: ClusterState, job: Job) -> float:
    """Return when the GPUs that a job is promised are free at the latest: the last notice is over, and its job has saved."""
    nodes, notice_over = promised(state, job), float(state.tables.jobs["ready_by"][job.row])
    holders = [one for one in _under_notice(state) if any(node in nodes for node, _ in one.places)]
    return notice_over + max((state.site.grace_s(one.spec) for one in holders), default=0.0)


def notice_words(notice: Notice, now: float) -> str:
    """Return by when a running job loses its GPUs, and for which queue."""
    whom = f" for queue {notice.queue}" if notice.queue else ""
    return f"under notice: its GPUs are taken back {within(notice.until - now)}{whom}, unless the notice is withdrawn"


def returning_words(state: ClusterState, job: Job, holders: tuple[Holder, ...], now: float) -> str:
    """Return which jobs return GPUs to a waiting job, and when it starts at the latest."""
    places = promised(state, job)
    where = joined([f"{counted(gpus, 'GPU')} on {state.cluster.nodes[node]}" for node, gpus in places.items()])
    jobs = joined([f"job {one.job_id} ({within((one.until or now) - now)})" for one in holders])
    by = f"returned by {jobs}, which borrowed GPUs there" if jobs else "returned by jobs that borrowed GPUs there"
    latest = within(max(0.0, ready_by(state, job) - now))
    are = "is" if sum(places.values()) == 1 else "are"
    return f"{where} {are} promised to it, {by}. It starts {latest} at the latest, when they have checkpointed"


def shared_out(state: ClusterState) -> tuple[dict[int, int], list[int]]:
    """By running job, the team whose guarantee its GPUs are part of, if any; by team, how many GPUs of its guarantee are used."""
    teams, jobs = state.tables.teams, state.tables.jobs
    parents, levels, guarantees = (teams[name].tolist() for name in ("parent", "level", "guarantee"))
    running = state.tables.run[: int(state.tables.counts["running"][0])].tolist()
    firm = {row: bool(jobs["min_runtime"][row] == np.inf) for row in running}
    owner: dict[int, int] = {}
    covered = [0] * len(teams)
    for row in (row for row in running if firm[row]):  # even where less is left than they hold
        t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
        while t > CLUSTER:
            room = guarantees[t] - covered[t]
            if room >= gpus:
                owner.setdefault(row, t)
            covered[t] += max(0, min(room, gpus))
            t = parents[t]
    deepest = max((level for level, gpus in zip(levels, guarantees, strict=True) if gpus), default=0)
    for level in range(deepest, 0, -1):
        for row in (row for row in running if not firm[row]):
            t, gpus = int(jobs["team"][row]), int(jobs["gpus"][row])
            while levels[t] > level:
                t = parents[t]
            if row in owner or levels[t] != level or covered[t] + gpus > guarantees[t]:
                continue
            owner[row] = t
            while t >= CLUSTER:
                covered[t] += gpus
                t = parents[t]
    return owner, covered


def running_words(state: ClusterState, job: Job, message: str, now: float) -> str:
    """The same sentence with whose GPUs a running job has."""
    queues, owner_of = state.teams.queues, shared_out(state)
    assert queues is not None
    (owner, covered), name = owner_of, state.teams.name_of(job.spec)
    if job.row in owner:
        return f"{message}, on GPUs that queue {state.teams.label(owner[job.row])[0]} is guaranteed"
    if not job.spec.may_preempt:
        return f"{message}, on GPUs that are guaranteed to nobody: it cannot be preempted, and keeps them"
    row = state.teams.table(state.teams.row_of(job.spec, job.user))
    used = int(row["used"] + row["leaving"])
    guaranteed = queues[name].guaranteed_gpus if name in queues.rows else 0
    line = f"{message}, on borrowed GPUs: queue {name} uses {used}, and {guaranteed} are guaranteed to it"
    notice = state.engine.options.notice
    if under := notice_in(state, state.tables.jobs[job.row]):
        return f"{line}. It is {notice_words(under, now)}"
    lenders = _lenders(state, covered)
    if not lenders:
        return f"{line}. Nobody is guaranteed the GPUs that are borrowed now"
    whose = joined([f"{queue} leaves {counted(gpus, 'GPU')}" for queue, gpus in lenders[:MOST_LENDERS]])
    keeps = f"jobs that borrow them get a notice of {notice:g} s, and are then stopped, the last in the order first"
    return f"{line}. Of what others are guaranteed {whose} unused: when a job of theirs needs these GPUs, {keeps}"


def _lenders(state: ClusterState, covered: list[int]) -> list[tuple[str, int]]:
    """Queues that use less than they are guaranteed, the lowest that do, and by how much."""
    queues = state.teams.queues
    assert queues is not None
    idle = {queue.name: queue.guaranteed_gpus - covered[queues.rows[queue.name]] for queue in queues.queues}
    below = {
        queue.name: sum(idle[child.name] for child in queues.queues if child.parent == queue.name)
        for queue in queues.queues
    }
    return [(name, gpus - below[name]) for name, gpus in idle.items() if gpus > below[name]]
