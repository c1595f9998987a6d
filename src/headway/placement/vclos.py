"""vclos and vclos-padded: a job gets GPUs together with links that nobody else has (vClos, stages 0 to 2).

The search is `network/slices/vclos.py` (or `padded.py`). Here it is given what is on offer, and what it chose is written down: GPUs by node
in rank order, links by leaf; `record` releases them together. When the search runs past its node budget, a solver is asked
(a mixed-integer program with a time limit), and that is counted (`undecided` of the actions).

Jobs of one size are alike: the patterns of the simulator (shifts, and XOR for powers of two) are clean on every shape that holds the size.
Models with skewed tensors are a class of their own: they get a slice on the fewest servers, or wait (network/slices/whole.py).
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numba import objmode

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_link, add_seat
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.network.slices import room as rooms
from headway.network.slices.padded import find_padded
from headway.network.slices.room import LEAF, SEAT, SERVER, Room
from headway.network.slices.vclos import NODE_BUDGET, find_slice
from headway.network.slices.whole import can_be_whole, is_whole, keep_whole, on_each
from headway.placement.profile import PACK_LIMIT


@jit(allocates=True)
def offered(nodes: Any, leaves: Any, count: int) -> Room:
    """What is on offer, as the searches take it; the first `count` rows of links are those of leaves."""
    room = Room(np.empty(len(nodes.offer), SERVER), np.empty(count, LEAF), np.empty(len(nodes.offer), SEAT))
    for x in range(len(nodes.offer)):
        room.servers[x].free = nodes.offer[x]
        room.servers[x].leaf = nodes.leaf[x]
    for x in range(count):
        room.leaves[x].links = leaves.offer[x]
    return room


@jit
def add_seats(room: Room, count: int, out: Actions) -> None:
    """Claim the first `count` seats that a search wrote."""
    for i in range(count):
        add_seat(out, room.seats[i].server, room.seats[i].gpus)


@jit
def few_servers(nodes: Any, leaves: int, fewest: Any, job: Any, options: Options) -> int:
    """The most servers for a slice of a model with skewed tensors; 0: as many as it takes."""
    if not job.skew > options.pack_limit:
        return 0
    gpus, most = np.int64(job.gpus), np.int64(fewest[job.gpus])
    return most * can_be_whole(nodes, leaves, gpus, len(fewest) - 1, on_each(gpus, most))


@cache
def _with_fallback(name: str) -> Any:
    """The placement kernel of one search. It calls back into Python only where the search was undecided."""
    find = find_padded if name == "vclos-padded" else find_slice

    def solve(servers: Any, leaves: Any, seats: Any, gpus: Any, block: Any, widest: Any) -> int:
        from headway.network.slices.fallback import solve_slice  # SciPy takes a while to import, and is rarely needed

        return solve_slice(name, Room(servers, leaves, seats), gpus, block, widest)[1]

    @jit(PLACE_SIGNATURE, allocates=True)
    def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
        room = offered(nodes, leaves, len(leaves.offer))
        gpus, most = np.int64(job.gpus), few_servers(nodes, len(leaves.offer), fewest, job, options)
        block = on_each(gpus, most)
        keep_whole(room, block)
        status, count, width, _ = find(room, gpus, block, NODE_BUDGET)
        if status == rooms.UNDECIDED:
            out.counts[0].undecided += 1
            widest = width if width > 0 else gpus
            servers, rows, seats = room.servers, room.leaves, room.seats
            with objmode(count="int64"):
                count = solve(servers, rows, seats, gpus, block, widest)
        if not is_whole(count, gpus, most):
            return False
        add_seats(room, count, out)
        for leaf in range(len(leaves.offer)):
            if count > 0 and room.leaves[leaf].taken != np.uint64(0):
                add_link(out, leaf, room.leaves[leaf].taken)
        return count > 0

    return place


def make(options: Mapping[str, str]) -> Placement:
    """Equal leaves: as many GPUs and the same links on each."""
    return Placement("vclos", _with_fallback("vclos"), pack_limit=PACK_LIMIT, needs_fabric=True)


def make_padded(options: Mapping[str, str]) -> Placement:
    """Uneven leaves, at the price of links that stay idle."""
    return Placement("vclos-padded", _with_fallback("vclos-padded"), pack_limit=PACK_LIMIT, needs_fabric=True)
