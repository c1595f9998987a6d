"""Making room: the one search for jobs that release their GPUs to a waiting job.

Contract: `list_releasable` writes the jobs that could release GPUs into `scratch.listed`, in the order in which they are spared.
`choose_least` chooses the least set of them that gives the waiting job a place; `pays_at` says from when on that set pays for itself.
`release` stops, migrates or notifies the set: no other function does so for a waiting job. core/deciding/placing.py puts the three
together (`make_room`). The backfill reservation (core/deciding/reservation.py) uses the same list with the time at which each job leaves.

The least set: release the last 1, 2, 4, ... jobs until the placement finds a place; then, from the first on, put back every job without
which there still is one. So no job is released in vain, and none while a later one could be instead.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    DUE,
    SOON,
    add_links,
    count_held,
    count_noticed,
    decided,
    offer,
    offer_held,
    probe,
    take,
)
from headway.core.deciding.teams import (
    count_in_accounts,
    count_waiting,
    exceeded_limit,
    gives_way,
    may_reclaim,
    within_guarantee,
)
from headway.core.events import MIGRATE, NOTIFY, PROMISE, STOP
from headway.core.keys import LEAST_RUN_S, is_non_preemptible, keeps_gpus
from headway.core.order import comes_before, key_now, rank_of
from headway.core.tables.actions import add_seat, close_row, close_row_until, drop_rows
from headway.core.tables.scratch import MIGRATES, STAYS, STOPS, Round
from headway.job_state import JobState

# Why room is made.
PREEMPT: Final = 0  # for a job that comes first in the order
RECLAIM: Final = 1  # for a job within its team's guarantee
DEFRAGMENT: Final = 2  # as PREEMPT, and smaller jobs may migrate


# ---- who could release GPUs


@jit
def can_stop(r: Round, other: Any) -> bool:
    """Return whether a running job may be stopped now: its minimum run time is over, and it is neither released nor under notice."""
    now = r.scratch.walk[0].now
    may_stop = other.state == JobState.RUNNING and other.started < now and not keeps_gpus(other, now, r.options)
    return may_stop and other.until == np.inf and decided(r, other.row) < 0


@jit
def _can_reclaim(r: Round, other: Any) -> bool:
    """Return whether a job with GPUs may be released for a guarantee, whatever its minimum run time."""
    return other.until == np.inf and decided(r, other.row) < 0 and not is_non_preemptible(other, r.options)


@jit
def _how(r: Round, job: Any, other: Any, why: int, migrating: bool) -> int:
    """Return how a running job could release its GPUs for a waiting one: the table of cases.

    Two jobs that share GPUs are stopped together, where the first of them stands in the order. Smaller jobs may migrate instead.
    """
    if why == RECLAIM:
        able = _can_reclaim(r, other)
        stops = able and may_reclaim(r, job, other)
    else:
        able = can_stop(r, other)
        stops = able and gives_way(r, job, other) and _stops_partner(r, other)
    if stops:
        return STOPS
    smaller = other.gpus < job.gpus and other.partner < 0 and other.state == JobState.RUNNING
    return MIGRATES if migrating and able and smaller else STAYS


@jit
def _stops_partner(r: Round, other: Any) -> bool:
    """Return whether a running job, if it shares GPUs, comes first of the two, and the other one may be stopped as well."""
    if other.partner < 0:
        return True
    partner = r.state.jobs[other.partner]
    return can_stop(r, partner) and comes_before(r, other, partner)


@jit
def list_releasable(r: Round, job: Any, why: int, migrating: bool) -> int:
    """List the jobs that could release GPUs for a waiting one, in the order in which they are spared: the policy's. Return their number.

    0 also if they and what is free soon are too few GPUs.
    """
    n, gpus = 0, r.scratch.walk[0].soon + r.scratch.walk[0].noticed
    for i in range(rank_of(r, job) if why == PREEMPT else 0, r.state.counts[0].running):
        other = r.state.jobs[r.scratch.order[i]]
        how = _how(r, job, other, why, migrating)
        if how != STAYS:
            listed = r.scratch.listed[n]
            listed.what, listed.how, listed.chosen, listed.keeps = other.row, how, 0, 0
            n += 1
            gpus += other.gpus if how == STOPS else 0
    return n if gpus >= job.gpus else 0


# ---- the least set


@jit
def probe_set(r: Round, rules: Any, job: Any, first: int, n: int, late: bool) -> bool:
    """Return whether there is a place if the chosen ones of n listed jobs are released; none before `first` is chosen.

    True: the place is in the row being written, or the rows of the waiting job and of the jobs that migrate are written.
    """
    guaranteed, migrating, nodes = within_guarantee(r, job) >= 0, False, r.scratch.nodes
    if exceeded_limit(r, job, False, n) >= 0:
        return False
    offer(r, DUE if guaranteed else SOON)
    for i in range(first, n):
        if r.scratch.listed[i].chosen:
            offer_held(r, r.state.jobs[r.scratch.listed[i].what])
            migrating |= r.scratch.listed[i].how == MIGRATES
    if not migrating:
        return probe(r, rules, job, late)
    for x in range(len(nodes.offer)):  # jobs do not migrate to GPUs under notice
        nodes.left[x] = nodes.offer[x] - (nodes.noticed[x] if guaranteed else 0)
    rows = r.out.counts[0].rows
    if probe(r, rules, job, late) and _place_migrating(r, rules, job, first, n):
        return True
    drop_rows(r.out, rows)
    return False


@jit
def _place_migrating(r: Round, rules: Any, job: Any, first: int, n: int) -> bool:
    """Write a place for every job of the set that cannot keep its own GPUs: free soon, or else released by the set."""
    _give(r, PROMISE, job.row)
    for i in range(first, n):
        listed = r.scratch.listed[i]
        if listed.how != MIGRATES or not listed.chosen:
            continue
        other = r.state.jobs[listed.what]
        listed.keeps = _keeps_own(r, other)
        if listed.keeps:
            continue
        if not _finds_other_place(r, rules, other, True) and not _finds_other_place(r, rules, other, False):
            return False
        _give(r, MIGRATE, other.row)
    return True


@jit
def _give(r: Round, kind: int, j: int) -> None:
    """End the row being written with a place of the set being probed."""
    for k in range(r.out.rows[r.out.counts[0].rows].seat_at, r.out.counts[0].seats):
        r.scratch.nodes.left[r.out.seats[k].node] -= r.out.seats[k].gpus
    close_row(r.out, kind, j)


@jit
def _keeps_own(r: Round, other: Any) -> bool:
    """Return whether all GPUs of a job that would migrate are left; if so, it keeps them."""
    left, seat, keeps = r.scratch.nodes.left, other.seat, True
    count_held(r, other, left, -1)
    while seat >= 0:
        keeps &= left[r.state.seats[seat].node] >= 0
        seat = r.state.seats[seat].next
    if not keeps:
        count_held(r, other, left, 1)
    return keeps


@jit
def _finds_other_place(r: Round, rules: Any, other: Any, free: bool) -> bool:
    """Return whether GPUs that the set leaves have a place for a job that migrates; if `free`, only those free soon."""
    nodes = r.scratch.nodes
    for x in range(len(nodes.offer)):
        nodes.offer[x] = min(nodes.soon[x], nodes.left[x]) if free else nodes.left[x]
    return probe(r, rules, other, False)


@jit
def choose_least(r: Round, rules: Any, job: Any, n: int, late: bool) -> bool:
    """Choose the least set of the n listed jobs. True: it is marked, and the rows of jobs that get places are written.

    The last 1, 2, 4, ... jobs are tried; then those are put back that keep their GPUs, and from the first on each that is not needed.
    """
    rows, listed, first = r.out.counts[0].rows, r.scratch.listed, n
    for i in range(n):
        listed[i].chosen = 0
    while True:
        first = max(0, n - max(1, 2 * (n - first)))
        for i in range(first, n):
            listed[i].chosen = 1
        if probe_set(r, rules, job, first, n, late):
            break
        if first == 0:
            return False
    drop_rows(r.out, rows)
    for i in range(first, n):
        listed[i].chosen &= not listed[i].keeps
    for i in range(first, n):
        if listed[i].chosen:
            listed[i].chosen = 0
            listed[i].chosen = not probe_set(r, rules, job, first, n, late)
            drop_rows(r.out, rows)
    return probe_set(r, rules, job, first, n, late)


# ---- what releasing a set costs


@jit
def pays_at(r: Round, rules: Any, job: Any, n: int) -> float:
    """Return from when on releasing the chosen jobs pays for itself, as the policy says."""
    stops = r.scratch.stops[0]
    stops.jobs, stops.moves, stops.gpus, stops.gpu_s, stops.save, stops.k1, stops.k2 = 0, 0, 0, 0.0, 0.0, np.inf, np.inf
    for i in range(n):
        listed = r.scratch.listed[i]
        if listed.chosen:
            other = r.state.jobs[listed.what]
            stops.moves += listed.how == MIGRATES
            stops.gpus += other.gpus
            _add_cost(r, other)
            if other.partner >= 0:
                _add_cost(r, r.state.jobs[other.partner])
    at = rules.preempt_at(job, stops, r.scratch.walk[0].now, r.options)
    if np.isnan(at):
        raise ValueError(
            "the policy's preempt_at(job, stops, now, options) must return a time, or infinity, and returned NaN"
        )
    return at


@jit
def _add_cost(r: Round, other: Any) -> None:
    """Add what stopping a job and starting it again costs, and its key."""
    stops, key = r.scratch.stops[0], key_now(r, other)
    stops.jobs += 1
    stops.gpu_s += float(other.gpus * (other.save + other.resume))
    stops.save = max(stops.save, other.save)
    if key < (stops.k1, stops.k2):
        stops.k1, stops.k2 = key


@jit
def saved_by(r: Round, n: int) -> float:
    """Return when all stopping jobs and the chosen ones have stopped."""
    at = max(r.scratch.walk[0].now, r.scratch.walk[0].stopped_by)
    for i in range(n):
        if r.scratch.listed[i].chosen:
            at = max(at, r.scratch.walk[0].now + r.state.jobs[r.scratch.listed[i].what].save)
    return at


# ---- releasing a set


@jit
def stop(r: Round, other: Any) -> None:
    """Count a running job as stopping: what it holds is free soon. The row that is written next is its Stop or Migrate."""
    walk = r.scratch.walk[0]
    r.scratch.jobs[other.row].action = r.out.counts[0].rows
    walk.released += 1
    walk.stopped_by = max(walk.stopped_by, walk.now + other.save)
    walk.soon += other.gpus
    count_held(r, other, r.scratch.nodes.soon, 1)
    add_links(r, other, r.scratch.leaves.soon)
    for x in range(len(r.scratch.leaves.soon)):
        r.scratch.leaves.soon[x] &= ~r.scratch.leaves.taken[x]


@jit
def stop_for_others(r: Round, other: Any) -> None:
    """Write the Stop of a running job and of the job that shares its GPUs."""
    stop(r, other)
    count_in_accounts(r, other, -1, 1)
    close_row(r.out, STOP, other.row)
    if other.partner >= 0:
        r.scratch.jobs[other.partner].action = r.out.counts[0].rows
        close_row(r.out, STOP, other.partner)


@jit
def notify(r: Round, other: Any, until: float, team: int, waiting: int) -> None:
    """Write the notice of a running job: its GPUs go to a team when it is over. `waiting`: see `notice_with` of jobs."""
    r.scratch.walk[0].released += 1
    r.scratch.jobs[other.row].action = r.out.counts[0].rows
    count_noticed(r, other, 1)
    add_seat(r.out, team, waiting)
    close_row_until(r.out, NOTIFY, other.row, until)


@jit
def notified_until(r: Round, job: Any) -> float:
    """Return when the notice of a running job is over, also one of this decision; infinity: it has none, or was stopped."""
    kind = decided(r, job.row)
    if kind == NOTIFY:
        return r.out.rows[r.scratch.jobs[job.row].action].until
    return np.inf if kind == STOP or kind == MIGRATE else job.until


@jit
def ready_by(r: Round, row: int) -> float:
    """Return when all notices are over, also those given now, if places of a row depend on notices; otherwise -infinity."""
    until, depends = -np.inf, False
    for k in range(r.out.rows[row].seat_at, r.out.rows[row + 1].seat_at):
        depends |= r.scratch.nodes.soon[r.out.seats[k].node] < 0
    for k in range(r.out.rows[row].link_at, r.out.rows[row + 1].link_at):
        depends |= r.scratch.leaves.noticed[r.out.links[k].leaf] & r.out.links[k].mask != 0
    for i in range(r.state.counts[0].running if depends else 0):
        notice_over = notified_until(r, r.state.jobs[r.state.run[i]])
        until = max(until, notice_over) if notice_over < np.inf else until
    return until


@jit
def new_notice_until(r: Round, other: Any) -> float:
    """Return when a notice that a running job gets now would be over: no job runs for less than a second."""
    now = r.scratch.walk[0].now
    runs = other.started if other.state == JobState.RUNNING else max(now, other.since + other.resume)
    return max(now + r.options.notice, runs + LEAST_RUN_S)


@jit
def release(r: Round, job: Any, why: int, n: int, rows: int, late: bool) -> None:
    """Stop, migrate or notify the chosen jobs, and promise the waiting job its place.

    The rows of the waiting job and of jobs that migrate were written from row `rows` on, or its place is in the row being written. Jobs
    under notice leave together when it is over. `end_notices` finds new places then for jobs that migrate.
    """
    until = _released_at(r, why, n)
    if r.out.counts[0].rows == rows:
        close_row(r.out, PROMISE, job.row)
    # If jobs migrate, all notices of the set stay while the waiting job has its promise.
    waiting = job.row if r.out.counts[0].rows > rows + 1 else -1
    if until > r.scratch.walk[0].now:
        drop_rows(r.out, rows + 1)
    places = r.out.counts[0].rows
    for i in range(n):
        listed, other = r.scratch.listed[i], r.state.jobs[r.scratch.listed[i].what]
        if not listed.chosen or listed.keeps:
            continue
        if until > r.scratch.walk[0].now:
            notify(r, other, until, within_guarantee(r, job), waiting)
        elif listed.how == MIGRATES:
            stop(r, other)
        else:
            stop_for_others(r, other)
    count_waiting(r, job)
    for row in range(rows, places):
        r.scratch.jobs[r.out.rows[row].job].action = row
        take(r, r.out, row, late)
    r.out.rows[rows].until = ready_by(r, rows)


@jit
def _released_at(r: Round, why: int, n: int) -> float:
    """Return when the set of chosen jobs releases its GPUs: now, or for a guarantee when the last notice is over."""
    at = r.scratch.walk[0].now
    for i in range(n if why == RECLAIM else 0):
        if r.scratch.listed[i].chosen and not r.scratch.listed[i].keeps:
            at = max(at, new_notice_until(r, r.state.jobs[r.scratch.listed[i].what]))
    return at
