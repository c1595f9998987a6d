"""What sharing links costs: slow-downs of jobs, kept up to date as jobs come and go.

A step ends when its slowest flow does (vClos, simulation: step time = flow size x flows on its fullest link), so a job's communication
takes, against a network without other jobs and collisions, the factor
    sum over steps k of w_k * max over links l of step k of (its flows on l in k + other jobs' mean flows on l),
with w_k the step's part of the bytes. The job's flows are exact per step; others are taken at their mean over their steps, times the part
of their time they communicate, because steps of different jobs are not aligned.

`join` and `leave` work out again only the factors of jobs that share a link with the one that came or went.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.links import ONE_FLOW, Links
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step


@jit
def join(links: Links, j: int, order: NDArray[np.int64], steps: NDArray[Any]) -> int:
    """Job j begins to send `steps` from the GPUs in `order`, one per rank.

    Returns how many other jobs share links with it (listed by `met`), or -1 if the pools are too small; then nothing changed.
    """
    links.jobs[j].base = 0.0
    room = np.empty((order.size, LINKS_PER_FLOW), np.int64)
    for k in range(len(steps)):
        paths = room[: route_step(links, j, order, steps[k], room)]
        _count_flows(links, paths)
        if not _add_step(links, j, k, steps[k].weight, paths):
            _clear_loads(links, paths)
            leave(links, j)
            return -1
    refresh(links, j)
    count = _search(links, j)
    for i in range(count):
        refresh(links, links.jobs[i].met)
    return count


@jit
def _count_flows(links: Links, paths: NDArray[np.int64]) -> None:
    for flow in range(paths.shape[0]):
        for hop in range(LINKS_PER_FLOW):
            if paths[flow, hop] >= 0:
                links.directed[paths[flow, hop]].load += 1


@jit
def _clear_loads(links: Links, paths: NDArray[np.int64]) -> None:
    for flow in range(paths.shape[0]):
        for hop in range(LINKS_PER_FLOW):
            if paths[flow, hop] >= 0:
                links.directed[paths[flow, hop]].load = 0


@jit
def _add_step(links: Links, j: int, step: int, weight: float, paths: NDArray[np.int64]) -> bool:
    """Record a job's uses in one step and clear the loads. False: the pools are full (nothing is lost: `leave` undoes it)."""
    head, job = links.head[0], links.jobs[j]
    any_use = False
    for flow in range(paths.shape[0]):
        for hop in range(LINKS_PER_FLOW):
            link = paths[flow, hop]
            if link < 0 or links.directed[link].load == 0:
                continue
            mine = links.directed[link].first_share
            while mine >= 0 and links.shares[mine].job != j:
                mine = links.shares[mine].after
            at = head.free_use
            if at < 0 or (mine < 0 and head.free_share < 0):
                return False
            if mine < 0:
                mine = _new_share(links, j, link)
            use, on, share = links.uses[at], links.directed[link], links.shares[mine]
            head.free_use = use.next
            use.step = step
            use.flows = on.load
            use.share = mine
            use.weight = weight
            use.next = job.first_use
            job.first_use = at
            mean = np.int64(on.load * weight * job.duty * ONE_FLOW + 0.5)
            share.mean += mean
            on.total += mean
            on.load = 0
            any_use = True
    if not any_use:
        job.base += weight
    return True


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
    share.next = job.first_share
    share.after = on.first_share
    share.before = -1
    if on.first_share >= 0:
        links.shares[on.first_share].before = mine
    on.first_share = mine
    job.first_share = mine
    return mine


@jit
def refresh(links: Links, j: int) -> None:
    """Work out one job's factor from the totals of its links."""
    job = links.jobs[j]
    factor = job.base
    at = job.first_use
    while at >= 0:
        step, weight = links.uses[at].step, links.uses[at].weight
        worst = 0.0
        while at >= 0 and links.uses[at].step == step:
            use = links.uses[at]
            share = links.shares[use.share]
            others = links.directed[share.link].total - share.mean
            worst = max(worst, use.flows + others / ONE_FLOW)
            at = use.next
        factor += weight * worst
    job.factor = max(factor, 1.0)


@jit
def _search(links: Links, j: int) -> int:
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
def leave(links: Links, j: int) -> int:
    """Job j stops sending: take its uses back. Returns how many other jobs shared links with it, listed by `met`."""
    head, job = links.head[0], links.jobs[j]
    count = _search(links, j)
    at = job.first_use
    while at >= 0:
        use = links.uses[at]
        following = use.next
        use.next = head.free_use
        head.free_use = at
        at = following
    mine = job.first_share
    while mine >= 0:
        mine = _drop_share(links, mine)
    job.first_use = -1
    job.first_share = -1
    job.factor = 1.0
    for i in range(count):
        refresh(links, links.jobs[i].met)
    return count


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
    share.next = head.free_share
    head.free_share = mine
    return following
