"""The exact search behind vClos: leaves that have enough free links in common, at the least cost.

A biclique of the free-link graph (vClos, stage 2): choose leaves whose free-link masks share at least `width` bits, until their gains sum
to `need`, at the least total cost. Two uses: equal shapes (gain 1 per leaf, cost = its free GPUs, need = m leaves) and padded shapes
(gain = GPUs the leaf can give, cost 1, need = N GPUs).

Depth-first branch and bound over the set `allowed` of spines that may still be chosen:
- leaves sorted so that a prefix is the cheapest way to reach `need`: its cost bounds the node from below;
- a leaf with fewer than `width` allowed links, or a spine free on fewer leaves than needed, is dropped until nothing changes (the core of
  the bipartite graph);
- when the prefix itself shares `width` spines, the bound is met and the node is done; otherwise branch on the first prefix leaf that lacks
  an allowed spine: only spines of that leaf, or solutions without it;
- solutions without leaf g whose spines all lie in g are dominated (swap their last leaf for g), so in the second branch every leaf whose
  allowed links lie within g's goes too.
Adversarial link matrices can make this exponential: `budget` bounds the nodes, and running out of it is reported.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.slices.bits import common_to_at_least, popcount

DEEPEST: Final = 66  # every step down removes at least one of 64 spines
# A leaf as the search sees it.
CANDIDATE: Final = np.dtype([("links", "u8"), ("gain", "i4"), ("cost", "i4"), ("leaf", "i8")])
# An open node of the search, one per depth.
NODE: Final = np.dtype(
    [
        ("allowed", "u8"),
        ("size", "i8"),  # candidates that are still in question
        ("ruled_out", "i8"),  # leaves ruled out on the path to this node
        ("latest", "u8"),  # the links to write back as last ruled out when the node is resumed
    ]
)


@jit
def _narrow(
    candidates: NDArray[Any], members: NDArray[np.int64], size: int, allowed: np.uint64, width: int, need: int
) -> tuple[int, np.uint64]:
    """Drop leaves and spines that cannot be in a solution. Returns (members left, spines left); 0 left if none can."""
    while True:
        kept, fewest, total = 0, 0, 0
        for i in range(size):
            one = candidates[members[i]]
            if popcount(one.links & allowed) >= width:
                members[kept] = members[i]
                kept += 1
                if total < need:
                    total += one.gain
                    fewest = kept
        if total < need:
            return 0, allowed
        common = allowed & common_to_at_least(candidates, members, kept, fewest)
        if popcount(common) < width:
            return 0, allowed
        if common == allowed and kept == size:
            return kept, allowed
        allowed = common
        size = kept


@jit
def _prefix(
    candidates: NDArray[Any], members: NDArray[np.int64], size: int, allowed: np.uint64, need: int
) -> tuple[int, int, np.uint64, int]:
    """The cheapest leaves that reach `need`: how many, their cost, the spines they share, the first that narrows."""
    total, price, shared, first = 0, 0, allowed, -1
    for i in range(size):
        one = candidates[members[i]]
        total += one.gain
        price += one.cost
        if first < 0 and (one.links & allowed) != allowed:
            first = members[i]
        shared &= one.links
        if total >= need:
            return i + 1, price, shared, first
    return size, price, shared, first


@jit
def _branch(candidates: NDArray[Any], nodes: NDArray[Any], members: NDArray[np.int64], top: int, at: int) -> None:
    """Split the node at depth `top` on candidate `at`: below, only its spines; here, solutions without it."""
    here, below = nodes[top], nodes[top + 1]
    child = candidates[at].links & here.allowed
    size = 0
    for i in range(here.size):
        one = members[top, i]
        members[top + 1, i] = one
        if (candidates[one].links & here.allowed & ~child) != np.uint64(0):
            members[top, size] = one
            size += 1
    below.size = here.size
    below.allowed = child
    below.ruled_out = here.ruled_out
    below.latest = np.uint64(0)
    here.size = size
    here.ruled_out += 1
    here.latest = candidates[at].links


@jit
def cheapest_common(
    candidates: NDArray[Any], need: int, width: int, limit: int, budget: int, out_leaves: NDArray[np.int64]
) -> tuple[int, int, np.uint64, int, bool]:
    """The cheapest leaves sharing `width` links whose gains reach `need`, strictly cheaper than `limit`.

    `candidates` are sorted, a prefix being the cheapest way to any need. Writes the leaves to `out_leaves`.
    Returns (how many leaves, 0 if none; cost; shared links; nodes visited; whether the search was complete).
    """
    size = len(candidates)
    nodes, members = np.empty(DEEPEST, NODE), np.empty((DEEPEST, max(size, 1)), np.int64)
    ruled_out = np.empty(max(size, 1), np.uint64)  # links of the leaves ruled out on the path to the current node
    for i in range(size):
        members[0, i] = i
    nodes[0].allowed = ~np.uint64(0)
    nodes[0].size = size
    nodes[0].ruled_out = 0
    nodes[0].latest = np.uint64(0)
    found, best, links, visited, top = 0, limit, np.uint64(0), 0, 0
    while top >= 0:
        if visited >= budget:
            return found, best, links, visited, False
        visited += 1
        node = nodes[top]
        if node.latest != np.uint64(0):
            ruled_out[node.ruled_out - 1] = node.latest
        node.size, node.allowed = _narrow(candidates, members[top], node.size, node.allowed, width, need)
        dominated = node.size == 0
        for i in range(node.ruled_out):
            dominated = dominated or (node.allowed & ~ruled_out[i]) == np.uint64(0)
        if dominated:
            top -= 1
            continue
        count, price, shared, first = _prefix(candidates, members[top], node.size, node.allowed, need)
        if price >= best:
            top -= 1
        elif popcount(shared) >= width:
            found, best, links = count, price, shared
            for i in range(count):
                out_leaves[i] = candidates[members[top, i]].leaf
            top -= 1
        else:
            _branch(candidates, nodes, members, top, first)
            top += 1
    return found, best, links, visited, True
