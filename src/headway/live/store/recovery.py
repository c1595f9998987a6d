"""After a restart: replay the journal, take in what was accepted but not recorded, then ask the executor about jobs in the middle."""

import functools
import json

from headway.errors import BadInput
from headway.job_state import JobState
from headway.live.executors import Executor
from headway.live.jobfile.spec import JobSpec
from headway.live.records import Job
from headway.live.state import OPENED, ClusterState
from headway.live.store.journal import Journal
from headway.live.world import LiveWorld


def restore(state: ClusterState, journal: Journal, world: LiveWorld) -> None:
    """Bring the state to where the journal ends."""
    _same_cluster(state, journal)
    spec_of = functools.cache(JobSpec.model_validate_json)  # the tasks of an array share one
    sql = "SELECT jobs.id, user, text, submitted, array_id, array_index FROM jobs JOIN specs ON specs.id = spec ORDER BY jobs.id"
    for job_id, user, text, *rest in journal.query(sql):
        state.add(Job(job_id, user, spec_of(text), *rest))
    world.last_seq = state.replay(journal.each())
    # Acknowledged, but the manager died before the engine saw them.
    world.arrivals.extend(job.id for job in state.jobs.values() if state.job_state(job) == JobState.FUTURE)


def _same_cluster(state: ClusterState, journal: Journal) -> None:
    """Refuse another cluster: the journal names nodes by their numbers."""
    opened = journal.query("SELECT data FROM events WHERE kind = ? ORDER BY seq LIMIT 1", OPENED)
    if not opened:
        return
    before = json.loads(opened[0][0])
    if tuple(before["cluster"]) != state.cluster.gpus:
        layout = "+".join(f"1x{gpus}" for gpus in before["cluster"])
        raise BadInput(f"this folder belongs to a cluster of {layout} GPUs: give that cluster or another --data folder")


def adopt(state: ClusterState, executor: Executor, world: LiveWorld, now: float) -> None:
    """Watch again what runs; repeat what may not have been done; set the alarms."""
    for job in state.active_jobs():
        if state.job_state(job).has_processes:
            executor.adopt(job.id, state.attempt(job))
        if state.job_state(job) == JobState.STOPPING:
            executor.stop(job.id, state.attempt(job), *state.how_to_stop(job))
        world.set_alarms(job, now)
