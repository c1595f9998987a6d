"""After a restart: replay the journal, take in what was accepted but not recorded, then ask the executor about jobs in the middle."""

from headway.core.tables.jobs import FUTURE, RUNNING, STARTING, STOPPING
from headway.errors import BadInput
from headway.live.executors import Executor
from headway.live.jobfile.spec import JobSpec
from headway.live.state import OPENED, Book
from headway.live.store.journal import Journal
from headway.live.world import LiveWorld


def restore(book: Book, journal: Journal, world: LiveWorld) -> None:
    """Bring the book to where the journal ends."""
    _same_cluster(book, journal)
    specs: dict[int, JobSpec] = {}
    for job_id, user, submitted, spec_id, text, array_id, index in journal.query(
        "SELECT jobs.id, user, submitted, spec, text, array_id, array_index FROM jobs JOIN specs ON specs.id = spec ORDER BY jobs.id"
    ):
        if spec_id not in specs:
            specs[spec_id] = JobSpec.model_validate_json(text)
        book.add(job_id, user, submitted, specs[spec_id], array_id, index)
    world.last_seq = book.replay(journal.each())
    # Acknowledged, but the manager died before the engine saw them.
    world.arrivals.extend(job.id for job in book.jobs.values() if book.engine_state(job) == FUTURE)


def _same_cluster(book: Book, journal: Journal) -> None:
    """Places in the journal are numbers of nodes: they mean nothing on another cluster."""
    opened = journal.query("SELECT data FROM events WHERE kind = ? ORDER BY seq LIMIT 1", OPENED)
    if not opened:
        return
    import json

    before = json.loads(opened[0][0])
    if tuple(before["cluster"]) != book.cluster.gpus:
        layout = "+".join(f"1x{gpus}" for gpus in before["cluster"])
        raise BadInput(
            f"this data folder belongs to a cluster of {layout} GPUs: give that cluster, or another --data folder"
        )


def adopt(book: Book, executor: Executor, world: LiveWorld, now: float) -> None:
    """Watch again what runs; repeat what may not have been done; set the alarms."""
    for job_id in sorted(book.active):
        job = book.jobs[job_id]
        state = book.engine_state(job)
        if state in (STARTING, RUNNING, STOPPING):
            executor.adopt(job.id, book.attempt(job))
        if state == STOPPING:
            how = job.spec.preemption
            executor.stop(job.id, book.attempt(job), how.signal, how.grace)
        world.set_alarms(job, now)
