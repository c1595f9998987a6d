"""Circuits as a coloured graph: which optical switch carries which circuit (OCS-vClos, realisability).

Vertices are leaves and sub-spines (a spine with w fibres to each OCS counts as w sub-spines with one port per OCS). A circuit is an edge,
its OCS the edge's colour; a vertex has one port per OCS, so the colours at a vertex differ. Leaf to sub-spine edges are bipartite: by
König a K-edge-colouring exists whenever no vertex has more than K edges, and a new edge needs at most one Kempe chain to be flipped (two
colours swapped along a path). Edges that join two leaves directly may close odd cycles; then a chain can come back to its start, another
pair of colours is tried, and if none works the edge is refused.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.compiler.tables import by_address
from headway.network.fabric.model import Fabric
from headway.network.slices.bits import copy_into

BLOCKED: Final = -1

HEAD: Final = np.dtype(
    [
        ("leaves", "i8"),
        ("fibres", "i8"),  # of each spine to each OCS
        ("moved", "i8"),  # circuits of other jobs that had to move, in all
    ]
)
PORT: Final = np.dtype(
    [
        ("far", "i4"),  # the vertex at the other end; -1: free
        ("job", "i4"),  # who holds it; -1: nobody
    ]
)
# A circuit that moved: whose it is, its leaf, and the OCS and far end that it had.
MOVE: Final = np.dtype([("job", "i4"), ("leaf", "i4"), ("ocs", "i4"), ("far", "i4")])


@by_address
class Circuits(NamedTuple):
    """Which switch carries which circuit."""

    head: NDArray[Any]  # one row
    ports: NDArray[Any]  # by vertex (leaves, then sub-spines) and OCS
    moves: NDArray[Any]  # what the last job to start made move


def new_circuits(fabric: Fabric | None) -> Circuits:
    """No circuit yet; without optical switches, none ever."""
    leaves, vertices, switches, head = 0, 0, 0, np.zeros(1, HEAD)
    if fabric and fabric.ocs:
        leaves, switches = fabric.leaves, fabric.ocs.switches
        vertices = leaves + fabric.spines * fabric.ocs.spine_fibres
        head["leaves"], head["fibres"] = leaves, fabric.ocs.spine_fibres
    return Circuits(head, np.full((vertices, switches), -1, PORT), np.zeros(leaves * switches, MOVE))


def copied(circuits: Circuits) -> Circuits:
    """Circuits that can be changed without changing the original."""
    return Circuits(*(table.copy() for table in circuits))


@jit
def _chain(
    ports: NDArray[Any], start: int, first_colour: int, other_colour: int, avoid: int, out_path: NDArray[np.int64]
) -> int:
    """The path from `start` along the two colours in turn: its vertices and length, -1 if it meets `avoid`."""
    vertex, colour, length = start, first_colour, 0
    out_path[0] = start
    while True:
        following = ports[vertex, colour].far
        if following < 0:
            return length
        if following == avoid:
            return -1
        length += 1
        out_path[length] = following
        vertex = following
        colour = other_colour if colour == first_colour else first_colour


@jit
def _flip(ports: NDArray[Any], path: NDArray[np.int64], length: int, one_colour: int, other_colour: int) -> None:
    """Swap the two colours along the path."""
    for i in range(length + 1):
        one, other = ports[path[i], one_colour], ports[path[i], other_colour]
        one.far, other.far = other.far, one.far
        one.job, other.job = other.job, one.job


@jit
def _common_free(ports: NDArray[Any], one: int, other: int) -> int:
    """The lowest colour free at both ends, or BLOCKED."""
    for colour in range(ports.shape[1]):
        if ports[one, colour].far < 0 and ports[other, colour].far < 0:
            return colour
    return BLOCKED


@jit
def _shortest_flip(
    ports: NDArray[Any], leaf: int, vertex: int, path: NDArray[np.int64], best_path: NDArray[np.int64]
) -> tuple[int, int, int]:
    """The pair of colours whose chain is shortest: (edges to flip, colour free at the leaf, colour free at the spine).

    Flipping the chain from the spine's vertex frees the leaf's colour there. -1 edges: no pair works.
    """
    best, at_leaf, at_spine = -1, -1, -1
    colours = ports.shape[1]
    for free_at_leaf in range(colours):
        if ports[leaf, free_at_leaf].far >= 0:
            continue
        for free_at_spine in range(colours):
            if ports[vertex, free_at_spine].far >= 0:
                continue
            length = _chain(ports, vertex, free_at_leaf, free_at_spine, leaf, path)
            if length >= 0 and (best < 0 or length < best):
                best, at_leaf, at_spine = length, free_at_leaf, free_at_spine
                copy_into(best_path, path, length + 1)
            if best == 1:  # the colour is taken at the spine, so no chain is shorter
                return best, at_leaf, at_spine
    return best, at_leaf, at_spine


@jit
def add_edge(circuits: Circuits, leaf: int, spine: int, job: int) -> int:
    """Join a leaf to a spine, moving as few circuits as one chain does. Returns the colour (OCS), or BLOCKED: nothing has changed."""
    ports, fibres = circuits.ports, circuits.head[0].fibres
    first = circuits.head[0].leaves + spine * fibres
    for vertex in range(first, first + fibres):
        common = _common_free(ports, leaf, vertex)
        if common >= 0:
            connect(ports, leaf, vertex, common, job)
            return common
    size = ports.shape[0] + 1
    path, best_path, kept_path = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    best, colour, other, chosen = -1, -1, -1, -1
    for vertex in range(first, first + fibres):
        length, at_leaf, at_spine = _shortest_flip(ports, leaf, vertex, path, best_path)
        if length >= 0 and (best < 0 or length < best):
            best, colour, other, chosen = length, at_leaf, at_spine, vertex
            copy_into(kept_path, best_path, length + 1)
    if chosen < 0:
        return BLOCKED
    _flip(ports, kept_path, best, colour, other)
    connect(ports, leaf, chosen, colour, job)
    return colour


@jit
def connect(ports: NDArray[Any], one: int, other: int, colour: int, job: int) -> None:
    """Set up one circuit on an OCS where both ends are free."""
    ports[one, colour].far = other
    ports[other, colour].far = one
    ports[one, colour].job = job
    ports[other, colour].job = job


@jit
def block(circuits: Circuits, vertex: int) -> None:
    """No circuit ends on a leaf or sub-spine any more: its ports seem taken, by nobody."""
    for colour in range(circuits.ports.shape[1]):
        block_port(circuits, vertex, colour)


@jit
def block_port(circuits: Circuits, vertex: int, colour: int) -> None:
    """A port that failed: it seems taken, by nobody."""
    port = circuits.ports[vertex, colour]
    port.far = vertex
    port.job = -1


@jit
def remove_job(circuits: Circuits, job: int) -> int:
    """Take down all circuits of a job. Returns how many there were."""
    ends = 0
    for vertex in range(circuits.ports.shape[0]):
        for colour in range(circuits.ports.shape[1]):
            port = circuits.ports[vertex, colour]
            if port.job == job:
                port.far = -1
                port.job = -1
                ends += 1
    return ends // 2


@jit
def list_moves(before: NDArray[Any], circuits: Circuits) -> int:
    """List the circuits that no longer are where they were in `moves`, and count them. Returns how many.

    A circuit between two leaves is listed once, at its lower leaf.
    """
    count, leaves = 0, circuits.head[0].leaves
    for leaf in range(leaves):
        for colour in range(before.shape[1]):
            old, now = before[leaf, colour], circuits.ports[leaf, colour]
            if old.far < 0 or (old.far < leaves and old.far < leaf):
                continue
            if now.far != old.far or now.job != old.job:
                move = circuits.moves[count]
                move.job = old.job
                move.leaf = leaf
                move.ocs = colour
                move.far = old.far
                count += 1
    circuits.head[0].moved += count
    return count
