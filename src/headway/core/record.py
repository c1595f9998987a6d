"""record: the only mutator. One fact or one performed action about one job, and everything that follows from it."""

from typing import Any

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.events import (
    CROSSED,
    ENDED,
    HELD,
    PACK,
    RELEASED,
    RESERVE,
    RESIZE,
    START,
    STARTED,
    STOP,
    STOPPED,
    SUBMITTED,
)
from headway.core.history import add_sample
from headway.core.ledger import begin_stopping, end_stopping, give_gpus, give_links, join_gpus, take_gpus, take_links
from headway.core.order import add_running, add_waiting, drop_running, drop_waiting
from headway.core.queues import cross, crossing
from headway.core.tables.actions import ACTIONS_TYPE, ROWS, Actions, clear, close_row, copy_places
from headway.core.tables.jobs import COMPLETED, ON_HOLD, PENDING, RUNNING, STARTING, STOPPING, settle
from headway.core.tables.options import CHANGE_TYPE, KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.state import STATE_TYPE, State
from headway.core.timers import set_timer


@jit
def class_of(job: Any, options: Options) -> int:
    """Jobs of one class find a place together or not at all: so many GPUs, whether few nodes matter, where jobs are packed the model."""
    return (2 * job.gpus + (job.skew > options.pack_limit)) * options.models + job.model % options.models


@jit
def free_at(job: Any, options: Options) -> float:
    """When a running job may lose its GPUs."""
    return job.started + max(options.min_runtime, job.min_runtime)


@jit
def pinned(job: Any, now: float, options: Options) -> bool:
    """Whether a job with GPUs must keep them."""
    return job.state == STARTING or not options.preempts or now < free_at(job, options)


@jit
def set_key(job: Any, now: float, options: Options, key: Any) -> None:
    """How the job sorts now; those that keep their GPUs come first."""
    job.k1, job.k2 = key(job, now, options)
    if job.state != PENDING and pinned(job, now, options):
        job.k1 = -np.inf


@jit
def set_rate(job: Any, now: float, rate: float) -> None:
    """The job was seen to make headway at another speed from now on."""
    settle(job, now)
    job.rate = rate


@jit
def _leave(state: State, options: Options, job: Any, j: int) -> None:
    """Take the job out of the list of its state."""
    if job.state == RUNNING or job.state == STARTING:
        drop_running(state, j)
    elif job.state == PENDING:
        drop_waiting(state, class_of(job, options), j)


@jit
def _enter(state: State, options: Options, key: Any, change: Any, job: Any, j: int, now: float) -> None:
    """Put the job into the list of its state, with its key and its timer."""
    if job.state == RUNNING or job.state == STARTING:
        set_key(job, now, options, key)
        add_running(state, j)
    elif job.state == PENDING:
        set_key(job, now, options, key)
        add_waiting(state, class_of(job, options), j)
    else:
        set_timer(state, j, np.inf)
        return
    at = change(job, now, options)
    # Policies that sort running jobs anew at every quantum look at the minimum run time then.
    looks = options.moving and options.quantum < np.inf
    if job.state == RUNNING and options.preempts and free_at(job, options) > now and not looks:
        at = min(at, free_at(job, options))
    set_timer(state, j, at)


@jit
def _part(state: State, job: Any) -> None:
    """Give everything back; a partner on the same GPUs stays alone."""
    give_gpus(state, job)
    give_links(state, job)
    if job.partner >= 0:
        state.jobs[job.partner].partner = -1
        job.partner = -1


@jit
def _start(state: State, job: Any, j: int, now: float, given: Actions, row: int) -> None:
    here, after = given.rows[row], given.rows[row + 1]
    if here.kind == PACK:
        job.partner = given.seats[here.seat_at].node
        state.jobs[job.partner].partner = j
        join_gpus(state, job, j, state.jobs[job.partner])
    else:
        for k in range(here.seat_at, after.seat_at):
            take_gpus(state, job, j, given.seats[k].node, given.seats[k].gpus)
        for k in range(here.link_at, after.link_at):
            take_links(state, job, given.links[k].leaf, given.links[k].mask)
    job.state = STARTING
    job.attempt += 1
    job.first = min(job.first, now)
    job.promise = -1


@jit
def _stop(state: State, job: Any, resizing: bool) -> None:
    if job.partner >= 0:
        other = state.jobs[job.partner]
        if job.rate + other.rate <= 1.0:  # both made less headway together than one alone
            state.bad_pairs[job.model, other.model] = 1
            state.bad_pairs[other.model, job.model] = 1
    begin_stopping(state, job)
    job.state = STOPPING
    job.resizing = resizing
    if resizing:
        job.resizes += 1
    else:
        job.preemptions += 1


@jit
def _drop_kept_promises(state: State) -> None:
    """Move the promises that still stand to the front of the list."""
    promises = state.promises
    n = promises.tally[ROWS]
    clear(promises)
    for row in range(n):
        j = promises.rows[row].job
        if state.jobs[j].promise == row and state.jobs[j].state == PENDING:
            # In place: what is written lies before what is still to be read.
            copy_places(promises, row, promises)
            state.jobs[j].promise = promises.tally[ROWS]
            close_row(promises, RESERVE, j)


@jit
def _promise(state: State, job: Any, j: int, given: Actions, row: int) -> None:
    """Note the places that are being freed for job j, so that the next decisions do not pick others and stop more jobs.

    A promise lasts until the job starts. When the list is full of those that wait, all are dropped: they save work, but are
    not needed.
    """
    if not copy_places(given, row, state.promises):
        _drop_kept_promises(state)
        if not copy_places(given, row, state.promises):
            clear(state.promises)
            copy_places(given, row, state.promises)
    job.promise = state.promises.tally[ROWS]
    close_row(state.promises, RESERVE, j)


@jit(
    types.void(
        STATE_TYPE,
        OPTIONS_TYPE,
        KEY_TYPE,
        CHANGE_TYPE,
        types.int64,
        types.int64,
        types.float64,
        ACTIONS_TYPE,
        types.int64,
    )
)
def record(
    state: State, options: Options, key: Any, change: Any, kind: int, j: int, now: float, given: Actions, row: int
) -> None:
    """Record one fact, or one action performed, about job j. Actions read their places from `given` at `row`."""
    job = state.jobs[j]
    crosses_at = crossing(job, now, options) if kind == CROSSED else np.inf
    _leave(state, options, job, j)
    settle(job, now)
    if kind == SUBMITTED or kind == RELEASED:
        job.state = PENDING
        job.queued = now
    elif kind == HELD:
        job.state = ON_HOLD
    elif kind == START or kind == PACK:
        _start(state, job, j, now, given, row)
    elif kind == STARTED:
        job.state = RUNNING
        job.started = now
    elif kind == STOP:
        _stop(state, job, False)
    elif kind == RESIZE:
        if job.state != PENDING:
            _stop(state, job, True)
        if job.gpus != given.seats[given.rows[row].seat_at].gpus:
            job.gpus = given.seats[given.rows[row].seat_at].gpus
            job.promise = -1  # it was for another size
    elif kind == RESERVE:
        _promise(state, job, j, given, row)
    elif kind == STOPPED or kind == ENDED:
        if job.state == STOPPING:
            end_stopping(state, job)
        _part(state, job)
        if kind == ENDED:
            job.state = COMPLETED
            job.end = now
            add_sample(options.history, job.total)
        else:
            job.state = PENDING
            if not job.resizing:
                job.queued = now
            job.resizing = 0
    elif crosses_at <= now:
        cross(job, options, crosses_at < now)
    _enter(state, options, key, change, job, j, now)
