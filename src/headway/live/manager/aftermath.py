"""Jobs after a loss of facts, because the journal was damaged or replaced by an older copy.

- A job whose end is in the table of finished jobs stays finished.
- A job with an attempt on disk that the journal does not know is held: it may have run, so a person decides.
- Every other job is as the journal says: it waits, or its attempt is adopted and reports how it ended.
"""

import contextlib
import json
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from headway.core.engine import Event
from headway.core.events import STOPPED
from headway.job_state import JobState
from headway.live.errors import JournalFailed
from headway.live.manager.lifecycle import block, ended
from headway.live.manager.steps import Steps
from headway.live.rows import ARCHIVED, Blocker
from headway.live.state.cluster import ClusterState
from headway.live.state.retired import Archived
from headway.live.store.archive import archived
from headway.live.store.identity import PENDING, named
from headway.live.store.journal import Journal

HELD_MESSAGE = "the job may have run, but the journal lost its outcome: `headway release` runs it again"


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Changes that the first manager after a loss makes before it starts a job, and the line that names the loss."""

    line: str
    ended: dict[int, Archived]
    held: frozenset[int]

    def steps(self, state: ClusterState, now: float) -> Steps:
        """Yield the steps that bring the jobs to their states."""
        for number, archive in self.ended.items():
            job, final = state.jobs[number], archive.job.final
            if job.final is None and final is not None:
                at = max(archive.job.ended or now, job.started or 0.0)
                data = {"exit_code": archive.job.exit_code, "message": archive.job.message, "at": at, ARCHIVED: True}
                yield from ended(state, job, final, data)
        for number in sorted(self.held):
            job = state.jobs[number]
            if job.final is None:
                if state.job_state(job).has_processes:
                    yield Event(STOPPED, job.row)
                yield from block(state, job, Blocker.HELD, message=HELD_MESSAGE)

    def forget(self, journal: Journal, done: Future[None]) -> None:
        """Forget the loss, once the steps that follow from it are on disk."""
        if not done.exception():
            with contextlib.suppress(JournalFailed):
                journal.remember(PENDING, "")


def aftermath(state: ClusterState, journal: Journal) -> Aftermath | None:
    """Return the changes that follow from a loss; None if nothing was lost."""
    pending = json.loads(journal.meta(PENDING) or "null")
    if not pending:
        return None
    ends: dict[int, Archived] = {}
    held: set[int] = set()
    for job in state.by_row:
        if job.final is not None:
            continue
        archive = journal.read(lambda connection, number=job.id: archived(connection, number))  # type: ignore[misc]
        if archive is not None and (archive.job.ended or 0.0) >= pending["since"]:
            ends[job.id] = archive
        elif _last_attempt(journal.path.parent, job.id) > state.attempt(job):
            held.add(job.id)
    newly_held = {number for number in held if state.job_state(state.jobs[number]) != JobState.HELD}
    advice = "(`headway release` runs a held job again)"
    text = f"; held, because they may have run: {named(newly_held)} {advice}" if newly_held else ""
    return Aftermath(pending["line"] + text, ends, frozenset(held))


def _last_attempt(data: Path, number: int) -> int:
    """Return the number of a job's last attempt that has a folder; 0 if there is none."""
    try:
        return max(
            (int(path.name) for path in (data / "runs" / str(number)).iterdir() if path.name.isdigit()), default=0
        )
    except OSError:
        return 0
