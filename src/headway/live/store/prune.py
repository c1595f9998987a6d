"""Pruning: remove jobs that ended long ago from the archive, and their commands from the journal. Works while a manager runs.

The rows about such jobs stay: a manager that cannot use its snapshot replays all rows, and job numbers are never used again. Pruning
removes the job from `history` and `show`, its command, its environment and, on request, its folder with logs.
"""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import BadInput
from headway.live.errors import JournalFailed
from headway.live.store.integrity.check import refuse_damage
from headway.live.store.integrity.checksum import insertion, sealed, verified
from headway.live.store.integrity.schema import require
from headway.live.store.journal import Journal

AT_ONCE = 500  # jobs in one transaction: a manager writes in between
PRUNED = "pruned"  # in place of a command
SECRET = ("command", "envs", "workdir", "output")


@dataclass(frozen=True, slots=True)
class Pruned:
    """The number of pruned jobs and removed folders, and the size of the file afterwards."""

    jobs: int
    folders: int
    bytes: int


def old_jobs(data: Path, before: float) -> int:
    """Return the number of jobs that ended before a time (seconds since 1970) and were not run again."""
    with _opened(data) as file:
        return len(_old(file, before))


def prune(data: Path, before: float, runs: bool = False) -> Pruned:
    """Prune jobs that ended before a time and were not run again; `runs`: remove their run folders too."""
    folders = 0
    with _opened(data) as file:
        old, specs = _old(file, before), _whole_arrays(file, before)
        for begin in range(0, len(old), AT_ONCE):
            some = old[begin : begin + AT_ONCE]
            file.execute("BEGIN IMMEDIATE")
            file.executemany("DELETE FROM finished WHERE job = ?", [(job,) for job, _, _ in some])
            _forget_content(file, [spec for _, spec, array in some if array is None or spec in specs])
            file.execute("COMMIT")
            if runs:
                folders += sum(_remove(data / "runs" / str(job)) for job, _, _ in some)
        with contextlib.suppress(
            sqlite3.OperationalError
        ):  # impossible while a manager writes: the file keeps its size
            file.execute("VACUUM")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Pruned(len(old), folders, (data / "journal.db").stat().st_size)


def was_pruned(journal: Journal, job_id: int) -> bool:
    """Return whether the job file of an ended job was pruned, so that the job cannot run again."""
    sql = """SELECT specs.* FROM jobs JOIN specs ON specs.id = jobs.spec WHERE jobs.id = ?
        AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.job = jobs.id)"""
    texts = [verified("specs", row)[1] for row in journal.query(sql, job_id)]
    return any(json.loads(text).get("run") == PRUNED for text in texts)


def _old(file: sqlite3.Connection, before: float) -> list[tuple[int, int, int | None]]:
    """Return the jobs that ended before a time and were not run again, each with its spec and its array."""
    sql = """SELECT job FROM events WHERE kind IN ('Submitted', 'Ended') GROUP BY job
        HAVING max(seq) = max(CASE kind WHEN 'Submitted' THEN seq END)"""
    active = {job for (job,) in file.execute(sql)}
    sql = "SELECT jobs.* FROM finished JOIN jobs ON jobs.id = job WHERE ended < ? ORDER BY job"
    rows = (verified("jobs", row) for row in file.execute(sql, (before,)))
    return [(job, spec, array_id) for job, _, _, spec, array_id, _ in rows if job not in active]


def _whole_arrays(file: sqlite3.Connection, before: float) -> set[int]:
    """Return the specs of arrays whose tasks all ended before a time: tasks share a spec."""
    sql = """SELECT min(spec) FROM jobs LEFT JOIN finished ON finished.job = jobs.id AND ended < ? WHERE array_id IS NOT NULL
        GROUP BY array_id HAVING count(*) = count(finished.job)"""
    return {spec for (spec,) in file.execute(sql, (before,))}


@contextlib.contextmanager
def _opened(data: Path) -> Iterator[sqlite3.Connection]:
    path = data / "journal.db"
    if not path.is_file():
        raise BadInput(f"{path}: there is no journal; give --data, the folder of a manager")
    refuse_damage(path)
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as file:
            require(file)
            yield file
    except sqlite3.Error as error:
        raise JournalFailed(f"{path} cannot be pruned ({error}): `headway journal check` says more") from None


def _forget_content(file: sqlite3.Connection, specs: list[int]) -> None:
    """Remove commands, environments and paths from these job files."""
    for spec in dict.fromkeys(specs):
        row = file.execute("SELECT * FROM specs WHERE id = ?", (spec,)).fetchone()
        if row:
            values = sealed("specs", (spec, _without_content(verified("specs", row)[1])))
            file.execute(insertion("specs", "REPLACE"), values)


def _without_content(text: str) -> str:
    """Return a job file with the same scheduling, and without command, environment and paths."""
    content: dict[str, Any] = json.loads(text)
    return json.dumps({**{name: value for name, value in content.items() if name not in SECRET}, "run": PRUNED})


def _remove(folder: Path) -> bool:
    """Remove the folder of a job without following links; return whether it is gone."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
