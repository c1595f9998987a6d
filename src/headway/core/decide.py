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
from headway.core.deciding.bookings import open_bookings
from headway.core.deciding.clearing import keep_places_of_moved, look_again, may_tidy
from headway.core.deciding.demands import hold_up, is_held_up
from headway.core.deciding.offers import close_all, close_class, open_classes, open_rooms
from headway.core.deciding.packing import gather_all, pack_rest, part_bad_pairs
from headway.core.deciding.seating import clear_booked, keep_promises, seat_waiting, withdraw_promises
from headway.core.deciding.teams import in_one_queue, is_below, note_unmet, open_teams, queue_of
from headway.core.deciding.tournament import first_of_teams, owed_to
from headway.core.deciding.victims import sum_stoppable
from headway.core.deciding.weighing import Rules
from headway.core.deciding.why import explain_classes
from headway.core.events import NOT_WAITING, RESIZE, WAIT_GPUS, WAIT_QUOTA, WAIT_RESERVATION
from headway.core.keys import pinned
from headway.core.order import before, first_waiting, list_as_kept, list_by_key, next_waiting, rank_of
from headway.core.receipts import gpus_of, team_of
from headway.core.tables.actions import ACTIONS_TYPE, Actions, add_seat, clear, close_row
from headway.core.tables.options import KEY_TYPE, NO_DEMANDS, OPTIONS_TYPE, WORTH_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.tables.teams import NO_TEAMS
from headway.core.timers import SOON_S, next_timer
from headway.job_state import JobState

# Jobs per decision that may be looked at beyond one of their size that a reservation holds back.
MOST_LOOKS: Final = 100
MOST_HURRIED: Final = 100_000  # rounds in a row for which the engine was woken at once after the round before


@jit
def _next_head(state: State, options: Options, scratch: Scratch) -> int:
    """Which open class has the waiting job that comes first, or -1."""
    if options.teams > NO_TEAMS:
        return first_of_teams(state, options, scratch)
    best = -1
    for i in range(scratch.walk[0].open):
        if best < 0 or before(state.jobs, scratch.classes[i].head, scratch.classes[best].head):
            best = i
    return best


@jit
def _found_no_place(state: State, options: Options, scratch: Scratch, i: int, why: int) -> None:
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
    if options.teams > NO_TEAMS:  # visited in the order of teams
        if walk.first < 0 and why != WAIT_QUOTA:
            walk.first = head
    elif walk.first < 0 or before(state.jobs, head, walk.first):
        walk.first = head


@jit
def _close_limited(state: State, options: Options, scratch: Scratch) -> None:
    """Where a job holds up those behind it, one that a limit keeps waiting holds up those under the same limit."""
    walk = scratch.walk[0]
    walk.stale = 1
    for i in range(walk.open - 1, -1, -1):
        c = scratch.classes[i].id
        if scratch.classes[i].head >= 0 and is_below(state, team_of(c, options), walk.limited):
            if scratch.classes[c].why == NOT_WAITING:
                scratch.classes[c].why = WAIT_QUOTA
            close_class(scratch, i)


@jit
def _hold_up(state: State, options: Options, scratch: Scratch, i: int) -> None:
    """The head of class i may not be passed: only jobs that the teams of other queues are owed GPUs for have another turn."""
    job = state.jobs[scratch.classes[i].head]
    if options.teams > NO_TEAMS:
        scratch.walk[0].held_up, scratch.walk[0].stale = 1, 1
        scratch.teams[queue_of(state, job)].held_up = scratch.walk[0].decision
    if options.demands > NO_DEMANDS:
        hold_up(state, scratch, job)
        close_class(scratch, i)
    elif options.teams == NO_TEAMS:
        close_all(scratch)
    else:
        for k in range(scratch.walk[0].open):
            if scratch.classes[k].head >= 0 and in_one_queue(state, state.jobs[scratch.classes[k].head], job):
                close_class(scratch, k)


@jit
def _is_held_up(state: State, options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether a job that may not be passed waits before this one."""
    if not options.blocks or (options.teams > NO_TEAMS and not scratch.walk[0].held_up):
        return False
    if options.demands > NO_DEMANDS and not is_held_up(state, scratch, job):
        return False
    if options.teams == NO_TEAMS:
        return options.demands > NO_DEMANDS
    own = scratch.teams[queue_of(state, job)].held_up == scratch.walk[0].decision
    return own or owed_to(state, scratch, job.row) < 0


@jit
def _advance(state: State, options: Options, scratch: Scratch, i: int, why: int) -> None:
    """After the head of class i had its turn, go on to the next of its class; where the head found no place, close the class."""
    walk, seated = scratch.walk[0], why == NOT_WAITING
    asked = (
        walk.asked == scratch.classes[i].head
    )  # GPUs of a guarantee were asked back for it: there may be more of them
    if not seated:
        note_unmet(state, options, scratch, state.jobs[scratch.classes[i].head], why)
        _found_no_place(state, options, scratch, i, why)
        if options.blocks and why == WAIT_QUOTA:
            _close_limited(state, options, scratch)
            return
        if options.blocks and not asked:
            _hold_up(state, options, scratch, i)
            return
    c, following = scratch.classes[i].id, -1
    # One that is only kept from the GPUs of a reservation does not speak for the others of its class: they may be gone in time. Nor does
    # one that may not borrow because it cannot be stopped.
    held_back = why == WAIT_RESERVATION and not options.preempts
    held_back = (held_back or walk.alone == scratch.classes[i].head) and walk.looks < MOST_LOOKS
    walk.looks += held_back
    if seated or held_back or asked or not options.by_class:
        following = next_waiting(state, c, scratch.classes[i].head)
    if scratch.classes[c].why == NOT_WAITING:
        scratch.classes[c].rest = following
    if following < 0:
        close_class(scratch, i)
    else:
        scratch.classes[i].head = following
    if not options.blocks and options.teams == NO_TEAMS:
        # Classes are sorted by GPUs: the last ones stop fitting first.
        while walk.open > 0 and gpus_of(scratch.classes[walk.open - 1].id, options) > walk.spare:
            _found_no_place(state, options, scratch, walk.open - 1, WAIT_GPUS)
            walk.open -= 1


@jit
def _seat_all(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions) -> None:
    """Walk the waiting jobs, first come first."""
    walk = scratch.walk[0]
    open_classes(state, options, scratch)
    i = _next_head(state, options, scratch)
    if (walk.full or options.teams > NO_TEAMS) and i >= 0:
        first = 0
        if options.teams == NO_TEAMS:
            first = rank_of(state, options, scratch, state.jobs[scratch.classes[i].head])
        held = 0
        for k in range(first, state.counts[0].running):
            held += state.jobs[scratch.order[k]].gpus
        walk.spare += held
    while i >= 0:
        job = state.jobs[scratch.classes[i].head]
        if _is_held_up(state, options, scratch, job):
            _advance(state, options, scratch, i, WAIT_GPUS)
        else:
            _advance(state, options, scratch, i, seat_waiting(state, options, rules, scratch, out, job))
        i = _next_head(state, options, scratch)


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
    walk.full = (options.preempts or options.teams > NO_TEAMS) and state.counts[0].moment == now
    walk.first, walk.reserved, walk.stops, walk.looks = -1, -1, 0, 0
    walk.asked, walk.alone = -1, -1
    walk.unmet, walk.limited_unmet, walk.starts, walk.held_up = 0, 0, 0, 0
    walk.evicts, walk.narrowed = options.evicts, 0
    open_rooms(state, scratch)
    if options.moving:
        list_by_key(state, options, key, scratch, now)
    elif walk.full or options.packs or options.teams > NO_TEAMS:  # elsewhere nobody asks who runs in which order
        list_as_kept(state, scratch)
    if options.teams > NO_TEAMS:
        open_teams(state, options, scratch)
        sum_stoppable(state, options, scratch)
        open_bookings(state, scratch, now)


@jit(
    types.void(
        *(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, WORTH_TYPE, PLACE_TYPE, ALLOT_TYPE, SCRATCH_TYPE),
        *(types.float64, ACTIONS_TYPE),
    )
)
def decide(
    state: State,
    options: Options,
    key: Any,
    worth: Any,
    place: Any,
    allot: Any,
    scratch: Scratch,
    now: float,
    out: Actions,
) -> None:
    """Write what to do now into the rows of `out`.

    After a Resize the caller decides again: sizes come before seats. So it does where a team may ask for something now that it could not
    ask for before, and where smaller jobs may make way now for one because others were stopped (`unsettled`).
    """
    clear(out)
    scratch.walk[0].unsettled = 0
    out.counts[0].now, out.counts[0].again = now, np.inf
    scratch.walk[0].weighed, scratch.walk[0].again = -1, np.inf
    if state.counts[0].moment == now or state.counts[0].waiting == 0:  # in between, what was weighed stands
        scratch.walk[0].worth_at = np.inf
    booked = len(state.bookings) > 0
    if state.counts[0].waiting == 0 and not (options.migrates or options.packs or options.elastic or booked):
        return
    _begin(state, options, key, scratch, now)
    if options.packs and scratch.walk[0].full:
        part_bad_pairs(state, options, now, out)
    if options.elastic and out.counts[0].rows == 0:
        _resize(state, options, allot, scratch, out)
    if out.counts[0].rows > 0:
        return
    if booked and scratch.walk[0].full:
        clear_booked(state, options, scratch, out)
    if options.clears < np.inf or options.tidies or options.teams > NO_TEAMS:
        keep_places_of_moved(state, scratch)
    if not scratch.walk[0].full or (options.tidies and state.counts[0].moved == now):
        keep_promises(state, options, scratch, out)
    _seat_all(state, options, Rules(key, worth, place), scratch, out)
    withdrawn, walk = withdraw_promises(state, scratch, out), scratch.walk[0]
    walk.unsettled = (walk.unmet > 0 and walk.starts > 0) or (walk.limited_unmet > 0 and withdrawn)
    walk.unsettled |= options.tidies and walk.stops > 0 and may_tidy(state, scratch)
    if options.clears < np.inf:
        look_again(state, options, scratch)
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


@jit
def _count_hurry(walk: Any, wake: float, now: float) -> None:
    """Who asks for ever to be asked again at once lets time hardly move on."""
    walk.hurried = walk.hurried + 1 if wake <= now and wake < walk.round_at + SOON_S else 0
    walk.round_at = now
    if walk.hurried > MOST_HURRIED:
        raise ValueError(
            "time stands still: the policy's change or worth, or the placement's `again`, asks for ever to be asked again at once: "
            "it must give a time after now, or infinity"
        )


@jit(types.boolean(OPTIONS_TYPE, SCRATCH_TYPE, types.float64, types.float64))
def tick_due(options: Options, scratch: Scratch, wake: float, now: float) -> bool:
    """Whether a world has to record Ticked before it decides: a quantum ended, a job waited long enough, or nodes are kept for a team.

    To be asked once in every round, with the time at which the engine wanted to be woken.
    """
    _count_hurry(scratch.walk[0], wake, now)
    weighed = (options.weighs or options.clears < np.inf) and 0.0 < scratch.walk[0].worth_at <= now
    return (options.quantum < np.inf and wake <= now) or weighed or scratch.walk[0].booked_at <= now


@jit(types.float64(STATE_TYPE, OPTIONS_TYPE, SCRATCH_TYPE, types.float64))
def wake_at(state: State, options: Options, scratch: Scratch, now: float) -> float:
    """After a decision: when to decide again even if nothing happens.

    At the next timer, when a job will have waited long enough to stop others, when nodes begin or cease to be kept for a team, when the
    placement asked for it or, where there is a quantum and someone waits, at its end.
    """
    walk = scratch.walk[0]
    if options.quantum == np.inf:
        return max(now, min(next_timer(state), walk.worth_at, walk.booked_at, walk.again))
    if state.counts[0].waiting == 0 and not (options.elastic and state.counts[0].running > 0):
        return float(scratch.walk[0].booked_at)
    turn = (np.floor(now / options.quantum) + 1) * options.quantum
    return min(turn if turn > now else turn + options.quantum, scratch.walk[0].booked_at)
