"""Recover a damaged journal: write all readable rows to a new one, and keep the damaged files under another name.

A state is never rebuilt over a gap. Facts and actions count up to the first missing row after the last intact snapshot.
Later rows are lost; manager/aftermath.py decides how each job goes on.
"""

import contextlib
import json
import os
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from headway.io.units import counted
from headway.live.errors import JournalFailed
from headway.live.rows import SALVAGED
from headway.live.store import snapshot
from headway.live.store.copies import RECOVERED, free_name, set_aside
from headway.live.store.folder_lock import folder_lock
from headway.live.store.identity import IDENTITIES, MARK, PENDING, highest_run, named, read_mark
from headway.live.store.integrity.check import COMPLETE_FROM, FLOOR, MISSING, SUSPECT, covered, missing_jobs, ranges_of
from headway.live.store.integrity.checksum import WIDTHS, insertion, remembered, sealed
from headway.live.store.integrity.log import read_log
from headway.live.store.integrity.pages import Row, Scan
from headway.live.store.integrity.schema import prepare
from headway.live.store.snapshot_table import StateSnapshot

AT_ONCE: Final = 1000  # rows inserted together
MOST_LISTED: Final = 1000  # lost jobs that a row of the journal names


@dataclass(frozen=True, slots=True)
class Base:
    """The snapshot that the state is rebuilt from: its row (0: none), its last job, and its submissions."""

    seq: int = 0
    last_job: int = 0
    jobs: Sequence[tuple[Any, ...]] = ()  # number, user, job file, time, array, index


def salvage(data: Path, why: str, use_snapshot: bool) -> None:
    """Replace a damaged journal by its readable rows. The row PENDING of `meta` holds one line that names the loss."""
    path = data / "journal.db"
    part = path.with_name(f".{path.name}.part")
    with folder_lock(data):
        try:
            _write(
                part,
                path,
                f"the journal was damaged ({why}) and is kept as {free_name(path, 'damaged').name}",
                use_snapshot,
            )
        except (sqlite3.Error, OSError) as error:
            part.unlink(missing_ok=True)
            fix = "make room there, or `headway journal restore` a backup"
            message = f"{path} is damaged ({why}), and cannot be recovered ({error}): {fix}"
            raise JournalFailed(message, {"path": str(path)}) from None
        part.rename(data / RECOVERED)
    install_recovered(data)


def install_recovered(data: Path) -> None:
    """Put a recovered journal in the place of the damaged one. If the manager is killed meanwhile, the next one repeats it."""
    if not (data / RECOVERED).exists():
        return
    with folder_lock(data):
        path = data / "journal.db"
        set_aside(path, "damaged")
        (data / MARK).unlink(missing_ok=True)  # of the journal that was damaged
        (data / SUSPECT).unlink(missing_ok=True)
        (data / RECOVERED).rename(path)


def _write(part: Path, path: Path, subject: str, use_snapshot: bool) -> None:
    """Write the readable rows of a journal to another file, and flush it."""
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as file:
        file.execute("PRAGMA secure_delete = ON")  # a later scan must not find rows that were dropped
        prepare(file)
        file.execute("BEGIN")
        _insert(file, Scan(path, read_log(path, with_frames=True)).rows())
        _Assembly(file, path.parent).finish(subject, use_snapshot)
        file.execute("COMMIT")


def _insert(file: sqlite3.Connection, rows: Iterator[Row]) -> None:
    """Insert rows. If a row occurs in several versions, the first is the newest and counts."""
    while some := list(islice(rows, AT_ONCE)):
        for table in WIDTHS:
            values = [row for name, row in some if name == table]
            file.executemany(insertion(table, "INSERT OR IGNORE"), values)


class _Assembly:
    """Makes a journal that a manager can open from the rows that were read."""

    def __init__(self, file: sqlite3.Connection, data: Path) -> None:
        self.file = file
        self.identities: list[str] = json.loads(remembered(file, IDENTITIES) or "[]")
        self.floor = int(remembered(file, FLOOR) or 0)
        self.missing = missing_jobs(remembered(file, MISSING), self.floor)
        self.marked, self.marked_seq, self.marked_job = read_mark(data)
        self.highest_run = highest_run(data)
        # The last row and the latest time of all rows that were read, also of rows that are dropped.
        self.last_seq = self._one("SELECT max(max(seq), (SELECT coalesce(max(seq), 0) FROM snapshots)) FROM events")
        self.time = self._one(
            "SELECT max(coalesce((SELECT max(time) FROM events), 0), coalesce((SELECT max(submitted) FROM jobs), 0),"
            " coalesce((SELECT max(ended) FROM finished), 0))"
        )

    def finish(self, subject: str, use_snapshot: bool) -> None:
        """Drop rows that cannot be used, and record the loss."""
        base = self._base(use_snapshot)
        self._restore_jobs(base)
        lost, highest = self._lost_jobs()
        last, since = self._cut(base)
        rows_lost = last < max(self.last_seq, self.marked_seq) or self.marked not in self.identities
        if not self.identities and self.marked:
            self.identities.append(self.marked)
        if rows_lost:
            self.identities.append(uuid.uuid4().hex)
        self._remember(COMPLETE_FROM, str(self._incomplete(base)))
        self._remember(IDENTITIES, json.dumps(self.identities))
        self._remember(FLOOR, str(highest))
        jobs = self._one("SELECT count(*) FROM jobs")
        line = f"{subject}: {counted(int(jobs), 'job')} recovered"
        line += f"; lost: {named(lost)}" if lost else ""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
        line += f"; what happened after {moment if since else 'the first submission'} is lost" if rows_lost else ""
        row = (last + 1, float(self.time), SALVAGED, 0, 0, json.dumps({"lost": lost[:MOST_LISTED], "rows": rows_lost}))
        self.file.execute(insertion("events"), sealed("events", row))
        if earlier := json.loads(remembered(self.file, PENDING) or "null"):  # no manager has dealt with it yet
            line, since = f"{earlier['line']}; then {line}", min(since, earlier["since"])
        self._remember(PENDING, json.dumps({"line": line, "since": since}))

    def _base(self, use_snapshot: bool) -> Base:
        """Return the newest snapshot, and drop those that cannot be used."""
        for row in self.file.execute("SELECT * FROM snapshots ORDER BY seq DESC").fetchall():
            if use_snapshot:
                with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, OSError, zlib.error):
                    return Base(row[0], *snapshot.submissions(StateSnapshot(row[1], row[2])))
            self.file.execute("DELETE FROM snapshots WHERE seq = ?", row[:1])
        return Base()

    def _restore_jobs(self, base: Base) -> None:
        """Drop submissions without a job file, and take missing submissions from the snapshot."""
        self.file.execute("DELETE FROM jobs WHERE spec NOT IN (SELECT id FROM specs)")
        known = {number for (number,) in self.file.execute("SELECT id FROM jobs")}
        spec = self._one("SELECT coalesce(max(id), 0) FROM specs")
        for number, user, text, *rest in base.jobs:
            if number not in known:
                spec += 1
                self.file.execute(insertion("specs"), sealed("specs", (spec, text)))
                submitted, array_id, index = rest
                values = (number, user, submitted, spec, array_id, index)
                self.file.execute(insertion("jobs"), sealed("jobs", values))

    def _lost_jobs(self) -> tuple[list[int], int]:
        """Return the numbers of jobs whose submissions are lost now, and the highest number that was ever given."""
        readable = {number for (number,) in self.file.execute("SELECT id FROM jobs")}
        sources = (
            "max(id) FROM jobs",
            "max(job) FROM events",
            "max(job) FROM finished",
            "max(first + count - 1) FROM keys",
        )
        in_rows = max(self._one(f"SELECT {source}") for source in sources)
        highest = max(self.floor, self.marked_job, self.highest_run, in_rows)
        unreadable = set(range(1, highest + 1)) - readable
        self._remember(MISSING, json.dumps(ranges_of(unreadable)))
        return sorted(number for number in unreadable if not covered(self.missing, number, number)), highest

    def _cut(self, base: Base) -> tuple[int, float]:
        """Drop facts and actions from the first gap after the snapshot on; return the last row that is kept, and its time."""
        readable = {number for (number,) in self.file.execute("SELECT id FROM jobs")}
        last = base.seq
        for seq, job in self.file.execute("SELECT seq, job FROM events WHERE seq > ? ORDER BY seq", (base.seq,)):
            if seq != last + 1 or (job > base.last_job and job not in readable):
                break
            last = seq
        self.file.execute("DELETE FROM events WHERE seq > ?", (last,))
        return last, float(self._one("SELECT coalesce(max(time), 0) FROM events"))

    def _incomplete(self, base: Base) -> int:
        """Return the last row before which facts or submissions are missing, so that no replay is possible; 0 if none are."""
        before = int(remembered(self.file, COMPLETE_FROM) or 0)
        rows = self._one(f"SELECT count(*) FROM events WHERE seq <= {base.seq}")
        strange = self._one(
            f"SELECT count(*) FROM events WHERE seq <= {base.seq} AND job > 0 AND job NOT IN (SELECT id FROM jobs)"
        )
        return base.seq if base.seq and (before or rows < base.seq or strange) else 0

    def _one(self, sql: str) -> Any:
        return self.file.execute(sql).fetchone()[0] or 0

    def _remember(self, name: str, value: str) -> None:
        self.file.execute(insertion("meta", "REPLACE"), sealed("meta", (name, value)))
