"""Padded vClos (ours): leaves may give different numbers of GPUs, at the price of links that stay idle.

Leaf a gives n_a <= M GPUs and its links to M common spines, with M dividing N; rank r leaves by spine r mod M. The
ranks that send into one leaf are at most M consecutive ones (cyclically, and M divides N), so their spines differ:
every shift is clean, and every XOR when M is a power of two. M = N/m with equal n_a is vClos's own shape.

Chosen is the shape that holds the fewest links m*M, then the larger M; within it the fullest leaves. A last leaf that
needs only the rest is the tightest that has it.
"""

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.bits import copy_into, in_order
from headway.network.slices.search import cheapest_common
from headway.network.slices.vclos import (
    NO_ROOM,
    PLACED,
    UNDECIDED,
    UNPROVEN,
    free_per_leaf,
    largest,
    leaf_starts,
    scarcest,
    shape_fits_block,
    take_in_leaf,
    total,
    within_one_leaf,
)


@jit
def fewest_leaves(masks, leaf_free, width, gpus, most, budget, out_leaves):  # type: ignore[no-untyped-def]
    """The fewest leaves (at most `most`) sharing `width` spines that give `gpus` GPUs, at most `width` each."""
    gain, key = np.empty(masks.size, np.int64), np.empty(masks.size, np.int64)
    most_free = largest(leaf_free)
    for leaf in range(masks.size):
        gain[leaf] = min(leaf_free[leaf], width)
        # Fullest first; of those that fill the width, the tighter leaf.
        key[leaf] = leaf_free[leaf] - width if leaf_free[leaf] >= width else most_free + width - leaf_free[leaf]
    order = np.empty(masks.size, np.int64)
    size = in_order(key, np.int64(0), most_free + width - 1, order)  # leaves with nothing free have a larger key
    cost = np.ones(masks.size, np.int64)
    return cheapest_common(masks, gain, cost, order, size, gpus, width, most + 1, budget, out_leaves)


@jit
def _tighten_last(masks, leaf_free, width, gpus, links, chosen):  # type: ignore[no-untyped-def]
    """Replace the last leaf by the tightest one that has the rest and all the links. Returns the rest."""
    rest = gpus
    for i in range(chosen.size - 1):
        rest -= min(leaf_free[chosen[i]], width)
    for leaf in range(masks.size):
        if leaf_free[leaf] < rest or leaf_free[leaf] >= leaf_free[chosen[-1]] or (links & ~masks[leaf]) != np.uint64(0):
            continue
        used = False
        for i in range(chosen.size):
            used = used or chosen[i] == leaf
        if not used:
            chosen[-1] = leaf
    return rest


@jit
def find_padded(free_gpus, node_leaf, masks, gpus, block, budget, out_nodes, out_counts, out_masks):  # type: ignore[no-untyped-def]
    """Padded vClos for `gpus` GPUs: arguments and returns as `slices.find_slice`; `width` is the modulus M."""
    out_masks.fill(np.uint64(0))
    starts = leaf_starts(node_leaf, masks.size)
    leaf_free = free_per_leaf(free_gpus, node_leaf, masks.size)
    entries = within_one_leaf(free_gpus, node_leaf, leaf_free, starts, gpus, out_nodes, out_counts)
    if entries:
        return PLACED, entries, 0, 0
    if total(leaf_free) < gpus:
        return NO_ROOM, 0, 0, 0
    best = np.empty(masks.size, np.int64)
    trial = np.empty(masks.size, np.int64)
    best_size, best_width, held, visited = 0, 0, 64 * masks.size + 1, 0
    best_links = np.uint64(0)
    proven = True
    for width in range(min(gpus, 64), 0, -1):
        most = min((held - 1) // width, masks.size)
        if gpus % width or most * width < gpus or not shape_fits_block(width, block):
            continue
        found, _, links, nodes, complete = fewest_leaves(masks, leaf_free, width, gpus, most, budget - visited, trial)
        visited += nodes
        proven = proven and complete
        if found:
            best_size, best_width, held, best_links = found, width, found * width, links
            copy_into(best, trial, found)
        if held == gpus or not complete:
            break
    if not best_size:
        return (NO_ROOM if proven else UNDECIDED), 0, 0, visited
    spines = scarcest(masks, best_links, best_width)
    rest = _tighten_last(masks, leaf_free, best_width, gpus, spines, best[:best_size])
    last = best[best_size - 1]
    order = np.empty(best_size, np.int64)
    in_order(best[:best_size], np.int64(0), masks.size, order)
    at = 0
    for i in order:
        leaf = best[i]
        count = rest if leaf == last else min(leaf_free[leaf], best_width)
        at = take_in_leaf(free_gpus, starts[leaf], starts[leaf + 1], count, out_nodes, out_counts, at)
        out_masks[leaf] = spines
    return (PLACED if proven else UNPROVEN), at, best_width, visited
