"""What sharing links costs, event by event: every job steps through its iterations, and a step takes as long as its fullest link.

A run is K iterations. An iteration computes (with the steps that stay within a leaf), then goes through its steps on the network, with
a barrier after each. While it is in a step, it advances at 1 / (flows on its fullest link now), so whoever enters or leaves a link
changes the speed of those whose fullest link it is. This is what `slowdown.py` takes the mean of (docs/results/vclos.md compares them).

Nothing of this is seen outside but the moment when a job's work is done: `run_until` goes there, or to a given time.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.order import pop, push
from headway.network.sharing.links import Links
from headway.network.sharing.uses import forget_uses

PHASE_BITS = 32
SOON = 1e-9  # of an iteration: rounding, not work


@jit
def enter(links: Links, j: int, left: float, now: float) -> None:
    """Job j, whose uses are recorded, begins or goes on with `left` seconds of work left."""
    job = links.jobs[j]
    job.left = left
    job.timed = now
    job.worst = 1.0
    job.stage = -1
    done = job.iteration * links.head[0].iterations - left
    into = max(0.0, done % job.iteration) if job.iteration > 0.0 else 0.0
    if job.iteration - into < SOON * job.iteration:
        into = 0.0
    job.rest = _seconds(links, job, -1)
    while into > job.rest:
        into -= job.rest
        job.stage = job.first_stage if job.stage < 0 else links.stages[job.stage].next
        if job.stage < 0:  # rounding: a new iteration
            into = 0.0
        job.rest = _seconds(links, job, job.stage)
    job.rest = min(job.rest - into, left)
    _change_loads(links, j, -1, job.stage, now)
    _expect_end(links, j)


@jit
def depart(links: Links, j: int, now: float) -> None:
    """Job j stops sending, wherever it is."""
    job = links.jobs[j]
    job.phases += 1
    _change_loads(links, j, job.stage, -1, now)
    job.stage = -1
    forget_uses(links, j)


@jit
def work_left(links: Links, j: int, now: float) -> float:
    """Seconds of work that job j has left."""
    job = links.jobs[j]
    return max(0.0, job.left - (now - job.timed) * job.pace / job.worst)


@jit
def set_pace(links: Links, j: int, pace: float, now: float) -> None:
    """Job j goes on at another speed, for reasons outside the network."""
    if links.jobs[j].pace != pace:
        _advance(links.jobs[j], now)
        links.jobs[j].pace = pace
        _expect_end(links, j)


@jit
def run_until(links: Links, limit: float) -> tuple[float, int]:
    """Go through all ends of phases up to a time: (that time, -1), or earlier, where a job's work is done: (then, job)."""
    head = links.head[0]
    while head.heap > 0 and links.ends[0].at <= limit:
        at, what = links.ends[0].at, links.ends[0].what
        pop(links.ends, head.heap)
        head.heap -= 1
        j = what >> PHASE_BITS
        job = links.jobs[j]
        if job.phases != (what & ((1 << PHASE_BITS) - 1)):
            continue
        job.left -= job.rest
        job.rest = 0.0
        job.timed = at
        if job.left <= SOON * job.iteration:
            job.left = 0.0
            job.phases += 1
            return at, j
        _next_phase(links, j, at)
    return limit, -1


@jit
def _seconds(links: Links, job: Any, stage: int) -> float:
    """How long a phase takes on a clean network; stage -1 is computing, and sending within leaves."""
    if stage >= 0:
        return job.iteration * job.duty * links.stages[stage].weight
    return job.iteration * (1.0 - job.duty + job.duty * job.silent)


@jit
def _next_phase(links: Links, j: int, now: float) -> None:
    job = links.jobs[j]
    old = job.stage
    job.stage = job.first_stage if old < 0 else links.stages[old].next
    job.rest = min(_seconds(links, job, job.stage), job.left)
    _change_loads(links, j, old, job.stage, now)
    _expect_end(links, j)


@jit
def _expect_end(links: Links, j: int) -> None:
    """Put the end of the job's phase on the heap, in place of any before."""
    head, job = links.head[0], links.jobs[j]
    job.phases = (job.phases + 1) & ((1 << PHASE_BITS) - 1)
    if head.heap == len(links.ends):
        _compact(links)
    push(links.ends, head.heap, job.timed + job.rest * job.worst / job.pace, (j << PHASE_BITS) | job.phases)
    head.heap += 1


@jit
def _compact(links: Links) -> None:
    n = links.head[0].heap
    links.head[0].heap = 0
    for i in range(n):
        at, what = links.ends[i].at, links.ends[i].what
        if links.jobs[what >> PHASE_BITS].phases == (what & ((1 << PHASE_BITS) - 1)):
            push(links.ends, links.head[0].heap, at, what)
            links.head[0].heap += 1
    assert links.head[0].heap < len(links.ends)


@jit
def _advance(job: Any, now: float) -> None:
    done = min((now - job.timed) * job.pace / job.worst, job.rest)
    job.rest -= done
    job.left -= done
    job.timed = now


@jit
def _change_loads(links: Links, j: int, old: int, new: int, now: float) -> None:
    """Job j goes from one stage to another (-1: none): its load, and those of all whose fullest link changes."""
    head, job, count = links.head[0], links.jobs[j], 0
    head.stamp += 1
    job.stamp = head.stamp
    if old >= 0:
        count = _count_out(links, links.stages[old].first_use, count)
    if new >= 0:
        count = _count_in(links, links.stages[new].first_use, count)
    job.worst = _fullest(links, new)
    for i in range(count):
        other = links.jobs[i].met
        worst = _fullest(links, links.jobs[other].stage)
        if worst != links.jobs[other].worst:
            _advance(links.jobs[other], now)
            links.jobs[other].worst = worst
            _expect_end(links, other)


@jit
def _count_out(links: Links, at: int, count: int) -> int:
    """Take the flows of a stage off its links, and list whose fullest link one of them was."""
    while at >= 0:
        use = links.uses[at]
        share = links.shares[use.share]
        on = links.directed[use.link]
        full = on.load / on.width
        on.load -= use.flows
        share.flows = 0
        one = on.first_share
        while one >= 0:
            other = links.shares[one]
            if other.flows > 0 and full >= links.jobs[other.job].worst:
                count = _meet(links, other.job, count)
            one = other.after
        at = use.next
    return count


@jit
def _count_in(links: Links, at: int, count: int) -> int:
    """Put the flows of a stage on its links, and list whose fullest link one of them becomes."""
    while at >= 0:
        use = links.uses[at]
        share = links.shares[use.share]
        on = links.directed[use.link]
        on.load += use.flows
        full = on.load / on.width
        one = on.first_share
        while one >= 0:
            other = links.shares[one]
            if other.flows > 0 and full > links.jobs[other.job].worst:
                count = _meet(links, other.job, count)
            one = other.after
        share.flows = use.flows
        at = use.next
    return count


@jit
def _meet(links: Links, other: int, count: int) -> int:
    if links.jobs[other].stamp == links.head[0].stamp:
        return count
    links.jobs[other].stamp = links.head[0].stamp
    links.jobs[count].met = other
    return count + 1


@jit
def _fullest(links: Links, stage: int) -> float:
    """The time of a step now, 1 on a clean network; 1 where the job is in none."""
    if stage < 0:
        return 1.0
    worst, at = links.head[0].clean, links.stages[stage].first_use
    while at >= 0:
        use = links.uses[at]
        on = links.directed[use.link]
        worst = max(worst, on.load / on.width)
        at = use.next
    return np.float64(worst)
