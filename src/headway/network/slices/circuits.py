"""OCS-vClos: slices of a fabric whose links can be rewired (OCS-vClos, order of the cases).

One leaf; two leaves joined directly; all links to one spine; several spines. Since circuits can be rearranged, only counts of ports decide.
The circuits are then coloured (`colouring`).

Several spines (ours): rank r is of class r mod P, with P dividing N; every class has its spine, and leaf a, with n_a ranks side by side,
has e_a = ceil(n_a / P) circuits to it. A flow goes up by (class of the sender, its position on its leaf div P) and down by (class of the
sender, position of the receiver div P). In a shift, and in an XOR when P is a power of two, the receivers on a leaf that hear from one
class are congruent mod P, so their positions div P differ: every link carries one flow. Needed are P spines (or shares of them) with
sum e_a free ports each: sum over spines of floor(free ports / sum e_a) >= P. P = n on equal leaves is vClos's shape, P >= n_a the padded
one, P = 1 a single spine. Leaves may be uneven without holding idle links as long as P divides what they give.

Routing rules of the cases: two leaves: the link of a flow is the position of its member on the leaf with fewer ranks; one spine: up by the
sender's position on its leaf, down by the receiver's (both clean for any permutation); several: as above.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.slices.bits import copy_into, in_order
from headway.network.slices.colouring import BLOCKED, Circuits, add_edge, connect, list_moves
from headway.network.slices.room import LEAF, NO_ROOM, Room, take_in_leaf, within_one_leaf
from headway.network.slices.vclos import shape_fits_block

# Cases besides NO_ROOM (0) and BLOCKED (-1: ports suffice, but direct circuits close an odd cycle that no single chain opens).
ONE_LEAF, DIRECT, ONE_SPINE, EQUAL, CLASSES = 1, 2, 3, 4, 5
MOST_CLASSES: Final = 64

SPINE: Final = np.dtype([("ports", "i8"), ("used", "i8")])  # free ports; scratch: whether classes end on it already
PART: Final = np.dtype([("leaf", "i8"), ("ranks", "i8")])


class CircuitPlan(NamedTuple):
    """What a plan of circuits reads (leaves, spines) and writes."""

    leaves: NDArray[Any]  # of the room: free GPUs and free fibres
    spines: NDArray[Any]
    parts: NDArray[Any]  # the leaves chosen, in rank order
    spine_of: NDArray[np.int64]  # the spine of every class of ranks; of all ranks at position 0 (ONE_SPINE)


@jit
def new_plan(leaves: NDArray[Any], spines: int) -> CircuitPlan:
    """Nothing chosen yet; the spines have no ports until they are counted."""
    return CircuitPlan(leaves, np.zeros(spines, SPINE), np.empty(len(leaves), PART), np.empty(MOST_CLASSES, np.int64))


def ports_suffice(on_leaf: NDArray[Any], fibres: NDArray[Any], ports: NDArray[Any], gpus: int) -> bool:
    """Return whether the free GPUs and fibres of the leaves and the ports of the spines suffice for a job of `gpus` GPUs."""
    leaves = np.zeros(len(on_leaf), LEAF)
    leaves["free"], leaves["fibres"] = on_leaf, fibres
    plan = new_plan(leaves, len(ports))
    plan.spines["ports"] = ports
    return bool(plan_ports(plan, gpus, 0)[0] != NO_ROOM)


@jit
def _pair(ports: NDArray[Any], leaves: NDArray[Any], gpus: int) -> tuple[int, int]:
    """Two leaves that hold the job with the fewest GPUs left over and enough OCS free at both: (more, fewer) or -1."""
    best, more, fewer = 1 << 40, -1, -1
    for a in range(len(leaves)):
        for b in range(a + 1, len(leaves)):
            spare = leaves[a].free + leaves[b].free - gpus
            if spare < 0 or spare >= best:
                continue
            need = gpus - max(leaves[a].free, leaves[b].free)
            common = 0
            for colour in range(ports.shape[1]):
                common += ports[a, colour].far < 0 and ports[b, colour].far < 0
            if common >= need:
                best = spare
                more, fewer = (a, b) if leaves[a].free >= leaves[b].free else (b, a)
    return more, fewer


@jit
def _fullest(plan: CircuitPlan, gpus: int) -> int:
    """The fewest leaves that give `gpus`, the fullest first, the last the tightest that has the rest. 0: not enough."""
    give, order = np.empty(len(plan.leaves), np.int64), np.empty(len(plan.leaves), np.int64)
    most = np.int64(1)
    for leaf in range(give.size):
        give[leaf] = min(plan.leaves[leaf].free, plan.leaves[leaf].fibres)
        most = max(most, give[leaf])
    fitting = in_order(give, np.int64(1), most, order)
    size, remaining = 0, gpus
    for i in range(fitting - 1, -1, -1):
        if remaining <= 0:
            break
        plan.parts[size].leaf = order[i]
        plan.parts[size].ranks = min(remaining, give[order[i]])
        remaining -= plan.parts[size].ranks
        size += 1
    if remaining > 0:
        return 0
    last = plan.parts[size - 1]
    for i in range(fitting - size):
        if give[order[i]] >= last.ranks:
            last.leaf = order[i]
            break
    return size


@jit
def _spread_spines(spines: NDArray[Any], each: int, classes: int, out: NDArray[np.int64]) -> bool:
    """The spine of every class, `each` ports per class: the tightest spine that takes all that are left, else the widest."""
    index = 0
    for spine in range(len(spines)):
        spines[spine].used = 0
    while index < classes:
        best, remaining = -1, classes - index
        for spine in range(len(spines)):
            room = spines[spine].ports // each
            if spines[spine].used or room == 0:
                continue
            if best < 0:
                best = spine
                continue
            so_far = spines[best].ports // each
            tighter = spines[spine].ports < spines[best].ports
            if tighter if room >= remaining and so_far >= remaining else room > so_far:
                best = spine
        if best < 0:
            return False
        spines[best].used = 1
        for _ in range(min(remaining, spines[best].ports // each)):
            out[index] = best
            index += 1
    return True


@jit
def _tightest_spine(spines: NDArray[Any], gpus: int) -> int:
    """The spine with the fewest free ports that has `gpus` of them, or -1."""
    best = -1
    for spine in range(len(spines)):
        if spines[spine].ports >= gpus and (best < 0 or spines[spine].ports < spines[best].ports):
            best = spine
    return best


@jit
def _whole_classes(leaves: NDArray[Any], gpus: int, classes: int, ranks: NDArray[np.int64]) -> int:
    """Ranks of every leaf in multiples of `classes`, the tightest leaf that has the rest, else the fullest. What is left."""
    remaining = gpus
    for leaf in range(len(leaves)):
        ranks[leaf] = 0
    while remaining > 0:
        best, most = -1, 0
        for leaf in range(len(leaves)):
            give = min(leaves[leaf].free, leaves[leaf].fibres) // classes * classes
            if ranks[leaf] > 0 or give == 0:
                continue
            if best < 0 or (give < most if give >= remaining and most >= remaining else give > most):
                best, most = leaf, give
        if best < 0:
            break
        ranks[best] = min(remaining, most)
        remaining -= ranks[best]
    return remaining


@jit
def _share_out(leaves: NDArray[Any], gpus: int, classes: int, ranks: NDArray[np.int64]) -> int:
    """Ranks of every leaf: whole multiples of `classes` where possible, then what is left on any. 0: not enough room.

    Returns circuits of one class: the sum over leaves of ceil(ranks / classes).
    """
    remaining = _whole_classes(leaves, gpus, classes, ranks)
    while remaining > 0:
        best, most = -1, 0
        for leaf in range(len(leaves)):
            more = min(leaves[leaf].free, leaves[leaf].fibres // classes * classes) - ranks[leaf]
            if more > most:
                best, most = leaf, more
        if best < 0:
            return 0
        take = min(remaining, most)
        ranks[best] += take
        remaining -= take
    each = 0
    for leaf in range(len(leaves)):
        each += (ranks[leaf] + classes - 1) // classes
    return each


@jit
def _classes(plan: CircuitPlan, gpus: int, block: int) -> tuple[int, int]:
    """Several spines: the fewest links in all, then the fewest leaves, then the most classes: (leaves, classes) or 0, 0."""
    ranks, spine_of = np.empty(len(plan.leaves), np.int64), np.empty(MOST_CLASSES, np.int64)
    held, size, chosen = 1 << 40, 1 << 40, 0
    for classes in range(min(gpus, MOST_CLASSES), 0, -1):
        if gpus % classes or not shape_fits_block(classes, block):
            continue
        each = _share_out(plan.leaves, gpus, classes, ranks)
        leaves = 0
        for leaf in range(ranks.size):
            leaves += ranks[leaf] > 0
        if each == 0 or each * classes > held or (each * classes == held and leaves >= size):
            continue
        if not _spread_spines(plan.spines, each, classes, spine_of):
            continue
        held, size, chosen = each * classes, leaves, classes
        copy_into(plan.spine_of, spine_of, classes)
        at = 0
        for leaf in range(ranks.size):
            if ranks[leaf] > 0:
                plan.parts[at].leaf = leaf
                plan.parts[at].ranks = ranks[leaf]
                at += 1
    return (size, chosen) if chosen else (0, 0)


@jit
def _is_equal(parts: NDArray[Any], size: int, width: int) -> bool:
    """Whether every leaf has exactly `width` ranks."""
    equal = True
    for i in range(size):
        equal = equal and parts[i].ranks == width
    return equal


@jit
def plan_ports(plan: CircuitPlan, gpus: int, block: int) -> tuple[int, int, int]:
    """The first case over spines with room, from free fibres of leaves and free ports of spines: (case, leaves, width)."""
    spine = _tightest_spine(plan.spines, gpus)
    if spine >= 0:
        size = _fullest(plan, gpus)
        if size:
            plan.spine_of[0] = spine
            return ONE_SPINE, size, 0
    size, width = _classes(plan, gpus, block)
    if size == 0:
        return NO_ROOM, 0, 0
    return (EQUAL if _is_equal(plan.parts, size, width) else CLASSES), size, width


@jit
def _count_ports(circuits: Circuits, plan: CircuitPlan) -> None:
    """Free fibres of leaves and free ports of spines (the sub-spines of a spine follow one another)."""
    leaves, fibres = circuits.head[0].leaves, circuits.head[0].fibres
    for vertex in range(circuits.ports.shape[0]):
        free = 0
        for colour in range(circuits.ports.shape[1]):
            free += circuits.ports[vertex, colour].far < 0
        if vertex < leaves:
            plan.leaves[vertex].fibres = free
        else:
            plan.spines[(vertex - leaves) // fibres].ports += free


@jit
def _plan_circuits(circuits: Circuits, plan: CircuitPlan, gpus: int, block: int) -> tuple[int, int, int]:
    """The first case with room for a job that no single leaf holds, as `plan_ports`; two leaves are joined directly."""
    more, fewer = _pair(circuits.ports, plan.leaves, gpus)
    if more < 0:
        _count_ports(circuits, plan)
        return plan_ports(plan, gpus, block)
    plan.parts[0].leaf = more
    plan.parts[0].ranks = plan.leaves[more].free
    plan.parts[1].leaf = fewer
    plan.parts[1].ranks = gpus - plan.parts[0].ranks
    return DIRECT, 2, plan.parts[1].ranks


@jit
def _wire(circuits: Circuits, plan: CircuitPlan, case: int, size: int, width: int, job: int) -> bool:
    """Set up the job's circuits. False if blocked: then the caller restores its copy."""
    ports = circuits.ports
    if case == DIRECT:
        one, other = plan.parts[0].leaf, plan.parts[1].leaf
        remaining = min(plan.parts[0].ranks, plan.parts[1].ranks)
        for colour in range(ports.shape[1]):
            if remaining and ports[one, colour].far < 0 and ports[other, colour].far < 0:
                connect(ports, one, other, colour, job)
                remaining -= 1
        return remaining == 0
    for i in range(size):
        part = plan.parts[i]
        each = 1 if case == ONE_SPINE else (part.ranks + width - 1) // width
        for index in range(part.ranks if case == ONE_SPINE else each * width):
            spine = plan.spine_of[0] if case == ONE_SPINE else plan.spine_of[index // each]
            if add_edge(circuits, part.leaf, spine, job) < 0:
                return False
    return True


@jit
def find_circuits(room: Room, circuits: Circuits, gpus: int, block: int, job: int) -> tuple[int, int, int, int]:
    """OCS-vClos for `gpus` GPUs: sets up the job's circuits when it finds room, and lists those of others that moved.

    Writes seats to the room. Returns (case, seats, width, moved); NO_ROOM and BLOCKED leave the circuits as they were.
    """
    seats = within_one_leaf(room, gpus)
    if seats != 0:
        return (ONE_LEAF, seats, 0, 0) if seats > 0 else (NO_ROOM, 0, 0, 0)
    head, ports = circuits.head[0], circuits.ports
    plan = new_plan(room.leaves, (ports.shape[0] - head.leaves) // head.fibres)
    case, size, width = _plan_circuits(circuits, plan, gpus, block)
    if case == NO_ROOM:
        return NO_ROOM, 0, 0, 0
    before = ports.copy()
    if not _wire(circuits, plan, case, size, width, job):
        for vertex in range(ports.shape[0]):
            copy_into(ports[vertex], before[vertex], ports.shape[1])
        return BLOCKED, 0, 0, 0
    moved = list_moves(before, circuits)
    at = 0
    for i in range(size):
        at = take_in_leaf(room, plan.parts[i].leaf, plan.parts[i].ranks, at)
    return case, at, width, moved
