"""The cluster and its queue at one time, read from the state at once, under the manager's lock."""

import heapq
from collections import Counter
from dataclasses import dataclass

from headway.live.queries.answers import HIDDEN, GpuNode, Overview
from headway.live.queries.lists.listed import ON_GPUS, in_queue
from headway.live.queries.reservations import Sees
from headway.live.queries.views import counts
from headway.live.state.cluster import ClusterState

FIRST_WAITING = 20


@dataclass(frozen=True, slots=True)
class About:
    """What the state does not know of itself."""

    policy: str
    placement: str
    trouble: str
    last_event: int


def overview(state: ClusterState, now: float, sees: Sees, about: About) -> Overview:
    """Return the content of the first page of the dashboard."""
    seen = in_queue(state, now, sees)
    with_gpus = [i for i, job_state in enumerate(seen.states) if job_state in ON_GPUS]
    waits = [i for i, job_state in enumerate(seen.states) if job_state not in ON_GPUS]
    last = len(seen.jobs) + 1
    first = heapq.nsmallest(FIRST_WAITING, waits, key=lambda i: seen.positions[i] or last)
    nodes = state.tables.nodes
    return Overview(
        now=now,
        last_event=about.last_event,
        policy=about.policy,
        placement=about.placement,
        cluster=state.cluster.name,
        trouble=about.trouble,
        gpus=state.cluster.total,
        gpus_busy=int(nodes["gpus"].sum() - nodes["free"].sum()),
        counts=counts(state),
        nodes=gpu_nodes(state, {job.id for job in seen.jobs}),
        jobs=tuple(seen.views(with_gpus)),
        waiting=tuple(seen.views(first)),
        reasons=dict(Counter(seen.reason(i) or "gpus" for i in waits).most_common()),
        longest_wait_s=max((now - seen.jobs[i].submitted for i in waits if seen.jobs[i].started is None), default=0.0),
    )


def gpu_nodes(state: ClusterState, seen: set[int]) -> tuple[GpuNode, ...]:
    """Return every node, with the jobs on each of its GPUs; 0 stands for jobs that the caller may not see."""
    holders: list[list[int]] = [[] for _ in range(state.cluster.total)]
    for job in (state.jobs[number] for number in sorted(state.active)):
        for gpu in job.seats:
            holders[gpu].append(job.id if job.id in seen else HIDDEN)
    # GPUs of a shared cluster that others use have no job of ours, and are not free.
    nodes, result = state.tables.nodes, []
    for node, name in enumerate(state.cluster.nodes):
        base, size = int(nodes["base"][node]), int(nodes["gpus"][node])
        here = [tuple(holder) for holder in holders[base : base + size]]
        others = size - int(nodes["free"][node]) - sum(map(bool, here))
        for gpu in reversed(range(size)):
            if others > 0 and not here[gpu]:
                here[gpu], others = (HIDDEN,), others - 1
        word = "open" if not nodes["closed"][node] else "draining" if any(here) else "drained"
        result.append(GpuNode(name, word, tuple(here)))
    return tuple(result)
