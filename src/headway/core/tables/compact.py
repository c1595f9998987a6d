"""Remove ended jobs from the tables: the other rows move up in order, and all row numbers are updated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.tables.jobs import job_table
from headway.core.tables.state import State


def without_rows(state: State, keep: NDArray[np.int64]) -> State:
    """The same state with only these rows (ascending) for jobs, and as much room as before. Jobs that are left out must be over."""
    room, n = len(state.jobs), len(keep)
    jobs, receipts = job_table(room), np.zeros_like(state.receipts)
    jobs[:n], receipts[:, :n] = state.jobs[keep], state.receipts[:, keep]
    to = np.full(room + 1, -1, np.int32)  # the last entry is that of -1: nobody
    to[keep] = np.arange(n)
    for column in ("partner", "low", "high"):
        jobs[column][:n] = to[jobs[column][:n]]
    jobs["row"] = np.arange(room)
    seats, classes, promises = state.seats.copy(), state.classes.copy(), state.promises.rows.copy()
    seats["holder"] = to[seats["holder"]]
    classes["root"] = to[classes["root"]]
    promises["job"] = np.maximum(0, to[promises["job"]])  # a promise holds only where the job names it too
    run = state.run.copy()
    running = int(state.counts["running"][0])
    run[:running] = to[run[:running]]
    timers, counts = _timers(state, to)
    return state._replace(
        jobs=jobs,
        receipts=receipts,
        seats=seats,
        classes=classes,
        run=run,
        timers=timers,
        counts=counts,
        promises=state.promises._replace(rows=promises),
    )


def _timers(state: State, to: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The timers of jobs that are kept, sorted, which is a heap; and the counts with their number."""
    n = int(state.counts["timers"][0])
    mine = state.timers[:n].copy()
    mine["what"] = to[mine["what"]]
    mine = mine[mine["what"] >= 0]
    timers, counts = np.zeros_like(state.timers), state.counts.copy()
    timers[: len(mine)] = mine[np.lexsort((mine["what"], mine["at"]))]
    counts["timers"] = len(mine)
    return timers, counts
