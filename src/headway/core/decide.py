"""decide: who starts now, where, who is promised GPUs, and who has to make room.

Waiting jobs are seated in the order of the policy. Each takes what is free now, else what is being freed, else what it makes jobs after it
give up (core/deciding/victims.py); one that finds no place gives its turn to the next, and the first of those has GPUs kept for it
(core/deciding/reservations.py). Jobs are stopped only at the moment of an arrival, an end, a change of keys, or the end of a quantum: when
a job has merely stopped or started, the others fill what is free. Deciding reads the state, and writes the scratch
(core/tables/scratch.py) and `out`. docs/semantics.md has the rules.
"""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    NOW,
    SOON,
    choose_place,
    close_class,
    holds,
    limit_offer,
    offer,
    open_classes,
    open_rooms,
    withdraw,
)
from headway.core.deciding.packing import gather_all, pack_rest, part_bad_pairs
from headway.core.deciding.reservations import is_late
from headway.core.deciding.victims import choose_victims, chosen_worth_at, could_stop_for, mark_stopped
from headway.core.deciding.why import explain_classes
from headway.core.events import NOT_WAITING, RESERVE, RESIZE, START, STOP, WAIT_GPUS, WAIT_RESERVATION, WAIT_TURN
from headway.core.keys import pinned
from headway.core.order import before, first_waiting, list_as_kept, list_by_key, next_waiting, rank_of
from headway.core.tables.actions import ACTIONS_TYPE, Actions, add_seat, clear, close_row, copy_places, forget
from headway.core.tables.options import KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.timers import next_timer
from headway.job_state import JobState

# Jobs per decision that may be looked at beyond one of their size that a reservation holds back.
MOST_LOOKS: Final = 100


@jit
def _take(scratch: Scratch, out: Actions, kind: int, job: Any, within: int, late: bool) -> None:
    """End the row being written about the job; its places are no longer on offer."""
    mark, row = scratch.jobs[job.row], out.counts[0].rows
    mark.seated = scratch.walk[0].decision
    mark.place = row
    close_row(out, kind, job.row)
    withdraw(scratch, out, row, within, late)


@jit
def _set_aside(state: State, scratch: Scratch, job: Any, row: int) -> None:
    """Keep what the job was promised: it is no longer on offer."""
    mark = scratch.jobs[job.row]
    mark.seated = scratch.walk[0].decision
    mark.place = -1 - row
    withdraw(scratch, state.promises, row, SOON, False)


@jit
def _promised(state: State, scratch: Scratch, job: Any) -> int:
    """The row of the job's promise if it can still be kept, or -1."""
    row = job.promise
    if row < 0 or row >= state.promises.counts[0].rows or state.promises.rows[row].job != job.row:
        return -1
    return row if holds(state, scratch, state.promises, row, SOON) else -1


@jit
def _start_promised(state: State, scratch: Scratch, out: Actions, job: Any, row: int) -> bool:
    """Start the job on what it was promised, if that is free now."""
    if not holds(state, scratch, state.promises, row, NOW):
        return False
    copy_places(state.promises, row, out)
    _take(scratch, out, START, job, NOW, False)
    return True


@jit
def _keep_promises(state: State, scratch: Scratch, out: Actions) -> None:
    """Where nobody may be stopped, all promises are kept, before anyone else is seated."""
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        if job.promise != row or job.state != JobState.PENDING or _promised(state, scratch, job) < 0:
            continue
        if not _start_promised(state, scratch, out, job, row):
            _set_aside(state, scratch, job, row)


@jit
def _finds_place(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, within: int, late: bool
) -> bool:
    """Whether there is a place for the job now or soon. True: it is in the row being written."""
    offer(scratch, within)
    return limit_offer(state, scratch, late) >= job.gpus and choose_place(state, options, place, scratch, out, job)


@jit
def _has_place(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether there is a place for the job at all, were nothing reserved: now, soon, or if those who come after it stop."""
    found = _finds_place(state, options, place, scratch, out, job, SOON, False)
    if not found and scratch.walk[0].full:
        found = could_stop_for(state, options, place, scratch, out, job)
    forget(out)
    return found


@jit
def _stop_chosen(state: State, scratch: Scratch, out: Actions) -> None:
    """Write the stops of the chosen jobs and of those that share their GPUs."""
    for i in range(scratch.walk[0].chosen):
        job = state.jobs[scratch.chosen[i]]
        close_row(out, STOP, job.row)
        if job.partner >= 0:
            close_row(out, STOP, job.partner)


@jit
def _starts_late(
    state: State, options: Options, key: Any, place: Any, scratch: Scratch, out: Actions, job: Any
) -> bool:
    """Whether a job has to leave the reservation alone if it starts once all have stopped who are to, those chosen among them."""
    walk = scratch.walk[0]
    if not options.reserves or walk.first < 0:
        return False
    starts = max(walk.now, walk.stopped_by)
    for i in range(walk.chosen):
        starts = max(starts, walk.now + state.jobs[scratch.chosen[i]].save)
    return is_late(state, options, key, place, scratch, out, job, starts)


@jit
def _promise_places(
    state: State, options: Options, key: Any, place: Any, scratch: Scratch, out: Actions, job: Any, late: bool
) -> bool:
    """Promise a waiting job what is free soon, or what it makes others give up; a job in time now may be late once they have."""
    walk = scratch.walk[0]
    walk.chosen = 0
    late = late or _starts_late(state, options, key, place, scratch, out, job)
    if state.counts[0].stopping + walk.stops > 0 and _finds_place(state, options, place, scratch, out, job, SOON, late):
        _take(scratch, out, RESERVE, job, SOON, late)
        return True
    if not walk.full or not choose_victims(state, options, place, scratch, out, job, late):
        return False
    if not late and _starts_late(state, options, key, place, scratch, out, job):
        late = True
        forget(out)
        if not choose_victims(state, options, place, scratch, out, job, late):
            return False
    at = chosen_worth_at(state, options, scratch, job) if options.rent > 0.0 else walk.now
    if at > walk.now:
        walk.worth_at, walk.weighed = min(walk.worth_at, at), job.row
        forget(out)
        return False
    for i in range(walk.chosen):
        mark_stopped(state, scratch, state.jobs[scratch.chosen[i]])
    walk.stops += walk.chosen
    _take(scratch, out, RESERVE, job, SOON, late)
    _stop_chosen(state, scratch, out)
    return True


@jit
def _seat_waiting(
    state: State, options: Options, key: Any, place: Any, scratch: Scratch, out: Actions, job: Any
) -> int:
    """Find a place for a waiting job, and write what to do. Returns NOT_WAITING, or why it waits as far as is known here."""
    walk = scratch.walk[0]
    if scratch.jobs[job.row].seated == walk.decision:
        return NOT_WAITING  # its promise is kept
    row = _promised(state, scratch, job)
    if row >= 0 and _start_promised(state, scratch, out, job, row):
        return NOT_WAITING
    if job.gpus > walk.spare:
        return WAIT_GPUS
    late = False
    if options.reserves and walk.first >= 0:
        if not _has_place(state, options, place, scratch, out, job):
            return WAIT_GPUS
        late = is_late(state, options, key, place, scratch, out, job, walk.now)
    if _finds_place(state, options, place, scratch, out, job, NOW, late):
        _take(scratch, out, START, job, NOW, late)
        return NOT_WAITING
    if row >= 0:
        _set_aside(state, scratch, job, row)
        return NOT_WAITING
    if _promise_places(state, options, key, place, scratch, out, job, late):
        return NOT_WAITING
    if walk.weighed == job.row:
        return WAIT_TURN
    if late and _finds_place(state, options, place, scratch, out, job, NOW, False):
        forget(out)
        return WAIT_RESERVATION
    return WAIT_GPUS


@jit
def _next_head(state: State, scratch: Scratch) -> int:
    """Which open class has the waiting job that comes first, or -1."""
    best = -1
    for i in range(scratch.walk[0].open):
        if best < 0 or before(state.jobs, scratch.classes[i].head, scratch.classes[best].head):
            best = i
    return best


@jit
def _found_no_place(state: State, scratch: Scratch, i: int, why: int) -> None:
    """The first of open class i that is not seated by now (its promise may have been kept) waits on."""
    walk, c, head = scratch.walk[0], scratch.classes[i].id, scratch.classes[i].head
    while head >= 0 and scratch.jobs[head].seated == walk.decision:
        head = next_waiting(state, c, head)
    if head < 0:
        scratch.classes[c].rest = -1
        return
    if scratch.classes[c].why == NOT_WAITING:  # the first of its class
        scratch.classes[c].rest = head
        scratch.classes[c].why = why
    if walk.first < 0 or before(state.jobs, head, walk.first):
        walk.first = head


@jit
def _advance(state: State, options: Options, scratch: Scratch, i: int, why: int) -> None:
    """After the head of class i had its turn, go on to the next of its class; where the head found no place, close the class."""
    walk, seated = scratch.walk[0], why == NOT_WAITING
    if not seated:
        _found_no_place(state, scratch, i, why)
        if options.blocks:
            walk.open = 0
            return
    c, following = scratch.classes[i].id, -1
    # One that is only kept from the GPUs of a reservation does not speak for the others of its class: they may be gone in time.
    held_back = why == WAIT_RESERVATION and not options.preempts and walk.looks < MOST_LOOKS
    walk.looks += held_back
    if seated or held_back or not options.by_class:
        following = next_waiting(state, c, scratch.classes[i].head)
    if scratch.classes[c].why == NOT_WAITING:
        scratch.classes[c].rest = following
    if following < 0:
        close_class(scratch, i)
    else:
        scratch.classes[i].head = following
    if not options.blocks:
        # Classes are sorted by GPUs: the last ones stop fitting first.
        while walk.open > 0 and scratch.classes[walk.open - 1].id // (2 * options.models) > walk.spare:
            _found_no_place(state, scratch, walk.open - 1, WAIT_GPUS)
            walk.open -= 1


@jit
def _seat_all(state: State, options: Options, key: Any, place: Any, scratch: Scratch, out: Actions) -> None:
    """Walk the waiting jobs, first come first."""
    walk = scratch.walk[0]
    open_classes(state, scratch)
    i = _next_head(state, scratch)
    if walk.full and i >= 0:
        for k in range(rank_of(state, options, scratch, state.jobs[scratch.classes[i].head]), state.counts[0].running):
            walk.spare += state.jobs[scratch.order[k]].gpus
    while i >= 0:
        job = state.jobs[scratch.classes[i].head]
        _advance(state, options, scratch, i, _seat_waiting(state, options, key, place, scratch, out, job))
        i = _next_head(state, scratch)


@jit
def _withdraw_promises(state: State, scratch: Scratch, out: Actions) -> None:
    """A promise that could not be kept is withdrawn: what it was for is another's now."""
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        waits = job.promise == row and job.state == JobState.PENDING
        if waits and scratch.jobs[job.row].seated != scratch.walk[0].decision:
            close_row(out, RESERVE, job.row)


ALLOT_SIGNATURE = types.void(STATE_TYPE, SCRATCH_TYPE, types.float64)
ALLOT_TYPE = types.FunctionType(ALLOT_SIGNATURE)


@jit(ALLOT_SIGNATURE)
def as_asked(state: State, scratch: Scratch, now: float) -> None:
    """The allotment of policies that do not resize jobs: never called."""


@jit
def _resize(state: State, options: Options, allot: Any, scratch: Scratch, out: Actions) -> None:
    """Give every job the size that an elastic policy wants for it (`want` of the scratch); those that run stop first."""
    walk = scratch.walk[0]
    allot(state, scratch, walk.now)
    for i in range(state.counts[0].running if walk.full else 0):
        job = state.jobs[state.run[i]]
        if job.state == JobState.RUNNING and not pinned(job, walk.now, options):
            _resize_to(scratch, out, job)
    for i in range(state.counts[0].classes):
        j = first_waiting(state, state.classes[i].open)
        while j >= 0:
            _resize_to(scratch, out, state.jobs[j])
            j = next_waiting(state, state.classes[i].open, j)


@jit
def _resize_to(scratch: Scratch, out: Actions, job: Any) -> None:
    if scratch.jobs[job.row].want != job.gpus:
        add_seat(out, -1, scratch.jobs[job.row].want)
        close_row(out, RESIZE, job.row)


@jit
def _begin(state: State, options: Options, key: Any, scratch: Scratch, now: float) -> None:
    """Begin a walk: what is there, and who runs in which order."""
    walk = scratch.walk[0]
    walk.decision += 1
    walk.now, walk.stopped_by = now, state.counts[0].stopped_by
    walk.full = options.preempts and state.counts[0].moment == now
    walk.first, walk.reserved, walk.stops, walk.looks = -1, -1, 0, 0
    open_rooms(state, scratch)
    if options.moving:
        list_by_key(state, options, key, scratch, now)
    elif walk.full or options.packs:  # elsewhere nobody asks who runs in which order
        list_as_kept(state, scratch)


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, PLACE_TYPE, ALLOT_TYPE, SCRATCH_TYPE, types.float64, ACTIONS_TYPE))
def decide(
    state: State, options: Options, key: Any, place: Any, allot: Any, scratch: Scratch, now: float, out: Actions
) -> None:
    """Write what to do now into the rows of `out`. After a Resize the caller decides again: sizes come before seats."""
    clear(out)
    out.counts[0].now, out.counts[0].again = now, np.inf
    scratch.walk[0].weighed, scratch.walk[0].again = -1, np.inf
    if state.counts[0].moment == now or state.counts[0].waiting == 0:  # in between, what was weighed stands
        scratch.walk[0].worth_at = np.inf
    if state.counts[0].waiting == 0 and not (options.migrates or options.packs or options.elastic):
        return
    _begin(state, options, key, scratch, now)
    if options.packs and scratch.walk[0].full:
        part_bad_pairs(state, options, now, out)
    if options.elastic and out.counts[0].rows == 0:
        _resize(state, options, allot, scratch, out)
    if out.counts[0].rows > 0:
        return
    if not scratch.walk[0].full:
        _keep_promises(state, scratch, out)
    _seat_all(state, options, key, place, scratch, out)
    _withdraw_promises(state, scratch, out)
    if options.migrates and scratch.walk[0].full:
        gather_all(state, options, place, scratch, out)
    if options.packs:
        pack_rest(state, scratch, out)
    scratch.walk[0].again = out.counts[0].again
    explain_classes(state, options, scratch)


@jit(types.int64(STATE_TYPE, SCRATCH_TYPE, types.int64))
def next_changed_why(state: State, scratch: Scratch, i: int) -> int:
    """After a decision: the first open class, from the i-th on, whose jobs wait for another reason than is recorded; -1: none."""
    if scratch.walk[0].explained != scratch.walk[0].decision:
        return -1
    while i < state.counts[0].classes:
        c = state.classes[i].open
        if scratch.classes[c].rest >= 0 and scratch.classes[c].why != state.classes[c].why:
            return i
        i += 1
    return -1


@jit(types.boolean(OPTIONS_TYPE, SCRATCH_TYPE, types.float64, types.float64))
def tick_due(options: Options, scratch: Scratch, wake: float, now: float) -> bool:
    """Whether a world has to record Ticked before it decides: a quantum ended at `wake`, or a job has waited long enough to stop others."""
    weighed = options.rent > 0.0 and 0.0 < scratch.walk[0].worth_at <= now
    return (options.quantum < np.inf and wake <= now) or weighed


@jit(types.float64(STATE_TYPE, OPTIONS_TYPE, SCRATCH_TYPE, types.float64))
def wake_at(state: State, options: Options, scratch: Scratch, now: float) -> float:
    """After a decision: when to decide again even if nothing happens.

    At the next timer, when a job will have waited long enough to stop others, when the placement asked for it or, where there is a quantum
    and someone waits, at its end.
    """
    if options.quantum == np.inf:
        return min(next_timer(state), scratch.walk[0].worth_at, scratch.walk[0].again)
    if state.counts[0].waiting == 0 and not (options.elastic and state.counts[0].running > 0):
        return np.inf
    turn = (np.floor(now / options.quantum) + 1) * options.quantum
    return turn if turn > now else turn + options.quantum
