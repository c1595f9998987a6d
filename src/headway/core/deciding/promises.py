"""Promises and notices: GPUs that are set aside for jobs, and jobs that have been told to release theirs.

Contract: `honour_promises` starts jobs on what they were promised, or keeps their promises, oldest first. `end_notices` stops or
migrates jobs whose notice is over; `vacate_reserved_nodes` clears nodes for advance reservations. At the end of a decision,
`withdraw_promises` and `withdraw_notices` withdraw what no stage kept or needs.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    DUE,
    NOW,
    SOON,
    booking_of_others,
    count_noticed,
    decided,
    finds_place,
    is_left,
    may_use,
    take,
)
from headway.core.deciding.releasing import notified_until, notify, ready_by, stop, stop_for_others
from headway.core.deciding.teams import (
    count_waiting,
    exceeded_limit,
    is_borrowed_from,
    keeps_guarantees,
    within_guarantee,
)
from headway.core.events import MIGRATE, NOTIFY, PROMISE, START
from headway.core.keys import is_non_preemptible, notice_over_at
from headway.core.tables.actions import close_row, close_row_until, copy_places, drop_rows
from headway.core.tables.scratch import Round
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState

# ---- promises


@jit
def open_promises(r: Round) -> None:
    """Clear the marks of all jobs with promises."""
    for row in range(r.state.promises.counts[0].rows):
        mark = r.scratch.jobs[r.state.promises.rows[row].job]
        mark.visited, mark.kept, mark.standing, mark.covered, mark.partly, mark.action = 0, 0, 0, -1, 0, -1


@jit
def promise_stands(r: Round, job: Any) -> bool:
    """Return whether a job has a promise, all of it is left, and neither limits nor guarantees nor advance reservations forbid it."""
    row, promises = job.promise, r.state.promises
    if row < 0 or row >= promises.counts[0].rows or promises.rows[row].job != job.row:
        return False
    if exceeded_limit(r, job, False, 0) >= 0 or not keeps_guarantees(r, job):
        return False
    for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at):
        if not may_use(r, job, promises.seats[k].node):
            return False
    return is_left(r, promises, row, DUE if within_guarantee(r, job) >= 0 else SOON)


@jit
def start_promised(r: Round, job: Any) -> bool:
    """Start a job whose promise stands, if all of it is free now and limits leave room beside stopping jobs. Return whether it starts."""
    if not is_left(r, r.state.promises, job.promise, NOW) or exceeded_limit(r, job, True, 0) >= 0:
        return False
    copy_places(r.state.promises, job.promise, r.out)
    start_or_promise(r, START, job, False)
    return True


@jit
def keep_promise(r: Round, job: Any) -> None:
    """Keep a job's promise, which stands: its GPUs are no longer left for other jobs."""
    mark = r.scratch.jobs[job.row]
    count_waiting(r, job)
    mark.visited, mark.kept, mark.action = 1, 1, -1 - job.promise
    take(r, r.state.promises, job.promise, False)


@jit
def start_or_promise(r: Round, kind: int, job: Any, late: bool) -> None:
    """End the row being written: it starts a waiting job (START), or promises it the places (PROMISE)."""
    row = r.out.counts[0].rows
    count_waiting(r, job)
    r.scratch.jobs[job.row].action = row
    close_row(r.out, kind, job.row)
    r.scratch.walk[0].starts += kind == START
    take(r, r.out, row, late)
    r.out.rows[row].until = ready_by(r, row)


@jit
def _is_protected(r: Round, job: Any) -> bool:
    """Return whether no other job takes what this one was promised: it migrates or, with queues, was promised it just now.

    Under policies that gather jobs on fewer nodes, others may take what a migrating job was promised.
    """
    is_new = r.state.promises.rows[job.promise].until == r.scratch.walk[0].now
    return (job.migrating == 1 and not r.options.migrates) or (is_new and r.options.teams > NO_TEAMS)


@jit
def honour_promises(r: Round, protected: bool) -> None:
    """Start jobs on what they were promised, or keep promises that stand, oldest first: `protected` ones, or those of waiting jobs."""
    for row in range(r.state.promises.counts[0].rows):
        job = r.state.jobs[r.state.promises.rows[row].job]
        waits, mark = job.state == JobState.PENDING, r.scratch.jobs[job.row]
        if job.promise != row or mark.visited or not (waits or (job.state == JobState.STOPPING and job.migrating)):
            continue
        if not (_is_protected(r, job) if protected else waits) or not promise_stands(r, job):
            continue
        if waits and start_promised(r, job):
            mark.visited = 1
        else:
            keep_promise(r, job)


@jit
def has_place(r: Round, j: int) -> bool:
    """Return whether this decision starts waiting job j, promises it GPUs, or keeps its promise."""
    kind = decided(r, j)
    return kind == START or kind == PROMISE or (r.state.jobs[j].promise >= 0 and r.scratch.jobs[j].kept == 1)


@jit
def withdraw_promises(r: Round) -> None:
    """Withdraw every promise that was not kept: its GPUs are another job's now. With queues, decide again: limits have room."""
    for row in range(r.state.promises.counts[0].rows):
        job = r.state.jobs[r.state.promises.rows[row].job]
        # Under policies that gather jobs on fewer nodes, the promise of a migrating job is looked at when it has stopped (rule 12).
        migrates = job.state == JobState.STOPPING and not r.options.migrates
        if job.promise == row and (job.state == JobState.PENDING or migrates) and not has_place(r, job.row):
            close_row(r.out, PROMISE, job.row)
            r.out.counts[0].repeat |= r.options.teams > NO_TEAMS


# ---- notices


@jit
def _is_needed(r: Round, job: Any) -> bool:
    """Return whether a promise, a set with a migration or an advance reservation needs a job's notice, which is not counted now."""
    nodes, seat = r.scratch.nodes, job.seat
    while seat >= 0:
        node = r.state.seats[seat].node
        if nodes.soon[node] + nodes.noticed[node] < 0:
            return True
        seat = r.state.seats[seat].next
    entry = job.link
    while entry >= 0:
        if r.scratch.leaves.taken[r.state.held_links[entry].leaf] & r.state.held_links[entry].mask:
            return True
        entry = r.state.held_links[entry].next
    is_new = decided(r, job.row) == NOTIFY
    waiting = r.out.seats[r.out.rows[r.scratch.jobs[job.row].action].seat_at].gpus if is_new else job.notice_with
    if waiting >= 0 and has_place(r, waiting) and decided(r, waiting) != START:
        return True
    return _reserved_from(r, job)[0] <= notified_until(r, job)


@jit
def _find_needed(r: Round) -> None:
    """Mark the jobs whose notice is needed, from the latest notice on; GPUs of other notices no longer count as under notice."""
    last, last_row = np.inf, 0
    while True:
        j, latest = -1, -np.inf  # the latest notice before the last one, ties by the larger number
        for i in range(r.state.counts[0].running):
            row, until = r.state.run[i], notified_until(r, r.state.jobs[r.state.run[i]])
            is_earlier = until < last or (until == last and row < last_row)
            if until < np.inf and is_earlier and (until > latest or (until == latest and row > j)):
                j, latest = row, until
        if j < 0:
            return
        count_noticed(r, r.state.jobs[j], -1)
        r.scratch.jobs[j].needed = _is_needed(r, r.state.jobs[j])
        if r.scratch.jobs[j].needed:
            count_noticed(r, r.state.jobs[j], 1)
        last, last_row = latest, j


@jit
def end_notices(r: Round, rules: Any) -> bool:
    """Stop borrowed jobs whose notice is over and needed; other such jobs migrate. Return False if one finds no place.

    Its notice is withdrawn then, and the decision is repeated.
    """
    if r.state.counts[0].notices == 0:
        return True
    _find_needed(r)
    n = 0
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.scratch.order[i]]
        if notified_until(r, job) == np.inf:
            continue
        if not r.scratch.jobs[job.row].needed:
            count_noticed(r, job, 1)  # it may still be needed for a promise of this decision
        elif notice_over_at(job) <= r.scratch.walk[0].now:
            count_noticed(r, job, -1)
            if _reserved_from(r, job)[0] <= job.until or is_borrowed_from(r, job, job.notice_for):
                stop_for_others(r, job)
            else:
                r.scratch.listed[n].what = job.row
                n += 1
    return _migrate_listed(r, rules, n)


@jit
def _migrate_listed(r: Round, rules: Any, n: int) -> bool:
    """Migrate the n listed jobs, all of which release their GPUs first. Return False if one finds no place: its notice is withdrawn."""
    rows = r.out.counts[0].rows
    for k in range(n):
        stop(r, r.state.jobs[r.scratch.listed[k].what])
    for k in range(n):
        job, row = r.state.jobs[r.scratch.listed[k].what], r.out.counts[0].rows
        if not finds_place(r, rules, job, SOON, False):
            drop_rows(r.out, rows)
            close_row_until(r.out, NOTIFY, job.row, np.inf)
            r.out.counts[0].repeat = 1
            return False
        r.scratch.jobs[job.row].action = row
        close_row(r.out, MIGRATE, job.row)
        take(r, r.out, row, False)
    return True


@jit
def withdraw_notices(r: Round) -> None:
    """Withdraw the notices that are not needed."""
    if r.scratch.walk[0].noticed == 0:
        return
    _find_needed(r)
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.state.run[i]]
        if notified_until(r, job) < np.inf and not r.scratch.jobs[job.row].needed:
            r.scratch.jobs[job.row].action = -1  # from now on, no action is about it
            close_row_until(r.out, NOTIFY, job.row, np.inf)


# ---- advance reservations


@jit
def vacate_reserved_nodes(r: Round) -> None:
    """Stop preemptible jobs of other teams on nodes whose advance reservation has begun; give notice to them before that."""
    now = r.scratch.walk[0].now
    for i in range(r.state.counts[0].running if len(r.state.bookings) > 0 and r.scratch.walk[0].preempting else 0):
        job = r.state.jobs[r.scratch.order[i]]
        if is_non_preemptible(job, r.options) or job.state != JobState.RUNNING:
            continue
        begin, team = _reserved_from(r, job)
        if begin <= now and job.started < now:
            if job.until < np.inf:
                count_noticed(r, job, -1)
            stop_for_others(r, job)
        elif now < begin <= now + r.options.notice and job.until == np.inf:
            notify(r, job, begin, team, -1)


@jit
def _reserved_from(r: Round, job: Any) -> tuple[float, int]:
    """Return when the first advance reservation of another team begins on a node of a job (infinity: none), and the team."""
    begin, team, seat = np.inf, -1, job.seat
    while seat >= 0:
        i = booking_of_others(r, job, r.state.seats[seat].node)
        if i >= 0 and r.state.bookings[i].begin < begin:
            begin, team = r.state.bookings[i].begin, r.state.bookings[i].team
        seat = r.state.seats[seat].next
    return begin, team
