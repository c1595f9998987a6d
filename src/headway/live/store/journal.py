"""The journal on disk: SQLite in WAL mode with full sync. Everything that is acknowledged is on disk.

The table `jobs` holds accepted submissions, `events` every fact and action in the order in which the engine recorded them. Every row has a
checksum (integrity/checksum.py), and the write-ahead log is checked before SQLite opens it.
One thread writes. It puts all queued work into one transaction, so that many clients share one flush to disk (group commit).
A transaction that fails is rolled back whole, and each piece of work in it fails.
"""

import contextlib
import errno
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headway.client.job import JobView
from headway.errors import HeadwayError
from headway.live.errors import JournalDamaged, JournalFailed, Stopping
from headway.live.state.records import JournalRow
from headway.live.store.copies import free_name
from headway.live.store.folder_lock import folder_lock
from headway.live.store.history import insert_finished
from headway.live.store.integrity import schema
from headway.live.store.integrity.check import file_damage, opened_here, suspect
from headway.live.store.integrity.checksum import insertion, remembered, sealed, verified
from headway.live.store.snapshot_table import StateSnapshot, insert_snapshot

T = TypeVar("T")
MOST_IN_ONE_COMMIT = 1024
PAGE = 10_000  # rows read at once
INDEX_PAGE = 4096  # bytes that SQLite allocates at once of the index of the log (os_unix.c: unixShmMap)
LEAST_BYTES = 1 << 17  # a disk with less free space is full: the journal, its log and its index do not fit
LOG_MAGIC = b"\x37\x7f\x06"  # a write-ahead log begins so; SQLite writes it before the first frame
# SQLITE_ERROR: a table or a column is missing, or JSON is malformed.
DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT}


@dataclass(slots=True)
class _Work:
    """Work for the journal's thread: `write(connection)` in a transaction, then `after(result)` once the result is on disk."""

    write: Callable[[sqlite3.Connection], Any]
    after: Callable[[Any], None] | None
    done: Future[Any]


class JournalDisplaced(JournalFailed):
    """The files of the journal were moved, removed or replaced: the next manager would not find what is written."""

    can_pass = False

    def __init__(self, why: str, path: Path) -> None:
        super().__init__(why, {"cause": why, "path": str(path)})


def journal_error(error: BaseException, path: Path) -> JournalFailed:
    """Return JournalDamaged if an error shows damage of the file, else JournalFailed."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE or (
        isinstance(error, sqlite3.Error) and "decode" in str(error)  # the bytes of a text are no UTF-8
    ):
        return JournalDamaged(str(error))
    cause, fix = str(error), "make room or repair it"
    if _is_disk_full(error, path.parent):
        cause, fix = f"the disk of {path.parent} is full: {error}", "make room there"
    message = f"the journal cannot be written ({cause}): nothing was accepted; {fix}"
    return JournalFailed(message, {"cause": cause, "path": str(path)})


def _opening_error(error: BaseException, path: Path) -> JournalFailed:
    """Return the error of a journal that cannot be opened: it names the folder, and says that nothing is lost."""
    reason = journal_error(error, path)
    if isinstance(reason, JournalDamaged):
        return reason
    what, fix = f"the journal in {path.parent} cannot be opened ({error})", "look at its disk and files"
    if _is_disk_full(error, path.parent):
        what, fix = f"the disk of {path.parent} is full ({error})", "make room there"
    return JournalFailed(f"{what}: {fix}, and try again; nothing is lost", {"cause": str(error), "path": str(path)})


def _is_disk_full(error: BaseException, folder: Path) -> bool:
    """Return whether an error says that the disk is full, or its free space does: SQLite reports some of them as I/O errors."""
    if (
        getattr(error, "errno", None) == errno.ENOSPC
        or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    ):
        return True
    with contextlib.suppress(OSError):
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize < LEAST_BYTES
    return False


class Journal:
    """The one journal of a data folder; the second to open it is refused."""

    def __init__(self, data: Path) -> None:
        self.path = data / "journal.db"
        self._resources = contextlib.ExitStack()  # the lock of the folder, and the note that this process has it open
        try:
            data.mkdir(parents=True, exist_ok=True, mode=0o711)
            self._resources.enter_context(folder_lock(data))
        except OSError as error:
            fields = {"cause": str(error.strerror), "path": str(data)}
            raise JournalFailed(f"cannot use the data folder {data}: {error.strerror}", fields) from None
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            if damage := file_damage(self.path):
                raise JournalDamaged(damage)
            _refuse_small_blocks(data)
            self._resources.enter_context(opened_here(self.path))
            self._connection = self._open()
            self._reader, self._reading = self._open(), threading.Lock()
        except (sqlite3.Error, OSError, HeadwayError) as error:
            self._resources.close()
            raise error if isinstance(error, HeadwayError) else _opening_error(error, self.path) from None
        self._opened_files = _file_ids(self.path)
        self._ambiguous = False  # the files were removed during a commit, so they may or may not hold it
        self._rescued = ""  # path of the copy that was made when the files were removed
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._closing, self._closed = threading.Lock(), False  # once closed, the journal queues no work
        self.commits = 0
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        schema.prepare(connection)
        return connection

    # ---- writing

    def commit(self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None) -> Any:
        """Run `write` in a transaction and return its result once it is on disk; JournalFailed if it cannot be written."""
        return self.commit_later(write, after).result()

    def commit_later(
        self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None
    ) -> Future[Any]:
        """Let the journal's thread run `write` in a transaction; the future has its result, JournalFailed, or Stopping if closed."""
        done: Future[Any] = Future()
        with self._closing:
            if not self._closed:
                self._queue.put(_Work(write, after, done))
                return done
        done.set_exception(Stopping())
        return done

    def append(
        self,
        rows: list[JournalRow],
        finished: Sequence[tuple[JobView, bytes]] = (),
        snapshot: StateSnapshot | None = None,
    ) -> int:
        """Append rows, the jobs that ended, and a snapshot of the state after them. Return the number of the last row."""
        values = [(row.time, row.kind, row.job, row.attempt, _as_text(row.data)) for row in rows]

        def write(connection: sqlite3.Connection) -> int:
            last = int(connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])
            numbered = (sealed("events", (last + i, *row)) for i, row in enumerate(values, 1))
            connection.executemany(insertion("events"), numbered)
            last += len(values)
            insert_finished(connection, finished)
            if snapshot is not None:
                insert_snapshot(connection, last, snapshot)
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
            self._check_place()
            self._connection.execute("BEGIN IMMEDIATE")
            for work in batch:
                try:
                    results.append((work, self._savepoint(work)))
                except sqlite3.Error:
                    raise
                except Exception as error:
                    refused.append((work, error))
            self._connection.execute("COMMIT")
            self._check_place(during_commit=True)
        except (sqlite3.Error, JournalFailed) as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            for work in batch:
                work.done.set_exception(error if isinstance(error, JournalFailed) else journal_error(error, self.path))
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
        """Run the `write` of one piece of work. If it raises, undo only its own changes."""
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

    # ---- the files

    @property
    def displaced(self) -> str:
        """Return why the journal accepts nothing: its files were moved, removed or replaced. Empty if they were not."""
        if damage := _emptied(self.path):
            return str(JournalDamaged(damage))
        if _file_ids(self.path) == self._opened_files and not self._ambiguous:
            return ""
        copy = f"`headway journal restore {self._rescued}`" if self._rescued else "`headway journal restore` a backup"
        what = f"{self.path} was removed or replaced under the running manager, which accepts nothing more"
        return f"{what}: stop the manager, {copy}, and start it again"

    def _check_place(self, during_commit: bool = False) -> None:
        """Raise JournalFailed if the next manager would not find the open files; copy their content first."""
        if not self.displaced:
            self._rescued = ""
            return
        self._ambiguous |= during_commit
        self._rescue()
        raise JournalDisplaced(self.displaced, self.path)

    def _rescue(self) -> None:
        """Copy the journal from the open files, which have lost their names, to a new file in the same folder."""
        if self._rescued or _emptied(self.path):
            return
        to = free_name(self.path, "rescued")
        try:
            os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(to)) as copy:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")
            self._rescued = str(to)
        except (sqlite3.Error, OSError):
            with contextlib.suppress(OSError):
                to.unlink()

    # ---- reading

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise JournalDamaged or JournalFailed for errors of SQLite in the block. Note damage for the next manager."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            reason = journal_error(error, self.path)
            if isinstance(reason, JournalDamaged):
                suspect(self.path.parent)
                raise reason from None
            unreadable = f"the journal cannot be read ({error}): `headway journal check` says more"
            if displaced := self.displaced:
                raise JournalDisplaced(displaced, self.path) from None
            raise JournalFailed(unreadable, {"cause": str(error), "path": str(self.path)}) from None
        except JournalDamaged:
            suspect(self.path.parent)
            raise

    def rows(self, after: int = 0, limit: int = -1) -> list[JournalRow]:
        """Return the rows after number `after`, at most `limit` (-1: all)."""
        stored = self.query("SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
        with self._readable():
            rows = [verified("events", row) for row in stored]
        return [
            JournalRow(time, kind, job, attempt, json.loads(data), seq) for seq, time, kind, job, attempt, data in rows
        ]

    def each(self, after: int = 0) -> Iterator[JournalRow]:
        """Yield the rows after number `after`, page by page, so that a long journal does not fill the memory."""
        while page := self.rows(after, PAGE):
            for row in page:
                after += 1
                if row.seq != after:
                    raise JournalDamaged(f"row {after} of table events is missing")
                yield row

    def query(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of an SQL query."""
        with self._reading, self._readable():
            return self._reader.execute(sql, values).fetchall()

    def read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return `ask(connection)` on a new connection: a long read does not delay others."""
        with (
            self._readable(),
            contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)) as connection,
        ):
            return ask(connection)

    def look(self) -> None:
        """Read the end of each table from disk; JournalFailed if the next manager could not. A new connection has no cache."""
        if displaced := self.displaced:
            raise JournalDisplaced(displaced, self.path)

        def ends(connection: sqlite3.Connection) -> None:
            for table in ("meta", "jobs", "specs", "events", "finished"):
                connection.execute(f"SELECT * FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone()

        self.read(ends)

    @property
    def last(self) -> tuple[int, float]:
        """Return the number and the time of the last row."""
        rows = self.query("SELECT * FROM events ORDER BY seq DESC LIMIT 1")
        with self._readable():
            seq, time, *_ = verified("events", rows[0]) if rows else (0, 0.0)
        return int(seq), float(time)

    def meta(self, name: str) -> str | None:
        """Return a remembered value, or None."""
        with self._reading, self._readable():
            return remembered(self._reader, name)

    def remember(self, name: str, value: str) -> None:
        """Store a value by name; `meta` returns it."""
        row = sealed("meta", (name, value))
        self.commit(lambda connection: connection.execute(insertion("meta", "REPLACE"), row))

    def close(self) -> None:
        """Write all queued work, then unlock the data folder."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        if self.displaced:
            self._rescue()
        self._connection.close()
        self._reader.close()
        self._resources.close()


def _refuse_small_blocks(data: Path) -> None:
    """Refuse a disk on which a full disk would kill SQLite: of its index in mapped memory, it allocates one byte in every 4 KiB.

    If blocks are smaller, a write to that memory needs a new block, and ends in a bus error if the disk is full.
    """
    block_bytes = os.statvfs(data).f_bsize  # not f_frsize: ZFS states sectors there
    if 0 < block_bytes < INDEX_PAGE:
        what = f"the disk of {data} has blocks of {block_bytes} bytes, and a journal needs {INDEX_PAGE} or more"
        fields = {"cause": what, "path": str(data)}
        raise JournalFailed(f"{what}: give a --data folder on another disk", fields)


def _file_ids(path: Path) -> list[tuple[int, int] | None]:
    """Return device and inode of the database, its log and its index; None for a missing file."""
    files: list[tuple[int, int] | None] = []
    database = os.fspath(path)
    for name in (database, f"{database}-wal", f"{database}-shm"):
        try:
            status = os.stat(name)
            files.append((status.st_dev, status.st_ino))
        except OSError:
            files.append(None)
    return files


def _emptied(path: Path) -> str:
    """Return what is wrong with a file that was emptied under the manager; empty if none was. A log is empty before a commit.

    The database is not opened: closing it would give up the locks that SQLite has on it.
    """
    log = path.with_name(f"{path.name}-wal")
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            return f"{path.name} was emptied under the running manager"
        with open(log, "rb") as file:
            if file.read(len(LOG_MAGIC)) not in (b"", LOG_MAGIC):
                return f"the header of {log.name} was overwritten under the running manager"
    return ""


def _as_text(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) if data else "{}"
