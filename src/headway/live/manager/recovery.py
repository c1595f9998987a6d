"""After a restart: load the last snapshot, replay the journal since then, then ask the executor about jobs in the middle."""

import contextlib
import functools
import json
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.job_state import JobState
from headway.live.errors import JournalDamaged, JournalFailed
from headway.live.executors import Executor
from headway.live.manager.aftermath import Aftermath, aftermath
from headway.live.manager.world import LiveWorld, Request
from headway.live.state import turnover
from headway.live.state.cluster import ClusterState
from headway.live.state.learn import OPENED, replay
from headway.live.state.records import Blocker, Job
from headway.live.store import snapshot, snapshot_table
from headway.live.store.archive import finished_row, read_spec
from headway.live.store.history import insert_finished
from headway.live.store.identity import PENDING, read_mark, settle
from headway.live.store.integrity.check import FLOOR, MISSING, SUSPECT, covered, missing_jobs, problems
from headway.live.store.integrity.checksum import WIDTHS, verified
from headway.live.store.integrity.convert import COMPLETE_FROM
from headway.live.store.integrity.salvage import install_recovered, salvage
from headway.live.store.journal import PAGE, Journal, failed
from headway.live.store.snapshot import load, setting

CHECKED_BYTES = 4 << 20  # a journal up to this size is checked as a whole at the start, in less than 0.1 s
MOST_FINISHED = 4000  # jobs in memory while a journal is read; more than a manager keeps


CONVERTED: Final = "the journal was converted from the format of version 0.1, which cannot read it any more"


@dataclass(frozen=True, slots=True)
class Recovered:
    """An open journal and the state that it tells, the row of the snapshot that it was read from, and what to tell the operator."""

    journal: Journal
    state: ClusterState
    snapshot_seq: int
    identities: tuple[str, ...]
    warnings: tuple[str, ...]
    aftermath: Aftermath | None  # of a journal that was damaged, missing or older than what was written last


def open_journal(
    data: Path, fresh: Callable[[Cluster | None], ClusterState], check: Callable[[Journal], None]
) -> Recovered:
    """Open the journal of a data folder and restore the state, unless `check` refuses it. A damaged one is replaced by what can be read.

    If the state cannot be rebuilt from the last snapshot (because it was made under another policy), it is rebuilt without.
    """
    install_recovered(data)
    for use_snapshot in (True, False):
        try:
            return _opened(data, fresh, check)
        except JournalDamaged as error:
            salvage(data, error.what, use_snapshot)
    return _opened(data, fresh, check)


def _opened(data: Path, fresh: Callable[[Cluster | None], ClusterState], check: Callable[[Journal], None]) -> Recovered:
    journal = Journal(data)
    try:
        _look_through(journal)
        check(journal)
        identities = settle(journal)
        state, seq, notes = restore(fresh, journal)
        later = aftermath(state, journal)
    except sqlite3.DatabaseError as error:
        journal.close()
        raise failed(error) from None
    except BaseException:
        journal.close()
        raise
    if journal.converted:
        notes = [CONVERTED, *notes]
    return Recovered(journal, state, seq, identities, (*([later.line] if later else ()), *notes), later)


def _look_through(journal: Journal) -> None:
    """Check the whole journal if it is small, if damage was seen, or if it ends before what was written last.

    A restart reads little of a large journal. What it reads is verified then, and `headway journal check` verifies the rest.
    """
    data = journal.path.parent
    (_, seq, job), (last_seq, _) = read_mark(data), journal.last
    last_job = int(journal.query("SELECT coalesce(max(id), 0) FROM jobs")[0][0])
    behind = last_seq < seq or max(last_job, int(journal.meta(FLOOR) or 0)) < job
    if journal.path.stat().st_size <= CHECKED_BYTES or (data / SUSPECT).exists() or behind:
        problem = journal.read(lambda file: next(problems(file), None))
        if problem:
            raise JournalDamaged(problem)
        (data / SUSPECT).unlink(missing_ok=True)


def restore(fresh: Callable[[Cluster | None], ClusterState], journal: Journal) -> tuple[ClusterState, int, list[str]]:
    """The state at the end of the journal, the row of the snapshot that it was read from (0: none), and what to tell the operator."""
    state, seq, last_job, notes = _from_snapshot(fresh, journal)
    if seq < int(journal.meta(COMPLETE_FROM) or 0):
        raise JournalDamaged(f"rows before number {journal.meta(COMPLETE_FROM)} were lost")
    submissions = _Submissions(state, journal, last_job)
    leaving = _Leaving(state, journal)

    def accept(job_id: float) -> None:
        leaving.make_room()
        submissions.add_up_to(job_id)

    replay(state, journal.each(seq), accept)
    if not seq:
        write_finished(state, journal)
    return state, seq, [*notes, *_held(state, submissions.strange)]


def _held(state: ClusterState, strange: dict[int, str]) -> list[str]:
    """Mark the waiting jobs that would not be run as they were asked to; what to tell about them."""
    jobs = [job for job in map(state.jobs.get, strange) if job and not job.final and not job.blockers & Blocker.HELD]
    state.strange = {job.id for job in jobs if not state.job_state(job).has_processes}
    words = "which this version does not know: it is held; `headway release"
    return [
        f"job {number} has the field {strange[number]!r}, {words} {number}` runs it without"
        for number in sorted(state.strange)
    ]


def _from_snapshot(
    fresh: Callable[[Cluster | None], ClusterState], journal: Journal
) -> tuple[ClusterState, int, int, list[str]]:
    """A state by the newest snapshot that can be used, or an empty one."""
    notes, empty = list[str](), [fresh(None)]
    wanted = setting(empty[0])

    def on(cluster: Cluster | None) -> ClusterState:
        """An empty state of a cluster: the one at hand, if it is of that cluster and has not been used."""
        unused = [state for state in empty if cluster is None or state.cluster.same_nodes(cluster)]
        empty.clear()
        return unused[0] if unused else fresh(cluster)

    for seq, stored in journal.read(snapshot_table.stored):
        if stored is not None and stored.setting != wanted:
            notes.append(f"{_differs(stored.setting, wanted)}: the snapshot is not used, and the whole journal is read")
            break
        try:
            if stored is not None:
                state = on(snapshot.cluster_in(stored))
                return state, seq, load(state, stored), notes
        except (ValueError, KeyError, TypeError, IndexError, OSError, zlib.error):
            pass
        notes.append(
            f"the snapshot at row {seq} of {journal.path.name} is damaged: more of the journal is read instead"
        )
    return on(_first_cluster(journal)), 0, 0, notes


def _differs(stored: str, wanted: str) -> str:
    """In which way another setting differs."""
    before, now = json.loads(stored), json.loads(wanted)
    for name, words in (
        ("policy", "another policy"),
        ("placement", "another placement"),
        ("min_runtimes", "another --min-runtime"),
        ("queues", "other queues"),
        ("group", "other groups of jobs"),
    ):
        if before.get(name) != now[name]:
            return f"the last manager ran with {words} ({before.get(name)})"
    return "the last manager was of another version"


def write_finished(state: ClusterState, journal: Journal) -> None:
    """Write the rows of finished jobs that an earlier version did not write, before they leave the memory."""
    if not state.finished:
        return
    sql = "SELECT job FROM finished WHERE job BETWEEN ? AND ?"
    written = {number for (number,) in journal.query(sql, min(state.finished), max(state.finished))}
    missing = [state.jobs[number] for number in state.finished if number not in written]
    for begin in range(0, len(missing), PAGE):
        rows = [finished_row(state, job, job.ended or 0.0) for job in missing[begin : begin + PAGE]]
        journal.commit(functools.partial(insert_finished, rows=rows))


class _Leaving:
    """Lets finished jobs leave the memory while a journal is read in which none do: an earlier version wrote it.

    Not where jobs were run again, because the journal then speaks of jobs that would be gone.
    """

    def __init__(self, state: ClusterState, journal: Journal) -> None:
        self.state, self.journal = state, journal
        self.may: bool | None = None  # not known yet

    def make_room(self) -> None:
        """Retire all but the last few if there are too many."""
        if len(self.state.finished) < MOST_FINISHED:
            return
        if self.may is None:
            again = "SELECT 1 FROM events WHERE kind = 'Submitted' GROUP BY job HAVING count(*) > 1 LIMIT 1"
            self.may = not self.journal.query(again)
        if self.may:
            write_finished(self.state, self.journal)
            turnover.retire(self.state, MOST_FINISHED // 2)


class _Submissions:
    """What was accepted, taken in as the journal gets to it: so a job has the row that it had, and few are in memory at once."""

    def __init__(self, state: ClusterState, journal: Journal, last: int) -> None:
        self.state, self.journal, self.last = state, journal, last
        self.missing = missing_jobs(journal.meta(MISSING), int(journal.meta(FLOOR) or 0))
        self.page: list[Job] = []
        self.read = functools.lru_cache(1024)(read_spec)  # the tasks of an array share one
        self.strange: dict[int, str] = {}  # jobs with a field that this version does not know

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
            "SELECT jobs.*, specs.* FROM jobs JOIN specs ON specs.id = spec WHERE jobs.id > ? ORDER BY jobs.id LIMIT ?"
        )
        width, expected, jobs = WIDTHS["jobs"] + 1, self.last + 1, list[Job]()
        for row in self.journal.query(sql, self.last, PAGE):
            number, user, submitted, _, *array = verified("jobs", row[:width])
            if number > expected and not covered(self.missing, expected, number - 1):
                raise JournalDamaged(f"the submission of job {expected} is missing")
            jobs.append(self._job(number, user, verified("specs", row[width:])[1], submitted, *array))
            expected = number + 1
        return jobs[::-1]

    def _job(
        self, job_id: int, user: str, text: str, submitted: float, array_id: int | None, array_index: int | None
    ) -> Job:
        try:
            spec, unknown = self.read(text)
        except ValueError as error:
            line = str(error).splitlines()[-2:][0].strip()
            fix = "start the version that wrote it, or `headway journal restore` a backup"
            raise BadInput(f"{self.journal.path}: job {job_id} cannot be understood ({line}): {fix}") from None
        if unknown:
            self.strange[job_id] = unknown
        return Job(job_id, user, spec, submitted, array_id, array_index)


def _first_cluster(journal: Journal) -> Cluster | None:
    """The cluster that the journal begins with; it says where that changes."""
    opened = journal.query("SELECT * FROM events WHERE kind = ? ORDER BY seq LIMIT 1", OPENED)
    return turnover.cluster_in(json.loads(verified("events", opened[0])[5])) if opened else None


def _dealt_with(journal: Journal, done: Future[None]) -> None:
    """Forget what was lost with a damaged journal, once the facts that follow from it are on disk."""
    if not done.exception():
        with contextlib.suppress(JournalFailed):
            journal.remember(PENDING, "")


def adopt(
    state: ClusterState, executor: Executor, world: LiveWorld, now: float, later: Aftermath | None = None
) -> None:
    """Watch again what runs; repeat what may not have been done; set the alarms; offer what was accepted but not recorded."""
    world.arrivals.extend(job.id for job in state.by_row if state.job_state(job) == JobState.FUTURE)
    if later:
        request = Request(partial(later.facts, world))
        request.done.add_done_callback(partial(_dealt_with, world.journal))
        world.requests.append(request)
        world.measures.error(now, later.line)
    for job in state.active_jobs():
        if later and job.id in later.held:
            continue
        if state.job_state(job).has_processes:
            executor.adopt(job.id, state.attempt(job))
        if state.job_state(job) == JobState.STOPPING:
            executor.stop(job.id, state.attempt(job), *state.how_to_stop(job))
        elif state.job_state(job).has_processes:  # the notice may have come or gone while no manager ran
            world.announce(job, float(state.tables.jobs["until"][job.row]))
        world.set_alarms(job, now)
