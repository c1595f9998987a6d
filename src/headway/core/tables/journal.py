"""The journal of a run, in columns: every fact and every action, in order. Everything told about a run is read from it."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.events import PACK, START
from headway.core.tables.state import State, new_state

ENTRY: Final = np.dtype(
    [
        ("time", "f8"),
        ("job", "i4"),
        ("kind", "i2"),
        ("level", "i2"),
        ("attempt", "i4"),
        ("gpus", "i4"),
        ("seat_at", "i8"),
    ]
)
ROWS, SEATS, KEEP_SEATS, MARGIN = range(4)  # positions in Journal.tally


class Journal(NamedTuple):
    """A buffer of entries. Start and Pack have their seats in `seats[seat_at:seat_at + gpus]`, where seats are kept."""

    rows: NDArray[Any]
    seats: NDArray[np.int32]
    tally: NDArray[np.int64]


def journal(state: State, rows: int, keep_seats: bool) -> Journal:
    """An empty buffer for about so many entries."""
    # One decision stops and starts at most every seat, reserves as many, and resizes every job.
    margin = 8 * len(state.seats) + len(state.jobs) + 64
    rows += margin
    return Journal(
        np.zeros(rows, ENTRY),
        np.zeros(rows if keep_seats else 1, np.int32),
        np.array([0, 0, keep_seats, margin], np.int64),
    )


JOURNAL_TYPE = typeof(journal(new_state(1, np.ones(1, np.int32)), 1, True))


@jit
def note(book: Journal, state: State, now: float, kind: int, j: int) -> None:
    """Append an entry about job j, after it has been recorded."""
    job, row = state.jobs[j], book.rows[book.tally[ROWS]]
    row.time = now
    row.job = j
    row.kind = kind
    row.level = job.level
    row.attempt = job.attempt
    row.gpus = job.gpus
    row.seat_at = book.tally[SEATS]
    book.tally[ROWS] += 1
    if book.tally[KEEP_SEATS] and (kind == START or kind == PACK):
        seat = job.seat
        while seat >= 0:
            book.seats[book.tally[SEATS]] = seat
            book.tally[SEATS] += 1
            seat = state.seats[seat].next


@jit
def has_room(book: Journal) -> bool:
    """Whether a decision's actions, with the facts that follow at once, are sure to fit."""
    return book.tally[ROWS] + book.tally[MARGIN] < len(book.rows) and (
        not book.tally[KEEP_SEATS] or book.tally[SEATS] + book.tally[MARGIN] < len(book.seats)
    )
