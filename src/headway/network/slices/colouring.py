"""Circuits as a coloured graph: which optical switch carries which circuit (OCS-vClos, realisability).

Vertices are leaves and sub-spines (a spine with w fibres to each OCS counts as w sub-spines with one port per OCS).
A circuit is an edge, its OCS the edge's colour; a vertex has one port per OCS, so the colours at a vertex differ. Leaf
to sub-spine edges are bipartite: by König a K-edge-colouring exists whenever no vertex has more than K edges, and a
new edge needs at most one Kempe chain to be flipped (two colours swapped along a path). Edges that join two leaves
directly may close odd cycles; then a chain can come back to its start, another pair of colours is tried, and if none
works the edge is refused and told apart.

`partner[vertex, ocs]` is the vertex at the other end (-1: free), `owner[vertex, ocs]` the job that holds it (-1: none).
"""

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.bits import copy_into

BLOCKED = -1


@jit
def _chain(partner, start, first_colour, other_colour, avoid, out_path):  # type: ignore[no-untyped-def]
    """The path from `start` along the two colours in turn: its vertices and length, -1 if it meets `avoid`."""
    vertex, colour, length = start, first_colour, 0
    out_path[0] = start
    while True:
        following = partner[vertex, colour]
        if following < 0:
            return length
        if following == avoid:
            return -1
        length += 1
        out_path[length] = following
        vertex = following
        colour = other_colour if colour == first_colour else first_colour


@jit
def _flip(partner, owner, path, length, first_colour, other_colour):  # type: ignore[no-untyped-def]
    """Swap the two colours along the path, whose edges alternate starting with `first_colour`."""
    for i in range(length + 1):
        vertex = path[i]
        partner[vertex, first_colour], partner[vertex, other_colour] = (
            partner[vertex, other_colour],
            partner[vertex, first_colour],
        )
        owner[vertex, first_colour], owner[vertex, other_colour] = (
            owner[vertex, other_colour],
            owner[vertex, first_colour],
        )


@jit
def _common_free(partner, one, other):  # type: ignore[no-untyped-def]
    """The lowest colour free at both ends, or -1."""
    for colour in range(partner.shape[1]):
        if partner[one, colour] < 0 and partner[other, colour] < 0:
            return colour
    return BLOCKED


@jit
def shortest_flip(partner, leaf, spine_vertex, path, best_path):  # type: ignore[no-untyped-def]
    """The pair of colours whose chain is shortest: (edges to flip, colour free at the leaf, colour free at the spine).

    Flipping the chain from the spine frees the leaf's colour there. -1 edges: no pair works.
    """
    best, at_leaf, at_spine = -1, -1, -1
    colours = partner.shape[1]
    for free_at_leaf in range(colours):
        if partner[leaf, free_at_leaf] >= 0:
            continue
        for free_at_spine in range(colours):
            if partner[spine_vertex, free_at_spine] >= 0:
                continue
            length = _chain(partner, spine_vertex, free_at_leaf, free_at_spine, leaf, path)
            if length >= 0 and (best < 0 or length < best):
                best, at_leaf, at_spine = length, free_at_leaf, free_at_spine
                copy_into(best_path, path, length + 1)
            if best == 1:  # the colour is taken at the spine, so no chain is shorter
                return best, at_leaf, at_spine
    return best, at_leaf, at_spine


@jit
def add_edge(partner, owner, leaf, first_sub, subs, job):  # type: ignore[no-untyped-def]
    """Join a leaf to one of the `subs` sub-spines from vertex `first_sub` on, moving as few circuits as one chain does.

    Returns the colour (OCS), or BLOCKED; then nothing has changed.
    """
    path = np.empty(partner.shape[0] + 1, np.int64)
    best_path = np.empty(partner.shape[0] + 1, np.int64)
    kept_path = np.empty(partner.shape[0] + 1, np.int64)
    best, colour, other, chosen = -1, -1, -1, -1
    for vertex in range(first_sub, first_sub + subs):
        common = _common_free(partner, leaf, vertex)
        if common >= 0:
            connect(partner, owner, leaf, vertex, common, job)
            return common
    for vertex in range(first_sub, first_sub + subs):
        length, at_leaf, at_spine = shortest_flip(partner, leaf, vertex, path, best_path)
        if length >= 0 and (best < 0 or length < best):
            best, colour, other, chosen = length, at_leaf, at_spine, vertex
            copy_into(kept_path, best_path, length + 1)
    if chosen < 0:
        return BLOCKED
    _flip(partner, owner, kept_path, best, colour, other)
    connect(partner, owner, leaf, chosen, colour, job)
    return colour


@jit
def connect(partner, owner, one, other, colour, job):  # type: ignore[no-untyped-def]
    """Set up one circuit on an OCS where both ends are free."""
    partner[one, colour] = other
    partner[other, colour] = one
    owner[one, colour] = job
    owner[other, colour] = job


@jit
def remove_job(partner, owner, job):  # type: ignore[no-untyped-def]
    """Take down all circuits of a job. Returns how many there were."""
    ends = 0
    for vertex in range(partner.shape[0]):
        for colour in range(partner.shape[1]):
            if owner[vertex, colour] == job:
                partner[vertex, colour] = -1
                owner[vertex, colour] = -1
                ends += 1
    return ends // 2


@jit
def moved(before_partner, before_owner, partner, owner, leaves, out_moved):  # type: ignore[no-untyped-def]
    """Circuits of earlier jobs that no longer are where they were: rows (job, leaf, old OCS, old far end).

    A circuit between two leaves is listed once, at its lower leaf. Returns how many.
    """
    count = 0
    for leaf in range(leaves):
        for colour in range(partner.shape[1]):
            far = before_partner[leaf, colour]
            if far < 0 or (far < leaves and far < leaf):
                continue
            if partner[leaf, colour] != far or owner[leaf, colour] != before_owner[leaf, colour]:
                out_moved[count, 0] = before_owner[leaf, colour]
                out_moved[count, 1] = leaf
                out_moved[count, 2] = colour
                out_moved[count, 3] = far
                count += 1
    return count
