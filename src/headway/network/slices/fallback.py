"""Past the node budget: the shapes that the compiled search left undecided, by the MILP with a time limit.

Slow (milliseconds to `TIME_LIMIT_S` a shape) and rare: on states reached by arrivals and departures the search needs
a handful of nodes (bench/fabric.py). Every use is counted by the caller.
"""

import numpy as np
from numpy.typing import NDArray

from headway.network.slices.solver import TIME_LIMIT_S, Choice, OutOfTime, solve_equal, solve_padded
from headway.network.slices.vclos import (
    NO_ROOM,
    PLACED,
    UNDECIDED,
    free_per_leaf,
    leaf_starts,
    scarcest,
    shape_fits_block,
    take_in_leaf,
)

Slice = tuple[int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]


def solve_slice(
    method: str,
    free_gpus: NDArray[np.int64],
    node_leaf: NDArray[np.int64],
    masks: NDArray[np.uint64],
    gpus: int,
    block: int,
    widest: int,
    limit_s: float = TIME_LIMIT_S,
) -> Slice:
    """(status, width, servers, GPUs on each, links), shapes of at most `widest` ranks a leaf, by the MILP alone.

    vclos takes the first feasible shape; vclos-padded the one that holds the fewest links. Out of time: UNDECIDED.
    """
    leaf_free = free_per_leaf(free_gpus, node_leaf, masks.size)
    uplinks = int(np.bitwise_or.reduce(masks)).bit_length()
    best: Choice | None = None
    best_width = 0
    status = NO_ROOM
    for width in range(min(widest, uplinks), 0, -1):
        if gpus % width or not shape_fits_block(width, block):
            continue
        try:
            if method == "vclos-padded":
                found = solve_padded(masks, leaf_free, uplinks, width, gpus, limit_s)
            else:
                found = solve_equal(masks, leaf_free, uplinks, width, gpus // width, limit_s)
        except OutOfTime:
            status = UNDECIDED
            break
        if found and (best is None or len(found.leaves) * width < len(best.leaves) * best_width):
            best, best_width = found, width
        if best and (method == "vclos" or len(best.leaves) * best_width == gpus):
            break
    nodes, counts = np.empty(free_gpus.size, np.int64), np.empty(free_gpus.size, np.int64)
    taken = np.zeros(masks.size, np.uint64)
    if best is None:
        return status, 0, nodes[:0], counts[:0], taken
    starts = leaf_starts(node_leaf, masks.size)
    common = np.bitwise_and.reduce(masks[list(best.leaves)])
    taken[list(best.leaves)] = scarcest(masks, common, best_width)
    at, left = 0, gpus
    for leaf in best.leaves:
        count = min(left, best_width, int(leaf_free[leaf]))
        at = take_in_leaf(free_gpus, starts[leaf], starts[leaf + 1], count, nodes, counts, at)
        left -= count
    return PLACED, best_width, nodes[:at], counts[:at], taken
