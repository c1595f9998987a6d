"""Running jobs slow each other down on shared links: who begins to send, who stops, and what that does to the speed of the others.

An iteration takes 1 - c + c f of its time on a clean network, with c the part of it that communicates and f the slow-down that
`network/sharing/slowdown.py` keeps up to date; only jobs that share a link with the one that starts or stops are looked at. Without a
shared network nothing here is called.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.ledger import gpu_count
from headway.core.tables.state import State
from headway.network.fabric.model import Fabric
from headway.network.sharing.links import Links, new_links
from headway.network.sharing.routing import LINKS_PER_FLOW
from headway.network.sharing.slowdown import join, leave
from headway.network.sharing.steps import STEP, write_steps
from headway.sim.models.communication import MOST_STEPS, Traffic


def shared_links(rule: str, fabric: Fabric, traffic: Traffic, slots: int, seed: int) -> Links:
    """Links without users. The pools hold what all GPUs can use at once: one flow per rank and step."""
    hops = LINKS_PER_FLOW if fabric.cores_per_group else 2
    links = new_links(fabric, rule, seed, len(traffic.pattern), fabric.gpus * slots * hops * MOST_STEPS)
    links.jobs["pattern"], links.jobs["duty"] = traffic.pattern, traffic.duty
    return links


@jit
def are_shared(links: Links) -> bool:
    """Whether jobs share links at all."""
    return links.head[0].rule >= 0


@jit
def met(links: Links, i: int) -> int:
    """The i-th job that the last one to come or go shares links with."""
    return links.jobs[i].met


@jit(allocates=True)
def ranks_of(state: State, job: Any) -> NDArray[np.int64]:
    """The GPU of every rank: in the order in which the placement gave them, the reverse of the chain of seats."""
    gpus, count, seat = gpu_count(state), 0, job.seat
    while seat >= 0:
        count += 1
        seat = state.seats[seat].next
    order = np.empty(count, np.int64)
    seat = job.seat
    while seat >= 0:
        count -= 1
        order[count] = seat % gpus
        seat = state.seats[seat].next
    return order


@jit(allocates=True)
def begin_sending(state: State, links: Links, j: int) -> int:
    """Job j begins to send. How many others are slower for it, listed by `met`."""
    order, job = ranks_of(state, state.jobs[j]), links.jobs[j]
    apart = False
    for gpu in order:
        apart |= links.gpus[gpu].leaf != links.gpus[order[0]].leaf
    if not apart:
        return 0
    steps = np.empty(MOST_STEPS, STEP)
    count = write_steps(job.pattern, order.size, steps)
    job.sends = 1
    others = join(links, j, order, steps[:count])
    assert others >= 0
    return others


@jit(allocates=True)
def end_sending(links: Links, j: int) -> int:
    """Job j no longer sends. How many others are faster for it, listed by `met`."""
    if not links.jobs[j].sends:
        return 0
    links.jobs[j].sends = 0
    return leave(links, j)


@jit
def slowed(links: Links, j: int) -> float:
    """The speed of job j among the others, 1 on a clean network."""
    job = links.jobs[j]
    if not job.sends:
        return 1.0
    return 1.0 / (1.0 + job.duty * (job.factor - 1.0))
