"""Timers: when a job's key changes by itself, and when the engine decides again by itself.

The timers of jobs are a heap of (time, job). An entry is valid while it is the job's `change_at`.
"""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.keys import INSTANT_S, notice_over_at
from headway.core.order import pop, push
from headway.core.tables.actions import ACTIONS_TYPE, Actions
from headway.core.tables.options import OPTIONS_TYPE, Options
from headway.core.tables.scratch import SCRATCH_TYPE, Scratch
from headway.core.tables.state import STATE_TYPE, State

SOON_S: Final = 1e-3  # a time that is nearer than that is taken for "at once"
MOST_RINGS: Final = 100  # of a job's timer in a row, each asking to ring at once: more than there are queues to cross


@jit
def set_timer(state: State, j: int, at: float) -> None:
    """Make `at` the job's one valid timer; infinity clears it."""
    if state.jobs[j].change_at == at:
        return
    state.jobs[j].change_at = at
    if at == np.inf:
        return
    if state.counts[0].timers == len(state.timers):
        _compact(state)
    push(state.timers, state.counts[0].timers, at, j)
    state.counts[0].timers += 1


@jit
def _compact(state: State) -> None:
    """Drop the entries that no longer hold."""
    n = state.counts[0].timers
    state.counts[0].timers = 0
    for i in range(n):
        at, j = state.timers[i].at, state.timers[i].what
        if state.jobs[j].change_at == at:
            push(state.timers, state.counts[0].timers, at, j)
            state.counts[0].timers += 1
    assert state.counts[0].timers < len(state.timers)


@jit
def drop_stale_timers(state: State) -> None:
    """After something was recorded: the first timer is valid again. Those behind it need not be."""
    while state.counts[0].timers > 0 and state.jobs[state.timers[0].what].change_at != state.timers[0].at:
        pop(state.timers, state.counts[0].timers)
        state.counts[0].timers -= 1


@jit
def next_timer(state: State) -> float:
    """When the next timer rings."""
    return state.timers[0].at if state.counts[0].timers > 0 else np.inf


@jit
def checked_time(at: float) -> float:
    """A time that a policy gave."""
    if np.isnan(at):
        raise ValueError("the policy's change(job, now, options) must return a time, or infinity, and returned NaN")
    return at


@jit
def count_ring(job: Any, now: float) -> None:
    """After a timer rang and was set anew: one that asks to ring at once for ever would let nothing else happen."""
    job.rings = job.rings + 1 if job.change_at < now + SOON_S else 0
    if job.rings > MOST_RINGS:
        raise ValueError(
            "the policy's change(job, now, options) asks for ever to be asked again at once: "
            "it must return a time after now, or infinity"
        )


@jit
def due(state: State, now: float) -> int:
    """The next job whose timer has rung, or -1; recording its Crossed takes the timer away."""
    return state.timers[0].what if next_timer(state) <= now + INSTANT_S else -1


# ---- when the engine decides again by itself


@jit
def _next_boundary(state: State, options: Options, after: float) -> float:
    """Return when, after a time, an advance reservation begins, ends, or jobs are notified of it."""
    at = np.inf
    for i in range(len(state.bookings)):
        booking = state.bookings[i]
        for boundary in (booking.begin - options.notice, booking.begin, booking.end):
            if boundary > after:
                at = min(at, boundary)
    return at


@jit
def _next_notice(state: State) -> float:
    """Return when the next notice is over."""
    at = np.inf
    for i in range(state.counts[0].running if state.counts[0].notices > 0 else 0):
        at = min(at, notice_over_at(state.jobs[state.run[i]]))
    return at


@jit(types.boolean(STATE_TYPE, OPTIONS_TYPE, types.float64, types.float64))
def tick_due(state: State, options: Options, wake: float, now: float) -> bool:
    """Return whether a world has to record Ticked before it decides; `wake` is when the engine wanted to be woken.

    A quantum is over, a preemption may pay now, a notice is over, or an advance reservation begins or ends.
    """
    if (options.quantum < np.inf and wake <= now) or state.counts[0].retry_at <= now:
        return True
    return _next_notice(state) <= now or _next_boundary(state, options, state.counts[0].moment) <= now


@jit(types.float64(STATE_TYPE, OPTIONS_TYPE, ACTIONS_TYPE, types.float64))
def wake_at(state: State, options: Options, out: Actions, now: float) -> float:
    """Return when to decide again after a decision was recorded and performed, even if nothing happens."""
    at = min(_next_boundary(state, options, now), _next_notice(state))
    if options.quantum == np.inf:
        return max(now, min(at, next_timer(state), state.counts[0].retry_at, out.counts[0].again))
    timed = min(next_timer(state), state.counts[0].retry_at, out.counts[0].again) < np.inf
    is_idle = state.counts[0].running + state.counts[0].stopping == 0 and not timed
    if is_idle or (state.counts[0].waiting == 0 and not (options.elastic and state.counts[0].running > 0)):
        return at  # a quantum that ends now changes nothing
    end = (np.floor(now / options.quantum) + 1) * options.quantum
    return min(end if end > now else end + options.quantum, at)


@jit(types.int64(STATE_TYPE, SCRATCH_TYPE, types.int64))
def next_changed_why(state: State, scratch: Scratch, i: int) -> int:
    """After a decision, return the first open class, from the i-th on, whose jobs wait for another reason than recorded; -1: none."""
    while scratch.walk[0].explained and i < state.counts[0].classes:
        c = state.classes[i].open
        if scratch.classes[c].rest >= 0 and scratch.classes[c].why != state.classes[c].why:
            return i
        i += 1
    return -1
