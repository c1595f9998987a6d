"""Promises and notices: GPUs that are set aside for jobs, and jobs that have been told to release theirs.

Contract: `honour_protected` and `honour_promises` start jobs on what they were promised, or keep their promises, oldest first.
`end_notices` stops or migrates jobs whose notice is over; `vacate_reserved_nodes` clears nodes for advance reservations. At the end of
a decision, `withdraw_promises` and `withdraw_notices` withdraw what no stage kept or needs.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import DUE, NOW, SOON, count_noticed, finds_place, is_left, may_use, take
from headway.core.deciding.releasing import (
    MIGRATES,
    is_released,
    list_one,
    notified_until,
    notify,
    stop,
    stop_for_others,
)
from headway.core.deciding.teams import (
    count_placed,
    count_waiting,
    exceeded_limit,
    is_below,
    is_borrowed_from,
    may_stay,
    within_guarantee,
)
from headway.core.deciding.visiting import placed_by
from headway.core.events import MIGRATE, NOTIFY, PROMISE, START
from headway.core.keys import is_non_preemptible, notice_over_at
from headway.core.tables.actions import close_row, close_row_until, copy_places, drop_rows
from headway.core.tables.scratch import Round
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState


@jit
def place_in_row(r: Round, kind: int, job: Any, within: int, late: bool) -> None:
    """End the row being written: it starts a waiting job (START), or promises it the places (PROMISE)."""
    row = r.out.counts[0].rows
    count_waiting(r, job)
    r.scratch.jobs[job.row].place = row
    close_row(r.out, kind, job.row)
    r.scratch.walk[0].starts += kind == START
    take(r, r.out, row, within, late)
    r.out.rows[row].until = _ready_by(r, row)


@jit
def _ready_by(r: Round, row: int) -> float:
    """Return when the last notice is over if places of a row depend on notices; otherwise -infinity."""
    until, depends = -np.inf, False
    for k in range(r.out.rows[row].seat_at, r.out.rows[row + 1].seat_at):
        depends |= r.scratch.nodes[r.out.seats[k].node].soon < 0
    for i in range(r.state.counts[0].running if depends else 0):
        job = r.state.jobs[r.state.run[i]]
        if job.until < np.inf:
            until = max(until, job.until)
    return max(until, r.scratch.walk[0].now + r.options.notice) if depends else until


@jit
def standing_promise(r: Round, job: Any, within: int) -> int:
    """Return the row of a job's promise if all of it is left and no advance reservation is in the way; -1: it is not."""
    row, promises = job.promise, r.state.promises
    if row < 0 or row >= promises.counts[0].rows or promises.rows[row].job != job.row:
        return -1
    for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at if len(r.state.bookings) > 0 else 0):
        if not may_use(r, job, promises.seats[k].node):
            return -1
    return int(row) if is_left(r, promises, row, within) else -1


@jit
def open_promises(r: Round) -> None:
    """Clear the marks of all jobs with promises."""
    for row in range(r.state.promises.counts[0].rows):
        mark = r.scratch.jobs[r.state.promises.rows[row].job]
        mark.visited, mark.kept, mark.standing, mark.covered, mark.partly, mark.place = 0, 0, 0, -1, 0, -1


@jit
def start_promised(r: Round, job: Any, row: int) -> bool:
    """Start a job on what it was promised, if all of that is free now, within limits, and leaves room for guarantees."""
    if not is_left(r, r.state.promises, row, NOW) or exceeded_limit(r, job, False) >= 0 or not may_stay(r, job):
        return False
    copy_places(r.state.promises, row, r.out)
    place_in_row(r, START, job, NOW, False)
    return True


@jit
def keep_promise(r: Round, job: Any, row: int) -> bool:
    """Keep a job's promise, within limits: what it was promised is no longer left for others. Return whether it is kept."""
    if exceeded_limit(r, job, True) >= 0 or not may_stay(r, job):
        return False
    promises, mark = r.state.promises, r.scratch.jobs[job.row]
    for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at):
        r.scratch.taken_now[k] = min(promises.seats[k].gpus, r.scratch.nodes[promises.seats[k].node].now)
    count_waiting(r, job)
    mark.visited, mark.kept, mark.place = 1, 1, -1 - row
    take(r, promises, row, SOON, False)
    return True


@jit
def _put_back(r: Round, job: Any, row: int) -> None:
    """Undo the keeping of a promise: its GPUs are left for others again. Promises within guarantees have no links."""
    promises = r.state.promises
    count_placed(r, job, -1)
    r.scratch.jobs[job.row].kept = 0
    for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at):
        left, gpus = r.scratch.nodes[promises.seats[k].node], promises.seats[k].gpus
        left.soon += gpus
        left.now += r.scratch.taken_now[k]
        r.scratch.walk[0].free += r.scratch.taken_now[k]
        r.scratch.walk[0].soon += gpus
        r.scratch.walk[0].reach += gpus


@jit
def _open_promise(r: Round, row: int) -> Any:
    """Return the job of a row of promises that is still to be visited, or -1."""
    j = r.state.promises.rows[row].job
    job = r.state.jobs[j]
    waits = job.state == JobState.PENDING or (job.state == JobState.STOPPING and job.migrating)
    return int(j) if job.promise == row and waits and not r.scratch.jobs[j].visited else -1


@jit
def _is_protected(r: Round, job: Any, row: int) -> bool:
    """Return whether no other job takes what this one was promised: it migrates, is within a guarantee, or was promised it just now.

    Under policies that gather jobs on fewer nodes, others may take what a migrating job was promised.
    """
    if job.migrating and not r.options.migrates:
        return True
    is_new = r.options.teams > NO_TEAMS and r.state.promises.rows[row].until == r.scratch.walk[0].now
    return is_new or within_guarantee(r, job) >= 0


@jit
def honour_protected(r: Round, rules: Any) -> None:
    """Honour protected promises, oldest first; then let jobs within a guarantee start on any GPUs that are free."""
    for row in range(r.state.promises.counts[0].rows):
        j = _open_promise(r, row)
        if j >= 0 and _is_protected(r, r.state.jobs[j], row):
            _honour(r, r.state.jobs[j], row, DUE if within_guarantee(r, r.state.jobs[j]) >= 0 else SOON)
    for row in range(r.state.promises.counts[0].rows if len(r.state.teams) > NO_TEAMS else 0):
        job = r.state.jobs[r.state.promises.rows[row].job]
        if job.promise == row and r.scratch.jobs[job.row].kept and not job.migrating:
            _put_back(r, job, row)
            may_start = within_guarantee(r, job) >= 0 and exceeded_limit(r, job, False) < 0 and may_stay(r, job)
            if may_start and finds_place(r, rules, job, NOW, False):
                place_in_row(r, START, job, NOW, False)
            else:
                keep_promise(r, job, row)


@jit
def _honour(r: Round, job: Any, row: int, within: int) -> None:
    """Start a job on what it was promised, or keep its promise, if that stands."""
    if standing_promise(r, job, within) < 0:
        return
    if job.state == JobState.PENDING and start_promised(r, job, row):
        r.scratch.jobs[job.row].visited = 1
    else:
        keep_promise(r, job, row)


@jit
def honour_promises(r: Round) -> None:
    """Honour the other promises, oldest first, at instants at which no job is preempted."""
    for row in range(r.state.promises.counts[0].rows):
        j = _open_promise(r, row)
        if j >= 0 and r.state.jobs[j].state == JobState.PENDING:
            _honour(r, r.state.jobs[j], row, SOON)


@jit
def withdraw_promises(r: Round) -> None:
    """Withdraw every promise that was not kept: its GPUs are another job's now. With queues, decide again: limits have room."""
    for row in range(r.state.promises.counts[0].rows):
        job = r.state.jobs[r.state.promises.rows[row].job]
        if job.promise == row and job.state == JobState.PENDING and placed_by(r, job.row) < 0:
            close_row(r.out, PROMISE, job.row)
            r.out.counts[0].repeat |= r.options.teams > NO_TEAMS


# ---- notices


@jit
def _set_waits(r: Round, job: Any) -> bool:
    """Return whether a job of the set that a notice is part of will migrate, and the waiting job keeps its promise."""
    waiting = job.notice_with
    if is_released(r, job):
        waiting = r.out.seats[r.out.rows[r.scratch.jobs[job.row].place].seat_at].gpus
    return waiting >= 0 and placed_by(r, waiting) == PROMISE


@jit
def _depends_on(r: Round, job: Any) -> bool:
    """Return whether promises depend on the notice of a job, or a set of jobs that migrate together, or an advance reservation."""
    seat = job.seat
    while seat >= 0:
        node, gpus = r.scratch.nodes[r.state.seats[seat].node], 0
        other = job.seat
        while other >= 0:
            gpus += r.state.seats[other].node == r.state.seats[seat].node
            other = r.state.seats[other].next
        if node.soon + node.noticed - gpus < 0:
            return True
        seat = r.state.seats[seat].next
    return _set_waits(r, job) or _reserved_from(r, job)[0] <= notified_until(r, job)


@jit
def _latest_before(r: Round, last: float, last_row: int) -> int:
    """Return the job with the latest notice before (last, last_row); ties by the larger number; -1: none."""
    latest, latest_until = -1, -np.inf
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.state.run[i]]
        until = notified_until(r, job)
        comes_after = until < last or (until == last and job.row < last_row)
        if until < np.inf and comes_after and (until > latest_until or (until == latest_until and job.row > latest)):
            latest, latest_until = job.row, until
    return latest


@jit
def _find_needed(r: Round) -> None:
    """Mark the jobs whose notice is needed: from the latest notice on, each is dropped that nothing depends on."""
    j = _latest_before(r, np.inf, 0)
    while j >= 0:
        job = r.state.jobs[j]
        r.scratch.jobs[j].needed = _depends_on(r, job)
        if not r.scratch.jobs[j].needed:
            count_noticed(r, job, -1)
        j = _latest_before(r, notified_until(r, job), j)


@jit
def end_notices(r: Round, rules: Any) -> bool:
    """Stop borrowed jobs whose notice is over and needed; other such jobs migrate. Return False if one finds no place.

    Its notice is withdrawn then, and the decision is repeated.
    """
    if r.state.counts[0].notices == 0:
        return True
    _find_needed(r)
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.scratch.order[i]]
        if notified_until(r, job) < np.inf and not r.scratch.jobs[job.row].needed:
            count_noticed(r, job, 1)  # it may still be needed for a promise of this decision
    n = 0
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.scratch.order[i]]
        over = notified_until(r, job) < np.inf and notice_over_at(job) <= r.scratch.walk[0].now
        if over and r.scratch.jobs[job.row].needed:
            count_noticed(r, job, -1)
            if _is_stopped_after_notice(r, job):
                stop_for_others(r, job)
            else:
                n = list_one(r, job, MIGRATES, n)
    return _migrate_listed(r, rules, n)


@jit
def _is_stopped_after_notice(r: Round, job: Any) -> bool:
    """Return whether a job is stopped when its notice is over, because it is borrowed or on a reserved node, and does not migrate."""
    return _reserved_from(r, job)[0] <= job.until or is_borrowed_from(r, job, job.notice_for)


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
        close_row(r.out, MIGRATE, job.row)
        r.scratch.walk[0].reach += job.gpus  # it leaves as many GPUs as it is given
        r.scratch.jobs[job.row].place = row
        take(r, r.out, row, SOON, False)
    return True


@jit
def withdraw_notices(r: Round) -> None:
    """Withdraw the notices that are not needed."""
    if r.state.counts[0].notices + r.scratch.walk[0].notified == 0:
        return
    _find_needed(r)
    for i in range(r.state.counts[0].running):
        job = r.state.jobs[r.state.run[i]]
        if notified_until(r, job) < np.inf and not r.scratch.jobs[job.row].needed:
            close_row_until(r.out, NOTIFY, job.row, np.inf)


# ---- advance reservations


@jit
def vacate_reserved_nodes(r: Round) -> None:
    """Stop preemptible jobs of other teams on nodes whose advance reservation has begun; give notice to them before that."""
    now = r.scratch.walk[0].now
    for i in range(r.state.counts[0].running if len(r.state.bookings) > 0 and r.scratch.walk[0].preempting else 0):
        job = r.state.jobs[r.scratch.order[i]]
        if is_non_preemptible(job, r.options):
            continue
        begin, team = _reserved_from(r, job)
        if begin <= now and job.state == JobState.RUNNING and job.started < now:
            if job.until < np.inf:
                count_noticed(r, job, -1)
            stop_for_others(r, job)
        elif begin > now and begin <= now + r.options.notice and job.until == np.inf and job.state == JobState.RUNNING:
            notify(r, job, begin, team, -1)


@jit
def _reserved_from(r: Round, job: Any) -> tuple[float, int]:
    """Return when the first advance reservation of another team begins on a node of a job (infinity: none), and the team."""
    begin, team, seat = np.inf, -1, job.seat
    while seat >= 0:
        node = r.scratch.nodes[r.state.seats[seat].node]
        if node.reserved_for >= 0 and node.reserved_from < begin and not is_below(r, job.team, node.reserved_for):
            begin, team = node.reserved_from, node.reserved_for
        seat = r.state.seats[seat].next
    return begin, team
