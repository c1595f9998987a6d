"""Changes of whole tables: ended jobs are removed or restored, and the cluster may have changed between two managers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster, cluster_of
from headway.core.operations import readmit
from headway.core.tables.reseat import GONE, on_other_nodes
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job
from headway.live.state.retired import Archived


def retire(state: ClusterState, keep: int) -> None:
    """Remove ended jobs from the tables, except the last `keep`."""
    for job_id in list(state.finished)[: max(0, len(state.finished) - keep)]:
        del state.finished[job_id]
        state.past.retire(state.jobs[job_id])  # first, so that `knows` is true all the time
        job = state.jobs.pop(job_id)
        state.demands.forget([job.spec])
        state.dependants.pop(job_id, None)
        if job.array_id is not None:
            array = state.arrays[job.array_id]
            array.kept -= 1
            if not array.kept:
                state.past.arrays[job.array_id] = len(state.arrays.pop(job.array_id).tasks)
    state.by_row = list(state.jobs.values())
    state.engine.retire(np.array([job.row for job in state.by_row], np.int64))
    for row, job in enumerate(state.by_row):
        job.row = row


def recall(state: ClusterState, archived: Archived) -> None:
    """Add a retired job to the tables, as it was when it ended."""
    job = archived.job
    state.add(job)
    state.past.recall(job)
    readmit(state.tables, job.row, archived.row, archived.receipt)
    state.count(job, False)
    state.finished[job.id] = None


# ---- another cluster


def cluster_in(data: dict[str, Any]) -> Cluster:
    """Return the cluster of an Opened row."""
    return cluster_of({**data, "gpus": data["cluster"]})


def moved_gpus(before: Cluster, after: Cluster, numbered: bool) -> NDArray[np.int64]:
    """Return the new number of every GPU, or GONE. `numbered`: GPUs keep their numbers; otherwise their node and their place on it."""
    old = np.arange(before.total)
    if numbered:
        return np.where(old < after.total, old, GONE)
    first = dict(zip(after.nodes, np.cumsum((0, *after.gpus[:-1])).tolist(), strict=True))
    size = dict(zip(after.nodes, after.gpus, strict=True))
    moved = [
        first[node] + i if i < size.get(node, 0) else GONE
        for node, gpus in zip(before.nodes, before.gpus, strict=True)
        for i in range(gpus)
    ]
    return np.array(moved, np.int64)


def on_lost_gpus(state: ClusterState, after: Cluster, numbered: bool) -> list[Job]:
    """Return the jobs that hold GPUs which cluster `after` lacks."""
    moved = moved_gpus(state.cluster, after, numbered)
    return [job for job in state.active_jobs() if any(moved[gpu] == GONE for gpu in job.seats)]


def move(state: ClusterState, after: Cluster, numbered: bool, now: float) -> None:
    """Move the tables to another cluster; jobs keep the GPUs that remain."""
    before = state.cluster
    if before.same_nodes(after):
        return
    if (before.nodes, before.gpus) == (after.nodes, after.gpus):
        state.cluster = after
        state.demands.move(after)
        return
    moved = moved_gpus(before, after, numbered)
    state.engine.move(on_other_nodes(state.tables, np.array(after.gpus), moved))
    state.demands.move(after)
    state.teams.book(after.nodes, now)
    node_of = np.repeat(np.arange(len(after.nodes)), after.gpus)
    for job in state.active_jobs():
        job.seats = tuple(int(moved[gpu]) for gpu in job.seats if moved[gpu] != GONE)
        nodes = [int(node_of[gpu]) for gpu in job.seats]
        job.places = tuple((node, nodes.count(node)) for node in dict.fromkeys(nodes))
    state.cluster = after
