"""leaf-aware: as few leaves as can be had now, without reserving links: what a scheduler that knows the network does on a shared one.

One server if one has the room, else one leaf, the tightest that fits; else leaf after leaf, the fullest first, and the rest by best fit.
Never refuses while enough GPUs are free. Ranks are contiguous per leaf, as on a slice (network/slices/room.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.network.slices.room import LEAF, SEAT, SERVER, Room, take_in_leaf, within_one_leaf
from headway.placement.vclos import add_seats


@jit(allocates=True)
def _offered(nodes: Any, leaves: int) -> Room:
    """The GPUs on offer; without a fabric, all on one leaf."""
    room = Room(np.empty(len(nodes.offer), SERVER), np.zeros(max(leaves, 1), LEAF), np.empty(len(nodes.offer), SEAT))
    for x in range(len(nodes.offer)):
        room.servers[x].free = nodes.offer[x]
        room.servers[x].leaf = nodes.leaf[x]
    return room


@jit
def _next_leaf(room: Room, need: int) -> int:
    """The tightest leaf that has the rest, otherwise the one with the most free GPUs."""
    best, most = -1, 0
    for leaf in range(len(room.leaves)):
        free = room.leaves[leaf].free
        if free >= need and (best < 0 or free < room.leaves[best].free):
            best = leaf
        if free > room.leaves[most].free:
            most = leaf
    return best if best >= 0 else most


@jit
def over_leaves(room: Room, need: int) -> int:
    """Leaf after leaf, the fullest first, and the rest by best fit; the room is surveyed and has enough. Returns the seats written."""
    count = 0
    while need > 0:
        leaf = _next_leaf(room, need)
        take = min(need, room.leaves[leaf].free)
        count = take_in_leaf(room, leaf, take, count)
        room.leaves[leaf].free = 0
        need -= take
    return count


@jit(PLACE_SIGNATURE, allocates=True)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """On the fewest leaves that can be had now."""
    room, gpus = _offered(nodes, len(leaves.offer)), int(job.gpus)
    count = within_one_leaf(room, gpus)
    if count < 0:
        return False
    add_seats(room, count if count > 0 else over_leaves(room, gpus), out)
    return True


def make(options: Mapping[str, str]) -> Placement:
    """No options."""
    return Placement("leaf-aware", place, knows_leaves=True)
