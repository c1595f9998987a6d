"""vClos: a slice of the fabric for one job, stages 0 to 2 (vClos, section on resource allocation).

Stage 0: one server, best fit. Stage 1: one leaf, best fit, split evenly over its servers. Stage 2: m leaves x n
spines with m*n = N: every chosen leaf gives n GPUs and its free links to the same n spines. n is tried from the
largest; the first feasible shape is taken, and within it the leaves with the fewest free GPUs.

Pure kernels over arrays, to be called from the placement kernels: nothing is reserved here. Servers must be numbered
leaf by leaf. Ranks follow the order of the servers written out, so they are contiguous per leaf, which is what makes
static routing clean (see `certificate`).
"""

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.bits import in_order
from headway.network.slices.search import cheapest_common

NO_ROOM = 0
PLACED = 1
UNDECIDED = 2  # the node budget ended before any slice of the shape was found: ask the MILP
UNPROVEN = 3  # a slice was found, but the budget ended before it was proven the cheapest of its shape

NODE_BUDGET = 8000  # nodes; about 1 us each, which keeps the worst case below 10 ms at 256 leaves (bench/fabric.py)


UNLIMITED = 1 << 62


@jit
def total(values: np.ndarray) -> int:
    """Their sum."""
    out = 0
    for value in values:
        out += value
    return out


@jit
def largest(values: np.ndarray) -> int:
    """The largest of them, at least 0."""
    out = 0
    for value in values:
        out = max(out, value)
    return out


@jit
def leaf_starts(node_leaf: np.ndarray, leaves: int) -> np.ndarray:
    """First server of every leaf, and one past the last: servers of leaf a are starts[a] to starts[a + 1] - 1."""
    starts = np.zeros(leaves + 1, np.int64)
    for node in range(node_leaf.size):
        starts[node_leaf[node] + 1] += 1
    for leaf in range(leaves):
        starts[leaf + 1] += starts[leaf]
    return starts


@jit
def free_per_leaf(free_gpus: np.ndarray, node_leaf: np.ndarray, leaves: int) -> np.ndarray:
    """Free GPUs of every leaf."""
    free = np.zeros(leaves, np.int64)
    for node in range(node_leaf.size):
        free[node_leaf[node]] += free_gpus[node]
    return free


@jit
def _evenly(free_gpus, first, last, gpus, out_nodes, out_counts, at):  # type: ignore[no-untyped-def]
    """Split over the fewest servers that can each give the same number, best fit. Returns entries written, or 0."""
    for servers in range(1, last - first + 1):
        if gpus % servers:
            continue
        each = gpus // servers
        fitting = 0
        for node in range(first, last):
            fitting += free_gpus[node] >= each
        if fitting < servers:
            continue
        for i in range(servers):
            best = -1
            for node in range(first, last):
                if free_gpus[node] < each or (best >= 0 and free_gpus[node] >= free_gpus[best]):
                    continue
                taken = False
                for j in range(i):
                    taken = taken or out_nodes[at + j] == node
                if not taken:
                    best = node
            out_nodes[at + i] = best
            out_counts[at + i] = each
        return servers
    return 0


@jit
def take_in_leaf(free_gpus, first, last, gpus, out_nodes, out_counts, at):  # type: ignore[no-untyped-def]
    """Servers of one leaf for `gpus` GPUs: an even split where one exists, else the fullest servers first.

    Writes server and count from position `at` on and returns the position after them.
    """
    most = np.int64(1)
    for node in range(first, last):
        most = max(most, free_gpus[node])
    even = _evenly(free_gpus, first, last, gpus, out_nodes, out_counts, at)
    # 7 GPUs on 7 servers is even too, but scattered: at most one server more than the fewest conceivable.
    if even and even <= (gpus + most - 1) // most + 1:
        return at + even
    left = gpus
    size = 0
    while left > 0:
        best = -1
        for node in range(first, last):
            taken = False
            for j in range(size):
                taken = taken or out_nodes[at + j] == node
            if not taken and (best < 0 or free_gpus[node] > free_gpus[best]):
                best = node
        out_nodes[at + size] = best
        out_counts[at + size] = min(left, free_gpus[best])
        left -= out_counts[at + size]
        size += 1
    return at + size


@jit
def within_one_leaf(free_gpus, node_leaf, leaf_free, starts, gpus, out_nodes, out_counts):  # type: ignore[no-untyped-def]
    """Stages 0 and 1: one server, else one leaf, the tightest that fits. Returns entries written, 0 if none fits."""
    best = -1
    for node in range(free_gpus.size):
        if free_gpus[node] >= gpus and (best < 0 or free_gpus[node] < free_gpus[best]):
            best = node
    if best >= 0:
        out_nodes[0] = best
        out_counts[0] = gpus
        return 1
    for leaf in range(leaf_free.size):
        if leaf_free[leaf] >= gpus and (best < 0 or leaf_free[leaf] < leaf_free[best]):
            best = leaf
    if best < 0:
        return 0
    return take_in_leaf(free_gpus, starts[best], starts[best + 1], gpus, out_nodes, out_counts, np.int64(0))


@jit
def scarcest(masks: np.ndarray, links: np.uint64, count: int) -> np.uint64:
    """Of the links in `links`, the `count` free on the fewest leaves: whole spines stay whole for later jobs."""
    free_on = np.zeros(64, np.int64)
    for leaf in range(masks.size):
        word = masks[leaf] & links
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
    """Whether shifts inside blocks of `block` ranks stay clean with `width` ranks a leaf (0: no blocks asked for)."""
    return block <= 0 or width % block == 0 or block % width == 0


@jit
def equal_shape(masks, leaf_free, width, leaves, budget, out_leaves):  # type: ignore[no-untyped-def]
    """`leaves` leaves x `width` spines with the fewest free GPUs on them: stage 2 for one shape."""
    order = np.empty(masks.size, np.int64)
    size = in_order(leaf_free, width, largest(leaf_free), order)
    gain = np.ones(masks.size, np.int64)
    return cheapest_common(masks, gain, leaf_free, order, size, leaves, width, np.int64(UNLIMITED), budget, out_leaves)


@jit
def find_slice(free_gpus, node_leaf, masks, gpus, block, budget, out_nodes, out_counts, out_masks):  # type: ignore[no-untyped-def]
    """vClos stages 0 to 2 for `gpus` GPUs. Returns (status, entries, width, nodes visited).

    `out_nodes`, `out_counts` (as long as there are servers) get servers and GPUs on each in rank order; `out_masks`
    (as long as there are leaves) the links to reserve. `width` is n, the modulus of the routing rule; 0 if no link is
    needed. `block` restricts the shape to one that keeps blocks of that many ranks clean (0: any).
    """
    out_masks.fill(np.uint64(0))
    starts = leaf_starts(node_leaf, masks.size)
    leaf_free = free_per_leaf(free_gpus, node_leaf, masks.size)
    entries = within_one_leaf(free_gpus, node_leaf, leaf_free, starts, gpus, out_nodes, out_counts)
    if entries:
        return PLACED, entries, 0, 0
    if total(leaf_free) < gpus:
        return NO_ROOM, 0, 0, 0
    out_leaves = np.empty(masks.size, np.int64)
    visited = 0
    for width in range(min(gpus - 1, largest(leaf_free)), 0, -1):
        leaves = gpus // width
        if gpus % width or leaves > masks.size or not shape_fits_block(width, block):
            continue
        found, _, links, nodes, complete = equal_shape(masks, leaf_free, width, leaves, budget - visited, out_leaves)
        visited += nodes
        if found:
            spines = scarcest(masks, links, width)
            entries = _write(free_gpus, starts, out_leaves[:found], width, spines, out_nodes, out_counts, out_masks)
            return (PLACED if complete else UNPROVEN), entries, width, visited
        if not complete:
            return UNDECIDED, 0, width, visited
    return NO_ROOM, 0, 0, visited


@jit
def _write(free_gpus, starts, chosen, width, spines, out_nodes, out_counts, out_masks):  # type: ignore[no-untyped-def]
    """Servers leaf by leaf and the links of each leaf."""
    order = np.empty(chosen.size, np.int64)
    in_order(chosen, np.int64(0), starts.size, order)
    at = 0
    for i in order:
        leaf = chosen[i]
        at = take_in_leaf(free_gpus, starts[leaf], starts[leaf + 1], width, out_nodes, out_counts, at)
        out_masks[leaf] = spines
    return at


def possible_sizes(leaves: int, gpus_per_leaf: int, uplinks: int, near: int) -> tuple[int, int]:
    """The nearest sizes below and above `near` that some slice m x n can have (0: none that way)."""

    def fits(gpus: int) -> bool:
        most = min(gpus_per_leaf, uplinks)
        return gpus <= gpus_per_leaf or any(gpus % n == 0 and gpus // n <= leaves for n in range(1, most + 1))

    below = next((size for size in range(near - 1, 0, -1) if fits(size)), 0)
    above = next((size for size in range(near + 1, leaves * gpus_per_leaf + 1) if fits(size)), 0)
    return below, above


def can_ever_fit(leaves: int, gpus_per_leaf: int, uplinks: int, gpus: int) -> bool:
    """Whether N has a shape at all: one leaf, or m <= L and n <= p with m*n = N."""
    most = min(gpus_per_leaf, uplinks)
    return 0 < gpus <= gpus_per_leaf or any(gpus % n == 0 and gpus // n <= leaves for n in range(1, most + 1))
