"""The wait receipt: the time of each job by cause. Every second has exactly one cause of a closed list.

Jobs of a class wait for the same reason, which a decision may change: a clock per class and reason runs, and a job's receipt takes the
difference between the moment it began to wait and the moment it stopped waiting. So a change costs the same however many jobs wait. The
numbers of a job do not include its current interval: callers add it.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from headway.core.classes import class_of, classes_of
from headway.core.compiler.jit import jit
from headway.core.events import (
    NOT_WAITING,
    REASONS,
    WAIT_ADVANCE_RESERVATION,
    WAIT_BACKFILL_RESERVATION,
    WAIT_FRAGMENTATION,
    WAIT_GPUS,
    WAIT_ISOLATION,
    WAIT_MIN_RUNTIME,
    WAIT_NODE_DOWN,
    WAIT_NOTICE,
    WAIT_PREEMPTED,
    WAIT_QUOTA,
    WAIT_STOPPING,
)
from headway.core.tables.options import OPTIONS_TYPE, Options
from headway.core.tables.state import STATE_TYPE, State
from headway.job_state import JobState

OF_CLASSES: Final = (
    *(WAIT_GPUS, WAIT_FRAGMENTATION, WAIT_ISOLATION, WAIT_MIN_RUNTIME, WAIT_BACKFILL_RESERVATION, WAIT_NODE_DOWN),
    *(WAIT_QUOTA, WAIT_ADVANCE_RESERVATION),
)
MICROSECONDS: Final = 1_000_000
BLOCK: Final = 1 << 14  # jobs whose receipts are rounded at a time


@jit
def _count(state: State, options: Options, job: Any, now: float, sign: int, table: Any, column: int) -> None:
    """Add the begin (sign -1) or the end (+1) of the interval for which the job is in its state to a column of a table."""
    if job.state == JobState.PENDING and job.promise >= 0:
        table[WAIT_NOTICE if job.ready_by > -np.inf else WAIT_STOPPING, column] += sign * now
    elif job.state == JobState.STOPPING:
        table[WAIT_STOPPING, column] += sign * now
    elif job.state == JobState.HELD:
        table[job.held_for, column] += sign * now
    elif job.state == JobState.PENDING:
        c = class_of(job, options)
        lost = WAIT_PREEMPTED if job.displaced else WAIT_GPUS
        table[lost, column] += sign * _clock(state, c, WAIT_GPUS, now)
        for why in OF_CLASSES[1:]:
            waited = _clock(state, c, why, now)
            if waited != 0.0:  # most reasons never occur
                table[why, column] += sign * waited
    elif job.state != JobState.FUTURE:  # it has GPUs, or is over
        table[NOT_WAITING, column] += sign * now


@jit
def begin_interval(state: State, options: Options, job: Any, now: float) -> None:
    """The job has come into the state it is in."""
    _count(state, options, job, now, -1, state.receipts, job.row)


@jit
def end_interval(state: State, options: Options, job: Any, now: float) -> None:
    """The job is about to leave the state it is in."""
    _count(state, options, job, now, 1, state.receipts, job.row)


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, types.int64, types.float64, types.Array(types.float64, 2, "C")))
def _end_for(state: State, options: Options, j: int, now: float, table: Any) -> None:
    """Add the end of the job's interval to the only column of `table`; the state stays as it is."""
    _count(state, options, state.jobs[j], now, 1, table, 0)


@jit
def _clock(state: State, c: int, why: int, now: float) -> float:
    """How long the jobs of a class have waited for this reason up to now."""
    return state.spent[c, why] + (now - state.classes[c].since if state.classes[c].why == why else 0.0)


@jit(types.void(STATE_TYPE, types.int64, types.int64, types.float64))
def record_why(state: State, c: int, why: int, now: float) -> None:
    """Record why the jobs of a class wait from now on (Explained)."""
    row = state.classes[c]
    state.spent[c, row.why] += now - row.since
    row.since = now
    row.why = why


def why_waiting(state: State, options: Options, rows: NDArray[Any]) -> NDArray[np.int64]:
    """The reason for which each of these jobs waits now."""
    jobs = state.jobs[rows]
    causes = state.classes["why"][classes_of(jobs, options)].astype(np.int64)
    causes = np.where((causes == WAIT_GPUS) & (jobs["displaced"] == 1), WAIT_PREEMPTED, causes)
    causes = np.where((jobs["promise"] >= 0) & (state.counts["stopping"][0] > 0), WAIT_STOPPING, causes)
    causes = np.where((jobs["promise"] >= 0) & (jobs["ready_by"] > -np.inf), WAIT_NOTICE, causes)
    states = jobs["state"]
    cases = [
        states == JobState.PENDING,
        states == JobState.FUTURE,
        states == JobState.HELD,
        states == JobState.STOPPING,
    ]
    return np.select(
        cases, [causes, np.full(len(jobs), WAIT_GPUS), jobs["held_for"], np.full(len(jobs), WAIT_STOPPING)], NOT_WAITING
    )


def receipt_us(state: State, options: Options, j: int, now: float) -> NDArray[np.int64]:
    """Return a job's whole microseconds by reason, from its submission to `now`, or to its end if it has ended.

    The first part is the time it did not wait. The parts sum exactly to the whole time.
    """
    if state.jobs["state"][j] >= JobState.COMPLETED:
        now = float(state.jobs["end"][j])
    parts = np.ascontiguousarray(state.receipts[:, [j]])
    if state.jobs["state"][j] == JobState.FUTURE:
        parts[WAIT_GPUS, 0] = max(0.0, now - state.jobs["submit"][j])
    _end_for(state, options, j, float(now), parts)
    return _in_us(parts.T, state.jobs["submit"][[j]], np.array([now]))[0]


def by_reason(receipt: Iterable[Any]) -> dict[str, int]:
    """Return the parts of a receipt in which the job waited, by reason."""
    return {REASONS[code]: int(us) for code, us in enumerate(receipt) if us and code != NOT_WAITING}


def final_receipts_us(jobs: NDArray[Any], receipts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the receipts of jobs that are over by job and reason, in whole microseconds up to their ends.

    A block of jobs at a time, and without reasons that never occurred in it: these take no memory.
    """
    final = np.zeros(receipts.shape, np.int64)
    for first in range(0, len(jobs), BLOCK):
        rows = slice(first, first + BLOCK)
        used = np.asarray(receipts[:, rows].any(axis=1))
        used[NOT_WAITING] = True
        parts = receipts[used, rows].T
        parts[:, NOT_WAITING] += jobs["end"][rows]
        final[used, rows] = _in_us(parts, jobs["submit"][rows], jobs["end"][rows]).T
    return final.T


def _in_us(parts: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rounded so that each row sums to its span; what rounding leaves over goes to its largest part."""
    spans = np.rint(end * MICROSECONDS).astype(np.int64) - np.rint(begin * MICROSECONDS).astype(np.int64)
    whole = np.maximum(0, np.rint(parts * MICROSECONDS).astype(np.int64))
    whole[np.arange(len(whole)), whole.argmax(axis=1)] += spans - whole.sum(axis=1)
    return whole
