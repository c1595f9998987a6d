"""Circuits of simulated jobs under ocs-vclos: set up when a job starts, taken down when it leaves, counted when others have to move.

What a job reserved (fibres of leaves, ports of spines; placement/ocs_vclos.py) says which leaf is joined to which spine how often; the
colouring (network/slices/colouring.py) finds a switch for every circuit. An owner whose circuit moves makes no headway meanwhile.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.tables.state import State
from headway.network.slices.bits import popcount
from headway.network.slices.colouring import Circuits, add_edge, list_moves, remove_job

SWITCHING_S: Final = 0.03  # optical switches take 10 to 50 ms (OCS-vClos); each moved circuit is charged the middle


@jit
def can_rewire(circuits: Circuits) -> bool:
    """Whether there are optical switches at all."""
    return circuits.head[0].leaves > 0


@jit(allocates=True)
def _reserved(state: State, head: Any, vertices: int, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Fibres by leaf and ports by spine that job j reserved, and how many fibres in all."""
    leaves = np.zeros(head.leaves, np.int64)
    spines = np.zeros((vertices - head.leaves) // head.fibres, np.int64)
    total, entry = 0, state.jobs[j].link
    while entry >= 0:
        held = state.held_links[entry]
        if held.leaf < head.leaves:
            leaves[held.leaf] += popcount(held.mask)
            total += popcount(held.mask)
        else:
            spines[(held.leaf - head.leaves) // head.fibres] += popcount(held.mask)
        entry = held.next
    return leaves, spines, total


@jit(allocates=True)
def set_up(state: State, circuits: Circuits, j: int) -> int:
    """Join the leaves and spines that job j reserved. How many circuits of others moved, listed in `moves`."""
    leaves, spines, total = _reserved(state, circuits.head[0], circuits.ports.shape[0], j)
    if total == 0:
        return 0
    before = circuits.ports.copy()
    for leaf in range(leaves.size):
        for spine in range(spines.size):
            # Every class of ranks ends on one spine (network/slices/circuits.py): a leaf's circuits are in the proportion of the ports.
            for _ in range(leaves[leaf] * spines[spine] // total):
                colour = add_edge(circuits, leaf, spine, j)
                assert colour >= 0  # König: leaf and spine have a port left, and the graph is bipartite
    return list_moves(before, circuits)


@jit(allocates=True)
def take_down(circuits: Circuits, j: int) -> int:
    """Free every circuit of job j."""
    return remove_job(circuits, j)
