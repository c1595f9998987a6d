"""Past the node budget: the shapes that the compiled search left undecided, by the MILP with a time limit.

Slow (milliseconds to `TIME_LIMIT_S` per shape) and rare: on states reached by arrivals and departures the search needs a handful of nodes
(bench/fabric.py). Every use is counted by the caller.
"""

import numpy as np

from headway.network.slices.room import NO_ROOM, PLACED, UNDECIDED, Room, survey
from headway.network.slices.solver import OutOfTime, SliceChoice, solve_equal, solve_padded
from headway.network.slices.vclos import scarcest, shape_fits_block, write_slice


def solve_slice(method: str, room: Room, gpus: int, block: int, widest: int) -> tuple[int, int, int]:
    """Find a slice of at most `widest` ranks per leaf by the MILP alone and write it to the room: (status, seats, width).

    vclos takes the first feasible shape; vclos-padded the one that holds the fewest links. Out of time: UNDECIDED.
    """
    survey(room)
    room.leaves["taken"] = 0
    status, width, best = _best_shape(method, room, gpus, block, widest)
    if best is None:
        return status, 0, 0
    common = np.bitwise_and.reduce(room.leaves["links"][list(best.leaves)])
    chosen = np.array(best.leaves)
    rest = gpus - int(np.minimum(room.leaves["free"][chosen[:-1]], width).sum())
    seats = write_slice(room, chosen, width, rest, scarcest(room.leaves, common, width))
    return PLACED, int(seats), width


def _best_shape(method: str, room: Room, gpus: int, block: int, widest: int) -> tuple[int, int, SliceChoice | None]:
    """(status if there is none, width, leaves) of the shape that the method prefers."""
    leaf_free, masks = np.array(room.leaves["free"]), np.array(room.leaves["links"])
    uplinks = int(np.bitwise_or.reduce(masks)).bit_length()
    padded = method == "vclos-padded"
    solve = solve_padded if padded else solve_equal
    best: SliceChoice | None = None
    best_width = 0
    for width in range(min(widest, uplinks), 0, -1):
        if gpus % width or not shape_fits_block(width, block):
            continue
        try:
            choice = solve(masks, leaf_free, uplinks, width, gpus if padded else gpus // width)
        except OutOfTime:
            return UNDECIDED, best_width, best
        if choice and (best is None or len(choice.leaves) * width < len(best.leaves) * best_width):
            best, best_width = choice, width
        if best and (not padded or len(best.leaves) * best_width == gpus):
            break
    return NO_ROOM, best_width, best
