"""record: the only function that changes the state. It applies one fact, or one action about to be performed, with all consequences."""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.classes import class_of
from headway.core.compiler.jit import jit
from headway.core.events import (
    CROSSED,
    ENDED,
    HELD,
    MIGRATE,
    NOTIFY,
    PACK,
    PROMISE,
    REFITTED,
    RELEASED,
    RESIZE,
    START,
    STARTED,
    STOP,
    STOPPED,
    SUBMITTED,
    TICKED,
    WAIT_GPUS,
)
from headway.core.history import add_sample, fit_thresholds, refresh, stale
from headway.core.keys import INSTANT_S, cross, crossing, preemptible_from, set_key
from headway.core.ledger import (
    begin_stopping,
    count_freeing,
    count_in_teams,
    end_stopping,
    give_gpus,
    give_links,
    join_gpus,
    take_gpus,
    take_links,
    withdraw_links,
)
from headway.core.order import add_running, add_waiting, as_list, before, drop_running, drop_waiting, insert
from headway.core.receipts import begin_interval, end_interval
from headway.core.tables.actions import ACTIONS_TYPE, Actions, clear, close_row_until, copy_places
from headway.core.tables.jobs import settle
from headway.core.tables.options import CHANGE_TYPE, KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.state import STATE_TYPE, State
from headway.core.timers import checked_time, count_ring, drop_stale_timers, set_timer
from headway.job_state import JobState

FEW_PROMISES: Final = 8  # that are not worth looking through


@jit
def _leave(state: State, options: Options, job: Any, now: float) -> None:
    """Take the job out of the list of its state."""
    end_interval(state, options, job, now)
    count_in_teams(state, options, job, -1, now)
    if job.state == JobState.RUNNING or job.state == JobState.STARTING:
        drop_running(state, job.row)
    elif job.state == JobState.PENDING:
        drop_waiting(state, class_of(job, options), job.row)


@jit
def _enter(state: State, options: Options, key: Any, change: Any, job: Any, now: float) -> None:
    """Put the job into the list of its state, with its key and its timer."""
    begin_interval(state, options, job, now)
    count_in_teams(state, options, job, 1, now)
    if job.state == JobState.RUNNING or job.state == JobState.STARTING:
        set_key(job, now, options, key)
        add_running(state, job.row)
    elif job.state == JobState.PENDING:
        set_key(job, now, options, key)
        add_waiting(state, class_of(job, options), job.row)
    else:
        set_timer(state, job.row, np.inf)
        return
    _set_timer(state, options, change, job, now)


@jit
def _set_timer(state: State, options: Options, change: Any, job: Any, now: float) -> None:
    """Set when the job is to be looked at again by itself."""
    at = checked_time(change(job, now, options))
    # Policies that sort running jobs again at every quantum look at the minimum run time then.
    at_quantum = options.dynamic_keys and options.quantum < np.inf
    free_at = preemptible_from(job, options)
    if job.state == JobState.RUNNING and options.preempts and free_at > now + INSTANT_S and not at_quantum:
        at = min(at, free_at)
    set_timer(state, job.row, at)


@jit
def _part(state: State, job: Any) -> None:
    """Give everything back; a partner on the same GPUs stays alone."""
    give_gpus(state, job)
    give_links(state, job)
    if job.partner >= 0:
        other = state.jobs[job.partner]
        other.partner = -1
        job.partner = -1
        count_freeing(state, other)


@jit
def _start(state: State, job: Any, now: float, actions: Actions, row: int) -> None:
    here, after = actions.rows[row], actions.rows[row + 1]
    if here.kind == PACK:
        job.partner = actions.seats[here.seat_at].node
        state.jobs[job.partner].partner = job.row
        join_gpus(state, job, state.jobs[job.partner])
    else:
        for k in range(here.seat_at, after.seat_at):
            take_gpus(state, job, actions.seats[k].node, actions.seats[k].gpus)
        for k in range(here.link_at, after.link_at):
            take_links(state, job, actions.links[k].leaf, actions.links[k].mask)
    job.state = JobState.STARTING
    job.attempt += 1
    job.first = min(job.first, now)
    job.migrating = 0
    _drop_promise(job)


@jit
def _drop_promise(job: Any) -> None:
    job.promise = -1
    job.ready_by = -np.inf


@jit
def _set_notice(state: State, job: Any, until: float) -> None:
    """Set when the notice of a job is over (infinity: it has none)."""
    state.counts[0].notices += (until < np.inf) - (job.until < np.inf)
    job.until = until


@jit
def _stop(state: State, job: Any, now: float, resizing: bool, size: int) -> None:
    if job.partner >= 0:
        other = state.jobs[job.partner]
        if job.rate + other.rate <= 1.0:  # both made less headway together than one alone
            state.bad_pairs[job.model, other.model] = 1
            state.bad_pairs[other.model, job.model] = 1
    job.state = JobState.STOPPING
    _set_notice(state, job, np.inf)
    begin_stopping(state, job)
    job.resizing = resizing
    job.displaced = not resizing
    job.preemptions += not resizing
    job.resizes += resizing and size != job.gpus
    job.migrations += resizing and size == job.gpus
    job.wasted += job.started == now
    state.counts[0].stopped_by = max(state.counts[0].stopped_by, now + job.save)


@jit
def _resize(state: State, job: Any, size: int, now: float) -> None:
    """Stop a running job to change its size; a waiting one changes it at once."""
    if job.state != JobState.PENDING:
        _stop(state, job, now, True, size)
    if job.gpus != size:
        job.gpus = size
        _drop_promise(job)  # it was for another size


@jit
def _drop_kept_promises(state: State) -> None:
    """Move the promises that still stand to the front of the list."""
    promises = state.promises
    n = promises.counts[0].rows
    clear(promises)
    for row in range(n):
        j = promises.rows[row].job
        waits = state.jobs[j].state == JobState.PENDING
        moves = state.jobs[j].state == JobState.RUNNING or state.jobs[j].state == JobState.STOPPING
        if state.jobs[j].promise == row and (waits or moves):
            # In place: what is written lies before what is still to be read.
            made_at = promises.rows[row].until
            copy_places(promises, row, promises)
            state.jobs[j].promise = promises.counts[0].rows
            close_row_until(promises, PROMISE, j, made_at)


@jit
def _promise(state: State, job: Any, actions: Actions, row: int, now: float) -> None:
    """Note the places that are being freed for the job, so that the next decisions do not pick others and stop more jobs.

    A promise lasts until the job starts. When the list is full of those that wait, all are dropped: they save work, but are
    not needed.
    """
    if state.promises.counts[0].rows > state.counts[0].promises:  # decisions go through the whole list
        _drop_kept_promises(state)
        state.counts[0].promises = 2 * state.promises.counts[0].rows + FEW_PROMISES
    if not copy_places(actions, row, state.promises):
        _drop_kept_promises(state)
        if not copy_places(actions, row, state.promises):
            clear(state.promises)
            copy_places(actions, row, state.promises)
    job.promise = state.promises.counts[0].rows
    close_row_until(state.promises, PROMISE, job.row, now)


@jit
def _end_attempt(state: State, options: Options, change: Any, job: Any, now: float, ended: bool) -> None:
    if job.state == JobState.STOPPING:
        end_stopping(state, job)
    _set_notice(state, job, np.inf)
    _part(state, job)
    if ended:
        job.state = JobState.COMPLETED
        job.end = now
        add_sample(options.history, job.total)
        if options.remembers:
            change(job, now, options)  # of a job that has ended: tells the policy (core/protocols.py: change_function)
        return
    job.state = JobState.PENDING
    if not job.resizing:
        job.queued = now
    job.resizing = 0


@jit(types.boolean(STATE_TYPE, OPTIONS_TYPE))
def refit_due(state: State, options: Options) -> bool:
    """Whether a world has to record Refitted before it decides: someone waits, and enough jobs ended since the last time."""
    return options.learns and state.counts[0].waiting > 0 and stale(options.history)


@jit
def _refit(state: State, options: Options, key: Any, change: Any, now: float) -> None:
    """Fit the curve over the finished jobs again; all waiting jobs get new keys, so each tree is emptied and filled again."""
    refresh(options.history, options.plotted)
    if options.fits:
        fit_thresholds(options.history, options.thresholds)
        _requeue_running(state, options, key, change, now)
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        j = as_list(state, c)
        while j >= 0:
            following = state.jobs[j].high
            if options.fits:
                _find_level(state.jobs[j], options)
            set_key(state.jobs[j], now, options, key)
            insert(state, c, j)
            if options.fits:
                _set_timer(state, options, change, state.jobs[j], now)
            j = following


@jit
def _find_level(job: Any, options: Options) -> None:
    """Put a job into the queue of its attained service, by the thresholds of now."""
    job.level = 0
    while job.service >= options.thresholds[job.level]:
        job.level += 1


@jit
def _requeue_running(state: State, options: Options, key: Any, change: Any, now: float) -> None:
    """Thresholds have changed: all with GPUs get new queues, keys and timers, and their list is sorted again."""
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        settle(job, now)
        _find_level(job, options)
        set_key(job, now, options, key)
        k, j = i, state.run[i]
        while k > 0 and before(state.jobs, j, state.run[k - 1]):
            state.run[k] = state.run[k - 1]
            k -= 1
        state.run[k] = j
        _set_timer(state, options, change, job, now)


@jit(types.void(STATE_TYPE, types.float64))
def record_retry(state: State, at: float) -> None:
    """Record when a preemption that does not pay yet is to be tried again (Deferred); infinity: there is none."""
    state.counts[0].retry_at = at


@jit(types.void(STATE_TYPE, types.int64, types.float64, types.float64))
def record_rate(state: State, j: int, rate: float, now: float) -> None:
    """Record that a running job makes headway at another speed from now on (Rated)."""
    settle(state.jobs[j], now)
    state.jobs[j].rate = rate


@jit(types.void(STATE_TYPE, types.int64, types.uint64, types.float64))
def record_links(state: State, leaf: int, mask: Any, now: float) -> None:
    """Record that links of a leaf have failed (Disconnected): no job holds them any more, and no job gets them."""
    state.counts[0].moment = now
    if leaf < len(state.leaves):
        withdraw_links(state, leaf, mask)


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, CHANGE_TYPE, types.int64, types.int64, types.float64))
def record(state: State, options: Options, key: Any, change: Any, kind: int, j: int, now: float) -> None:
    """Record one fact about job j, and everything that follows from it."""
    if kind == REFITTED:
        _refit(state, options, key, change, now)
        drop_stale_timers(state)
        return
    if kind != STOPPED and kind != STARTED:
        state.counts[0].moment = now
    if kind == TICKED:
        return
    job = state.jobs[j]
    crosses_at = crossing(job, now, options) if kind == CROSSED else np.inf
    _leave(state, options, job, now)
    settle(job, now)
    _change_state(state, options, change, kind, job, now)
    if crosses_at <= now + INSTANT_S:
        cross(job, options, crosses_at < now)
    _enter(state, options, key, change, job, now)
    if kind == CROSSED:
        count_ring(job, now)
    drop_stale_timers(state)


@jit
def _change_state(state: State, options: Options, change: Any, kind: int, job: Any, now: float) -> None:
    """Change the state of a job as a fact about it says; Crossed leaves it as it is, but its timer has rung."""
    if kind == SUBMITTED or kind == RELEASED:
        if job.state == JobState.FUTURE:
            state.receipts[WAIT_GPUS, job.row] += now - job.submit  # a manager may learn of it later
        job.state = JobState.PENDING
        job.queued = now
    elif kind == HELD:
        job.state = JobState.HELD
        job.migrating = 0
        _drop_promise(job)
    elif kind == STARTED:
        job.state = JobState.RUNNING
        job.started = now
    elif kind == STOPPED or kind == ENDED:
        _end_attempt(state, options, change, job, now, kind == ENDED)
    elif kind == CROSSED:
        job.change_at = np.inf


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, CHANGE_TYPE, ACTIONS_TYPE, types.int64, types.float64))
def record_action(
    state: State, options: Options, key: Any, change: Any, actions: Actions, row: int, now: float
) -> None:
    """Record the action in a row of `actions`, about to be performed."""
    kind, job = actions.rows[row].kind, state.jobs[actions.rows[row].job]
    has_places = actions.rows[row + 1].seat_at > actions.rows[row].seat_at
    if kind == NOTIFY:
        _set_notice(state, job, actions.rows[row].until)
        notice = actions.seats[actions.rows[row].seat_at]
        job.notice_for, job.notice_with = (notice.node, notice.gpus) if has_places else (-1, -1)
        return
    _leave(state, options, job, now)
    settle(job, now)
    if kind == START or kind == PACK:
        _start(state, job, now, actions, row)
    elif kind == STOP:
        _stop(state, job, now, False, job.gpus)
    elif kind == RESIZE:
        _resize(state, job, actions.seats[actions.rows[row].seat_at].gpus, now)
    elif kind == MIGRATE:
        _stop(state, job, now, True, job.gpus)
        job.migrating = has_places
        if has_places:
            _promise(state, job, actions, row, now)
    elif kind == PROMISE:
        _drop_promise(job)
        job.migrating, job.resizing = 0, 0  # a migration whose promise is withdrawn is an ordinary stop
        if has_places:
            _promise(state, job, actions, row, now)
            job.ready_by = actions.rows[row].until
    _enter(state, options, key, change, job, now)
    drop_stale_timers(state)
