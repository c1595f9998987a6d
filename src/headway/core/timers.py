"""Timers: when a job's key changes by itself. A heap of (time, job); an entry holds while it is the job's `change_at`."""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.state import State

SOON_S: Final = 1e-3  # a time that is nearer than that is taken for "at once"
MOST_RINGS: Final = 100  # of a job's timer in a row, each asking to ring at once: more than there are queues to cross


@jit
def push(heap: Any, n: int, at: float, what: int) -> None:
    """Add (at, what) to a heap of n entries; entries of equal time are ordered by `what`."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if heap[up].at < at or (heap[up].at == at and heap[up].what <= what):
            break
        heap[i] = heap[up]
        i = up
    heap[i].at = at
    heap[i].what = what


@jit
def pop(heap: Any, n: int) -> None:
    """Remove the first of n entries."""
    n -= 1
    at, what, i = heap[n].at, heap[n].what, 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (
            heap[child + 1].at < heap[child].at
            or (heap[child + 1].at == heap[child].at and heap[child + 1].what < heap[child].what)
        ):
            child += 1
        if at < heap[child].at or (at == heap[child].at and what <= heap[child].what):
            break
        heap[i] = heap[child]
        i = child
    heap[i].at = at
    heap[i].what = what


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
    return state.timers[0].what if next_timer(state) <= now else -1
