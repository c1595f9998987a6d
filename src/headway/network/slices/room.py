"""The free part of a fabric, as input of the searches for slices, and the searches below one leaf.

Stage 0 of vClos is one server, best fit; stage 1 is one leaf, best fit, split evenly over its servers. Pure kernels over tables, to be
called from the placement kernels: nothing is reserved here. Servers must be numbered leaf by leaf. Ranks follow the order of the seats
written, so they are contiguous per leaf, which is what makes static routing clean (see `certificates/issue.py`).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit

NO_ROOM: Final = 0
PLACED: Final = 1
UNDECIDED: Final = 2  # the node budget ended before any slice of the shape was found: ask the MILP
UNPROVEN: Final = 3  # a slice was found, but the budget ended before it was proven the cheapest of its shape

SERVER: Final = np.dtype([("free", "i8"), ("leaf", "i8")])
LEAF: Final = np.dtype(
    [
        ("links", "u8"),  # free uplinks, one bit per spine
        ("taken", "u8"),  # uplinks to reserve: the search writes them
        ("fibres", "i4"),  # free uplinks as a number, where circuits can be rewired
        # what the search works out
        ("free", "i4"),  # free GPUs
        ("first", "i4"),  # its servers are `first` to `last` - 1
        ("last", "i4"),
    ]
)
SEAT: Final = np.dtype([("server", "i8"), ("gpus", "i8")])


class Room(NamedTuple):
    """What is free, and the slice that a search found: GPUs by server in rank order, and `taken` links by leaf."""

    servers: NDArray[Any]
    leaves: NDArray[Any]
    seats: NDArray[Any]


def new_room(free: NDArray[np.int64], leaf_of: NDArray[np.int64], links: NDArray[np.uint64]) -> Room:
    """Free GPUs and leaf of every server, free uplinks of every leaf."""
    servers, leaves = np.zeros(len(free), SERVER), np.zeros(len(links), LEAF)
    servers["free"], servers["leaf"], leaves["links"] = free, leaf_of, links
    return Room(servers, leaves, np.zeros(len(free), SEAT))


@jit
def survey(room: Room) -> None:
    """Fill in what a search needs to know of every leaf."""
    for leaf in range(len(room.leaves)):
        room.leaves[leaf].free = 0
        room.leaves[leaf].last = 0
    for server in range(len(room.servers)):
        leaf = room.leaves[room.servers[server].leaf]
        leaf.free += room.servers[server].free
        leaf.last += 1
    first = 0
    for leaf in range(len(room.leaves)):
        room.leaves[leaf].first = first
        first += room.leaves[leaf].last
        room.leaves[leaf].last = first


@jit
def most_free(leaves: NDArray[Any]) -> int:
    """Free GPUs of the leaf that has the most."""
    most = 0
    for leaf in range(len(leaves)):
        most = max(most, leaves[leaf].free)
    return most


@jit
def within_one_leaf(room: Room, gpus: int) -> int:
    """One server, else one leaf, the tightest that fits. Seats written; 0: no leaf has room; -1: nor have all leaves together."""
    for leaf in range(len(room.leaves)):
        room.leaves[leaf].taken = np.uint64(0)
    best = -1
    for server in range(len(room.servers)):
        free = room.servers[server].free
        if free >= gpus and (best < 0 or free < room.servers[best].free):
            best = server
    if best >= 0:
        _write_seat(room.seats[0], best, gpus)
        return 1
    survey(room)
    total = 0
    for leaf in range(len(room.leaves)):
        free = room.leaves[leaf].free
        total += free
        if free >= gpus and (best < 0 or free < room.leaves[best].free):
            best = leaf
    if best < 0:
        return -1 if total < gpus else 0
    return take_in_leaf(room, best, gpus, 0)


@jit
def take_in_leaf(room: Room, leaf: int, gpus: int, at: int) -> int:
    """Servers of one leaf for `gpus` GPUs: an even split where one exists, else the fullest servers first.

    Writes seats from position `at` on and returns the position after them.
    """
    first, last = room.leaves[leaf].first, room.leaves[leaf].last
    most = np.int64(1)
    for server in range(first, last):
        most = max(most, room.servers[server].free)
    even = _evenly(room, leaf, gpus, at)
    # 7 GPUs on 7 servers is even too, but scattered: at most one server more than the fewest conceivable.
    if even and even <= (gpus + most - 1) // most + 1:
        return at + even
    remaining, end = gpus, at
    while remaining > 0:
        best = -1
        for server in range(first, last):
            fuller = best < 0 or room.servers[server].free > room.servers[best].free
            if fuller and not _seated(room.seats, at, end, server):
                best = server
        _write_seat(room.seats[end], best, min(remaining, room.servers[best].free))
        remaining -= room.seats[end].gpus
        end += 1
    return end


@jit
def _evenly(room: Room, leaf: int, gpus: int, at: int) -> int:
    """Split over the fewest servers that can each give the same number, best fit. Returns seats written, or 0."""
    first, last = room.leaves[leaf].first, room.leaves[leaf].last
    for servers in range(1, last - first + 1):
        if gpus % servers:
            continue
        each, fitting = gpus // servers, 0
        for server in range(first, last):
            fitting += room.servers[server].free >= each
        if fitting < servers:
            continue
        for i in range(servers):
            best = -1
            for server in range(first, last):
                free = room.servers[server].free
                if free < each or (best >= 0 and free >= room.servers[best].free):
                    continue
                if not _seated(room.seats, at, at + i, server):
                    best = server
            _write_seat(room.seats[at + i], best, each)
        return servers
    return 0


@jit
def _seated(seats: NDArray[Any], first: int, last: int, server: int) -> bool:
    """Whether one of the seats first to last - 1 is on the server."""
    found = False
    for i in range(first, last):
        found = found or seats[i].server == server
    return found


@jit
def _write_seat(seat: Any, server: int, gpus: int) -> None:
    seat.server = server
    seat.gpus = gpus
