"""After a restart: load the last snapshot, and replay the journal since then."""

import functools
import json
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.live.errors import JournalDamaged
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.aftermath import Aftermath, aftermath
from headway.live.rows import OPENED
from headway.live.state import turnover
from headway.live.state.cluster import ClusterState
from headway.live.state.learn import replay
from headway.live.state.records import Job
from headway.live.store import snapshot, snapshot_table
from headway.live.store.identity import read_mark, settle
from headway.live.store.integrity.check import COMPLETE_FROM, FLOOR, MISSING, SUSPECT, covered, missing_jobs, problems
from headway.live.store.integrity.checksum import WIDTHS, verified
from headway.live.store.integrity.salvage import install_recovered, salvage
from headway.live.store.journal import PAGE, Journal, journal_error
from headway.live.store.snapshot import load, setting

CHECKED_BYTES = 4 << 20  # a journal up to this size is checked as a whole at the start, in less than 0.1 s


@dataclass(frozen=True, slots=True)
class Recovered:
    """An open journal, the state that it gives, the row of the snapshot that was used, and warnings for the operator."""

    journal: Journal
    state: ClusterState
    snapshot_seq: int
    identities: tuple[str, ...]
    warnings: tuple[str, ...]
    aftermath: Aftermath | None  # of a journal that was damaged, missing or older than what was written last


def open_journal(
    data: Path, fresh: Callable[[Cluster | None], ClusterState], check: Callable[[Journal], None]
) -> Recovered:
    """Open the journal of a data folder and restore the state; replace a damaged journal by its readable rows.

    `fresh` makes an empty state of a cluster (None: of the present one). `check` may refuse the journal. If the last snapshot of a damaged
    journal cannot be used (it was made under another policy), the state is rebuilt without it.
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
        _check_whole(journal)
        check(journal)
        identities = settle(journal)
        state, seq, notes = restore(fresh, journal)
        loss = aftermath(state, journal)
    except sqlite3.DatabaseError as error:
        journal.close()
        raise journal_error(error, journal.path) from None
    except BaseException:
        journal.close()
        raise
    return Recovered(journal, state, seq, identities, (*([loss.line] if loss else ()), *notes), loss)


def _check_whole(journal: Journal) -> None:
    """Check the whole journal if it is small, if damage was seen, or if it ends before the last row that was written.

    A restart reads and verifies only a part of a large journal; `headway journal check` verifies the rest.
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
    """Return the state at the end of the journal, the row of the snapshot that was used (0: none), and warnings."""
    state, seq, last_job, notes = _from_snapshot(fresh, journal)
    if seq < int(journal.meta(COMPLETE_FROM) or 0):
        raise JournalDamaged(f"rows before number {journal.meta(COMPLETE_FROM)} were lost")
    submissions = _Submissions(state, journal, last_job)
    replay(state, journal.each(seq), submissions.add_up_to)
    return state, seq, notes


def _from_snapshot(
    fresh: Callable[[Cluster | None], ClusterState], journal: Journal
) -> tuple[ClusterState, int, int, list[str]]:
    """Return the state of the newest usable snapshot, or an empty state; its row, its last job, and warnings."""
    notes, empty = list[str](), fresh(None)
    present = setting(empty)

    def on(cluster: Cluster | None) -> ClusterState:
        """Return an empty state of a stored cluster, or of the present one, which knows its network, if the nodes are the same."""
        return fresh(None if cluster is None or empty.cluster.same_nodes(cluster) else cluster)

    for seq, stored in journal.read(snapshot_table.stored):
        if stored is not None and stored.setting != present:
            notes.append(
                f"{_differs(stored.setting, present)}: the snapshot is not used, and the whole journal is read"
            )
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


def _differs(stored: str, present: str) -> str:
    """Return a line that names the difference between the setting of a snapshot and the present one."""
    before, now = json.loads(stored), json.loads(present)
    for name, what in (
        ("policy", "another policy"),
        ("placement", "another placement"),
        ("min_runtimes", "another --min-runtime"),
        ("queues", "other queues"),
        ("group", "other groups of jobs"),
    ):
        if before.get(name) != now[name]:
            return f"the last manager ran with {what} ({before.get(name)})"
    return "the last manager was of another version"


class _Submissions:
    """Adds accepted jobs to the state as the replay reaches them, so that each job gets its old row. Reads them page by page."""

    def __init__(self, state: ClusterState, journal: Journal, last: int) -> None:
        self.state, self.journal, self.last = state, journal, last
        self.missing = missing_jobs(journal.meta(MISSING), int(journal.meta(FLOOR) or 0))
        self.page: list[Job] = []
        self.read = functools.lru_cache(1024)(JobSpec.model_validate_json)  # the tasks of an array share one

    def add_up_to(self, job_id: float) -> None:
        """Add all jobs up to this number that the state lacks."""
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
            spec = self.read(text)
        except ValidationError as error:
            problem = error.errors()[0]
            line = f"{'.'.join(map(str, problem['loc']))}; {problem['msg']}"
            fix = "start the version that wrote it, or `headway journal restore` a backup"
            raise BadInput(f"{self.journal.path}: job {job_id} cannot be understood ({line}): {fix}") from None
        return Job(job_id, user, spec, submitted, array_id, array_index)


def _first_cluster(journal: Journal) -> Cluster | None:
    """Return the cluster of the journal's first Opened row; later Opened rows change it."""
    opened = journal.query("SELECT * FROM events WHERE kind = ? ORDER BY seq LIMIT 1", OPENED)
    return turnover.cluster_in(json.loads(verified("events", opened[0])[5])) if opened else None
