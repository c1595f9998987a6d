"""Who uses which link in which step: recorded when a job begins to send, taken back when it stops."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.links import Links
from headway.network.sharing.routing import LINKS_PER_FLOW, paths_of, route_step


@jit
def record_uses(links: Links, j: int, order: NDArray[np.int64], steps: NDArray[Any]) -> bool:
    """Job j's steps on the GPUs in `order`, one per rank, become a chain of stages. False: the pools are full, and nothing changed."""
    job = links.jobs[j]
    job.silent = 0.0
    job.first_stage = -1
    job.first_share = -1
    room = np.empty((paths_of(links, order.size), LINKS_PER_FLOW), np.int64)
    for k in range(len(steps) - 1, -1, -1):
        paths = room[: route_step(links, j, order, steps[k], room)]
        if paths.shape[0] == 0:
            job.silent += steps[k].weight
            continue
        _count_flows(links, paths, 1)
        if not _add_stage(links, j, steps[k].weight, paths):
            _count_flows(links, paths, 0)
            forget_uses(links, j)
            return False
    return True


@jit
def _count_flows(links: Links, paths: NDArray[np.int64], one: int) -> None:
    """Count the flows on every link, or (0) clear the counts."""
    for flow in range(paths.shape[0]):
        for hop in range(LINKS_PER_FLOW):
            if paths[flow, hop] >= 0:
                on = links.directed[paths[flow, hop]]
                on.count = on.count + 1 if one else 0


@jit
def _add_stage(links: Links, j: int, weight: float, paths: NDArray[np.int64]) -> bool:
    """Record a job's uses in one step and clear the counts. False: the pools are full (nothing is lost: `forget_uses` undoes it)."""
    head, job = links.head[0], links.jobs[j]
    at = head.free_stage
    if at < 0:
        return False
    stage = links.stages[at]
    head.free_stage = stage.next
    stage.weight = weight
    stage.first_use = -1
    stage.next = job.first_stage
    job.first_stage = at
    for flow in range(paths.shape[0]):
        for hop in range(LINKS_PER_FLOW):
            link = paths[flow, hop]
            if link < 0 or links.directed[link].count == 0:
                continue
            mine = _share_of(links, j, link)
            if head.free_use < 0 or (mine < 0 and head.free_share < 0):
                return False
            if mine < 0:
                mine = _new_share(links, j, link)
            use, on = links.uses[head.free_use], links.directed[link]
            following = use.next
            use.flows = on.count
            use.link = link
            use.share = mine
            use.next = stage.first_use
            stage.first_use = head.free_use
            head.free_use = following
            on.count = 0
    return True


@jit
def _share_of(links: Links, j: int, link: int) -> int:
    """The job's share of a link, -1: none. As a rule it is the one that was looked for last."""
    on = links.directed[link]
    latest = links.shares[on.latest]
    if latest.job == j and latest.link == link:
        return on.latest
    mine = on.first_share
    while mine >= 0 and links.shares[mine].job != j:
        mine = links.shares[mine].after
    return mine


@jit
def _new_share(links: Links, j: int, link: int) -> int:
    """Put the job on the link's list."""
    head, job, on = links.head[0], links.jobs[j], links.directed[link]
    mine = head.free_share
    share = links.shares[mine]
    head.free_share = share.next
    share.job = j
    share.link = link
    share.mean = 0
    share.flows = 0
    share.next = job.first_share
    share.after = on.first_share
    share.before = -1
    if on.first_share >= 0:
        links.shares[on.first_share].before = mine
    on.first_share = mine
    on.latest = mine
    job.first_share = mine
    return mine


@jit
def search(links: Links, j: int) -> int:
    """Find the other jobs on job j's links, each once. Returns how many; `met` lists them."""
    head, job = links.head[0], links.jobs[j]
    head.stamp += 1
    job.stamp = head.stamp
    count = 0
    mine = job.first_share
    while mine >= 0:
        one = links.directed[links.shares[mine].link].first_share
        while one >= 0:
            other = links.shares[one].job
            if links.jobs[other].stamp != head.stamp:
                links.jobs[other].stamp = head.stamp
                links.jobs[count].met = other
                count += 1
            one = links.shares[one].after
        mine = links.shares[mine].next
    return count


@jit
def forget_uses(links: Links, j: int) -> None:
    """Take all uses of job j back into the pools."""
    head, job = links.head[0], links.jobs[j]
    stage = job.first_stage
    while stage >= 0:
        one = links.stages[stage]
        at = one.first_use
        while at >= 0:
            use = links.uses[at]
            following = use.next
            use.next = head.free_use
            head.free_use = at
            at = following
        after = one.next
        one.next = head.free_stage
        head.free_stage = stage
        stage = after
    mine = job.first_share
    while mine >= 0:
        mine = _drop_share(links, mine)
    job.first_stage = -1
    job.first_share = -1


@jit
def _drop_share(links: Links, mine: int) -> int:
    """Take a share off its link's list and give it back to the pool. Returns the next one of the same job."""
    head, share = links.head[0], links.shares[mine]
    on = links.directed[share.link]
    on.total -= share.mean
    if share.before >= 0:
        links.shares[share.before].after = share.after
    else:
        on.first_share = share.after
    if share.after >= 0:
        links.shares[share.after].before = share.before
    following = share.next
    share.job = -1
    share.next = head.free_share
    head.free_share = mine
    return following
