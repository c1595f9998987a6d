"""Circuits of simulated jobs under ocs-vclos: set up when a job starts, taken down when it leaves, counted when others have to move.

What a job reserved (fibres of leaves, ports of spines; placement/ocs_vclos.py) says which leaf is joined to which spine how often; the
colouring (network/colouring.py) finds a switch for every circuit. An owner whose circuit moves makes no headway meanwhile.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.tables.state import State
from headway.network.fabric.model import Fabric
from headway.network.slices.bits import popcount
from headway.network.slices.colouring import add_edge, moved, remove_job

SWITCHING_S: Final = 0.03  # optical switches take 10 to 50 ms (OCS-vClos); each moved circuit is charged the middle
# Positions in Circuits.tally: leaves, fibres of a spine to each switch; jobs with circuits, circuits moved, jobs that moved any.
LEAVES, FIBRES, ADMITTED, MOVED, MOVING = range(5)


class Circuits(NamedTuple):
    """Which switch carries which circuit: `ends[0]` is the partner and `ends[1]` the owner of network/colouring.py."""

    ends: NDArray[np.int64]
    moves: NDArray[np.int64]  # what the last job to start made move: owner, leaf, old switch, old end
    tally: NDArray[np.int64]


def new_circuits(fabric: Fabric | None) -> Circuits:
    """No circuit yet; without optical switches, none ever."""
    ocs = fabric.ocs if fabric else None
    if fabric is None or ocs is None:
        return Circuits(np.full((2, 0, 0), -1, np.int64), np.zeros((0, 4), np.int64), np.zeros(5, np.int64))
    rows = fabric.leaves + fabric.spines * ocs.spine_fibres
    ends = np.full((2, rows, ocs.switches), -1, np.int64)
    moves = np.zeros((fabric.leaves * ocs.switches, 4), np.int64)
    return Circuits(ends, moves, np.array([fabric.leaves, ocs.spine_fibres, 0, 0, 0], np.int64))


@jit(allocates=True)
def _reserved(state: State, circuits: Circuits, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Fibres by leaf and ports by spine that job j reserved, and how many fibres in all."""
    below, fibres = circuits.tally[LEAVES], circuits.tally[FIBRES]
    leaves = np.zeros(below, np.int64)
    spines = np.zeros((circuits.ends.shape[1] - below) // fibres, np.int64)
    total, entry = 0, state.jobs[j].link
    while entry >= 0:
        held = state.held_links[entry]
        if held.leaf < below:
            leaves[held.leaf] += popcount(held.mask)
            total += popcount(held.mask)
        else:
            spines[(held.leaf - below) // fibres] += popcount(held.mask)
        entry = held.next
    return leaves, spines, total


@jit(allocates=True)
def set_up(state: State, circuits: Circuits, j: int) -> int:
    """Join the leaves and spines that job j reserved. How many circuits of others moved, listed in `moves`."""
    leaves, spines, total = _reserved(state, circuits, j)
    if total == 0:
        return 0
    partner, owner = circuits.ends[0], circuits.ends[1]
    old_partner, old_owner = partner.copy(), owner.copy()
    for leaf in range(leaves.size):
        for spine in range(spines.size):
            # Every class of ranks ends on one spine (network/circuits.py): a leaf's circuits are in the proportion of the ports.
            for _ in range(leaves[leaf] * spines[spine] // total):
                first = circuits.tally[LEAVES] + spine * circuits.tally[FIBRES]
                colour = add_edge(partner, owner, leaf, first, circuits.tally[FIBRES], j)
                assert colour >= 0  # König: leaf and spine have a port left, and the graph is bipartite
    count = moved(old_partner, old_owner, partner, owner, leaves.size, circuits.moves)
    circuits.tally[ADMITTED] += 1
    circuits.tally[MOVED] += count
    circuits.tally[MOVING] += count > 0
    return count


@jit(allocates=True)
def take_down(circuits: Circuits, j: int) -> int:
    """Free every circuit of job j."""
    return remove_job(circuits.ends[0], circuits.ends[1], j)
