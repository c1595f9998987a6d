"""OCS-vClos: slices of a fabric whose links can be rewired (OCS-vClos, order of the cases).

One leaf; two leaves joined directly; all links to one spine; several spines. Since circuits can be rearranged, only
counts of ports decide. The circuits are then coloured (`colouring`).

Several spines (ours): rank r is of class r mod P, with P dividing N; every class has a spine of its own choice, and leaf a, with n_a ranks
side by side, has e_a = ceil(n_a / P) circuits to it. A flow goes up by (class of the sender, its position on its leaf div P) and down by
(class of the sender, position of the receiver div P). In a shift, and in an XOR when P is a power of two, the receivers on a leaf that hear
from one class are congruent mod P, so their positions div P differ: every link carries one flow. Needed are P spines (or shares of them)
with sum e_a free ports each: sum over spines of floor(free ports / sum e_a) >= P. P = n on equal leaves is vClos's own shape,
P >= n_a the padded one, P = 1 a single spine. Leaves may be uneven without holding idle links as long as P divides what they give.

Routing rules of the cases: two leaves: the link of a flow is the position of its member on the leaf with fewer ranks; one spine: up by the
sender's position on its leaf, down by the receiver's (both clean for any permutation); several: as above.
"""

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.bits import copy_into, in_order
from headway.network.slices.colouring import add_edge, connect, moved
from headway.network.slices.vclos import (
    free_per_leaf,
    largest,
    leaf_starts,
    shape_fits_block,
    take_in_leaf,
    total,
    within_one_leaf,
)

ONE_LEAF, DIRECT, ONE_SPINE, EQUAL, CLASSES = 1, 2, 3, 4, 5
NO_ROOM = 0
BLOCKED = -1  # ports suffice, but direct circuits close an odd cycle that no single chain opens
CASES = {
    ONE_LEAF: "one leaf",
    DIRECT: "two leaves joined",
    ONE_SPINE: "one spine",
    EQUAL: "equal leaves",
    CLASSES: "classes of ranks",
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
def _spread_spines(ports, each, classes, out_spines):  # type: ignore[no-untyped-def]
    """The spine of every class: `each` ports a class; the tightest spine that takes all that are left, else the widest."""
    index = 0
    used = np.zeros(ports.size, np.bool_)
    while index < classes:
        best, left = -1, classes - index
        for spine in range(ports.size):
            room = ports[spine] // each
            if used[spine] or room == 0:
                continue
            if best < 0:
                best = spine
                continue
            so_far = ports[best] // each
            if ports[spine] < ports[best] if room >= left and so_far >= left else room > so_far:
                best = spine
        if best < 0:
            return False
        used[best] = True
        for _ in range(min(left, ports[best] // each)):
            out_spines[index] = best
            index += 1
    return True


@jit
def _tightest_spine(ports, gpus):  # type: ignore[no-untyped-def]
    """The spine with the fewest free ports that has `gpus` of them, or -1."""
    best = -1
    for spine in range(ports.size):
        if ports[spine] >= gpus and (best < 0 or ports[spine] < ports[best]):
            best = spine
    return best


@jit
def _whole_classes(leaf_free, fibres, gpus, classes, out_counts):  # type: ignore[no-untyped-def]
    """Ranks of every leaf in multiples of `classes`, the tightest leaf that has the rest, else the fullest. What is left."""
    left = gpus
    for leaf in range(leaf_free.size):
        out_counts[leaf] = 0
    while left > 0:
        best, most = -1, 0
        for leaf in range(leaf_free.size):
            give = min(leaf_free[leaf], fibres[leaf]) // classes * classes
            if out_counts[leaf] > 0 or give == 0:
                continue
            if best < 0 or (give < most if give >= left and most >= left else give > most):
                best, most = leaf, give
        if best < 0:
            break
        out_counts[best] = min(left, most)
        left -= out_counts[best]
    return left


@jit
def _share_out(leaf_free, fibres, gpus, classes, out_counts):  # type: ignore[no-untyped-def]
    """Ranks of every leaf: whole multiples of `classes` where possible, then what is left on any. 0: not enough room.

    Returns circuits of one class: the sum over leaves of ceil(ranks / classes).
    """
    left = _whole_classes(leaf_free, fibres, gpus, classes, out_counts)
    while left > 0:
        best, most = -1, 0
        for leaf in range(leaf_free.size):
            more = min(leaf_free[leaf], fibres[leaf] // classes * classes) - out_counts[leaf]
            if more > most:
                best, most = leaf, more
        if best < 0:
            return 0
        take = min(left, most)
        out_counts[best] += take
        left -= take
    each = 0
    for leaf in range(leaf_free.size):
        each += (out_counts[leaf] + classes - 1) // classes
    return each


@jit
def _classes(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """Several spines: the fewest links in all, then the fewest leaves, then the most classes: (leaves, classes) or 0, 0."""
    counts, spines = np.empty(leaf_free.size, np.int64), np.empty(64, np.int64)
    held, size, chosen = 1 << 40, 1 << 40, 0
    for classes in range(min(gpus, 64), 0, -1):
        if gpus % classes or not shape_fits_block(classes, block):
            continue
        each = _share_out(leaf_free, fibres, gpus, classes, counts)
        leaves = 0
        for leaf in range(leaf_free.size):
            leaves += counts[leaf] > 0
        if each == 0 or each * classes > held or (each * classes == held and leaves >= size):
            continue
        if not _spread_spines(ports, each, classes, spines):
            continue
        held, size, chosen = each * classes, leaves, classes
        copy_into(out_spines, spines, classes)
        at = 0
        for leaf in range(leaf_free.size):
            if counts[leaf] > 0:
                out_leaves[at], out_counts[at] = leaf, counts[leaf]
                at += 1
    return (size, chosen) if chosen else (0, 0)


@jit
def _is_equal(counts, size, width):  # type: ignore[no-untyped-def]
    """Whether every leaf has exactly `width` ranks."""
    equal = True
    for i in range(size):
        equal = equal and counts[i] == width
    return equal


@jit
def plan_ports(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """The first case over spines with room, from free fibres of leaves and free ports of spines: (case, leaves, width).

    `out_leaves`, `out_counts`: leaves in rank order and ranks on each; `out_spines`: the spine of every class
    (EQUAL, CLASSES), or of all of them at position 0 (ONE_SPINE).
    """
    usable = np.empty(leaf_free.size, np.int64)
    for leaf in range(leaf_free.size):
        usable[leaf] = min(leaf_free[leaf], fibres[leaf])
    spine = _tightest_spine(ports, gpus)
    if spine >= 0:
        size = _fullest(usable, gpus, out_leaves, out_counts)
        if size:
            out_spines[0] = spine
            return ONE_SPINE, size, 0
    size, width = _classes(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines)
    if size == 0:
        return NO_ROOM, 0, 0
    return (EQUAL if _is_equal(out_counts, size, width) else CLASSES), size, width


@jit
def plan_circuits(partner, fibres_per_spine, leaf_free, gpus, block, out_leaves, out_counts, out_spines):  # type: ignore[no-untyped-def]
    """The first case with room for a job that no single leaf holds, as `plan_ports`; two leaves are joined directly."""
    leaves = leaf_free.size
    more, fewer = _pair(partner, leaf_free, gpus)
    if more >= 0:
        out_leaves[0], out_leaves[1] = more, fewer
        out_counts[0], out_counts[1] = leaf_free[more], gpus - leaf_free[more]
        return DIRECT, 2, out_counts[1]
    fibres = free_fibres(partner, 0, leaves)
    ports = spine_ports(partner, leaves, fibres_per_spine)
    return plan_ports(leaf_free, fibres, ports, gpus, block, out_leaves, out_counts, out_spines)


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
        each = 1 if case == ONE_SPINE else (counts[i] + width - 1) // width
        for index in range(counts[i] if case == ONE_SPINE else each * width):
            spine = spines[0] if case == ONE_SPINE else spines[index // each]
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
