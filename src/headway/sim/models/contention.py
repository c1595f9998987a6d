"""Running jobs slow each other down on shared links: who begins to send, who stops, and what that does to the speed of the others.

With means (`network/sharing/slowdown.py`) an iteration takes 1 - c + c f of its time on a clean network, with c the part of it that
communicates and f the slow-down of its communication; only jobs that share a link with the one that starts or stops are looked at.
Step by step (`network/sharing/exact.py`) a job that sends has no speed: its phases say when its work is done. Without a shared network
nothing here is called.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.ledger import gpu_count
from headway.core.tables.state import State
from headway.network.fabric.model import Fabric
from headway.network.sharing.exact import depart, enter, run_until
from headway.network.sharing.links import Links, new_links
from headway.network.sharing.routing import LINKS_PER_FLOW
from headway.network.sharing.rules import Sharing
from headway.network.sharing.slowdown import join, leave
from headway.network.sharing.steps import STEP, steps_on
from headway.network.sharing.uses import record_uses
from headway.sim.models.communication import MOST_STEPS, Traffic


class Holders(NamedTuple):
    """Who holds what on the fabric: jobs on one GPU at most, and whether some jobs hold links."""

    slots: int = 1
    slices: bool = False


def shared_links(
    sharing: Sharing, fabric: Fabric, traffic: Traffic, duration_s: NDArray[np.float64], seed: int, holders: Holders
) -> Links:
    """Links without users. The pools hold what all GPUs can use at once: a flow per rank, queue pair and step."""
    hops = LINKS_PER_FLOW if fabric.cores_per_group else 2
    uses = fabric.gpus * holders.slots * hops * MOST_STEPS * sharing.queue_pairs
    links = new_links(fabric, sharing, seed, len(traffic.pattern), uses)
    links.jobs["pattern"], links.jobs["duty"] = traffic.pattern, traffic.duty
    links.jobs["iteration"] = duration_s / max(sharing.exact, 1)
    links.head["slices"] = holders.slices
    return links


@jit
def are_shared(links: Links) -> bool:
    """Whether jobs share links at all."""
    return links.head[0].rule >= 0


@jit
def in_phases(links: Links, j: int) -> bool:
    """Whether job j steps through its iterations now, so that its phases say when it ends."""
    return links.head[0].iterations > 0 and links.jobs[j].sends > 0


@jit
def next_end(links: Links, limit: float) -> tuple[float, int]:
    """The job that ends next by its phases, and when: (limit, -1) if none does before."""
    if links.head[0].iterations == 0:
        return limit, -1
    return run_until(links, limit)


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
def begin_sending(state: State, links: Links, j: int, left: float, now: float) -> int:
    """Job j begins to send, with `left` seconds of work left. How many others go at another speed for it, listed by `met`."""
    order, job, head = ranks_of(state, state.jobs[j]), links.jobs[j], links.head[0]
    if head.slices and state.jobs[j].link >= 0:
        return 0
    apart = False
    for gpu in order:
        apart |= links.gpus[gpu].leaf != links.gpus[order[0]].leaf
    if not apart:
        return 0
    steps = np.empty(MOST_STEPS, STEP)
    count = steps_on(job.pattern, order, head.server, head.ratio, steps)
    job.sends, job.chose_at = 1, head.slices_started
    if head.iterations > 0:
        recorded = record_uses(links, j, order, steps[:count])
        assert recorded
        enter(links, j, left, now)
        return 0
    others = join(links, j, order, steps[:count])
    assert others >= 0
    return others


@jit(allocates=True)
def end_sending(links: Links, j: int, now: float) -> int:
    """Job j no longer sends. How many others go at another speed for it, listed by `met`."""
    if not links.jobs[j].sends:
        return 0
    links.jobs[j].sends = 0
    if links.head[0].iterations > 0:
        depart(links, j, now)
        return 0
    return leave(links, j)


@jit
def slowed(links: Links, j: int) -> float:
    """The speed of job j among the others, 1 on a clean network and where its phases say it."""
    job = links.jobs[j]
    if not job.sends or links.head[0].iterations > 0:
        return 1.0
    return 1.0 / (1.0 + job.duty * (job.factor - 1.0))
