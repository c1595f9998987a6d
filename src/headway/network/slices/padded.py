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
from headway.network.slices.bits import copy_into, in_order
from headway.network.slices.room import NO_ROOM, PLACED, UNDECIDED, UNPROVEN, Room, most_free, within_one_leaf
from headway.network.slices.search import CANDIDATE, cheapest_common
from headway.network.slices.vclos import scarcest, shape_fits_block, write_slice


@jit
def fewest_leaves(
    leaves: NDArray[Any], width: int, gpus: int, most: int, budget: int, out_leaves: NDArray[np.int64]
) -> tuple[int, int, np.uint64, int, bool]:
    """The fewest leaves (at most `most`) sharing `width` spines that give `gpus` GPUs, at most `width` each."""
    key, order = np.empty(len(leaves), np.int64), np.empty(len(leaves), np.int64)
    fullest = most_free(leaves)
    for leaf in range(len(leaves)):
        # Fullest first; of those that fill the width, the tighter leaf.
        free = leaves[leaf].free
        key[leaf] = free - width if free >= width else fullest + width - free
    # Leaves with nothing free have a larger key.
    candidates = np.empty(in_order(key, np.int64(0), fullest + width - 1, order), CANDIDATE)
    for i in range(len(candidates)):
        one, leaf = candidates[i], order[i]
        one.links = leaves[leaf].links
        one.gain = min(leaves[leaf].free, width)
        one.cost = 1
        one.leaf = leaf
    return cheapest_common(candidates, gpus, width, most + 1, budget, out_leaves)


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
    trial = np.empty(len(leaves), np.int64)
    size, modulus, held, visited = 0, 0, 64 * len(leaves) + 1, 0
    shared, proven = np.uint64(0), True
    for width in range(min(gpus, 64), 0, -1):
        most = min((held - 1) // width, len(leaves))
        if gpus % width or most * width < gpus or not shape_fits_block(width, block):
            continue
        found, _, links, nodes, complete = fewest_leaves(leaves, width, gpus, most, budget - visited, trial)
        visited += nodes
        proven = proven and complete
        if found:
            size, modulus, held, shared = found, width, found * width, links
            copy_into(best, trial, found)
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
