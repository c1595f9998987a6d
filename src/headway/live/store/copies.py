"""Check the journal's file, copy it while a manager writes it, and put a copy in its place."""

import contextlib
import itertools
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import BadInput
from headway.live.errors import JournalDamaged, JournalFailed
from headway.live.store.folder_lock import folder_lock
from headway.live.store.integrity.check import problems, refuse_damage, unknown_rows
from headway.live.store.integrity.schema import require, version_of

PAGES_AT_ONCE = 1000  # between them a manager may write
# Errors that do not show damage: no permission, locked for long, or no space in the folder.
NOT_READ = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
RECOVERED = "journal.db.recovered"  # a whole journal that is about to replace a damaged one (integrity/salvage.py)
TABLES = ("jobs", "events", "finished", "snapshots")


@dataclass(frozen=True, slots=True)
class Checked:
    """The content of a journal's file in numbers, and its damage (empty: none)."""

    path: str
    problems: tuple[str, ...]
    jobs: int = 0
    events: int = 0
    finished: int = 0
    snapshots: int = 0
    last_job: int = 0
    last_row: int = 0
    last_time: float | None = None
    identity: str = ""


def check(path: Path) -> Checked:
    """Read the whole journal, verify every row, and count what is in it."""
    try:
        with _reading(path) as file:
            file.execute("BEGIN")  # read one version while a manager writes
            if not version_of(file):
                return Checked(str(path), ("it is a database, but not a journal of Headway",))
            require(file)
            lines = (*problems(file), *unknown_rows(file))
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            counts = {
                name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES if name in tables
            }
            last_job = file.execute("SELECT coalesce(max(id), 0) FROM jobs").fetchone()[0]
            last = file.execute("SELECT seq, time FROM events ORDER BY seq DESC LIMIT 1").fetchone() or (0, None)
            identities = file.execute("SELECT value FROM meta WHERE name = 'identities'").fetchone()
        identity = json.loads(identities[0])[-1] if identities else ""
        end = {"last_job": last_job, "last_row": last[0], "last_time": last[1], "identity": identity}
        return Checked(str(path), lines, **counts, **end)
    except JournalDamaged as error:
        return Checked(str(path), (error.what,))
    except (sqlite3.DatabaseError, ValueError, TypeError, LookupError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in NOT_READ:
            what = "that does not mean that it is damaged; look whose it is, and its folder, and try again"
            raise JournalFailed(f"{path} cannot be read ({error}): {what}") from None
        return Checked(str(path), (str(error),))


def back_up(path: Path, to: Path) -> None:
    """Copy a journal, also while a manager writes it. The copy has all rows that were written before the copy was complete."""
    aside = to.with_name(f".{to.name}.part")
    try:
        aside.unlink(missing_ok=True)
        os.close(os.open(aside, os.O_CREAT | os.O_WRONLY, 0o600))
        with _reading(path) as file, contextlib.closing(sqlite3.connect(aside)) as copy:
            file.backup(copy, pages=PAGES_AT_ONCE, sleep=0.001)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        handle = os.open(aside, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        aside.rename(to)
    except sqlite3.DatabaseError as error:
        aside.unlink(missing_ok=True)
        raise JournalFailed(f"{path} cannot be copied ({error}): `headway journal check` says more") from None


def put_back(data: Path, copy: Path) -> Path | None:
    """Replace a folder's journal by a copy. Rename the old journal, if there is one, and return its new path."""
    checked = check(copy)
    if checked.problems:
        raise BadInput(f"{copy} is not a whole journal ({checked.problems[0]}): give another copy")
    data.mkdir(parents=True, exist_ok=True, mode=0o711)
    with folder_lock(data):
        path = data / "journal.db"
        restored = path.with_name(".journal.db.restored")
        back_up(copy, restored)
        aside = set_aside(path, "before") if path.exists() else None
        (data / RECOVERED).unlink(missing_ok=True)
        restored.rename(path)
    return aside


def free_name(path: Path, why: str) -> Path:
    """Return an unused path for a copy of a journal, with the reason and a number in its name."""
    return next(name for n in itertools.count(1) if not (name := path.with_name(f"{path.name}.{why}-{n}")).exists())


def set_aside(path: Path, why: str) -> Path:
    """Rename a journal and the files that belong to it, with the reason in the name; return the new path."""
    aside = free_name(path, why)
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file; give --data, the folder of a manager")
    refuse_damage(path)
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as file:
        yield file
