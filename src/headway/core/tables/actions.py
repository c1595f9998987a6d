"""Actions and the places they are about: GPUs by node, links by leaf. Promises are kept in the same form."""

from typing import Any, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.compiler.jit import jit

# Positions in Actions.tally. The last is never cleared: searches for links that ran out of their budget.
ROWS, SEATS, LINKS, UNDECIDED = range(4)

# A row's places are the entries from its own seat_at and link_at up to those of the row after it.
ROW = np.dtype([("kind", "i4"), ("job", "i4"), ("seat_at", "i4"), ("link_at", "i4")])
SEATS_OF = np.dtype([("node", "i4"), ("gpus", "i4")])
LINKS_OF = np.dtype([("mask", "u8"), ("leaf", "i8")])


class Actions(NamedTuple):
    """Rows with their places. Resize has one entry with the new size; Pack has one with the partner as `node`."""

    rows: NDArray[Any]
    seats: NDArray[Any]
    links: NDArray[Any]
    tally: NDArray[np.int64]


def actions(rows: int, seats: int, links: int) -> Actions:
    """Room for so many rows, GPU entries and link entries."""
    return Actions(np.zeros(rows + 1, ROW), np.zeros(seats, SEATS_OF), np.zeros(links, LINKS_OF), np.zeros(4, np.int64))


ACTIONS_TYPE = typeof(actions(1, 1, 1))


@jit
def clear(out: Actions) -> None:
    out.tally[:UNDECIDED] = 0
    out.rows[0].seat_at = 0
    out.rows[0].link_at = 0


@jit
def add_seat(out: Actions, node: int, gpus: int) -> None:
    """Add GPUs to the row being written."""
    k = out.tally[SEATS]
    out.seats[k].node = node
    out.seats[k].gpus = gpus
    out.tally[SEATS] = k + 1


@jit
def add_link(out: Actions, leaf: int, mask: Any) -> None:
    """Add links to the row being written."""
    k = out.tally[LINKS]
    out.links[k].leaf = leaf
    out.links[k].mask = mask
    out.tally[LINKS] = k + 1


@jit
def forget(out: Actions) -> None:
    """Drop what was added to the row being written."""
    row = out.rows[out.tally[ROWS]]
    out.tally[SEATS] = row.seat_at
    out.tally[LINKS] = row.link_at


@jit
def close_row(out: Actions, kind: int, j: int) -> None:
    """End the row being written."""
    k = out.tally[ROWS]
    out.rows[k].kind = kind
    out.rows[k].job = j
    out.rows[k + 1].seat_at = out.tally[SEATS]
    out.rows[k + 1].link_at = out.tally[LINKS]
    out.tally[ROWS] = k + 1


@jit
def copy_places(given: Actions, row: int, out: Actions) -> bool:
    """Add the places of a row to the row being written elsewhere; False where there is no room for them."""
    a, b = given.rows[row], given.rows[row + 1]
    if (
        out.tally[ROWS] + 1 >= len(out.rows)
        or out.tally[SEATS] + b.seat_at - a.seat_at > len(out.seats)
        or out.tally[LINKS] + b.link_at - a.link_at > len(out.links)
    ):
        return False
    for k in range(a.seat_at, b.seat_at):
        add_seat(out, given.seats[k].node, given.seats[k].gpus)
    for k in range(a.link_at, b.link_at):
        add_link(out, given.links[k].leaf, given.links[k].mask)
    return True
