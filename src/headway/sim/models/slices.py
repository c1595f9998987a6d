"""Slices beside shared links, on one fabric: a slice has its links alone, and the flows of other jobs avoid them.

When a slice takes links, the jobs that sent over them choose again, as when a link fails. When it gives them back, no flow is rerouted:
the next job that begins to send may take them. After failures, slices can hold all working links between two leaves. Other jobs then send
over held links; the model does not slow the slice down for that.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.state import State
from headway.network.sharing.links import Links


@jit
def open_links(state: State, links: Links) -> None:
    """Flows that choose their links from now on choose among those that nobody holds."""
    for leaf in range(len(state.leaves)):
        row, free = links.leaves[leaf], state.leaves[leaf].free
        if row.alive == free:
            continue
        row.alive = free
        row.left = 0
        for up in range(links.head[0].uplinks):
            row.left += np.int64((free >> np.uint64(up)) & np.uint64(1))


@jit
def first_on_held(links: Links, chose_before: int) -> int:
    """Return a job that sends over a link which another job holds, or -1. Only jobs with `chose_at` below `chose_before` count."""
    head = links.head[0]
    for leaf in range(head.leaves if head.slices else 0):
        if links.leaves[leaf].left == head.uplinks:
            continue
        for up in range(head.uplinks):
            if (links.leaves[leaf].alive >> np.uint64(up)) & np.uint64(1):
                continue
            cable = leaf * head.uplinks + up
            for link in range(2 * cable, 2 * cable + 2):
                share = links.directed[link].first_share
                while share >= 0:
                    j = links.shares[share].job
                    if links.jobs[j].chose_at < chose_before:
                        return j
                    share = links.shares[share].after
    return -1


@jit
def spans_leaves(state: State, job: Any) -> bool:
    """Whether the job is below more than one leaf."""
    seat, apart = job.seat, False
    while seat >= 0:
        apart |= state.nodes[state.seats[seat].node].leaf != state.nodes[state.seats[job.seat].node].leaf
        seat = state.seats[seat].next
    return apart
