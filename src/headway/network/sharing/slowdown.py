"""What sharing links costs on average: slow-downs of jobs, kept up to date as jobs come and go.

A step ends when its slowest flow does (vClos, simulation: step time = flow size x flows on its fullest link). What other jobs send at that
moment is not known, since their iterations are not aligned; the mean is taken over SNAPSHOTS moments. In each of them every job
is at some moment of its iteration: in one of its steps, as likely as the step takes time when the job is alone, or computing. The factor on
a job's communication is
    weight of its steps that use no link + weight of those that do x mean over the snapshots of max over links (its flows + others').
So the mean of the maximum, not the maximum of means (decision 0071). A job's moments follow from its hash alone: factors do not depend
on who came first, and leaving restores every number exactly.

`join` and `leave` work out again only the factors of jobs that share a link with the one that came or went.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.links import ALL, SNAPSHOTS, WHOLE, Links
from headway.network.sharing.routing import flow_hash, job_hash, mix, modulo
from headway.network.sharing.uses import forget_uses, record_uses, search


@jit
def join(links: Links, j: int, order: NDArray[np.int64], steps: NDArray[Any]) -> int:
    """Job j begins to send `steps` from the GPUs in `order`, one per rank.

    Returns how many other jobs share links with it (listed by `met`), or -1 if the pools are too small; then nothing changed.
    """
    if not record_uses(links, j, order, steps):
        return -1
    _spread_over_snapshots(links, j)
    _add_to_crowd(links, j, 1)
    refresh(links, j, ALL)
    count = search(links, j)
    for i in range(count):
        refresh(links, links.jobs[i].met, links.jobs[j].on)
    return count


@jit
def leave(links: Links, j: int) -> int:
    """Job j stops sending. Returns how many other jobs shared links with it, listed by `met`."""
    count = search(links, j)
    _add_to_crowd(links, j, -1)
    forget_uses(links, j)
    links.jobs[j].factor = 1.0
    for i in range(count):
        refresh(links, links.jobs[i].met, links.jobs[j].on)
    return count


@jit
def _snapshot(order: np.uint64, moment: int) -> int:
    """The snapshot of a job's moment: a permutation of its own (odd multiples and an offset, modulo a power of two)."""
    odd = order | np.uint64(1)
    place = odd * np.uint64(moment) + (order >> np.uint64(8))
    return modulo(place, SNAPSHOTS)


@jit
def _unit(word: np.uint64) -> float:
    """A hash as a number from 0 to 1."""
    return float(np.int64(word >> np.uint64(40))) / 16777216.0


@jit
def _spread_over_snapshots(links: Links, j: int) -> None:
    """Give every snapshot one of the job's steps, in proportion to their weights, and say in which of them it sends.

    It sends in a snapshot with the chance that it is in that step when it is alone: its collisions with itself make it longer.
    """
    job, sending = links.jobs[j], 1.0 - links.jobs[j].silent
    job.order = flow_hash(job_hash(links.head[0].seed, j), -2, -2)
    shift, reached, given = _unit(mix(job.order)), 0.0, 0
    alone = np.ones(SNAPSHOTS)
    at = job.first_stage
    while at >= 0:
        stage = links.stages[at]
        reached += stage.weight / sending
        stage.first = given
        while given < SNAPSHOTS and (given + shift < reached * SNAPSHOTS or stage.next < 0):
            given += 1
        stage.count = given - stage.first
        load = _alone(links, stage.first_use)
        for moment in range(stage.first, given):
            alone[_snapshot(job.order, moment)] = load
        _add_times(links, stage, stage.weight * load * job.duty)
        at = stage.next
    length = 1.0 - job.duty + job.duty * (job.silent + sending * alone.mean())
    again, job.on = mix(mix(job.order)), np.uint64(0)
    late = _unit(mix(again))
    for moment in range(SNAPSHOTS):
        r = _snapshot(again, moment)
        if moment + late < SNAPSHOTS * job.duty * sending * alone[r] / length:
            job.on |= np.uint64(1) << np.uint64(r)
    mine = job.first_share
    while mine >= 0:
        share = links.shares[mine]
        share.mean = np.int64(share.mean / length)
        links.directed[share.link].total += share.mean
        mine = share.next


@jit
def _alone(links: Links, at: int) -> float:
    """The time of one step when the job is alone."""
    worst = links.head[0].clean
    while at >= 0:
        use = links.uses[at]
        worst = max(worst, use.flows / links.directed[use.link].width)
        at = use.next
    return worst


@jit
def _add_times(links: Links, stage: Any, time: float) -> None:
    """Note on every link of a step how long the step takes."""
    at = stage.first_use
    while at >= 0:
        use = links.uses[at]
        links.shares[use.share].mean += np.int64(time * WHOLE)
        at = use.next


@jit
def _add_to_crowd(links: Links, j: int, sign: int) -> None:
    """Add what job j sends in every snapshot, or take it away."""
    job = links.jobs[j]
    at = job.first_stage
    while at >= 0:
        stage = links.stages[at]
        for moment in range(stage.first, stage.first + stage.count):
            r = _snapshot(job.order, moment)
            if (job.on >> np.uint64(r)) & np.uint64(1):
                use = stage.first_use
                while use >= 0:
                    one = links.uses[use]
                    links.crowd[one.link, r] += sign * one.flows
                    use = one.next
        at = stage.next


@jit
def refresh(links: Links, j: int, changed: np.uint64) -> None:
    """Work out one job's factor among all others, who changed in these snapshots (as bits)."""
    job, at = links.jobs[j], links.jobs[j].first_stage
    if at < 0:  # nothing leaves a leaf
        job.factor = 1.0
        return
    if links.head[0].interleaved:
        _refresh_in_turns(links, j)
        return
    while at >= 0:
        stage = links.stages[at]
        for moment in range(stage.first, stage.first + stage.count):
            r = _snapshot(job.order, moment)
            if (changed >> np.uint64(r)) & np.uint64(1):
                links.worst[j, r] = _worst_in(links, stage.first_use, r, (job.on >> np.uint64(r)) & np.uint64(1))
        at = stage.next
    total = 0.0
    for r in range(SNAPSHOTS):
        total += links.worst[j, r]
    job.factor = job.silent + (1.0 - job.silent) * total / SNAPSHOTS


@jit
def _worst_in(links: Links, at: int, r: int, counted: np.uint64) -> float:
    """The time of a step in one snapshot; `counted`: the crowd has the job's own flows already."""
    worst = links.head[0].clean
    while at >= 0:
        use = links.uses[at]
        flows = links.crowd[use.link, r] + (0 if counted else use.flows)
        worst = max(worst, flows / links.directed[use.link].width)
        at = use.next
    return worst


@jit
def _refresh_in_turns(links: Links, j: int) -> None:
    """The factor where jobs take turns on a link: their own collisions, and waiting where all turns take longer than there is time."""
    job = links.jobs[j]
    factor, at = job.silent, job.first_stage
    while at >= 0:
        stage, worst = links.stages[at], links.head[0].clean
        use = stage.first_use
        while use >= 0:
            one = links.uses[use]
            on = links.directed[one.link]
            worst = max(worst, one.flows / on.width * max(1.0, on.total / WHOLE))
            use = one.next
        factor += stage.weight * worst
        at = stage.next
    job.factor = factor
