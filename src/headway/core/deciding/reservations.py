"""What is kept for the first waiting job that finds no place, so that others do not pass it for ever (EASY backfilling).

From what is known of the running jobs follows a bound for each: by when its GPUs can be had. One that the waiting job may stop is free at
the end of its turn and once it has saved; one with a time limit, when that is over; for the others nothing is known. In the order of
their bounds the running jobs are taken away until the placement finds a place: that place is the reservation, and the last bound its own.
Another job takes GPUs of that place only if it is sure to have given them back by then, or if enough others are left.
"""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    ALL_LINKS,
    NO_LIMIT,
    SOON,
    add_to_offer,
    choose_place,
    limit_offer,
    offer,
    offer_places,
)
from headway.core.deciding.teams import in_one_queue, is_firm, lends, makes_room
from headway.core.deciding.weighing import add_stop, clear_stops, worth_at
from headway.core.events import RESERVE, START
from headway.core.keys import next_look, turn
from headway.core.order import comes_before
from headway.core.tables.actions import ACTIONS_TYPE, Actions, clear, close_row, forget
from headway.core.tables.jobs import run_s
from headway.core.tables.options import OPTIONS_TYPE, WORTH_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.tables.teams import NO_TEAMS
from headway.core.timers import pop, push
from headway.job_state import JobState

NOT_KNOWN: Final = 1e12  # seconds: bounds from here on are not known
PATIENCE: Final = (
    64.0  # jobs that can be stopped pass until the one reserving has waited for so many times the time to its bound
)


@jit
def _resumes_in(job: Any) -> float:
    """Seconds from the next start of a waiting job until it runs."""
    return job.resume if job.attempt > 0 else 0.0


@jit
def _rest(job: Any, now: float, options: Options) -> float:
    """Seconds that are left of its time limit (infinity: not known)."""
    return max(0.0, min(job.limit, options.limit) - run_s(job, now))


@jit
def _gone_by(state: State, options: Options, key: Any, scratch: Scratch, job: Any, first: Any, starts: float) -> float:
    """By when a waiting job that starts then has given its GPUs back to the one with the reservation, if that asks for them.

    At the end of its turn it can be stopped for it only if it then comes after it: one that runs may come before.
    """
    runs = starts + _resumes_in(job)
    over = runs + _rest(job, starts, options)
    turn_over = next_look(options, runs + turn(job, options), starts)
    if not options.preempts or turn_over == np.inf:
        return over
    scratch.trial[0] = state.jobs[job.row]
    trial = scratch.trial[0]
    trial.state = JobState.RUNNING
    trial.first = min(trial.first, starts)
    trial.started = runs
    trial.since = runs
    k1, k2 = key(trial, turn_over, options)
    after = first.k1 < k1 or (first.k1 == k1 and (first.k2 < k2 or (first.k2 == k2 and first.row < job.row)))
    if options.teams > NO_TEAMS:
        after = after and in_one_queue(state, job, first)
    return min(over, turn_over + job.save) if after else over


@jit
def _is_moved(scratch: Scratch, job: Any) -> bool:
    """Whether a running job is moved by this decision."""
    mark, decision = scratch.jobs[job.row], scratch.walk[0].decision
    return mark.stops == decision and mark.seated == decision and job.state == JobState.RUNNING


@jit
def _runs_from(scratch: Scratch, job: Any, starts: float) -> float:
    """From when on a job runs, or will."""
    if job.state == JobState.RUNNING and not _is_moved(scratch, job):
        return job.started
    return job.since + job.resume if job.state == JobState.STARTING else starts + _resumes_in(job)


@jit
def _list_one(state: State, options: Options, scratch: Scratch, holder: Any, starts: float, job: Any, n: int) -> None:
    """Add one that holds GPUs, or is about to, with the time by which a waiting job can have them."""
    now, runs = scratch.walk[0].now, _runs_from(scratch, holder, starts)
    at = max(now, runs) + _rest(holder, now, options)
    if makes_room(state, options, scratch, job, holder):
        at = min(at, next_look(options, max(now, runs + turn(holder, options)), now) + holder.save)
    if options.teams > NO_TEAMS and not is_firm(holder, options) and lends(state, scratch, job, holder):
        at = min(at, max(now, runs, min(now, job.claimed) + options.notice) + holder.save)
    push(scratch.bounds, n, at if at < NOT_KNOWN else NOT_KNOWN + runs, holder.row)


@jit
def _is_in(out: Actions, row: int, j: int) -> bool:
    """Whether a row of this decision is about job j."""
    return 0 <= row < out.counts[0].rows and out.rows[row].job == j


@jit
def _list_bounds(state: State, options: Options, scratch: Scratch, out: Actions, job: Any) -> int:
    """List those with GPUs, and those seated by now, in a heap by their bounds; those without any are the last, by their start.

    One with a promise starts when all have stopped who were asked to.
    """
    n, walk = 0, scratch.walk[0]
    stopped_by = max(walk.now, walk.stopped_by)
    for i in range(state.counts[0].running):
        running = state.jobs[state.run[i]]
        if scratch.jobs[running.row].stops != walk.decision:  # or counted among what is free soon
            _list_one(state, options, scratch, running, walk.now, job, n)
            n += 1
    for row in range(state.promises.counts[0].rows):
        waiting = state.jobs[state.promises.rows[row].job]
        mark = scratch.jobs[waiting.row]
        waits = waiting.state == JobState.PENDING or waiting.state == JobState.STOPPING
        stands = waiting.promise == row and waits and mark.seated == walk.decision
        if stands and not _is_in(out, mark.place, waiting.row):
            mark.place = -1 - row
            _list_one(state, options, scratch, waiting, stopped_by, job, n)
            n += 1
    for row in range(out.counts[0].rows):
        seated = state.jobs[out.rows[row].job]
        if scratch.jobs[seated.row].seated == walk.decision and scratch.jobs[seated.row].place == row:
            starts = walk.now if out.rows[row].kind == START else stopped_by
            _list_one(state, options, scratch, seated, starts, job, n)
            n += 1
    return n


@jit
def _sort(bounds: Any, listed: int, done: int, gone: int) -> int:
    """Go on with a heap sort until the first `gone` are in order, at the end: the first of the heap goes to the place that it leaves."""
    for k in range(listed - done, listed - gone, -1):
        at, row = bounds[0].at, bounds[0].what
        pop(bounds, k)
        bounds[k - 1].at = at
        bounds[k - 1].what = row
    return max(done, gone)


@jit
def _offer_without(state: State, scratch: Scratch, out: Actions, listed: int, gone: int) -> None:
    """Offer what is free once the first `gone` jobs of the list are gone, and those that stop."""
    offer(scratch, SOON)
    for i in range(listed - gone, listed):
        job = state.jobs[scratch.bounds[i].what]
        if (job.state != JobState.RUNNING and job.state != JobState.STARTING) or _is_moved(scratch, job):
            row = scratch.jobs[job.row].place
            if row >= 0:
                offer_places(scratch, out, row)
            else:
                offer_places(scratch, state.promises, -1 - row)
        else:
            add_to_offer(state, scratch, job)


@jit
def _fits(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, listed: int, gone: int
) -> bool:
    _offer_without(state, scratch, out, listed, gone)
    return limit_offer(state, options, scratch, job, False) >= job.gpus and choose_place(
        state, options, place, scratch, out, job
    )


@jit
def _worth_by(state: State, options: Options, worth: Any, scratch: Scratch, job: Any, listed: int, gone: int) -> float:
    """By when it is worth stopping all of the first `gone` that come after the job, and they have stopped."""
    clear_stops(scratch)
    for i in range(listed - gone, listed):
        other = state.jobs[scratch.bounds[i].what]
        if makes_room(state, options, scratch, job, other):
            add_stop(options, scratch, other, other.gpus)
    return worth_at(options, worth, scratch, job) + scratch.stops[0].save


@jit
def reserve(state: State, options: Options, worth: Any, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Work out the reservation of a waiting job. True: its place is in the row being written, its bound in the walk."""
    walk, bounds, listed = scratch.walk[0], scratch.bounds, _list_bounds(state, options, scratch, out, job)
    low, high, done = 0, 0, 0  # it does not fit without the first `low` - 1, and does without the first `high`
    while not _fits(state, options, place, scratch, out, job, listed, high):
        if high == listed:
            return False
        low, high = high + 1, min(2 * high + 1, listed)
        done = _sort(bounds, listed, done, high)
    while low < high:
        forget(out)
        middle = (low + high) >> 1
        if _fits(state, options, place, scratch, out, job, listed, middle):
            high = middle
        else:
            low = middle + 1
            if low == high:
                _fits(state, options, place, scratch, out, job, listed, high)
    bound = bounds[listed - low].at if low > 0 else walk.now
    walk.bound = max(bound, walk.now, walk.stopped_by) if bound < NOT_KNOWN else np.inf
    if options.weighs:
        walk.bound = max(walk.bound, _worth_by(state, options, worth, scratch, job, listed, low))
    while walk.bound < np.inf and low < listed:
        done = _sort(bounds, listed, done, low + 1)
        if bounds[listed - low - 1].at > walk.bound:
            break
        low += 1  # gone by then too
    _keep(state, scratch, out, listed, low)
    return True


@jit
def _keep(state: State, scratch: Scratch, out: Actions, listed: int, gone: int) -> None:
    """On the nodes and leaves of the place in the row being written, others may stay beyond the bound on what it leaves of them."""
    _offer_without(state, scratch, out, listed, gone)
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].extra = NO_LIMIT
    for x in range(len(scratch.leaves)):
        scratch.leaves[x].extra = ALL_LINKS
    row = out.rows[out.counts[0].rows]
    for k in range(row.seat_at, out.counts[0].seats):
        room = scratch.nodes[out.seats[k].node]
        room.extra = min(room.offer, room.extra) - out.seats[k].gpus
    for k in range(row.link_at, out.counts[0].links):
        links, mask = scratch.leaves[out.links[k].leaf], out.links[k].mask
        links.extra = links.offer & links.extra & ~mask


@jit
def _is_firm(scratch: Scratch, first: Any) -> bool:
    """Whether the job has waited so long that those who can be stopped do not pass it either."""
    walk = scratch.walk[0]
    return walk.now - first.queued >= PATIENCE * (walk.bound - walk.now)


@jit
def _firm_bound(state: State, options: Options, scratch: Scratch, first: Any) -> float:
    """The bound with those who may still pass: until the reservation is firm, as far as the turns of the jobs that run now tell."""
    walk, longest = scratch.walk[0], 0.0
    if scratch.jobs[first.row].asked == walk.decision:  # what was asked back is not lent again
        return walk.bound
    for i in range(state.counts[0].running if options.preempts else 0):
        job = state.jobs[state.run[i]]
        over = next_look(options, walk.now + job.resume + turn(job, options), walk.now)
        longest = max(longest, over + job.save - walk.now if over < np.inf else 0.0)
    if longest <= walk.bound - walk.now or _is_firm(scratch, first):
        return walk.bound
    return max(walk.bound, first.queued + (PATIENCE + 1.0) * longest)


@jit(types.boolean(STATE_TYPE, OPTIONS_TYPE, WORTH_TYPE, PLACE_TYPE, SCRATCH_TYPE, ACTIONS_TYPE))
def kept_for_first(state: State, options: Options, worth: Any, place: Any, scratch: Scratch, out: Actions) -> bool:
    """After a decision: write what is kept for the first job that found no place into the first row of `out`. False: nothing is."""
    clear(out)
    first = scratch.walk[0].first
    if first < 0 or not options.reserves or not reserve(state, options, worth, place, scratch, out, state.jobs[first]):
        return False
    scratch.walk[0].firm_by = _firm_bound(state, options, scratch, state.jobs[first])
    close_row(out, RESERVE, first)
    return True


@jit
def is_late(
    state: State, options: Options, rules: Any, scratch: Scratch, out: Actions, job: Any, starts: float
) -> bool:
    """Whether a job that starts then has to leave the reservation alone: it may stay beyond the bound or, without one, is never stopped."""
    walk = scratch.walk[0]
    if walk.first < 0 or job.row == walk.first:
        return False
    if options.teams == NO_TEAMS and not comes_before(options, scratch, state.jobs[walk.first], job):
        return False
    can_stop = options.preempts and turn(job, options) < np.inf
    if can_stop and _resumes_in(job) + turn(job, options) + job.save == 0.0:
        return False  # gone whenever one before it asks
    if walk.reserved != walk.first:
        walk.reserved = walk.first
        if reserve(state, options, rules.worth, rules.place, scratch, out, state.jobs[walk.first]):
            forget(out)
        else:  # no place on any open nodes
            walk.first = -1
            return False
    if walk.bound == np.inf:
        return not can_stop
    first = state.jobs[walk.first]
    if can_stop and not _is_firm(scratch, first):
        return False
    return _gone_by(state, options, rules.key, scratch, job, first, starts) > walk.bound
