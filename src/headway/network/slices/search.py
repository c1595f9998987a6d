"""The exact search behind vClos: leaves that have enough free links in common, at the least cost.

A biclique of the free-link graph (vClos, stage 2): choose leaves whose free-link masks share at least `width` bits,
until their gains sum to `need`, at the least total cost. Two uses: equal shapes (gain 1 per leaf, cost = its free
GPUs, need = m leaves) and padded shapes (gain = GPUs the leaf can give, cost 1, need = N GPUs).

Depth-first branch and bound over the set `allowed` of spines that may still be chosen:
- leaves sorted so that a prefix is the cheapest way to reach `need`: its cost bounds the node from below;
- a leaf with fewer than `width` allowed links, or a spine free on fewer leaves than needed, is dropped until nothing
  changes (the core of the bipartite graph);
- when the prefix itself shares `width` spines, the bound is met and the node is done; otherwise branch on the first
  prefix leaf that lacks an allowed spine: only spines of that leaf, or solutions without it;
- solutions without leaf g whose spines all lie in g are dominated (swap their last leaf for g), so in the second
  branch every leaf whose allowed links lie within g's goes too.
Adversarial link matrices can make this exponential: `budget` bounds the nodes, and running out is told apart.
"""

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.bits import common_to_at_least, copy_into, popcount

DEEPEST = 66  # every step down removes at least one of 64 spines


@jit
def _narrow(masks, gain, members, size, allowed, width, need):  # type: ignore[no-untyped-def]
    """Drop leaves and spines that cannot be in a solution. Returns (members left, spines left); 0 left if none can."""
    while True:
        kept = 0
        total = np.int64(0)
        fewest = 0
        for i in range(size):
            leaf = members[i]
            if popcount(masks[leaf] & allowed) >= width:
                members[kept] = leaf
                kept += 1
                if total < need:
                    total += gain[leaf]
                    fewest = kept
        if total < need:
            return 0, allowed
        common = allowed & common_to_at_least(masks, members, kept, fewest)
        if popcount(common) < width:
            return 0, allowed
        if common == allowed and kept == size:
            return kept, allowed
        allowed = common
        size = kept


@jit
def _prefix(masks, gain, cost, members, size, allowed, need):  # type: ignore[no-untyped-def]
    """The cheapest leaves that reach `need`: how many, their cost, the spines they share, the first that narrows."""
    total = np.int64(0)
    price = np.int64(0)
    shared = allowed
    first = -1
    for i in range(size):
        leaf = members[i]
        total += gain[leaf]
        price += cost[leaf]
        if first < 0 and (masks[leaf] & allowed) != allowed:
            first = leaf
        shared &= masks[leaf]
        if total >= need:
            return i + 1, price, shared, first
    return size, price, shared, first


@jit
def cheapest_common(masks, gain, cost, order, size, need, width, limit, budget, out_leaves):  # type: ignore[no-untyped-def]
    """The cheapest leaves sharing `width` links whose gains reach `need`, strictly cheaper than `limit`.

    `order[:size]` lists the leaves, a prefix being the cheapest way to any need. Writes the leaves to `out_leaves`.
    Returns (how many leaves, 0 if none; cost; shared links; nodes visited; whether the search was complete).
    """
    members = np.empty((DEEPEST, max(size, 1)), np.int64)
    sizes = np.empty(DEEPEST, np.int64)
    allowed_at = np.empty(DEEPEST, np.uint64)
    excluded = np.empty(max(size, 1), np.uint64)  # masks of the leaves ruled out on the path to the current node
    excluded_len = np.empty(DEEPEST, np.int64)
    latest = np.zeros(DEEPEST, np.uint64)  # the mask to write back as last excluded when a slot is resumed
    copy_into(members[0], order, size)
    sizes[0], allowed_at[0], excluded_len[0] = size, ~np.uint64(0), 0
    found, best, links, nodes, top = 0, np.int64(limit), np.uint64(0), 0, 0
    while top >= 0:
        if nodes >= budget:
            return found, best, links, nodes, False
        nodes += 1
        past = excluded_len[top]
        if latest[top] != np.uint64(0):
            excluded[past - 1] = latest[top]
        left, allowed = _narrow(masks, gain, members[top], sizes[top], allowed_at[top], width, need)
        dominated = left == 0
        for i in range(past):
            dominated = dominated or (allowed & ~excluded[i]) == np.uint64(0)
        if dominated:
            top -= 1
            continue
        count, price, shared, branch = _prefix(masks, gain, cost, members[top], left, allowed, need)
        if price >= best:
            top -= 1
            continue
        if popcount(shared) >= width:
            found, best, links = count, price, shared
            copy_into(out_leaves, members[top], count)
            top -= 1
            continue
        child = masks[branch] & allowed
        kept_below, kept_here = 0, 0
        for i in range(left):
            leaf = members[top, i]
            members[top + 1, kept_below] = leaf
            kept_below += 1
            if (masks[leaf] & allowed & ~child) != np.uint64(0):
                members[top, kept_here] = leaf
                kept_here += 1
        sizes[top], allowed_at[top], excluded_len[top], latest[top] = kept_here, allowed, past + 1, masks[branch]
        sizes[top + 1], allowed_at[top + 1], excluded_len[top + 1] = kept_below, child, past
        latest[top + 1] = np.uint64(0)
        top += 1
    return found, best, links, nodes, True
