"""Making room: the one search for jobs that release their GPUs to a waiting job.

Contract: `list_releasable` writes the jobs that could release GPUs into `scratch.listed`, in the order in which they are spared.
`make_room` chooses the least set of them that gives the waiting job a place, and is the only writer of Stop, Migrate and Notify
rows for waiting jobs. The backfill reservation (core/deciding/reservation.py) uses the same list with the time at which each job leaves.

The least set: release jobs from the last on until the placement finds a place; then, from the first on, put back every job without
which there still is one. So no job is released in vain, and none while a later one could be instead.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    DUE,
    SOON,
    choose_place,
    count_noticed,
    free_soon,
    narrow_offer,
    offer,
    offer_held,
    probe,
    take,
)
from headway.core.deciding.teams import (
    clear_freed,
    count_freed,
    count_leaving,
    count_placed,
    count_waiting,
    gives_way,
    may_reclaim,
    within_guarantee,
    within_limits,
)
from headway.core.events import MIGRATE, NOT_WAITING, NOTIFY, PROMISE, STOP, WAIT_GPUS, WAIT_MIN_RUNTIME
from headway.core.keys import LEAST_RUN_S, is_non_preemptible, keeps_gpus
from headway.core.order import comes_before, key_now, rank_of
from headway.core.tables.actions import add_seat, close_row, close_row_until, drop_rows
from headway.core.tables.scratch import Round
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState

# Why room is made.
PREEMPT: Final = 0  # for a job that comes first in the order
RECLAIM: Final = 1  # for a job within its team's guarantee
DEFRAGMENT: Final = 2  # as PREEMPT, and smaller jobs may migrate
# How a job releases its GPUs.
STAYS: Final = 0
STOPS: Final = 1
MIGRATES: Final = 2


# ---- who could release GPUs


# What this decision did with a running job (`released` of its mark).
STOPPED: Final = 1
NOTIFIED: Final = 2


@jit
def is_released(r: Round, other: Any) -> bool:
    """Return whether this decision stops, migrates or notifies a running job."""
    return r.scratch.walk[0].released > 0 and r.scratch.jobs[other.row].released != 0


@jit
def is_stopped(r: Round, other: Any) -> bool:
    """Return whether this decision stops or migrates a running job."""
    return r.scratch.walk[0].released > 0 and r.scratch.jobs[other.row].released == STOPPED


@jit
def can_stop(r: Round, other: Any) -> bool:
    """Return whether a running job may be stopped now, its minimum run time being over; jobs never start for zero seconds."""
    now = r.scratch.walk[0].now
    if other.state != JobState.RUNNING or other.started >= now or keeps_gpus(other, now, r.options):
        return False
    return other.until == np.inf and not is_released(r, other)


@jit
def _how(r: Round, job: Any, other: Any, why: int) -> int:
    """Return how a running job could release its GPUs for a waiting one: the table of cases.

    Two jobs that share GPUs are stopped together, where the first of them stands in the order.
    """
    if why == RECLAIM:
        free = other.until == np.inf and not is_released(r, other) and not is_non_preemptible(other, r.options)
        return STOPS if free and may_reclaim(r, job, other) else STAYS
    if not can_stop(r, other) or not gives_way(r, job, other):
        return STAYS
    if other.partner < 0:
        return STOPS
    partner = r.state.jobs[other.partner]
    return STOPS if can_stop(r, partner) and comes_before(r, other, partner) else STAYS


@jit
def _may_migrate(r: Round, job: Any, other: Any, why: int) -> bool:
    """Return whether a smaller running job may migrate for a waiting one; for a guarantee, whatever its minimum run time."""
    if other.gpus >= job.gpus or other.partner >= 0:
        return False
    if why != RECLAIM:
        return can_stop(r, other)
    running = other.state == JobState.RUNNING
    return running and other.until == np.inf and not is_released(r, other) and not is_non_preemptible(other, r.options)


@jit
def gpus_soon(r: Round, job: Any) -> int:
    """Return the GPUs that are free soon for a job; within a guarantee, with those under notice."""
    if r.options.teams == NO_TEAMS:
        return int(r.scratch.walk[0].soon)
    gpus, guaranteed = 0, within_guarantee(r, job) >= 0
    for x in range(len(r.scratch.nodes)):
        gpus += max(0, r.scratch.nodes[x].soon + (r.scratch.nodes[x].noticed if guaranteed else 0))
    return gpus


@jit
def list_releasable(r: Round, job: Any, why: int, migrating: bool) -> int:
    """List the jobs that could release GPUs for a waiting one, in the order in which they are spared. Return their number.

    Jobs that would migrate are spared before jobs that would be stopped. 0 also if all of them together hold too few GPUs.
    """
    n, gpus, running = 0, gpus_soon(r, job), r.state.counts[0].running
    first = 0 if why == RECLAIM else rank_of(r, job)
    for i in range(running if migrating else 0):
        other = r.state.jobs[r.scratch.order[i]]
        if _may_migrate(r, job, other, why) and (i < first or _how(r, job, other, why) == STAYS):
            n = list_one(r, other, MIGRATES, n)
    for i in range(first, running):
        other = r.state.jobs[r.scratch.order[i]]
        if _how(r, job, other, why) == STOPS:
            n = list_one(r, other, STOPS, n)
            gpus += other.gpus
    return n if gpus >= job.gpus else 0


@jit
def list_one(r: Round, other: Any, how: int, n: int) -> int:
    """Append a job to the list of n jobs; return n + 1."""
    row = r.scratch.listed[n]
    row.what, row.how, row.chosen, row.keeps = other.row, how, 0, 0
    return n + 1


# ---- the least set


@jit
def _fits(r: Round, rules: Any, job: Any, why: int, first: int, n: int, late: bool) -> bool:
    """Return whether there is a place if the chosen jobs and all listed from `first` on are released.

    True: the rows of the waiting job and of the jobs that migrate are written.
    """
    guaranteed, migrating = within_guarantee(r, job) >= 0, False
    offer(r, DUE if guaranteed else SOON)
    clear_freed(r)
    for i in range(n):
        listed = r.scratch.listed[i]
        if listed.chosen or i >= first:
            other = r.state.jobs[listed.what]
            offer_held(r, other)
            migrating |= listed.how == MIGRATES
            if listed.how == STOPS:
                count_freed(r, other)
    if not within_limits(r, job):
        return False
    if not migrating:
        return probe(r, rules, job, late)
    for x in range(len(r.scratch.nodes)):
        node = r.scratch.nodes[x]
        node.given = (node.noticed if guaranteed else 0) - node.offer  # what is left once places are given, below 0
    rows = r.out.counts[0].rows
    if probe(r, rules, job, late) and _place_migrating(r, rules, job, first, n):
        return True
    drop_rows(r.out, rows)
    return False


@jit
def _give(r: Round, kind: int, j: int) -> None:
    """End the row being written with a place of the set being probed."""
    for k in range(r.out.rows[r.out.counts[0].rows].seat_at, r.out.counts[0].seats):
        r.scratch.nodes[r.out.seats[k].node].given += r.out.seats[k].gpus
    close_row(r.out, kind, j)


@jit
def _keeps_own(r: Round, other: Any) -> bool:
    """Return whether all GPUs of a job that would migrate are left; if so, it keeps them."""
    for sign in (1, -1):
        left, seat = True, other.seat
        while seat >= 0:
            node = r.scratch.nodes[r.state.seats[seat].node]
            node.given += sign
            left &= node.given <= 0
            seat = r.state.seats[seat].next
        if sign == 1 and left:
            return True
    return False


@jit
def _place_migrating(r: Round, rules: Any, job: Any, first: int, n: int) -> bool:
    """Write a place for every job of the set that cannot keep its own GPUs: free soon, or else released by the set."""
    _give(r, PROMISE, job.row)
    for i in range(n):
        listed = r.scratch.listed[i]
        if listed.how != MIGRATES or not (listed.chosen or i >= first):
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
def _finds_other_place(r: Round, rules: Any, other: Any, free: bool) -> bool:
    """Return whether what the set leaves, or of that what is `free` soon, has a place for a job that migrates."""
    for x in range(len(r.scratch.nodes)):
        node = r.scratch.nodes[x]
        node.offer = min(node.soon, -node.given) if free else -node.given
    return narrow_offer(r, other, False, True) >= other.gpus and choose_place(r, rules, other)


@jit
def first_that_suffices(r: Round, rules: Any, job: Any, why: int, n: int, late: bool) -> int:
    """Return a place in the list from which on all jobs together suffice; -1: there is none.

    With jobs that migrate, releasing more may help less: begin with few.
    """
    rows = r.out.counts[0].rows
    size = 1 if r.scratch.listed[0].how == MIGRATES else n
    while not _fits(r, rules, job, why, n - size, n, late):
        if size == n:
            return -1
        size = min(2 * size, n)
    drop_rows(r.out, rows)
    return n - size


@jit
def _spare_each(r: Round, rules: Any, job: Any, why: int, first: int, n: int) -> None:
    """Choose the jobs from `first` on that do not keep their GPUs; put back, from the first on, every one that is not needed."""
    rows = r.out.counts[0].rows
    for i in range(first, n):
        r.scratch.listed[i].chosen = not r.scratch.listed[i].keeps
    for i in range(first, n):
        if r.scratch.listed[i].chosen:
            r.scratch.listed[i].chosen = 0
            if not _fits(r, rules, job, why, n, n, False):
                r.scratch.listed[i].chosen = 1
            drop_rows(r.out, rows)


@jit
def _spare_by_bisection(r: Round, rules: Any, job: Any, why: int, n: int, late: bool) -> None:
    """Choose the same set if no job migrates: releasing more never helps less, so whole ranges can be put back at once."""
    rows, low = r.out.counts[0].rows, 0
    while low < n:
        # Find the last place in the list from which on jobs suffice, together with the chosen ones: the job there is needed.
        high = n
        while low < high:
            middle = (low + high + 1) >> 1
            if _fits(r, rules, job, why, middle, n, late):
                low = middle
                drop_rows(r.out, rows)
            else:
                high = middle - 1
        if low < n:
            r.scratch.listed[low].chosen = 1
            low += 1


@jit
def choose_least(r: Round, rules: Any, job: Any, why: int, n: int, late: bool) -> bool:
    """Choose the least set of the n listed jobs. True: it is marked, and the rows of jobs that get places are written."""
    for i in range(n):
        r.scratch.listed[i].chosen = 0
    first = first_that_suffices(r, rules, job, why, n, late) if n > 0 else -1
    if first < 0:
        return False
    if r.scratch.listed[0].how == MIGRATES:
        _spare_each(r, rules, job, why, first, n)
    else:
        _spare_by_bisection(r, rules, job, why, n, late)
    return _fits(r, rules, job, why, n, n, late)


# ---- releasing a set


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
    stops, (k1, k2) = r.scratch.stops[0], key_now(r, other)
    stops.jobs += 1
    stops.gpu_s += float(other.gpus * (other.save + other.resume))
    stops.save = max(stops.save, other.save)
    if k1 < stops.k1 or (k1 == stops.k1 and k2 < stops.k2):
        stops.k1, stops.k2 = k1, k2


@jit
def saved_by(r: Round, n: int) -> float:
    """Return when all stopping jobs and the chosen ones have stopped."""
    at = max(r.scratch.walk[0].now, r.scratch.walk[0].stopped_by)
    for i in range(n):
        if r.scratch.listed[i].chosen:
            at = max(at, r.scratch.walk[0].now + r.state.jobs[r.scratch.listed[i].what].save)
    return at


@jit
def _mark_released(r: Round, other: Any, how: int) -> None:
    """Mark a running job as STOPPED or NOTIFIED in this decision."""
    walk = r.scratch.walk[0]
    for i in range(r.state.counts[0].running if walk.released == 0 else 0):
        r.scratch.jobs[r.state.run[i]].released = 0
    walk.released += 1
    r.scratch.jobs[other.row].released = how


@jit
def stop(r: Round, other: Any) -> None:
    """Count a running job as stopping, with the job that shares its GPUs: what they hold is free soon."""
    walk = r.scratch.walk[0]
    _mark_released(r, other, STOPPED)
    if other.partner >= 0:
        _mark_released(r, r.state.jobs[other.partner], STOPPED)
    walk.stopped_by = max(walk.stopped_by, walk.now + other.save)
    free_soon(r, other)


@jit
def stop_for_others(r: Round, other: Any) -> None:
    """Write the Stop of a running job and of the job that shares its GPUs."""
    stop(r, other)
    count_placed(r, other, -1)
    count_leaving(r, other, 1)
    close_row(r.out, STOP, other.row)
    if other.partner >= 0:
        close_row(r.out, STOP, other.partner)


@jit
def notify(r: Round, other: Any, until: float, team: int, waiting: int) -> None:
    """Write the notice of a running job: its GPUs go to a team when it is over. `waiting`: see `notice_with` of jobs."""
    _mark_released(r, other, NOTIFIED)
    r.scratch.walk[0].notified += 1
    r.scratch.jobs[other.row].place = r.out.counts[0].rows
    count_noticed(r, other, 1)
    add_seat(r.out, team, waiting)
    close_row_until(r.out, NOTIFY, other.row, until)


@jit
def notified_until(r: Round, job: Any) -> float:
    """Return when the notice of a running job is over, also one of this decision; infinity: it has none, or was stopped."""
    if is_stopped(r, job):
        return np.inf
    return r.out.rows[r.scratch.jobs[job.row].place].until if is_released(r, job) else job.until


@jit
def notice_until(r: Round, other: Any) -> float:
    """Return when the notice of a running job would be over: no job runs for less than a second."""
    now = r.scratch.walk[0].now
    runs = other.started if other.state == JobState.RUNNING else max(now, other.since + other.resume)
    return max(now + r.options.notice, runs + LEAST_RUN_S)


@jit
def _is_in_set(listed: Any) -> bool:
    """Return whether a listed job is chosen and, if it would migrate, cannot keep its own GPUs."""
    return listed.chosen == 1 and (listed.how == STOPS or not listed.keeps)


@jit
def _released_at(r: Round, why: int, n: int) -> float:
    """Return when the set of chosen jobs releases its GPUs: now, or when the last notice is over."""
    at = r.scratch.walk[0].now
    for i in range(n if why == RECLAIM else 0):
        if _is_in_set(r.scratch.listed[i]):
            at = max(at, notice_until(r, r.state.jobs[r.scratch.listed[i].what]))
    return at


@jit
def _release(r: Round, job: Any, why: int, n: int, rows: int, late: bool) -> None:
    """Stop, migrate or notify the chosen jobs, and promise the waiting job its place.

    Its row, and those of jobs that migrate, were written from row `rows` on; with a notice, jobs migrate when it is over.
    """
    walk, until, guarantee = r.scratch.walk[0], _released_at(r, why, n), within_guarantee(r, job)
    if r.out.counts[0].rows == rows:
        close_row(r.out, PROMISE, job.row)
    waiting = job.row if r.out.counts[0].rows > rows + 1 else -1
    if until > walk.now:
        drop_rows(r.out, rows + 1)
        r.out.rows[rows].until = until
    ends = r.out.counts[0].rows
    for i in range(n):
        listed = r.scratch.listed[i]
        if not _is_in_set(listed):
            continue
        other = r.state.jobs[listed.what]
        if until > walk.now:
            notify(r, other, until, guarantee, waiting)
        elif listed.how == MIGRATES:
            stop(r, other)
            walk.reach += other.gpus  # it leaves as many GPUs as it is given
        else:
            stop_for_others(r, other)
    count_waiting(r, job)
    for row in range(rows, ends):
        r.scratch.jobs[r.out.rows[row].job].place = row
        take(r, r.out, row, SOON, late)


@jit
def release_if_it_pays(r: Round, rules: Any, job: Any, why: int, n: int, rows: int, late: bool) -> int:
    """Release the chosen jobs, whose rows were written from row `rows` on, once that pays. Return NOT_WAITING, or why the job waits."""
    if r.options.weighs and why != RECLAIM:
        at = pays_at(r, rules, job, n)
        if at > r.scratch.walk[0].now:
            r.out.counts[0].retry_at = min(r.out.counts[0].retry_at, at)
            drop_rows(r.out, rows)
            return WAIT_MIN_RUNTIME
    _release(r, job, why, n, rows, late)
    return NOT_WAITING


@jit
def make_room(r: Round, rules: Any, job: Any, why: int, migrating: bool) -> int:
    """Promise a waiting job the GPUs that the least set of jobs releases. Return NOT_WAITING, or why the job waits."""
    rows, n = r.out.counts[0].rows, list_releasable(r, job, why, migrating)
    if not choose_least(r, rules, job, why, n, False):
        return WAIT_GPUS
    return release_if_it_pays(r, rules, job, why, n, rows, False)
