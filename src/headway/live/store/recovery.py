"""After a restart: load the last snapshot, replay the journal since then, then ask the executor about jobs in the middle."""

import functools
import json
import zlib
from collections.abc import Callable

from headway.errors import BadInput
from headway.job_state import JobState
from headway.live.executors import Executor
from headway.live.jobfile.spec import JobSpec
from headway.live.records import Job
from headway.live.state import OPENED, ClusterState
from headway.live.store import snapshot_table
from headway.live.store.archive import finished_row
from headway.live.store.history import insert_finished
from headway.live.store.journal import PAGE, Journal
from headway.live.store.snapshot import load, setting
from headway.live.world import LiveWorld


def restore(fresh: Callable[[], ClusterState], journal: Journal) -> tuple[ClusterState, int, list[str]]:
    """The state at the end of the journal, the row of the snapshot that it was read from (0: none), and what to tell the operator."""
    state, seq, last_job, notes = _from_snapshot(fresh, journal)
    if not seq:
        _same_cluster(state, journal)
    state.replay(journal.each(seq), _Submissions(state, journal, last_job).add_up_to)
    if not seq:
        write_finished(state, journal)
    return state, seq, notes


def _from_snapshot(fresh: Callable[[], ClusterState], journal: Journal) -> tuple[ClusterState, int, int, list[str]]:
    """A state by the newest snapshot that can be used, or an empty one."""
    notes, wanted = [], setting(fresh())
    for seq, made in journal.read(snapshot_table.stored):
        state = fresh()
        if made is not None and made.setting != wanted:
            notes.append(f"{_differs(made.setting, wanted)}: the snapshot is not used, and the whole journal is read")
            break
        try:
            if made is not None:
                return state, seq, load(state, made), notes
        except (ValueError, KeyError, TypeError, IndexError, OSError, zlib.error):
            pass
        notes.append(
            f"the snapshot at row {seq} of {journal.path.name} is damaged: more of the journal is read instead"
        )
    return fresh(), 0, 0, notes


def _differs(made: str, wanted: str) -> str:
    """In which way another setting differs."""
    before, now = json.loads(made), json.loads(wanted)
    for name, words in (
        ("policy", "another policy"),
        ("placement", "another placement"),
        ("min_runtimes", "another --min-runtime"),
    ):
        if before.get(name) != now[name]:
            return f"the last manager ran with {words} ({before.get(name)})"
    return "the last manager was of another version"


def write_finished(state: ClusterState, journal: Journal) -> None:
    """Write the rows of finished jobs that an earlier version did not write, before they leave the memory."""
    written = {number for (number,) in journal.query("SELECT job FROM finished")}
    missing = [state.jobs[number] for number in state.finished if number not in written]
    for begin in range(0, len(missing), PAGE):
        rows = [finished_row(state, job, job.ended or 0.0) for job in missing[begin : begin + PAGE]]
        journal.commit(functools.partial(insert_finished, rows=rows))


class _Submissions:
    """What was accepted, taken in as the journal gets to it: so a job has the row that it had, and few are in memory at once."""

    def __init__(self, state: ClusterState, journal: Journal, last: int) -> None:
        self.state, self.journal, self.last = state, journal, last
        self.page: list[Job] = []
        self.spec_of = functools.lru_cache(1024)(JobSpec.model_validate_json)  # the tasks of an array share one

    def add_up_to(self, job_id: float) -> None:
        """Add all jobs up to this number that are not known yet."""
        while self.last < job_id:
            if not self.page:
                self.page = self._next_page()
            if not self.page or self.page[-1].id > job_id:
                return
            job = self.page.pop()
            self.last = job.id
            self.state.add(job)

    def _next_page(self) -> list[Job]:
        sql = (
            "SELECT jobs.id, user, text, submitted, array_id, array_index FROM jobs JOIN specs ON specs.id = spec"
            " WHERE jobs.id > ? ORDER BY jobs.id LIMIT ?"
        )
        found = self.journal.query(sql, self.last, PAGE)
        return [Job(job_id, user, self.spec_of(text), *rest) for job_id, user, text, *rest in reversed(found)]


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
    """Watch again what runs; repeat what may not have been done; set the alarms; offer what was accepted but not recorded."""
    world.arrivals.extend(job.id for job in state.by_row if state.job_state(job) == JobState.FUTURE)
    for job in state.active_jobs():
        if state.job_state(job).has_processes:
            executor.adopt(job.id, state.attempt(job))
        if state.job_state(job) == JobState.STOPPING:
            executor.stop(job.id, state.attempt(job), *state.how_to_stop(job))
        world.set_alarms(job, now)
