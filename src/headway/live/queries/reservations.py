"""The backfill reservation: GPUs kept for the first waiting job, and which jobs hold them until when. Times are seconds since 1970.

Also the jobs that a waiting job may preempt after their minimum run times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.engine import BackfillReservation
from headway.job_state import JobState
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

MOST_NAMED = 20  # jobs named in one answer
SAME_S = 1e-3  # times that are nearer to each other are one
Sees = Callable[[int, str], bool]  # whether whoever asks may know of a job, by its number and user

# What ends a job's hold on its GPUs: its time limit, its minimum run time, its first step, a notice; or the end is not known, because the
# job cannot be preempted, or comes first in the order.
TIME_LIMIT, MIN_RUNTIME, FIRST_STEP, STAYS = "time_limit", "min_runtime", "first_step", "not_preemptible"
COMES_FIRST = "comes_first"
NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Holder:
    """A job with GPUs: by when they can be had (None: not known), and what that follows from."""

    job_id: int
    gpus: int
    until: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """GPUs kept for a job (None: one that the caller may not see), by node, and by when they are free at the latest (None: not known)."""

    job_id: int | None
    nodes: dict[str, int]
    by: float | None
    in_s: float | None
    passable_s: float | None  # another job passes if it is sure to be gone within this time
    holders: tuple[Holder, ...]
    holders_unseen: int  # jobs of others that hold GPUs there too


@dataclass(frozen=True, slots=True)
class First:
    """The job with the backfill reservation; `firm`: preemptible jobs do not pass it either."""

    job: Job
    kept: Reserved
    firm: bool


def reserved(state: ClusterState, now: float, sees: Sees) -> First | None:
    """Return the job that has a backfill reservation now, and what is kept for it; None: no job has one."""
    reservation = state.engine.reservation(now)
    if reservation is None:
        return None
    nodes = {state.cluster.nodes[node]: gpus for node, gpus in reservation.places}
    free = state.tables.nodes["free"]
    short = {node for node, gpus in reservation.places if gpus > free[node]}
    on_short = [job for job in state.active_jobs() if any(node in short for node, _ in job.places)]
    holders = [_holder(state, reservation, job, now) for job in on_short]
    seen = [holder for holder in holders if sees(holder.job_id, state.jobs[holder.job_id].user)]
    job = state.at(reservation.job)
    # A job that is stopped may take longer to checkpoint than it has taken so far, up to its grace.
    stopped = [
        (h.until, state.jobs[h.job_id]) for h in holders if h.until and h.why in (MIN_RUNTIME, FIRST_STEP, NOTICE)
    ]
    late = [(until, state.site.grace_s(other.spec) - other.attempts.save.value) for until, other in stopped]
    by, gone_by = (
        at + max((late_s for until, late_s in late if until <= at and late_s > 0.0), default=0.0)
        if at < np.inf
        else None
        for at in (reservation.bound, reservation.gone_by)
    )
    named = tuple(sorted(seen, key=lambda holder: (holder.until or np.inf, holder.job_id)))[:MOST_NAMED]
    shown = job.id if sees(job.id, job.user) else None
    in_s, passable_s = (None if at is None else max(0.0, at - now) for at in (by, gone_by))
    return First(job, Reserved(shown, nodes, by, in_s, passable_s, named, len(holders) - len(seen)), reservation.firm)


def _holder(state: ClusterState, reservation: BackfillReservation, job: Job, now: float) -> Holder:
    """Return by when a job with GPUs on nodes of a reservation is gone, and why then."""
    row: Any = state.tables.jobs[job.row]
    until, limit_at = reservation.free_by.get(job.row, np.inf), now + float(row["limit"]) - state.run_s(job, now)
    notices = (float(row["until"]), now + state.engine.options.notice)  # under notice, or would be given one now
    if row["state"] == JobState.STOPPING:
        until, why = now + float(row["save"]), MIN_RUNTIME
    elif until == np.inf:
        why = COMES_FIRST if job.spec.may_preempt and state.engine.options.preempts else STAYS
    elif until >= limit_at - SAME_S:
        why = TIME_LIMIT
    elif state.teams and any(
        abs(until - float(row["save"]) - max(now, end)) < SAME_S for end in notices if end < np.inf
    ):
        why = NOTICE
    else:
        why = FIRST_STEP if job.attempts.waits_for_step else MIN_RUNTIME
    return Holder(job.id, job.spec.gpus, until if until < np.inf else None, why)


def min_runtimes(state: ClusterState, job: Job, now: float, sees: Sees) -> tuple[Holder, ...]:
    """Return the running jobs after this one whose minimum run times are not over, the first to end first."""
    rows, options, holders = state.tables.jobs, state.engine.options, list[Holder]()
    suits = state.demands.suits(job.spec)
    mine = (rows["k1"][job.row], rows["k2"][job.row], job.row)
    for other in state.active_jobs():
        row: Any = rows[other.row]
        after = options.dynamic_keys or (row["k1"], row["k2"], other.row) > mine
        here = any(suits[node] for node, _ in other.places)
        if row["state"] != JobState.RUNNING or not after or not here or not sees(other.id, other.user):
            continue
        costs = float(row["turns"]) * (float(row["save"]) + float(row["resume"]))
        ends = float(row["started"]) + max(options.min_runtime, float(row["min_runtime"]), costs)
        if now < ends < np.inf:
            why = FIRST_STEP if other.attempts.waits_for_step else MIN_RUNTIME
            holders.append(Holder(other.id, other.spec.gpus, ends, why))
    return tuple(sorted(holders, key=lambda holder: (holder.until or 0.0, holder.job_id)))[:MOST_NAMED]
