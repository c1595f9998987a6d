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
from headway.core.tables.actions import Actions, add_link
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.network.slices.bits import popcount
from headway.network.slices.circuits import ONE_SPINE, CircuitPlan, new_plan, plan_ports
from headway.network.slices.room import NO_ROOM, Room, take_in_leaf, within_one_leaf
from headway.network.slices.whole import is_whole, keep_whole, on_each
from headway.placement.profile import PACK_LIMIT
from headway.placement.vclos import add_seats, few_servers, offered


@jit
def _count_rows(leaves: Any) -> tuple[int, int]:
    """Leaves and spines; the rows of the spines come last."""
    first = 0
    while first < len(leaves.offer) and leaves.spine[first] < 0:
        first += 1
    spines = leaves.spine[len(leaves.offer) - 1] + 1
    return first, max(spines, 0)


@jit
def _pick(leaves: Any, first: int, last: int, spine: int, count: int, out: Actions) -> None:
    """Reserve `count` ports of the rows first to last - 1 of a spine (-1: of a leaf), those free soonest first."""
    for room in range(3):
        for row in range(first, last):
            if leaves.spine[row] != spine:
                continue
            within = leaves.now[row] if room == 0 else leaves.soon[row] if room == 1 else leaves.offer[row]
            bits, taken = leaves.offer[row] & within, np.uint64(0)
            while count > 0 and bits != np.uint64(0):
                lowest = bits & (~bits + np.uint64(1))
                taken |= lowest
                bits ^= lowest
                count -= 1
            if taken != np.uint64(0):
                add_link(out, row, taken)
                leaves.offer[row] &= ~taken


@jit(allocates=True)
def _planned(room: Room, leaves: Any, spines: int) -> CircuitPlan:
    """A plan with the free fibres of leaves and ports of spines counted."""
    plan, below = new_plan(room.leaves, spines), len(room.leaves)
    for row in range(len(leaves.offer)):
        ports = popcount(leaves.offer[row])
        if row < below:
            plan.leaves[row].fibres = ports
        else:
            plan.spines[leaves.spine[row]].ports += ports
    return plan


@jit(PLACE_SIGNATURE, allocates=True)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """One leaf; else the first case over spines whose port counts suffice."""
    below, spines = _count_rows(leaves)
    room, gpus, most = (
        offered(nodes, leaves, below),
        np.int64(job.gpus),
        few_servers(nodes, below, fewest, job, options),
    )
    keep_whole(room, on_each(gpus, most))
    count = within_one_leaf(room, gpus)
    if count != 0:
        add_seats(room, count, out)
        return count > 0 and is_whole(count, gpus, most)
    plan = _planned(room, leaves, spines)
    case, size, width = plan_ports(plan, gpus, on_each(gpus, most))
    if case == NO_ROOM:
        return False
    of_a_class = 0  # circuits of one class of ranks (network/slices/circuits.py)
    for i in range(size):
        part = plan.parts[i]
        add_seats(room, take_in_leaf(room, part.leaf, part.ranks, 0), out)
        circuits = part.ranks if case == ONE_SPINE else (part.ranks + width - 1) // width
        of_a_class += circuits
        _pick(leaves, part.leaf, part.leaf + 1, -1, circuits if case == ONE_SPINE else circuits * width, out)
    if case == ONE_SPINE:
        _pick(leaves, below, len(leaves.offer), plan.spine_of[0], gpus, out)
    else:
        for k in range(width):
            _pick(leaves, below, len(leaves.offer), plan.spine_of[k], of_a_class, out)
    return is_whole(out.counts[0].seats - out.rows[out.counts[0].rows].seat_at, gpus, most)


def make(options: Mapping[str, str]) -> Placement:
    """No options."""
    return Placement("ocs-vclos", place, pack_limit=PACK_LIMIT, needs_fabric=True, rewires=True)
