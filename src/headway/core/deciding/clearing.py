"""Whole nodes for large jobs: smaller jobs that sit in the way of one are moved to other GPUs.

A large job may find no place although there are GPUs enough, because on every node sits some small job that comes before it and cannot be
stopped for it. Once it has waited for long (`clears`), it is given the place for which the fewest GPUs of a node have to be cleared, if
all who leave it find other places: on what is free soon, or else on what jobs give up that can be stopped for the large one. Nobody is
moved in vain, and those that are stopped are as few as will do, the last in the order. Where moving costs nothing, it does not have to
wait: the others make way at once, if nobody has to be stopped, and nothing is taken that is promised to another job (`tidies`).

For a job whose team takes back what it is guaranteed more is tried: the largest of those who move are placed first, one that finds no
place has still smaller jobs moved out of its way, and where somebody finds none at all, another node is cleared.
"""

from typing import Any, Final

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    SOON,
    choose_place,
    clear_evicted,
    count_evicted,
    give_promised,
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

STOPS: Final = 0  # how large a job is at most out of whose way another is moved: nobody is, those are looked for who can be stopped
MOST_TRIES: Final = 64  # nodes that are tried in turn for a job whose team takes back what it is guaranteed


@jit
def _leaves(
    state: State, options: Options, scratch: Scratch, waiting: Any, other: Any, first: int, i: int, size: int
) -> bool:
    """Whether the i-th running job can be stopped for a waiting one or, if it cannot, can be moved out of the way of one of this size."""
    stoppable = i >= first and is_candidate(state, options, scratch, waiting, other)
    if size == STOPS or stoppable:
        return size == STOPS and stoppable
    return other.gpus < size and other.partner < 0 and _can_move(options, scratch, other)


@jit
def _can_move(options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether a job may be moved in this decision: after its turn or, where a team takes back what it is guaranteed, also in it."""
    walk = scratch.walk[0]
    if walk.reclaims == BY_ORDER:
        return can_stop(options, scratch, job)
    if is_firm(job, options) or scratch.jobs[job.row].stops == walk.decision:
        return False
    for k in range(walk.chosen):
        if scratch.chosen[k] == job.row:
            return False  # it moves already
    return walk.reclaims == ASKING or (job.state == JobState.RUNNING and job.started < walk.now)


@jit
def _survey(state: State, options: Options, scratch: Scratch, job: Any, first: int) -> int:
    """Per node, what `could` be had if everyone stops who can be stopped for the job. Returns how many GPUs that are."""
    gpus, evicts = 0, scratch.walk[0].evicts
    if evicts:
        clear_evicted(scratch)
    for x in range(len(scratch.nodes)):
        room = scratch.nodes[x]
        room.could, room.given = room.soon, 0
        gpus += 0 if state.nodes[x].closed else room.soon
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        stops = _leaves(state, options, scratch, job, other, first, i, STOPS)
        if evicts and (stops or _leaves(state, options, scratch, job, other, first, i, job.gpus)):
            count_evicted(state, scratch, other)
        if stops:
            gpus += other.gpus
            _count_could(state, scratch, other)
    if scratch.walk[0].tidies:
        give_promised(state, scratch, job)
    return gpus


@jit
def _count_moved(state: State, options: Options, scratch: Scratch, job: Any, first: int, size: int) -> int:
    """Per node, what hold those who can be `moved` out of the way of a job of this size. Returns the most."""
    most = 0
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].moved = 0
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if _leaves(state, options, scratch, job, other, first, i, size):
            seat = other.seat
            while seat >= 0:
                scratch.nodes[state.seats[seat].node].moved += 1
                seat = state.seats[seat].next
    for x in range(len(scratch.nodes)):
        most = max(most, scratch.nodes[x].moved)
    return most


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
def _choose_cleared(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, most: int
) -> bool:
    """Choose a place of nodes on which as few GPUs as possible have to be cleared, `most` at most; not of those that were tried."""
    for limit in range(1, most + 1):
        for x in range(len(scratch.nodes)):
            room = scratch.nodes[x]
            clears = room.moved <= limit and not room.tried
            room.offer = max(0, room.could - room.given) + (room.moved if clears else 0)
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
def _pick(state: State, options: Options, scratch: Scratch, job: Any, first: int, size: int) -> None:
    """Add to the chosen who has to leave so that no node lacks GPUs: from the first of them to the last, each is spared if it can be."""
    walk = scratch.walk[0]
    begin, end = walk.chosen, walk.chosen
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if _is_needed(state, scratch, other) and _leaves(state, options, scratch, job, other, first, i, size):
            scratch.chosen[end] = other.row
            end += 1
    for k in range(begin, end):
        _count_lacking(state, scratch, state.jobs[scratch.chosen[k]], -1)
    for k in range(begin, end):
        other = state.jobs[scratch.chosen[k]]
        _count_lacking(state, scratch, other, 1)
        if _is_needed(state, scratch, other):
            _count_lacking(state, scratch, other, -1)
            scratch.chosen[walk.chosen] = other.row
            walk.chosen += 1


@jit
def _seat_cleared(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, first: int, seated: Any
) -> bool:
    """Write a place for the job, or for one that is moved for it, out of whose way smaller jobs are moved: add these to the chosen."""
    begin, most = scratch.walk[0].chosen, _count_moved(state, options, scratch, job, first, seated.gpus)
    if not _choose_cleared(state, options, place, scratch, out, seated, most):
        return False
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].lacks = scratch.nodes[x].given - scratch.nodes[x].could
    _pick(state, options, scratch, job, first, seated.gpus)
    for k in range(begin, scratch.walk[0].chosen):
        _count_could(state, scratch, state.jobs[scratch.chosen[k]])
    return True


@jit
def _bring_largest(state: State, scratch: Scratch, k: int) -> None:
    """Of those chosen from the k-th on, make the first among the largest the k-th."""
    for i in range(k + 1, scratch.walk[0].chosen):
        if state.jobs[scratch.chosen[i]].gpus > state.jobs[scratch.chosen[k]].gpus:
            scratch.chosen[k], scratch.chosen[i] = scratch.chosen[i], scratch.chosen[k]


@jit
def _move_chosen(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, first: int
) -> bool:
    """Write places for those who are moved and, where a team takes back what it is guaranteed, for those who are moved for them."""
    walk, k = scratch.walk[0], 0
    while k < walk.chosen:
        if walk.reclaims != BY_ORDER:
            _bring_largest(state, scratch, k)
        moved = state.jobs[scratch.chosen[k]]
        if not _move(state, options, place, scratch, out, moved):
            if walk.reclaims == BY_ORDER:
                return False
            if not _seat_cleared(state, options, place, scratch, out, job, first, moved):
                return False
        k += 1
    walk.moved = walk.chosen
    return True


@jit
def _pick_stopped(state: State, options: Options, scratch: Scratch, job: Any, first: int) -> None:
    """Add those who have to be stopped to the chosen, who all are moved."""
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].lacks = scratch.nodes[x].given - scratch.nodes[x].soon
    for k in range(scratch.walk[0].moved):
        _count_lacking(state, scratch, state.jobs[scratch.chosen[k]], -1)
    _pick(state, options, scratch, job, first, STOPS)


@jit
def _hardest(scratch: Scratch) -> int:
    """Of the nodes of the place just chosen, one on which the most GPUs have to be cleared."""
    found = -1
    for x in range(len(scratch.nodes)):
        room = scratch.nodes[x]
        if room.given > room.soon and room.moved > (scratch.nodes[found].moved if found >= 0 else 0):
            found = x
    return found


@jit
def _clear(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Write places for the job and for those who are moved, and choose these, then those who are stopped."""
    walk, row = scratch.walk[0], out.counts[0].rows
    first = state.counts[0].running if walk.tidies else first_candidate(state, options, scratch, job)
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].tried = 0
    for _ in range(1 if walk.reclaims == BY_ORDER else MOST_TRIES):
        walk.chosen = 0
        if _survey(state, options, scratch, job, first) < job.gpus:
            break
        if not _seat_cleared(state, options, place, scratch, out, job, first, job):
            break
        hardest = _hardest(scratch)
        if _move_chosen(state, options, place, scratch, out, job, first):
            _pick_stopped(state, options, scratch, job, first)
            return True
        out.counts[0].rows = row
        forget(out)
        if hardest < 0:
            break
        scratch.nodes[hardest].tried = 1
    return False


@jit
def _plan(state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether moving smaller jobs makes room for a waiting one, and has become worth it.

    True: promises for it and for them are written; they are the first `moved` in `scratch.chosen`, and after them come those to be stopped.
    """
    walk, row = scratch.walk[0], out.counts[0].rows
    if _clear(state, options, rules.place, scratch, out, job):
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
    """A job finds no place as things are: the first of these has smaller ones moved, once it has waited for long or at no cost.

    Returns why it waits.
    """
    walk, teams = scratch.walk[0], options.teams > NO_TEAMS
    tidies = walk.now < job.queued + options.clears
    if not walk.full or len(state.leaves) > 0 or (tidies and not (options.tidies and walk.soon >= job.gpus)):
        return why
    if teams and (walk.first >= 0 or walk.limited >= 0 or walk.owing > 0):
        return why
    if walk.first >= 0 and not comes_before(options, scratch, job, state.jobs[walk.first]):
        return why
    walk.tidies = tidies
    found = clear_for(state, options, rules, scratch, out, job)
    walk.tidies = 0
    return NOT_WAITING if found else why


@jit
def may_tidy(state: State, scratch: Scratch) -> bool:
    """After a decision: whether GPUs enough are free soon for the first job that found no place."""
    walk = scratch.walk[0]
    return walk.full and walk.first >= 0 and walk.soon >= state.jobs[walk.first].gpus


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
