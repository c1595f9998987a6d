"""The backfill reservation: GPUs kept for the first waiting job without a place, so that other jobs do not pass it for ever (EASY).

Contract: `reserve` lists every job that holds GPUs, or is to hold them, with the time at which it can have released them. In that
order, the shortest prefix that gives the reserving job a place is its reservation, and the last time is its bound. `is_late` says
whether another job might hold GPUs beyond the bound; such a job gets only what remains beside the reservation (`extra` of a node).
"""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    ALL_LINKS,
    NO_BOUND,
    SOON,
    decided,
    is_left,
    offer,
    offer_held,
    offer_places,
    probe,
)
from headway.core.deciding.releasing import new_notice_until, notified_until, pays_at
from headway.core.deciding.teams import gives_way, may_reclaim, queue_of, within_guarantee
from headway.core.events import MIGRATE, PROMISE, START, STOP
from headway.core.keys import is_non_preemptible, min_runtime, next_check, resumes_in, time_left
from headway.core.order import pop, push
from headway.core.tables.actions import ACTIONS_TYPE, Actions, close_row, forget
from headway.core.tables.options import KEY_TYPE, OPTIONS_TYPE, PREEMPT_AT_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, STOPS, Round, Rules, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.tables.teams import CLUSTER
from headway.job_state import JobState

UNKNOWN_S: Final = 1e12  # times from here on are unknown
PATIENCE: Final = 64.0  # preemptible jobs pass until the reserving job has waited this many times the time to its bound


# ---- when jobs leave


@jit
def _is_stopped(r: Round, holder: Any) -> bool:
    """Return whether this decision stops or migrates a running job."""
    kind = decided(r, holder.row)
    return kind == STOP or kind == MIGRATE


@jit
def _runs_from(r: Round, holder: Any, starts: float) -> float:
    """Return from when on a job with GPUs or a place runs; one that waits `starts` then."""
    if holder.state == JobState.RUNNING and not _is_stopped(r, holder):
        return holder.started
    return holder.since + holder.resume if holder.state == JobState.STARTING else starts + resumes_in(holder)


@jit
def _leaves_at(r: Round, holder: Any, starts: float, job: Any) -> float:
    """Return when a waiting job can have the GPUs of a holder, which starts at `starts` if it only has a place (UNKNOWN_S: unknown)."""
    now, runs = r.scratch.walk[0].now, _runs_from(r, holder, starts)
    at = max(now, runs) + time_left(holder, now, r.options)
    if gives_way(r, job, holder):
        at = min(at, next_check(r.options, max(now, runs + min_runtime(holder, r.options)), now) + holder.save)
    if holder.state == JobState.RUNNING or holder.state == JobState.STARTING:
        until = notified_until(r, holder)
        if until < np.inf:
            at = min(at, max(now, until) + holder.save)
        elif not is_non_preemptible(holder, r.options) and may_reclaim(r, job, holder):
            at = min(at, new_notice_until(r, holder) + holder.save)
    return at if at < UNKNOWN_S else UNKNOWN_S + runs


@jit
def _list_holders(r: Round, job: Any) -> int:
    """List the jobs with GPUs, with promises that stand, and with places in this decision, as a heap by time. Return their number.

    A job with a promise starts when all stopping jobs have stopped.
    """
    state, walk, listed, n = r.state, r.scratch.walk[0], r.scratch.listed, 0
    stopped_by = max(walk.now, walk.stopped_by)
    for i in range(state.counts[0].running):
        holder = state.jobs[state.run[i]]
        if not _is_stopped(r, holder):
            push(listed, n, _leaves_at(r, holder, walk.now, job), holder.row)
            n += 1
    for row in range(state.promises.counts[0].rows):
        holder = state.jobs[state.promises.rows[row].job]
        if holder.promise == row and (r.scratch.jobs[holder.row].kept or r.scratch.jobs[holder.row].standing):
            push(listed, n, _leaves_at(r, holder, stopped_by, job), holder.row)
            n += 1
    for row in range(r.out.counts[0].rows):
        if _gives_gpus(r, row):
            holder, starts = state.jobs[r.out.rows[row].job], walk.now if r.out.rows[row].kind == START else stopped_by
            push(listed, n, _leaves_at(r, holder, starts, job), holder.row)
            n += 1
    return n


@jit
def _gives_gpus(r: Round, row: int) -> bool:
    """Return whether a row of this decision gives a job GPUs."""
    kind = r.out.rows[row].kind
    is_placed = kind == START or kind == PROMISE or kind == MIGRATE
    return is_placed and r.out.rows[row + 1].seat_at > r.out.rows[row].seat_at


@jit
def _find_standing(r: Round) -> None:
    """Mark the promises that can still be kept though their jobs were not visited yet: what they need counts as held."""
    promises, nodes = r.state.promises, r.scratch.nodes
    for x in range(len(nodes.left)):
        nodes.left[x] = nodes.soon[x]
    for row in range(promises.counts[0].rows):
        waiting = r.state.jobs[promises.rows[row].job]
        mark = r.scratch.jobs[waiting.row]
        mark.standing = waiting.promise == row and waiting.state == JobState.PENDING and not mark.visited
        if not mark.standing or not is_left(r, promises, row, SOON):
            mark.standing = 0
            continue
        for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at):
            mark.standing &= promises.seats[k].gpus <= nodes.left[promises.seats[k].node]
        if mark.standing:
            mark.action = -1 - row
            for k in range(promises.rows[row].seat_at, promises.rows[row + 1].seat_at):
                nodes.left[promises.seats[k].node] -= promises.seats[k].gpus


# ---- the shortest prefix


@jit
def _sort(listed: Any, n: int, done: int, gone: int) -> int:
    """Continue a heap sort until the first `gone` of n are in order, at the end of the list; `done` were before. Return how many are."""
    for k in range(n - done, n - gone, -1):
        at, row = listed[0].at, listed[0].what
        pop(listed, k)
        listed[k - 1].at = at
        listed[k - 1].what = row
    return max(done, gone)


@jit
def _offer_without(r: Round, n: int, gone: int) -> None:
    """Offer what is free once stopping jobs and the first `gone` listed jobs have left, less what standing promises need."""
    promises = r.state.promises
    offer(r, SOON)
    for row in range(promises.counts[0].rows):
        waiting = r.state.jobs[promises.rows[row].job]
        if waiting.promise == row and r.scratch.jobs[waiting.row].standing:
            offer_places(r, promises, row, -1)
    for i in range(n - gone, n):
        holder = r.state.jobs[r.scratch.listed[i].what]
        has_gpus = holder.state == JobState.RUNNING or holder.state == JobState.STARTING
        row = r.scratch.jobs[holder.row].action
        if has_gpus and not _is_stopped(r, holder):
            offer_held(r, holder)
        elif row >= 0:
            offer_places(r, r.out, row, 1)
        else:
            offer_places(r, promises, -1 - row, 1)


@jit
def _fits_without(r: Round, rules: Any, job: Any, n: int, gone: int) -> bool:
    """Return whether the job has a place once the first `gone` listed jobs have left. True: it is in the row being written."""
    _offer_without(r, n, gone)
    return probe(r, rules, job, False)


@jit
def _pays_by(r: Round, rules: Any, job: Any, n: int, gone: int) -> float:
    """Return when preempting those of the first `gone` listed jobs that give way pays, and they have stopped."""
    for i in range(n):
        r.scratch.listed[i].how = STOPS
        r.scratch.listed[i].chosen = i >= n - gone and gives_way(r, job, r.state.jobs[r.scratch.listed[i].what])
    return pays_at(r, rules, job, n) + r.scratch.stops[0].save


@jit
def reserve(r: Round, rules: Any, job: Any) -> int:
    """Work out the reservation of a waiting job: its place is in the row being written, and its bound in `walk`.

    Return the number of listed holders; -1: there is no place.
    """
    walk, listed = r.scratch.walk[0], r.scratch.listed
    _find_standing(r)
    n = _list_holders(r, job)
    low, high, done = 0, 0, 0  # without the first low - 1 it does not fit, without the first `high` it does
    while not _fits_without(r, rules, job, n, high):
        if high == n:
            return -1
        low, high = high + 1, min(2 * high + 1, n)
        done = _sort(listed, n, done, high)
    while low < high:
        forget(r.out)
        middle = (low + high) >> 1
        if _fits_without(r, rules, job, n, middle):
            high = middle
        else:
            low = middle + 1
            if low == high:
                _fits_without(r, rules, job, n, high)
    bound = listed[n - low].at if low > 0 else walk.now
    bound = max(bound, walk.now, walk.stopped_by) if bound < UNKNOWN_S else np.inf
    if r.options.weighs:
        bound = max(bound, _pays_by(r, rules, job, n, low))
    while bound < np.inf and low < n:
        done = _sort(listed, n, done, low + 1)
        if listed[n - low - 1].at > bound:
            break
        low += 1  # gone by then too
    walk.bound = bound
    _keep_beside(r, n, low)
    return n


@jit
def _keep_beside(r: Round, n: int, gone: int) -> None:
    """Set what jobs may hold beyond the bound on the nodes and leaves of the place in the row being written: what it leaves of them."""
    _offer_without(r, n, gone)
    nodes, links, row = r.scratch.nodes, r.scratch.leaves, r.out.rows[r.out.counts[0].rows]
    for x in range(len(nodes.extra)):
        nodes.extra[x] = NO_BOUND
    for x in range(len(links.extra)):
        links.extra[x] = ALL_LINKS
    for k in range(row.seat_at, r.out.counts[0].seats):
        x = r.out.seats[k].node
        nodes.extra[x] = min(nodes.offer[x], nodes.extra[x]) - r.out.seats[k].gpus
    for k in range(row.link_at, r.out.counts[0].links):
        x = r.out.links[k].leaf
        links.extra[x] &= links.offer[x] & ~r.out.links[k].mask


# ---- who is late


@jit
def _gone_by(r: Round, rules: Any, job: Any, first: Any, starts: float) -> float:
    """Return when a waiting job that starts at `starts` has released its GPUs to the reserving job.

    When its minimum run time is over it is preempted only if it comes after the reserving job by then, in the same queue.
    """
    runs = starts + resumes_in(job)
    ends = runs + time_left(job, starts, r.options)
    checked = next_check(r.options, runs + min_runtime(job, r.options), starts)
    if not r.options.preempts or checked == np.inf or queue_of(r, job) != queue_of(r, first):
        return ends
    r.scratch.trial[0] = r.state.jobs[job.row]
    trial = r.scratch.trial[0]
    trial.state = JobState.RUNNING
    trial.first = min(trial.first, starts)
    trial.started = runs
    trial.since = runs
    is_first = ((first.k1, first.k2), first.row) < (rules.key(trial, checked, r.options), job.row)
    return min(ends, checked + job.save) if is_first else ends


@jit
def _is_firm(r: Round, first: Any, bound: float) -> bool:
    """Return whether the reserving job has waited so long for this bound that preemptible jobs do not pass it either."""
    return r.scratch.walk[0].now - first.queued >= PATIENCE * (bound - r.scratch.walk[0].now)


@jit
def _could_be_firm(r: Round, first: Any) -> bool:
    """Return False if running jobs leave too few GPUs, too late, for a firm reservation."""
    left = r.state.teams[CLUSTER].guarantee
    if not _is_firm(r, first, r.scratch.walk[0].stopped_by):
        return False
    for i in range(r.state.counts[0].running):
        holder = r.state.jobs[r.state.run[i]]
        if not _is_stopped(r, holder) and not _is_firm(r, first, _leaves_at(r, holder, 0.0, first)):
            left -= holder.gpus
            if left < first.gpus:
                return False
    return True


@jit
def _has_bound(r: Round, rules: Any, preemptible: bool) -> bool:
    """Work out the reservation, once per decision. False: `preemptible` jobs pass, or not even empty nodes have a place to reserve."""
    walk = r.scratch.walk[0]
    if walk.reserving == walk.first:
        return True
    if preemptible and (walk.passable == walk.first or not _could_be_firm(r, r.state.jobs[walk.first])):
        walk.passable = walk.first
        return False
    walk.reserving = walk.first
    holders = reserve(r, rules, r.state.jobs[walk.first])
    forget(r.out)
    walk.first = walk.first if holders >= 0 else -1
    return holders >= 0


@jit
def is_late(r: Round, rules: Any, job: Any, starts: float) -> bool:
    """Return whether a job that starts at `starts` may hold GPUs beyond the bound or, if that is unknown, for ever."""
    walk = r.scratch.walk[0]
    if not r.options.reserves or walk.first < 0 or job.row == walk.first or within_guarantee(r, job) >= 0:
        return False
    preemptible = r.options.preempts and not is_non_preemptible(job, r.options)
    if preemptible and resumes_in(job) + min_runtime(job, r.options) + job.save == 0.0:
        return False  # gone whenever the reserving job needs its GPUs
    if not _has_bound(r, rules, preemptible):
        return False
    if walk.bound == np.inf:
        return not preemptible
    first = r.state.jobs[walk.first]
    if preemptible and not _is_firm(r, first, walk.bound):
        return False
    return _gone_by(r, rules, job, first, starts) > walk.bound


# ---- for commands that show the reservation


@jit
def _bound_with_passes(r: Round, first: Any) -> float:
    """Return the bound if jobs still pass: until the reservation is firm, as far as the minimum run times of running jobs tell."""
    walk, longest = r.scratch.walk[0], 0.0
    for i in range(r.state.counts[0].running if r.options.preempts else 0):
        job = r.state.jobs[r.state.run[i]]
        checked = next_check(r.options, walk.now + job.resume + min_runtime(job, r.options), walk.now)
        longest = max(longest, checked + job.save - walk.now if checked < np.inf else 0.0)
    if longest <= walk.bound - walk.now or _is_firm(r, first, walk.bound):
        return walk.bound
    return max(walk.bound, first.queued + (PATIENCE + 1.0) * longest)


@jit(types.int64(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, PREEMPT_AT_TYPE, PLACE_TYPE, SCRATCH_TYPE, ACTIONS_TYPE))
def reserve_for_first(
    state: State, options: Options, key: Any, preempt_at: Any, place: Any, scratch: Scratch, out: Actions
) -> int:
    """After a decision, append the backfill reservation to the rows of `out`. Return the number of listed holders; -1: no reservation."""
    r, rules = Round(state, options, scratch, out), Rules(key, preempt_at, place)
    first = scratch.walk[0].first
    holders = reserve(r, rules, state.jobs[first]) if first >= 0 and options.reserves else -1
    if holders >= 0:
        scratch.walk[0].bound_with_passes = _bound_with_passes(r, state.jobs[first])
        close_row(out, PROMISE, first)
    return holders
