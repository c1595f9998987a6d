"""Actions and the places they are about: GPUs by node, links by leaf. Promises are kept in the same form."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.compiler.tables import by_address

# How many of each are in use. `undecided` is never cleared: searches for links that ran out of their budget.
COUNT = np.dtype(
    [
        ("rows", "i8"),
        ("seats", "i8"),
        ("links", "i8"),
        ("undecided", "i8"),
        ("repeat", "i8"),  # whether to decide again at once: sizes changed, or a team may use what was withdrawn
        ("now", "f8"),  # for placements that ask how long a job has waited: the time of the decision
        ("again", "f8"),  # what they answer: when to ask again though nothing happens
        ("retry_at", "f8"),  # when a preemption that does not pay yet is to be tried again
    ]
)
# A row's places are the entries from its own seat_at and link_at up to those of the row after it.
# `until`: of Notify, when the notice is over; of Promise, when the last notice is over that it depends on (-infinity: none).
# In the state's list of promises, it is when the promise was made.
ROW = np.dtype([("until", "f8"), ("kind", "i4"), ("job", "i4"), ("seat_at", "i4"), ("link_at", "i4")])
SEATS_OF = np.dtype([("node", "i4"), ("gpus", "i4")])
LINKS_OF = np.dtype([("mask", "u8"), ("leaf", "i8")])


@by_address
class Actions(NamedTuple):
    """Rows with their places. Resize has one entry with the new size, Pack with the partner as `node`.

    Notify has one entry: the team as `node`, and `notice_with` of the job as `gpus`.
    """

    rows: NDArray[Any]
    seats: NDArray[Any]
    links: NDArray[Any]
    counts: NDArray[Any]  # one row of COUNT


def actions(rows: int, seats: int, links: int) -> Actions:
    """Return empty actions with room for these numbers of rows, GPU entries and link entries."""
    return Actions(np.zeros(rows + 1, ROW), np.zeros(seats, SEATS_OF), np.zeros(links, LINKS_OF), np.zeros(1, COUNT))


Pairs = Sequence[tuple[int, int]]


def one_action(kind: int, j: int, places: Pairs = (), links: Pairs = (), until: float = -np.inf) -> Actions:
    """One action about job j, with its (node, GPUs) and (leaf, mask)."""
    one = actions(1, len(places), len(links))
    for k, (node, gpus) in enumerate(places):
        one.seats[k] = (node, gpus)
    for k, (leaf, mask) in enumerate(links):
        one.links[k] = (mask, leaf)
    one.rows[0] = (until, kind, j, 0, 0)
    one.rows[1] = (-np.inf, 0, 0, len(places), len(links))
    return one


ACTIONS_TYPE = typeof(actions(1, 1, 1))


@jit
def clear(out: Actions) -> None:
    """Drop all rows with their places."""
    out.counts[0].rows = 0
    out.counts[0].seats = 0
    out.counts[0].links = 0
    out.rows[0].seat_at = 0
    out.rows[0].link_at = 0


@jit
def add_seat(out: Actions, node: int, gpus: int) -> None:
    """Add GPUs to the row being written."""
    k = out.counts[0].seats
    if k >= len(out.seats):
        raise ValueError("the placement added more seats than there are GPUs")
    out.seats[k].node = node
    out.seats[k].gpus = gpus
    out.counts[0].seats = k + 1


@jit
def add_link(out: Actions, leaf: int, mask: Any) -> None:
    """Add links to the row being written."""
    k = out.counts[0].links
    if k >= len(out.links):
        raise ValueError("the placement added more links than there are")
    out.links[k].leaf = leaf
    out.links[k].mask = mask
    out.counts[0].links = k + 1


@jit
def forget(out: Actions) -> None:
    """Drop what was added to the row being written."""
    row = out.rows[out.counts[0].rows]
    out.counts[0].seats = row.seat_at
    out.counts[0].links = row.link_at


@jit
def close_row(out: Actions, kind: int, j: int) -> None:
    """End the row being written, about job j."""
    close_row_until(out, kind, j, -np.inf)


@jit
def close_row_until(out: Actions, kind: int, j: int, until: float) -> None:
    """End the row being written, about job j and a time (`until` of the row)."""
    k = out.counts[0].rows
    out.rows[k].until = until
    out.rows[k].kind = kind
    out.rows[k].job = j
    out.rows[k + 1].seat_at = out.counts[0].seats
    out.rows[k + 1].link_at = out.counts[0].links
    out.counts[0].rows = k + 1


@jit
def drop_rows(out: Actions, rows: int) -> None:
    """Drop all rows from number `rows` on, and what was added to the row being written."""
    out.counts[0].rows = rows
    forget(out)


@jit
def copy_places(actions: Actions, row: int, out: Actions) -> bool:
    """Add the places of a row to the row being written elsewhere; False where there is no room for them."""
    a, b = actions.rows[row], actions.rows[row + 1]
    if (
        out.counts[0].rows + 1 >= len(out.rows)
        or out.counts[0].seats + b.seat_at - a.seat_at > len(out.seats)
        or out.counts[0].links + b.link_at - a.link_at > len(out.links)
    ):
        return False
    for k in range(a.seat_at, b.seat_at):
        add_seat(out, actions.seats[k].node, actions.seats[k].gpus)
    for k in range(a.link_at, b.link_at):
        add_link(out, actions.links[k].leaf, actions.links[k].mask)
    return True
