"""OCS-vClos: slices of a fabric whose links can be rewired (OCS-vClos, order of the cases).

One leaf; two leaves joined directly; all links to one spine; equal leaves over several spines, whole leaves first;
uneven leaves over several spines (padded, as in `padded`). Since circuits can be rearranged, only counts of ports
decide: sum over spines of floor(free ports / m) >= n. The circuits are then coloured (`colouring`).

Routing rules of the cases: two leaves: the link of a flow is the position of its member on the leaf with fewer ranks;
one spine: up by the sender's position on its leaf, down by the receiver's (both clean for any permutation); several
spines: rank modulo width, link i of every leaf ending on the same spine.
"""

import numpy as np

from headway.core.jit import jit
from headway.network.bits import copy_into, in_order
from headway.network.colouring import add_edge, connect, moved
from headway.network.slices import (
    free_per_leaf,
    largest,
    leaf_starts,
    shape_fits_block,
    take_in_leaf,
    total,
    within_one_leaf,
)

ONE_LEAF, DIRECT, ONE_SPINE, EQUAL, PADDED = 1, 2, 3, 4, 5
NO_ROOM = 0
BLOCKED = -1  # ports suffice, but direct circuits close an odd cycle that no single chain opens
CASES = {
    ONE_LEAF: "one leaf",
    DIRECT: "two leaves joined",
    ONE_SPINE: "one spine",
    EQUAL: "equal leaves",
    PADDED: "padded",
}


@jit
def free_fibres(partner: np.ndarray, first: int, last: int) -> np.ndarray:
    """Free ports of the vertices first to last - 1."""
    free = np.zeros(last - first, np.int64)
    for vertex in range(first, last):
        for colour in range(partner.shape[1]):
            free[vertex - first] += partner[vertex, colour] < 0
    return free


@jit
def spine_ports(partner: np.ndarray, leaves: int, fibres: int) -> np.ndarray:
    """Free ports of every physical spine (its `fibres` sub-spines follow one another)."""
    subs = free_fibres(partner, leaves, partner.shape[0])
    ports = np.zeros(subs.size // fibres, np.int64)
    for sub in range(subs.size):
        ports[sub // fibres] += subs[sub]
    return ports


@jit
def _pair(partner, leaf_free, gpus):  # type: ignore[no-untyped-def]
    """Two leaves that hold the job with the fewest GPUs left over and enough OCS free at both: (more, fewer) or -1."""
    best, more, fewer = 1 << 40, -1, -1
    for a in range(leaf_free.size):
        for b in range(a + 1, leaf_free.size):
            left = leaf_free[a] + leaf_free[b] - gpus
            if left < 0 or left >= best:
                continue
            need = gpus - max(leaf_free[a], leaf_free[b])
            common = 0
            for colour in range(partner.shape[1]):
                common += partner[a, colour] < 0 and partner[b, colour] < 0
            if common >= need:
                best = left
                more, fewer = (a, b) if leaf_free[a] >= leaf_free[b] else (b, a)
    return more, fewer


@jit
def _fullest(give, gpus, out_leaves, out_counts):  # type: ignore[no-untyped-def]
    """The fewest leaves that give `gpus`, the fullest first, the last the tightest that has the rest. 0: not enough."""
    order = np.empty(give.size, np.int64)
    fitting = in_order(give, np.int64(1), max(largest(give), 1), order)
    size, left = 0, gpus
    for i in range(fitting - 1, -1, -1):
        if left <= 0:
            break
        out_leaves[size] = order[i]
        out_counts[size] = min(left, give[order[i]])
        left -= out_counts[size]
        size += 1
    if left > 0:
        return 0
    rest = out_counts[size - 1]
    for i in range(fitting - size):
        if give[order[i]] >= rest:
            out_leaves[size - 1] = order[i]
            break
    return size


@jit
def _spread_spines(ports, leaves, width, out_spines):  # type: ignore[no-untyped-def]
    """The spine of every link index below `width`: each spine takes at most ports/leaves of them. False: too few."""
    order = np.empty(ports.size, np.int64)
    fitting = in_order(ports, leaves, max(largest(ports), leaves), order)
    index = 0
    for i in range(fitting - 1, -1, -1):
        for _ in range(ports[order[i]] // leaves):
            if index < width:
                out_spines[index] = order[i]
                index += 1
    return index == width


@jit
def _tightest_spine(ports, gpus):  # type: ignore[no-untyped-def]
    """The spine with the fewest free ports that has `gpus` of them, or -1."""
    best = -1
    for spine in range(ports.size):
        if ports[spine] >= gpus and (best < 0 or ports[spine] < ports[best]):
            best = spine
    return best


@jit
def _equal(usable, ports, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """Equal leaves, the most ranks a leaf first, on the leaves with the fewest usable GPUs: (leaves, width) or 0, 0."""
    order = np.empty(usable.size, np.int64)
    for width in range(min(gpus, largest(usable)), 0, -1):
        leaves = gpus // width
        if gpus % width or not shape_fits_block(width, block):
            continue
        if in_order(usable, width, largest(usable), order) < leaves:
            continue
        if not _spread_spines(ports, leaves, width, out_spines):
            continue
        copy_into(out_leaves, order, leaves)
        for i in range(leaves):
            out_counts[i] = width
        return leaves, width
    return 0, 0


@jit
def _gives(leaf_free, fibres, width, out):  # type: ignore[no-untyped-def]
    """What every leaf can give to a padded slice: up to `width` GPUs, nothing without as many free fibres."""
    for leaf in range(leaf_free.size):
        out[leaf] = min(leaf_free[leaf], width) if fibres[leaf] >= width else 0


@jit
def _padded(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """Uneven leaves with the fewest links in all, then the larger width: (leaves, width) or 0, 0."""
    held, best_width = 1 << 40, 0
    give = np.empty(leaf_free.size, np.int64)
    for width in range(min(gpus, 64), 0, -1):
        if gpus % width or not shape_fits_block(width, block):
            continue
        _gives(leaf_free, fibres, width, give)
        leaves = _fullest(give, gpus, out_leaves, out_counts)
        if leaves and leaves * width < held and _spread_spines(ports, leaves, width, out_spines):
            held, best_width = leaves * width, width
    if not best_width:
        return 0, 0
    _gives(leaf_free, fibres, best_width, give)
    leaves = _fullest(give, gpus, out_leaves, out_counts)
    _spread_spines(ports, leaves, best_width, out_spines)
    return leaves, best_width


@jit
def plan_circuits(partner, fibres_per_spine, leaf_free, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """The first case with room, from port counts alone, for a job that no single leaf holds: (case, leaves, width).

    `out_leaves`, `out_counts`: leaves in rank order and ranks on each; `out_spines`: the spine of every link index
    (EQUAL, PADDED), or of all of them at position 0 (ONE_SPINE).
    """
    leaves = leaf_free.size
    fibres = free_fibres(partner, 0, leaves)
    ports = spine_ports(partner, leaves, fibres_per_spine)
    usable = np.empty(leaves, np.int64)
    for leaf in range(leaves):
        usable[leaf] = min(leaf_free[leaf], fibres[leaf])
    more, fewer = _pair(partner, leaf_free, gpus)
    if more >= 0:
        out_leaves[0], out_leaves[1] = more, fewer
        out_counts[0], out_counts[1] = leaf_free[more], gpus - leaf_free[more]
        return DIRECT, 2, out_counts[1]
    spine = _tightest_spine(ports, gpus)
    if spine >= 0:
        size = _fullest(usable, gpus, out_leaves, out_counts)
        if size:
            out_spines[0] = spine
            return ONE_SPINE, size, 0
    size, width = _equal(usable, ports, gpus, block, out_leaves, out_counts, out_spines)
    if size:
        return EQUAL, size, width
    size, width = _padded(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines)
    return (PADDED if size else NO_ROOM), size, width


@jit
def wire(partner, owner, leaves, fibres_per_spine, job, case, chosen, counts, width, spines):  # type: ignore[no-untyped-def]
    """Set up the job's circuits. False if blocked: then the caller restores its copies."""
    if case == DIRECT:
        left = min(counts[0], counts[1])
        for colour in range(partner.shape[1]):
            if left and partner[chosen[0], colour] < 0 and partner[chosen[1], colour] < 0:
                connect(partner, owner, chosen[0], chosen[1], colour, job)
                left -= 1
        return left == 0
    for i in range(chosen.size):
        links = counts[i] if case == ONE_SPINE else width
        for index in range(links):
            spine = spines[0] if case == ONE_SPINE else spines[index]
            if add_edge(partner, owner, chosen[i], leaves + spine * fibres_per_spine, fibres_per_spine, job) < 0:
                return False
    return True


@jit
def find_circuits(  # type: ignore[no-untyped-def]
    free_gpus, node_leaf, partner, owner, fibres_per_spine, leaves, gpus, block, job, out_nodes, out_counts, out_moved
):
    """OCS-vClos for `gpus` GPUs: sets up the job's circuits in `partner` and `owner` when it finds room.

    Writes servers and GPUs on each in rank order, and the circuits of other jobs that moved (rows as in
    `colouring.moved`). Returns (case, entries, width, moved); NO_ROOM and BLOCKED leave everything as it was.
    """
    starts = leaf_starts(node_leaf, leaves)
    leaf_free = free_per_leaf(free_gpus, node_leaf, leaves)
    entries = within_one_leaf(free_gpus, node_leaf, leaf_free, starts, gpus, out_nodes, out_counts)
    if entries:
        return ONE_LEAF, entries, 0, 0
    if total(leaf_free) < gpus:
        return NO_ROOM, 0, 0, 0
    chosen, counts = np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    spines = np.empty(64, np.int64)
    case, size, width = plan_circuits(partner, fibres_per_spine, leaf_free, gpus, block, chosen, counts, spines)
    if case == NO_ROOM:
        return NO_ROOM, 0, 0, 0
    old_partner, old_owner = partner.copy(), owner.copy()
    if not wire(partner, owner, leaves, fibres_per_spine, job, case, chosen[:size], counts[:size], width, spines):
        for vertex in range(partner.shape[0]):
            copy_into(partner[vertex], old_partner[vertex], partner.shape[1])
            copy_into(owner[vertex], old_owner[vertex], partner.shape[1])
        return BLOCKED, 0, 0, 0
    moves = moved(old_partner, old_owner, partner, owner, leaves, out_moved)
    at = 0
    for i in range(size):
        first, last = starts[chosen[i]], starts[chosen[i] + 1]
        at = take_in_leaf(free_gpus, first, last, counts[i], out_nodes, out_counts, at)
    return case, at, width, moves
