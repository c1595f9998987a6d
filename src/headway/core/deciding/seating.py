"""Find one waiting job a place, and write what to do: start it, promise it what others give up, or say why it waits on."""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.bookings import may_use, sits_in_the_way
from headway.core.deciding.clearing import clear_for, could_clear_for, lacks_place
from headway.core.deciding.offers import NOW, SOON, choose_place, free_gpus, holds, limit_offer, offer, withdraw
from headway.core.deciding.reservations import is_late
from headway.core.deciding.teams import (
    ASKING,
    BY_ORDER,
    TAKING,
    claim_over,
    count_asked,
    count_stop,
    count_waiting,
    is_firm,
    keep,
    may_stay,
    over_limit,
    owed_by,
    uncount_waiting,
)
from headway.core.deciding.victims import choose_victims, could_stop_for, mark_stopped, reach, stop_one
from headway.core.deciding.weighing import chosen_worth_at
from headway.core.events import (
    CLAIM,
    NOT_WAITING,
    RESERVE,
    START,
    STOP,
    WAIT_GPUS,
    WAIT_QUOTA,
    WAIT_RESERVATION,
    WAIT_TURN,
)
from headway.core.tables.actions import Actions, add_seat, close_row, copy_places, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState


@jit
def _take(
    state: State, options: Options, scratch: Scratch, out: Actions, kind: int, job: Any, within: int, late: bool
) -> None:
    """End the row being written about the job; its places are no longer on offer."""
    _count(state, options, scratch, job)
    mark, row = scratch.jobs[job.row], out.counts[0].rows
    mark.seated = scratch.walk[0].decision
    mark.place = row
    scratch.walk[0].starts += kind == START
    close_row(out, kind, job.row)
    withdraw(scratch, out, row, within, late)


@jit
def _set_aside(state: State, options: Options, scratch: Scratch, job: Any, row: int) -> None:
    """Keep what the job was promised: it is no longer on offer."""
    _count(state, options, scratch, job)
    mark = scratch.jobs[job.row]
    mark.seated = scratch.walk[0].decision
    mark.place = -1 - row
    withdraw(scratch, state.promises, row, SOON, False)


@jit
def _promised(state: State, options: Options, scratch: Scratch, job: Any) -> int:
    """The row of the job's promise if it can still be kept, or -1."""
    row = job.promise
    if row < 0 or row >= state.promises.counts[0].rows or state.promises.rows[row].job != job.row:
        return -1
    if len(state.bookings) > 0:
        for k in range(state.promises.rows[row].seat_at, state.promises.rows[row + 1].seat_at):
            if not may_use(state, options, scratch, job, state.promises.seats[k].node):
                return -1
    return row if holds(state, scratch, state.promises, row, SOON) else -1


@jit
def _start_promised(state: State, options: Options, scratch: Scratch, out: Actions, job: Any, row: int) -> bool:
    """Start the job on what it was promised, if that is free now."""
    if not holds(state, scratch, state.promises, row, NOW) or _over_limit(state, options, scratch, job, False) >= 0:
        return False
    copy_places(state.promises, row, out)
    _take(state, options, scratch, out, START, job, NOW, False)
    return True


@jit
def keep_promises(state: State, options: Options, scratch: Scratch, out: Actions) -> None:
    """Where nobody may be stopped, all promises are kept, before anyone else is seated."""
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        if job.promise != row or job.state != JobState.PENDING or _promised(state, options, scratch, job) < 0:
            continue
        _uncount(state, options, scratch, job)
        if not _start_promised(state, options, scratch, out, job, row):
            _set_aside(state, options, scratch, job, row)


@jit
def _finds_place(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, within: int, late: bool
) -> bool:
    """Whether there is a place for the job now or soon. True: it is in the row being written."""
    offer(scratch, within)
    return limit_offer(state, options, scratch, job, late) >= job.gpus and choose_place(
        state, options, place, scratch, out, job
    )


@jit
def _is_owed(state: State, options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether a team of the job is guaranteed the GPUs that it asks for, and does not use them."""
    return options.teams > NO_TEAMS and owed_by(state, scratch, job) >= 0


@jit
def _has_place(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether there is a place for the job at all, were nothing reserved: now, soon, or if those who come after it stop."""
    found = _finds_place(state, options, rules.place, scratch, out, job, SOON, False)
    if not found and scratch.walk[0].full:
        found = could_stop_for(state, options, rules.place, scratch, out, job)
    if not found and _is_owed(state, options, scratch, job):
        found = _could_take_back(state, options, rules, scratch, out, job)
    forget(out)
    return found


@jit
def _could_take_back(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether stopping those who borrowed from its team makes a place for a job, if need be with smaller jobs moved to other places."""
    scratch.walk[0].reclaims = ASKING
    found = could_stop_for(state, options, rules.place, scratch, out, job)
    forget(out)
    found = found or could_clear_for(state, options, rules, scratch, out, job)
    scratch.walk[0].reclaims = BY_ORDER
    return found


@jit
def _takes_back(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Promise a job what its team lent: stop those who borrowed it and, if need be, move smaller jobs to other places."""
    walk = scratch.walk[0]
    walk.reclaims = TAKING
    found = choose_victims(state, options, rules.place, scratch, out, job, False)
    if found:
        _stop_and_promise(state, options, scratch, out, job, False)
    else:
        found = clear_for(state, options, rules, scratch, out, job)
    walk.reclaims = BY_ORDER
    return found


@jit
def _stop_chosen(state: State, scratch: Scratch, out: Actions) -> None:
    """Write the stops of the chosen jobs and of those that share their GPUs."""
    for i in range(scratch.walk[0].chosen):
        stop_one(out, state.jobs[scratch.chosen[i]])


@jit
def _starts_late(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether a job has to leave the reservation alone if it starts once all have stopped who are to, those chosen among them."""
    walk = scratch.walk[0]
    if not options.reserves or walk.first < 0:
        return False
    starts = max(walk.now, walk.stopped_by)
    for i in range(walk.chosen):
        starts = max(starts, walk.now + state.jobs[scratch.chosen[i]].save)
    return is_late(state, options, rules, scratch, out, job, starts)


@jit
def _stop_and_promise(state: State, options: Options, scratch: Scratch, out: Actions, job: Any, late: bool) -> None:
    """Stop the chosen jobs, and promise the waiting one the place in the row being written."""
    walk = scratch.walk[0]
    for i in range(walk.chosen):
        victim = state.jobs[scratch.chosen[i]]
        mark_stopped(state, scratch, victim)
        if options.teams > NO_TEAMS:
            count_stop(state, options, scratch, victim)
    walk.stops += walk.chosen
    _take(state, options, scratch, out, RESERVE, job, SOON, late)
    _stop_chosen(state, scratch, out)


@jit
def _promise_by_order(
    state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any, late: bool
) -> bool:
    """Promise a waiting job what it makes jobs after it give up; a job in time now may be late once they have."""
    walk, place = scratch.walk[0], rules.place
    if not choose_victims(state, options, place, scratch, out, job, late):
        return False
    owed = _is_owed(state, options, scratch, job)  # then it is never late
    if not late and not owed and _starts_late(state, options, rules, scratch, out, job):
        late = True
        forget(out)
        if not choose_victims(state, options, place, scratch, out, job, late):
            return False
    if not owed and not _gives_enough(state, options, scratch, job):
        forget(out)
        return False
    at = chosen_worth_at(state, options, rules.worth, scratch, job, 0)
    if at > walk.now:
        walk.worth_at, walk.weighed = min(walk.worth_at, at), job.row
        forget(out)
        return False
    _stop_and_promise(state, options, scratch, out, job, late)
    return True


@jit
def _gives_enough(state: State, options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether those chosen give up what a job takes, where teams asked for what is free."""
    if options.teams == NO_TEAMS or _may_borrow(state, scratch, job, SOON):
        return True
    gpus = 0
    for i in range(scratch.walk[0].chosen):
        gpus += state.jobs[scratch.chosen[i]].gpus
    return gpus >= job.gpus


@jit
def _promise_places(
    state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any, late: bool
) -> bool:
    """Promise a waiting job what is free soon, or what it makes others give up."""
    walk, place, teams = scratch.walk[0], rules.place, options.teams > NO_TEAMS
    walk.chosen = 0
    owed = _is_owed(state, options, scratch, job) and walk.limited < 0
    late = not owed and (late or _starts_late(state, options, rules, scratch, out, job))
    free = state.counts[0].stopping + walk.stops > 0
    if teams:
        free &= walk.limited < 0 and _may_borrow(state, scratch, job, SOON)
    if free and _finds_place(state, options, place, scratch, out, job, SOON, late):
        _take(state, options, scratch, out, RESERVE, job, SOON, late)
        return True
    taken_back = owed and claim_over(options, job, walk.now)
    if taken_back and _takes_back(state, options, rules, scratch, out, job):
        return True
    if options.preempts and walk.full and _promise_by_order(state, options, rules, scratch, out, job, late):
        return True
    if owed:
        _ask_back(state, options, rules, scratch, out, job)
    return False


@jit
def _ask_back(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> None:
    """Ask for GPUs of the guarantee back, if that makes a place for the job. What was asked for is not lent again, nor asked for twice."""
    walk = scratch.walk[0]
    if job.claimed == np.inf:
        if not _could_take_back(state, options, rules, scratch, out, job):
            return
        add_seat(out, -1, job.gpus)
        close_row(out, CLAIM, job.row)
    mark = scratch.jobs[job.row]
    mark.own, mark.asked = owed_by(state, scratch, job), walk.decision
    keep(state, scratch, mark.own, job.gpus)
    count_asked(state, scratch, job)
    walk.owing += job.gpus
    walk.weighed, walk.asked = job.row, job.row
    walk.unmet += claim_over(options, job, walk.now)


@jit
def _count(state: State, options: Options, scratch: Scratch, job: Any) -> None:
    if options.teams > NO_TEAMS:
        count_waiting(state, options, scratch, job)


@jit
def _uncount(state: State, options: Options, scratch: Scratch, job: Any) -> None:
    if options.teams > NO_TEAMS:
        uncount_waiting(state, options, scratch, job)


@jit
def _over_limit(state: State, options: Options, scratch: Scratch, job: Any, soon: bool) -> int:
    return over_limit(state, scratch, job, soon) if options.teams > NO_TEAMS else -1


@jit
def _may_borrow(state: State, scratch: Scratch, job: Any, within: int) -> bool:
    """Whether a job leaves enough GPUs for teams that asked theirs back, or is owed what it takes."""
    owing = scratch.walk[0].owing
    return owing == 0 or free_gpus(state, scratch, within) - job.gpus >= owing or owed_by(state, scratch, job) >= 0


@jit
def _may_start(state: State, options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether limits and what teams asked back let a job start on GPUs that are free now."""
    if options.teams == NO_TEAMS:
        return True
    return over_limit(state, scratch, job, False) < 0 and _may_borrow(state, scratch, job, NOW)


@jit
def _look_at_team(state: State, options: Options, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Before a job looks for a place: whether its team keeps it waiting, whatever is free. `limited` says whose limit it would exceed."""
    walk = scratch.walk[0]
    _uncount(state, options, scratch, job)
    walk.limited = over_limit(state, scratch, job, True)
    if job.claimed < np.inf and (walk.limited >= 0 or owed_by(state, scratch, job) < 0):
        add_seat(out, -1, 0)
        close_row(out, CLAIM, job.row)
    if is_firm(job, options) and not may_stay(state, scratch, job):
        walk.limited, walk.alone = (job.team if walk.limited < 0 else walk.limited), job.row
        return True
    return walk.limited >= 0 and not (walk.full and options.preempts)


@jit
def seat_waiting(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> int:
    """Find a place for a waiting job, and write what to do. Returns NOT_WAITING, or why it waits as far as is known here."""
    walk, place = scratch.walk[0], rules.place
    if scratch.jobs[job.row].seated == walk.decision:
        return NOT_WAITING  # its promise is kept
    walk.limited = -1
    if options.teams > NO_TEAMS and _look_at_team(state, options, scratch, out, job):
        return WAIT_QUOTA
    lacking = WAIT_GPUS if walk.limited < 0 else WAIT_QUOTA
    row = _promised(state, options, scratch, job) if walk.limited < 0 else -1
    if row >= 0 and _start_promised(state, options, scratch, out, job, row):
        return NOT_WAITING
    if job.gpus > reach(state, options, scratch, job):
        return lacking
    late = False
    if options.reserves and walk.first >= 0:
        if not _has_place(state, options, rules, scratch, out, job):
            return lacks_place(state, options, rules, scratch, out, job, lacking)
        late = not _is_owed(state, options, scratch, job) and is_late(
            state, options, rules, scratch, out, job, walk.now
        )
    starts = walk.limited < 0 and _may_start(state, options, scratch, job)
    if starts and _finds_place(state, options, place, scratch, out, job, NOW, late):
        _take(state, options, scratch, out, START, job, NOW, late)
        return NOT_WAITING
    if row >= 0:
        _set_aside(state, options, scratch, job, row)
        return NOT_WAITING
    if _promise_places(state, options, rules, scratch, out, job, late):
        return NOT_WAITING
    if walk.weighed == job.row:
        return WAIT_TURN
    if starts and late and _finds_place(state, options, place, scratch, out, job, NOW, False):
        forget(out)
        return WAIT_RESERVATION
    if starts and len(state.bookings) > 0 and _is_booked(state, options, place, scratch, out, job):
        return WAIT_RESERVATION
    return lacks_place(state, options, rules, scratch, out, job, lacking)


@jit
def _is_booked(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether there would be a place if no node were kept for another team."""
    scratch.walk[0].unbooked = 1
    found = _finds_place(state, options, place, scratch, out, job, NOW, False)
    scratch.walk[0].unbooked = 0
    forget(out)
    return found


@jit
def clear_booked(state: State, options: Options, scratch: Scratch, out: Actions) -> None:
    """Stop whoever sits on a node that is kept for another team by now, and can be stopped."""
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        if job.state == JobState.RUNNING and not is_firm(job, options) and sits_in_the_way(state, scratch, job):
            close_row(out, STOP, job.row)
            mark_stopped(state, scratch, job)
            count_stop(state, options, scratch, job)
            scratch.walk[0].stops += 1


@jit
def withdraw_promises(state: State, scratch: Scratch, out: Actions) -> bool:
    """A promise that could not be kept is withdrawn: what it was for is another's now. Returns whether there is one."""
    found = False
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        waits = job.promise == row and job.state == JobState.PENDING
        if waits and scratch.jobs[job.row].seated != scratch.walk[0].decision:
            found = True
            close_row(out, RESERVE, job.row)
    return found
