"""Steps before the first round: the manager opens on its cluster, and takes over the jobs of the manager before it."""

from collections.abc import Collection
from typing import Any

from headway.cluster.nodes import Cluster
from headway.core.engine import Event
from headway.core.events import PROMISE
from headway.job_state import JobState
from headway.live.manager.lifecycle import alarms, block, stop, stop_attempt, unblock
from headway.live.manager.steps import AdoptAttempt, Note, NotifyAttempt, Steps
from headway.live.rows import OPENED, REQUEUE, Blocker
from headway.live.state.cluster import ClusterState
from headway.live.state.demands import lacks_nodes
from headway.live.state.turnover import on_lost_gpus


def opened(state: ClusterState, cluster: Cluster, about: dict[str, Any], numbered: bool) -> Steps:
    """Open on a cluster. If its nodes have changed, stop jobs on nodes that are gone first, and release jobs that fit again."""
    if not cluster.same_nodes(state.cluster):
        yield from _leave_lost_gpus(state, cluster, numbered)
    data = {"cluster": list(cluster.gpus), "nodes": list(cluster.nodes), "name": cluster.name, "numbered": numbered}
    kinds = {"types": list(cluster.types), "features": [list(names) for names in cluster.features]}
    yield Note(OPENED, data={**data, **{name: values for name, values in kinds.items() if values}, **about})
    for job in state.active_jobs():
        if job.blockers & Blocker.NODE_DOWN and not lacks_nodes(job.spec, cluster):
            yield from unblock(state, job, Blocker.NODE_DOWN)


def _leave_lost_gpus(state: ClusterState, cluster: Cluster, numbered: bool) -> Steps:
    """Stop jobs on GPUs that the new cluster lacks, withdraw promises, and block jobs that are too large for it."""
    for job in on_lost_gpus(state, cluster, numbered):
        if state.job_state(job) != JobState.STOPPING:
            yield from stop(state, job, REQUEUE)
    for job in state.active_jobs():
        if state.tables.jobs["promise"][job.row] >= 0:
            yield Event(PROMISE, job.row)
        if lacks_nodes(job.spec, cluster) and not job.blockers & Blocker.NODE_DOWN and job.known:
            yield from block(state, job, Blocker.NODE_DOWN)


def adopted(state: ClusterState, now: float, except_jobs: Collection[int]) -> Steps:
    """Watch running attempts, repeat stops and notices that may not have been sent, and set alarms."""
    for job in state.active_jobs():
        if job.id in except_jobs:
            continue
        present = state.job_state(job)
        if present.has_processes:
            yield AdoptAttempt(job.id, state.attempt(job))
        if present == JobState.STOPPING:
            yield stop_attempt(state, job)
        elif present.has_processes:  # a notice may not have been written or removed
            yield NotifyAttempt(job.id, state.attempt(job), float(state.tables.jobs["until"][job.row]))
        yield from alarms(state, job, now)
