"""The journal of a run, in columns: every fact and every action, in order. All results of a run are computed from it.

It holds what a state is rebuilt from: actions with their places and links, changes of rate, and links that failed.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.compiler.tables import by_address
from headway.core.events import DEFERRED, DISCONNECTED, EXPLAINED, NO_JOB, PACK, START
from headway.core.tables.actions import LINKS_OF, SEATS_OF, Actions
from headway.core.tables.state import State

FORMAT: Final = 2  # of kinds and reasons
ENTRY: Final = np.dtype(
    [
        ("time", "f8"),
        ("rate", "f8"),  # the job's speed
        ("until", "f8"),  # of Notify, Promise and Deferred; see core/tables/actions.py: ROW
        ("job", "i4"),  # -1: about no job
        ("kind", "i2"),
        ("level", "i2"),
        ("attempt", "i4"),
        ("gpus", "i4"),
        ("seat_at", "i8"),
        ("place_at", "i8"),
        ("link_at", "i8"),
    ]
)
COUNT: Final = np.dtype([("rows", "i8"), ("seats", "i8"), ("places", "i8"), ("links", "i8"), ("margin", "i8")])


@by_address
class JournalTable(NamedTuple):
    """A buffer of entries. The seats of Start and Pack are `seats[seat_at:seat_at + gpus]`; what an action was given lies in `places` and
    `links`, from its own place_at and link_at up to those of the entry after it. All three are empty where places are not kept.
    """

    rows: NDArray[Any]
    seats: NDArray[np.int32]
    places: NDArray[Any]
    links: NDArray[Any]
    counts: NDArray[Any]  # one row of COUNT


def journal(state: State, rows: int, keep_places: bool) -> JournalTable:
    """Return an empty buffer for about `rows` entries."""
    # One fact or action takes at most every seat and link, and may change the rates of all who run, and why each class waits.
    margin = 4 * len(state.seats) + 64 * len(state.leaves) + len(state.classes) + 64
    rows += margin
    place_rows = rows if keep_places else 0
    count = np.zeros(1, COUNT)
    count["margin"] = margin
    return JournalTable(
        np.zeros(rows, ENTRY),
        np.zeros(place_rows, np.int32),
        np.zeros(place_rows, SEATS_OF),
        np.zeros(place_rows if len(state.leaves) else 0, LINKS_OF),
        count,
    )


@jit
def note(journal: JournalTable, state: State, kind: int, j: int, now: float) -> None:
    """Append an entry about job j, after it has been recorded."""
    note_nobody(journal, kind, now)
    count, job = journal.counts[0], state.jobs[j]
    row = journal.rows[count.rows - 1]
    row.job = j
    row.rate = job.rate
    row.level = job.level
    row.attempt = job.attempt
    row.gpus = job.gpus
    if len(journal.seats) > 0 and (kind == START or kind == PACK):
        seat = job.seat
        while seat >= 0:
            journal.seats[count.seats] = seat
            count.seats += 1
            seat = state.seats[seat].next


@jit
def note_why(journal: JournalTable, c: int, why: int, now: float) -> None:
    """Append why the jobs of a class wait from now on: the class is in `gpus`, the reason in `level`."""
    note_nobody(journal, EXPLAINED, now)
    row = journal.rows[journal.counts[0].rows - 1]
    row.gpus = c
    row.level = why


@jit
def note_retry(journal: JournalTable, at: float, now: float) -> None:
    """Append when a preemption that does not pay yet is to be tried again."""
    note_nobody(journal, DEFERRED, now)
    journal.rows[journal.counts[0].rows - 1].until = at


@jit
def note_links(journal: JournalTable, leaf: int, mask: Any, now: float) -> None:
    """Append that links of a leaf have failed: the leaf is in `gpus`, and the links are in `links` if places are kept."""
    note_nobody(journal, DISCONNECTED, now)
    count = journal.counts[0]
    journal.rows[count.rows - 1].gpus = leaf
    if len(journal.links) > 0:
        journal.links[count.links].leaf = leaf
        journal.links[count.links].mask = mask
        count.links += 1


@jit
def note_nobody(journal: JournalTable, kind: int, now: float) -> None:
    """Append an entry about no job."""
    count = journal.counts[0]
    row = journal.rows[count.rows]
    row.time = now
    row.job = NO_JOB
    row.kind = kind
    row.seat_at = count.seats
    row.place_at = count.places
    row.link_at = count.links
    row.rate, row.level, row.attempt, row.gpus, row.until = 1.0, 0, 0, 0, -np.inf
    count.rows += 1


@jit
def note_action(journal: JournalTable, state: State, actions: Actions, row: int, now: float) -> None:
    """Append an entry about an action, after it has been recorded."""
    here, after, count = actions.rows[row], actions.rows[row + 1], journal.counts[0]
    note(journal, state, here.kind, here.job, now)
    journal.rows[count.rows - 1].until = here.until
    if len(journal.seats) == 0:
        return
    for k in range(here.seat_at, after.seat_at):
        journal.places[count.places] = actions.seats[k]
        count.places += 1
    for k in range(here.link_at, after.link_at):
        journal.links[count.links] = actions.links[k]
        count.links += 1


@jit
def has_room(journal: JournalTable) -> bool:
    """Whether one more fact or action, with the facts that follow from it at once, is sure to fit."""
    count = journal.counts[0]
    most = len(journal.rows) - count.margin
    return count.rows < most and count.seats < most and count.places < most and count.links < most


def empty(journal: JournalTable) -> None:
    """Empty the buffer."""
    for name in ("rows", "seats", "places", "links"):
        journal.counts[name] = 0
