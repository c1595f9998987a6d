"""The journal on disk: SQLite in WAL mode with full sync. What is acknowledged is on disk; nothing else is the truth.

Two tables: `jobs` holds submissions as they were accepted, `events` every fact and action in the order in which the engine recorded them.
One thread writes. Everything that waits when it becomes free goes into one transaction, so many clients share one flush to disk
(group commit). A transaction that fails is rolled back whole, and everyone in it is told.
"""

import contextlib
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headway.live.errors import JournalDamaged, JournalFailed
from headway.live.operation.folder_lock import folder_lock
from headway.live.operation.index_room import index_room
from headway.live.store import history, snapshot_table
from headway.live.store.history import HistoryRow, insert_finished
from headway.live.store.snapshot_table import Snapshot, insert_snapshot

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY, user TEXT NOT NULL, submitted REAL NOT NULL, spec INTEGER NOT NULL, array_id INTEGER, array_index INTEGER);
CREATE TABLE IF NOT EXISTS specs (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    user TEXT NOT NULL, key TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, spec INTEGER NOT NULL,
    PRIMARY KEY (user, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, job INTEGER NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL);
"""
T = TypeVar("T")
MOST_IN_ONE_COMMIT = 1024
PAGE = 10_000  # rows read at once


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One fact or action. `job` is 0 for facts about nodes or the manager itself."""

    time: float
    kind: str
    job: int
    attempt: int
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = 0


@dataclass(slots=True)
class _Work:
    """Something to write: `write(connection)` inside the transaction, `after(result)` in the order of commits, once it is on disk."""

    write: Callable[[sqlite3.Connection], Any]
    after: Callable[[Any], None] | None
    done: Future[Any]


def failed(error: BaseException) -> JournalFailed:
    """Say what happened to the journal and what that means."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalDamaged(f"the journal is damaged ({error}): `headway journal check` says more")
    return JournalFailed(f"the journal cannot be written ({error}): nothing was accepted; make room or repair it")


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Say what is wrong with a journal that cannot be read."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        damaged = failed(error)
        if isinstance(damaged, JournalDamaged):
            raise damaged from None
        raise JournalFailed(f"the journal cannot be read ({error}): `headway journal check` says more") from None


class Journal:
    """The one journal of a data folder; the second to open it is refused."""

    def __init__(self, data: Path) -> None:
        self.path = data / "journal.db"
        self._room = contextlib.ExitStack()  # the lock of the folder, and room on the disk for the log's index
        try:
            data.mkdir(parents=True, exist_ok=True, mode=0o711)
            self._room.enter_context(folder_lock(data))
        except OSError as error:
            raise JournalFailed(f"cannot use the data folder {data}: {error.strerror}") from None
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._room.enter_context(index_room(self.path))
            self._connection = self._open()
            self._reader, self._reading = self._open(), threading.Lock()
        except (sqlite3.Error, OSError, JournalFailed) as error:
            self._room.close()
            raise error if isinstance(error, JournalFailed) else failed(error) from None
        self._which = _which(self.path)
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self.commits = 0
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(SCHEMA + history.SCHEMA + snapshot_table.SCHEMA)
        return connection

    # ---- writing

    def commit(self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None) -> Any:
        """Run `write` in a transaction and return its result once that is on disk; JournalFailed when it is not."""
        return self.commit_later(write, after).result()

    def commit_later(
        self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None
    ) -> Future[Any]:
        """The same without waiting."""
        done: Future[Any] = Future()
        self._queue.put(_Work(write, after, done))
        return done

    def append(
        self, rows: list[JournalRow], finished: Sequence[tuple[HistoryRow, bytes]] = (), made: Snapshot | None = None
    ) -> int:
        """Append facts and actions, with jobs that ended and a snapshot of all that; the number of the last in the journal."""
        values = [(row.time, row.kind, row.job, row.attempt, _as_text(row.data)) for row in rows]

        def write(connection: sqlite3.Connection) -> int:
            connection.executemany("INSERT INTO events (time, kind, job, attempt, data) VALUES (?, ?, ?, ?, ?)", values)
            last = int(connection.execute("SELECT max(seq) FROM events").fetchone()[0])
            insert_finished(connection, finished)
            if made is not None:
                insert_snapshot(connection, last, made)
            return last

        return int(self.commit(write))

    def _write_all(self) -> None:
        closing = False
        while not closing:
            batch: list[_Work] = []
            work = self._queue.get()
            while work is not None:
                batch.append(work)
                if len(batch) == MOST_IN_ONE_COMMIT:
                    break
                try:
                    work = self._queue.get_nowait()
                except queue.Empty:
                    break
            closing = work is None
            self._commit(batch)

    def _commit(self, batch: list[_Work]) -> None:
        if not batch:
            return
        results: list[tuple[_Work, Any]] = []
        refused: list[tuple[_Work, BaseException]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work in batch:
                try:
                    results.append((work, self._savepoint(work)))
                except sqlite3.Error:
                    raise
                except Exception as error:
                    refused.append((work, error))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            for work in batch:
                work.done.set_exception(failed(error))
            return
        self.commits += 1
        for work, why in refused:
            work.done.set_exception(why)
        for work, result in results:
            try:
                if work.after:
                    work.after(result)
                work.done.set_result(result)
            except Exception as error:
                work.done.set_exception(error)

    def _savepoint(self, work: _Work) -> Any:
        """Do one piece of work among many: if it refuses, only what it wrote is undone."""
        self._connection.execute("SAVEPOINT work")
        try:
            result = work.write(self._connection)
        except sqlite3.Error:
            raise
        except Exception:
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            raise
        self._connection.execute("RELEASE work")
        return result

    # ---- reading

    def rows(self, after: int = 0, limit: int = -1) -> list[JournalRow]:
        """Facts and actions that follow number `after`, at most `limit` of them (-1: all)."""
        sql = "SELECT time, kind, job, attempt, data, seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        found = self.query(sql, after, limit)
        return [
            JournalRow(time, kind, job, attempt, json.loads(data), seq) for time, kind, job, attempt, data, seq in found
        ]

    def each(self, after: int = 0) -> Iterator[JournalRow]:
        """All rows that follow number `after`, read page by page, so that a long journal does not fill the memory."""
        page = self.rows(after, PAGE)
        while page:
            yield from page
            page = self.rows(page[-1].seq, PAGE)

    def query(self, sql: str, *given: Any) -> list[Any]:
        """Read with SQL."""
        with self._reading, _readable():
            return self._reader.execute(sql, given).fetchall()

    def read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Read with a connection of its own: what takes long holds nobody up."""
        with _readable(), contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)) as own:
            return ask(own)

    def look(self) -> None:
        """Look at the file as the next manager would find it: a connection of its own has nothing in memory."""
        if not self.path.exists() or _which(self.path) != self._which:
            what = f"{self.path} was removed or replaced under the running manager"
            raise JournalDamaged(f"{what}: stop it, and `headway journal restore` a backup")

        def ends(connection: sqlite3.Connection) -> None:
            for table in ("meta", "jobs", "specs", "events", "finished"):
                connection.execute(f"SELECT * FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone()

        self.read(ends)

    @property
    def last(self) -> tuple[int, float]:
        """The number and the time of the last row."""
        found = self.query("SELECT seq, time FROM events ORDER BY seq DESC LIMIT 1")
        return (int(found[0][0]), float(found[0][1])) if found else (0, 0.0)

    def meta(self, name: str) -> str | None:
        """A remembered value."""
        found = self.query("SELECT value FROM meta WHERE name = ?", name)
        return str(found[0][0]) if found else None

    def remember(self, name: str, value: str) -> None:
        """Keep a value by name."""
        self.commit(lambda connection: connection.execute("REPLACE INTO meta VALUES (?, ?)", (name, value)))

    def close(self) -> None:
        """Write what waits, then let the next manager in."""
        self._end()
        self._connection.close()
        self._reader.close()
        self._room.close()


def _which(path: Path) -> tuple[int, int]:
    """Which file it is, whatever it is called."""
    found = path.stat()
    return found.st_dev, found.st_ino


def _as_text(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) if data else "{}"
