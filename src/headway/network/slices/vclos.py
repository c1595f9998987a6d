"""vClos: a slice of the fabric for one job over several leaves (vClos, section on resource allocation, stage 2).

m leaves x n spines with m*n = N: every chosen leaf gives n GPUs and its free links to the same n spines. n is tried from the largest; the
first feasible shape is taken, and within it the leaves with the fewest free GPUs. Stages 0 and 1, within a leaf, are in `room`.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.slices.bits import in_order
from headway.network.slices.room import (
    NO_ROOM,
    PLACED,
    UNDECIDED,
    UNPROVEN,
    Room,
    most_free,
    take_in_leaf,
    within_one_leaf,
)
from headway.network.slices.search import CANDIDATE, cheapest_common

NODE_BUDGET: Final = 8000  # about 1 us each, which keeps the worst case below 10 ms at 256 leaves (bench/fabric.py)
UNLIMITED: Final = 1 << 62


@jit
def scarcest(leaves: NDArray[Any], links: np.uint64, count: int) -> np.uint64:
    """Of the links in `links`, the `count` free on the fewest leaves: whole spines stay whole for later jobs."""
    free_on = np.zeros(64, np.int64)
    for leaf in range(len(leaves)):
        word = leaves[leaf].links & links
        for spine in range(64):
            free_on[spine] += np.int64((word >> np.uint64(spine)) & np.uint64(1))
    taken = np.uint64(0)
    for _ in range(count):
        best = -1
        for spine in range(64):
            one = np.uint64(1) << np.uint64(spine)
            if links & one & ~taken and (best < 0 or free_on[spine] < free_on[best]):
                best = spine
        taken |= np.uint64(1) << np.uint64(best)
    return taken


@jit
def shape_fits_block(width: int, block: int) -> bool:
    """Whether shifts inside blocks of `block` ranks stay clean with `width` ranks per leaf (0: no blocks asked for)."""
    return block <= 0 or width % block == 0 or block % width == 0


@jit
def tightest_first(leaves: NDArray[Any]) -> NDArray[Any]:
    """Leaves with free GPUs as candidates for an equal shape, those with the fewest first."""
    free, order = np.empty(len(leaves), np.int64), np.empty(len(leaves), np.int64)
    for leaf in range(len(leaves)):
        free[leaf] = leaves[leaf].free
    candidates = np.empty(in_order(free, np.int64(1), most_free(leaves), order), CANDIDATE)
    for i in range(len(candidates)):
        one, leaf = candidates[i], order[i]
        one.links = leaves[leaf].links
        one.gain = 1
        one.cost = free[leaf]
        one.leaf = leaf
    return candidates


@jit
def equal_shape(
    candidates: NDArray[Any], width: int, count: int, budget: int, out_leaves: NDArray[np.int64]
) -> tuple[int, int, np.uint64, int, bool]:
    """`count` leaves x `width` spines with the fewest free GPUs on them, of those `tightest_first`; returns as `cheapest_common`."""
    first = 0
    while first < len(candidates) and candidates[first].cost < width:
        first += 1
    return cheapest_common(candidates[first:], count, width, UNLIMITED, budget, out_leaves)


@jit
def find_slice(room: Room, gpus: int, block: int, budget: int) -> tuple[int, int, int, int]:
    """Find a slice for `gpus` GPUs and write it to the room. Returns (status, seats, width, nodes visited).

    `width` is n, the modulus of the routing rule; 0 if no link is needed. `block` restricts the shape to one that keeps blocks of that
    many ranks clean (0: any).
    """
    seats = within_one_leaf(room, gpus)
    if seats != 0:
        return (PLACED, seats, 0, 0) if seats > 0 else (NO_ROOM, 0, 0, 0)
    candidates, chosen = tightest_first(room.leaves), np.empty(len(room.leaves), np.int64)
    visited = 0
    for width in range(min(gpus - 1, most_free(room.leaves)), 0, -1):
        count = gpus // width
        if gpus % width or count > len(room.leaves) or not shape_fits_block(width, block):
            continue
        leaves, _, links, nodes, complete = equal_shape(candidates, width, count, budget - visited, chosen)
        visited += nodes
        if leaves:
            seats = write_slice(room, chosen[:leaves], width, width, scarcest(room.leaves, links, width))
            return (PLACED if complete else UNPROVEN), seats, width, visited
        if not complete:
            return UNDECIDED, 0, width, visited
    return NO_ROOM, 0, 0, visited


@jit
def write_slice(room: Room, chosen: NDArray[np.int64], width: int, rest: int, spines: np.uint64) -> int:
    """Write seats and links leaf by leaf; the last leaf chosen gives `rest` GPUs, the others up to `width`. Returns the seats."""
    order = np.empty(chosen.size, np.int64)
    in_order(chosen, np.int64(0), len(room.leaves), order)
    at = 0
    for i in order:
        leaf = room.leaves[chosen[i]]
        at = take_in_leaf(room, chosen[i], rest if i == chosen.size - 1 else min(leaf.free, width), at)
        leaf.taken = spines
    return at
