"""Padded vClos (ours): leaves may give different numbers of GPUs, at the price of links that stay idle.

Leaf a gives n_a <= M GPUs and its links to M common spines, with M dividing N; rank r leaves by spine r mod M. The ranks that send into
one leaf are at most M consecutive ones (cyclically, and M divides N), so their spines differ: every shift is clean, and every XOR when M
is a power of two. M = N/m with equal n_a is vClos's shape.

Chosen is the shape that holds the fewest links m*M, then the larger M; within it the fullest leaves. A last leaf that needs only the rest
is the tightest that has it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.slices.bits import copy_into
from headway.network.slices.room import NO_ROOM, PLACED, UNDECIDED, UNPROVEN, Room, within_one_leaf
from headway.network.slices.search import CANDIDATE, cheapest_common
from headway.network.slices.vclos import scarcest, shape_fits_block, tightest_first, write_slice


@jit
def fewest_leaves(
    tightest: NDArray[Any], width: int, gpus: int, most: int, budget: int, out_leaves: NDArray[np.int64]
) -> tuple[int, int, np.uint64, int, bool]:
    """The fewest leaves (at most `most`) sharing `width` spines that give `gpus` GPUs, at most `width` each.

    Of the leaves `tightest_first`, tried are the fullest first; of those that fill the width, the tighter one.
    """
    candidates, size, end = np.empty(len(tightest), CANDIDATE), 0, len(tightest)
    while end > 0 and tightest[end - 1].cost >= width:
        end -= 1
    for i in range(end, len(tightest)):
        size = _add(candidates, size, tightest[i], width)
    while end > 0:
        first = end - 1
        while first > 0 and tightest[first - 1].cost == tightest[end - 1].cost:
            first -= 1
        for i in range(first, end):
            size = _add(candidates, size, tightest[i], width)
        end = first
    return cheapest_common(candidates, gpus, width, most + 1, budget, out_leaves)


@jit
def _add(candidates: NDArray[Any], size: int, leaf: Any, width: int) -> int:
    """Add a leaf as a candidate of cost 1 that gives up to `width` GPUs. Returns how many there are now."""
    one = candidates[size]
    one.links = leaf.links
    one.gain = min(leaf.cost, width)
    one.cost = 1
    one.leaf = leaf.leaf
    return size + 1


@jit
def _tighten_last(leaves: NDArray[Any], width: int, gpus: int, spines: np.uint64, chosen: NDArray[np.int64]) -> int:
    """Replace the last leaf by the tightest one that has the rest and all the links. Returns the rest."""
    rest = gpus
    for i in range(chosen.size - 1):
        rest -= min(leaves[chosen[i]].free, width)
    for leaf in range(len(leaves)):
        one = leaves[leaf]
        if one.free < rest or one.free >= leaves[chosen[-1]].free or (spines & ~one.links) != np.uint64(0):
            continue
        used = False
        for i in range(chosen.size):
            used = used or chosen[i] == leaf
        if not used:
            chosen[-1] = leaf
    return rest


@jit
def _narrowest(
    leaves: NDArray[Any], gpus: int, block: int, budget: int, best: NDArray[np.int64]
) -> tuple[int, int, np.uint64, int, bool]:
    """The shape that holds the fewest links: (leaves, 0 if none; width; shared links; nodes visited; whether proven)."""
    tightest, trial = tightest_first(leaves), np.empty(len(leaves), np.int64)
    size, modulus, held, visited = 0, 0, 64 * len(leaves) + 1, 0
    shared, proven = np.uint64(0), True
    for width in range(min(gpus, 64), 0, -1):
        most = min((held - 1) // width, len(leaves))
        if gpus % width or most * width < gpus or not shape_fits_block(width, block):
            continue
        count, _, links, nodes, complete = fewest_leaves(tightest, width, gpus, most, budget - visited, trial)
        visited += nodes
        proven = proven and complete
        if count:
            size, modulus, held, shared = count, width, count * width, links
            copy_into(best, trial, count)
        if held == gpus or not complete:
            break
    return size, modulus, shared, visited, proven


@jit
def find_padded(room: Room, gpus: int, block: int, budget: int) -> tuple[int, int, int, int]:
    """Find a padded slice for `gpus` GPUs: as `vclos.find_slice`; `width` is the modulus M."""
    seats = within_one_leaf(room, gpus)
    if seats != 0:
        return (PLACED, seats, 0, 0) if seats > 0 else (NO_ROOM, 0, 0, 0)
    chosen = np.empty(len(room.leaves), np.int64)
    size, width, links, visited, proven = _narrowest(room.leaves, gpus, block, budget, chosen)
    if not size:
        return (NO_ROOM if proven else UNDECIDED), 0, 0, visited
    spines = scarcest(room.leaves, links, width)
    rest = _tighten_last(room.leaves, width, gpus, spines, chosen[:size])
    seats = write_slice(room, chosen[:size], width, rest, spines)
    return (PLACED if proven else UNPROVEN), seats, width, visited
