"""ocs-vclos: slices of a fabric whose links can be rewired (OCS-vClos).

Deciding needs port counts alone: a leaf's fibres and a spine's ports are bits of the ledger without identity, so a decision is a count, and
releasing them is exact. Which optical switch carries which circuit is up to whoever performs the start (sim/models/rewiring.py): by König a
colouring exists for whatever was reserved, because leaves are joined through spines only, never to each other (decision 0036).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_link, add_seat
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.network.slices.bits import popcount
from headway.network.slices.circuits import NO_ROOM, ONE_SPINE, plan_ports
from headway.network.slices.vclos import free_per_leaf, leaf_starts, take_in_leaf, total, within_one_leaf
from headway.placement.vclos import ANY_BLOCK, offered

MOST_WIDTH = 64  # bits of a row


@jit
def _count_rows(leaves: Any) -> tuple[int, int]:
    """Leaves and spines; the rows of the spines come last."""
    first = 0
    while first < len(leaves) and leaves[first].spine < 0:
        first += 1
    spines = leaves[len(leaves) - 1].spine + 1
    return first, max(spines, 0)


@jit
def _pick(leaves: Any, first: int, last: int, spine: int, count: int, out: Actions) -> None:
    """Reserve `count` ports of the rows first to last - 1 of a spine (-1: of a leaf), those free soonest first."""
    for room in range(3):
        for row in range(first, last):
            if leaves[row].spine != spine:
                continue
            within = leaves[row].now if room == 0 else leaves[row].soon if room == 1 else leaves[row].target
            bits, taken = leaves[row].offer & within, np.uint64(0)
            while count > 0 and bits != np.uint64(0):
                lowest = bits & (~bits + np.uint64(1))
                taken |= lowest
                bits ^= lowest
                count -= 1
            if taken != np.uint64(0):
                add_link(out, row, taken)
                leaves[row].offer &= ~taken


@jit(PLACE_SIGNATURE, allocates=True)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """One leaf; else the first case over spines whose port counts suffice."""
    free, leaf_of, masks = offered(nodes, leaves)
    below, spines = _count_rows(leaves)
    gpus = np.int64(job.gpus)
    chosen, counts = np.empty(free.size, np.int64), np.empty(free.size, np.int64)
    starts = leaf_starts(leaf_of, below)
    leaf_free = free_per_leaf(free, leaf_of, below)
    entries = within_one_leaf(free, leaf_of, leaf_free, starts, gpus, chosen, counts)
    if entries:
        for i in range(entries):
            add_seat(out, chosen[i], counts[i])
        return True
    if total(leaf_free) < gpus:
        return False
    fibres, ports = np.zeros(below, np.int64), np.zeros(spines, np.int64)
    for row in range(len(leaves)):
        if row < below:
            fibres[row] = popcount(masks[row])
        else:
            ports[leaves[row].spine] += popcount(masks[row])
    on, each, spine_of = np.empty(below, np.int64), np.empty(below, np.int64), np.empty(MOST_WIDTH, np.int64)
    case, size, width = plan_ports(leaf_free, fibres, ports, gpus, ANY_BLOCK, on, each, spine_of)
    if case == NO_ROOM:
        return False
    of_a_class = 0  # circuits of one class of ranks (network/slices/circuits.py)
    for i in range(size):
        at = take_in_leaf(free, starts[on[i]], starts[on[i] + 1], each[i], chosen, counts, np.int64(0))
        for k in range(at):
            add_seat(out, chosen[k], counts[k])
        circuits = each[i] if case == ONE_SPINE else (each[i] + width - 1) // width
        of_a_class += circuits
        _pick(leaves, on[i], on[i] + 1, -1, circuits if case == ONE_SPINE else circuits * width, out)
    if case == ONE_SPINE:
        _pick(leaves, below, len(leaves), spine_of[0], gpus, out)
    else:
        for k in range(width):
            _pick(leaves, below, len(leaves), spine_of[k], of_a_class, out)
    return True


def make(given: Mapping[str, str]) -> Placement:
    """No options."""
    return Placement("ocs-vclos", place, needs_fabric=True, rewires=True)
