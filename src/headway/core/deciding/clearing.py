"""Whole nodes for large jobs: smaller jobs that sit in the way of one are moved to other GPUs.

A large job may find no place although there are GPUs enough, because on every node sits some small job that comes before it and cannot be
stopped for it. Once it has waited for long (`clears`), it is given the place for which the fewest GPUs of a node have to be cleared, if
all who leave it find other places: on what is free soon, or else on what jobs give up that can be stopped for the large one. Nobody is
moved in vain, and those that are stopped are as few as will do, the last in the order.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    SOON,
    choose_place,
    clear_evicted,
    count_evicted,
    holds,
    limit_offer,
    withdraw,
)
from headway.core.deciding.teams import ASKING, BY_ORDER, count_stop, count_waiting, is_firm
from headway.core.deciding.victims import can_stop, first_candidate, is_candidate, mark_stopped, stop_one
from headway.core.deciding.weighing import chosen_worth_at
from headway.core.events import NOT_WAITING, RESERVE, RESIZE
from headway.core.order import comes_before
from headway.core.tables.actions import Actions, add_seat, close_row, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState

STOPS = True
MOVES = False


@jit
def _leaves(
    state: State, options: Options, scratch: Scratch, waiting: Any, other: Any, first: int, i: int, stops: bool
) -> bool:
    """Whether the i-th running job can be stopped for a waiting one or, if it cannot, can be moved out of its way."""
    stoppable = i >= first and is_candidate(state, options, scratch, waiting, other)
    if stops or stoppable:
        return stops and stoppable
    return other.gpus < waiting.gpus and other.partner < 0 and _can_move(options, scratch, other)


@jit
def _can_move(options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether a job may be moved in this decision: after its turn or, where a team takes back what it is guaranteed, also in it."""
    walk = scratch.walk[0]
    if walk.reclaims == BY_ORDER:
        return can_stop(options, scratch, job)
    if is_firm(job, options) or scratch.jobs[job.row].stops == walk.decision:
        return False
    return walk.reclaims == ASKING or (job.state == JobState.RUNNING and job.started < walk.now)


@jit
def _survey(state: State, options: Options, scratch: Scratch, job: Any, first: int) -> int:
    """Per node, what `could` be had if everyone stops who can be stopped for the job, and what hold those who can be `moved`.

    Returns how many GPUs could be had.
    """
    gpus, evicts = 0, scratch.walk[0].evicts
    if evicts:
        clear_evicted(scratch)
    for x in range(len(scratch.nodes)):
        room = scratch.nodes[x]
        room.could, room.moved, room.given = room.soon, 0, 0
        gpus += 0 if state.nodes[x].closed else room.soon
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        stops = _leaves(state, options, scratch, job, other, first, i, STOPS)
        moves = not stops and _leaves(state, options, scratch, job, other, first, i, MOVES)
        if evicts and (stops or moves):
            count_evicted(state, scratch, other)
        if stops:
            gpus += other.gpus
            _count_could(state, scratch, other)
        elif moves:
            seat = other.seat
            while seat >= 0:
                scratch.nodes[state.seats[seat].node].moved += 1
                seat = state.seats[seat].next
    return gpus


@jit
def _count_could(state: State, scratch: Scratch, job: Any) -> None:
    """What the job holds could be had."""
    seat = job.seat
    while seat >= 0:
        scratch.nodes[state.seats[seat].node].could += 1
        seat = state.seats[seat].next


@jit
def _choose(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Let the placement choose from the offer, and write down what it chose as given away."""
    if limit_offer(state, options, scratch, job, False) < job.gpus:
        return False
    if not choose_place(state, options, place, scratch, out, job):
        return False
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        scratch.nodes[out.seats[k].node].given += out.seats[k].gpus
    close_row(out, RESERVE, job.row)
    return True


@jit
def _choose_cleared(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Choose a place of nodes on which as few GPUs as possible have to be cleared."""
    most = 0
    for x in range(len(scratch.nodes)):
        most = max(most, scratch.nodes[x].moved)
    for limit in range(1, most + 1):
        for x in range(len(scratch.nodes)):
            room = scratch.nodes[x]
            room.offer = room.could + (room.moved if room.moved <= limit else 0)
        if _choose(state, options, place, scratch, out, job):
            return True
    return False


@jit
def _move(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Find a place for one that is moved: on what is free soon, or else where others can be stopped."""
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].offer = max(0, scratch.nodes[x].soon - scratch.nodes[x].given)
    if _choose(state, options, place, scratch, out, job):
        return True
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].offer = max(0, scratch.nodes[x].could - scratch.nodes[x].given)
    return _choose(state, options, place, scratch, out, job)


@jit
def _is_needed(state: State, scratch: Scratch, job: Any) -> bool:
    """Whether one of its nodes lacks GPUs."""
    seat = job.seat
    while seat >= 0:
        if scratch.nodes[state.seats[seat].node].lacks > 0:
            return True
        seat = state.seats[seat].next
    return False


@jit
def _count_lacking(state: State, scratch: Scratch, job: Any, by: int) -> None:
    """Its nodes lack so much more for each of its GPUs."""
    seat = job.seat
    while seat >= 0:
        scratch.nodes[state.seats[seat].node].lacks += by
        seat = state.seats[seat].next


@jit
def _pick(state: State, options: Options, scratch: Scratch, job: Any, first: int, stops: bool) -> None:
    """Add to the chosen who has to leave so that no node lacks GPUs: from the first of them to the last, each is spared if it can be."""
    walk = scratch.walk[0]
    begin = walk.chosen
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if _is_needed(state, scratch, other) and _leaves(state, options, scratch, job, other, first, i, stops):
            scratch.chosen[walk.chosen] = other.row
            walk.chosen += 1
    for k in range(begin, walk.chosen):
        _count_lacking(state, scratch, state.jobs[scratch.chosen[k]], -1)
    end, walk.chosen = walk.chosen, begin
    for k in range(begin, end):
        other = state.jobs[scratch.chosen[k]]
        _count_lacking(state, scratch, other, 1)
        if _is_needed(state, scratch, other):
            _count_lacking(state, scratch, other, -1)
            scratch.chosen[walk.chosen] = other.row
            walk.chosen += 1


@jit
def _clear(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, first: int) -> bool:
    """Write places for the job and for those who are moved, and choose these, then those who are stopped."""
    walk = scratch.walk[0]
    if not _choose_cleared(state, options, place, scratch, out, job):
        return False
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].lacks = scratch.nodes[x].given - scratch.nodes[x].could
    _pick(state, options, scratch, job, first, MOVES)
    walk.moved = walk.chosen
    for k in range(walk.moved):
        _count_could(state, scratch, state.jobs[scratch.chosen[k]])
    for k in range(walk.moved):
        if not _move(state, options, place, scratch, out, state.jobs[scratch.chosen[k]]):
            return False
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].lacks = scratch.nodes[x].given - scratch.nodes[x].soon
    for k in range(walk.moved):
        _count_lacking(state, scratch, state.jobs[scratch.chosen[k]], -1)
    _pick(state, options, scratch, job, first, STOPS)
    return True


@jit
def _plan(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether moving smaller jobs makes room for a waiting one, and has become worth it.

    True: promises for it and for them are written; they are the first `moved` in `scratch.chosen`, and after them come those to be stopped.
    """
    walk, row, first = scratch.walk[0], out.counts[0].rows, first_candidate(state, options, scratch, job)
    if _survey(state, options, scratch, job, first) < job.gpus:
        return False
    walk.chosen = 0
    if _clear(state, options, rules.place, scratch, out, job, first):
        at = walk.now
        if walk.reclaims == BY_ORDER:
            at = chosen_worth_at(state, options, rules.worth, scratch, job, walk.moved)
        if at <= walk.now:
            return True
        walk.worth_at = min(walk.worth_at, at)
    out.counts[0].rows = row
    forget(out)
    return False


@jit
def lacks_place(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any, why: int) -> int:
    """A job finds no place as things are: the first of these has smaller ones moved, once it has waited for long. Returns why it waits."""
    walk, teams = scratch.walk[0], options.teams > NO_TEAMS
    if walk.now < job.queued + options.clears or not walk.full or len(state.leaves) > 0:
        return why
    if teams and (walk.first >= 0 or walk.limited >= 0 or walk.owing > 0):
        return why
    if walk.first >= 0 and not comes_before(options, scratch, job, state.jobs[walk.first]):
        return why
    return NOT_WAITING if clear_for(state, options, rules, scratch, out, job) else why


@jit
def could_clear_for(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether moving smaller jobs would make room for a waiting one; where jobs hold up those behind them, nobody is moved."""
    if options.blocks or len(state.leaves) > 0:
        return False
    row = out.counts[0].rows
    found = _plan(state, options, rules, scratch, out, job)
    out.counts[0].rows = row
    forget(out)
    return found


@jit
def clear_for(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Move smaller jobs out of the way of a waiting one, and stop those who have to be. False: that makes no room, or is not worth it."""
    walk, row = scratch.walk[0], out.counts[0].rows
    if options.blocks or len(state.leaves) > 0 or not _plan(state, options, rules, scratch, out, job):
        return False
    for i in range(walk.chosen):
        mark_stopped(state, scratch, state.jobs[scratch.chosen[i]])
        if options.teams > NO_TEAMS and i >= walk.moved:  # those who move keep what they have
            count_stop(state, options, scratch, state.jobs[scratch.chosen[i]])
    if options.teams > NO_TEAMS:
        count_waiting(state, options, scratch, job)
    walk.stops += walk.chosen
    for k in range(row, out.counts[0].rows):
        scratch.jobs[out.rows[k].job].seated = walk.decision
        scratch.jobs[out.rows[k].job].place = k
        withdraw(scratch, out, k, SOON, False)
    for i in range(walk.moved):
        moved = state.jobs[scratch.chosen[i]]
        walk.spare += moved.gpus  # it leaves as many as it is given
        add_seat(out, -1, moved.gpus)
        close_row(out, RESIZE, moved.row)
    for i in range(walk.moved, walk.chosen):
        stop_one(out, state.jobs[scratch.chosen[i]])
    return True


@jit
def look_again(state: State, options: Options, scratch: Scratch) -> None:
    """After a decision: when the first job that found no place will have waited for long."""
    walk = scratch.walk[0]
    if walk.full and walk.first >= 0:
        at = state.jobs[walk.first].queued + options.clears
        if at > walk.now:
            walk.worth_at = min(walk.worth_at, at)


@jit
def keep_places_of_moved(state: State, scratch: Scratch) -> None:
    """What was promised to jobs that are being moved is theirs, before anyone is seated."""
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        if job.promise == row and job.state == JobState.STOPPING and holds(state, scratch, state.promises, row, SOON):
            scratch.jobs[job.row].seated = scratch.walk[0].decision
            scratch.jobs[job.row].place = -1 - row
            withdraw(scratch, state.promises, row, SOON, False)
