"""Job history: one row per ended job, kept as long as the journal, and the current jobs.

A job's row is written in the same transaction as the fact that it ended; the manager's memory holds only the last of them.
"""

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import BadInput
from headway.live.errors import JournalFailed
from headway.live.store.index_room import index_room
from headway.live.store.integrity.check import refuse_damage
from headway.live.store.integrity.checksum import insertion, sealed, verified
from headway.live.store.integrity.schema import require

if TYPE_CHECKING:
    from headway.live.manager.manager import Manager

AWAY_SINCE = "away_since"  # in an Opened row: when the manager before this one was last alive
ARCHIVED = "archived"  # in a row Ended of the journal: the row of the finished job was written before
LATE = "late"  # in a row of the journal: seconds since the engine was to be woken


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One job. Times are seconds since 1970; `started_at` is its first start, `nodes` where it ran last, `wait_s` all that it waited."""

    job_id: int
    user: str
    queue: str
    name: str
    state: str
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    nodes: tuple[str, ...]
    gpus: int
    wait_s: float
    gpu_hours: float
    preemptions: int
    exit_code: int | None
    message: str = ""  # why it failed, or which limit it reached


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs: of a user, in one of these states, not over before `since`, submitted by `until`; the newest `limit` of them."""

    user: str | None = None
    states: frozenset[str] | None = None
    since: float | None = None
    until: float | None = None
    limit: int | None = None

    def passes(self, row: HistoryRow) -> bool:
        """Whether the row is wanted."""
        return (
            (self.user is None or row.user == self.user)
            and (self.states is None or row.state in self.states)
            and (self.since is None or row.ended_at is None or row.ended_at >= self.since)
            and (self.until is None or row.submitted_at <= self.until)
        )

    def where(self) -> tuple[str, list[Any]]:
        """The same as a condition on the table of finished jobs, with its values."""
        parts, values = ["1"], list[Any]()
        if self.user is not None:
            parts.append("user = ?")
            values.append(self.user)
        if self.states is not None:
            parts.append(f"state IN ({', '.join('?' * len(self.states))})")
            values += sorted(self.states)
        if self.since is not None:
            parts.append("ended >= ?")
            values.append(self.since)
        if self.until is not None:
            parts.append("submitted <= ?")
            values.append(self.until)
        return " AND ".join(parts), values


def history(
    source: "Manager | Path",
    *,
    user: str | None = None,
    state: str | Collection[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = None,
) -> list[HistoryRow]:
    """Jobs, newest first. From a manager: all jobs; from a data folder or a journal's file: those that have ended.

    `state` is one name of a state or several. `since` and `until` choose the jobs that were there at some time between the two.
    """
    states = None if state is None else frozenset([state] if isinstance(state, str) else state)
    wanted = Wanted(user, states, since, until, limit)
    return read_file(source, wanted) if isinstance(source, Path) else source.history(wanted)


def read_file(path: Path, wanted: Wanted) -> list[HistoryRow]:
    """Finished jobs from a journal on disk, which a manager may be writing."""
    path = path / "journal.db" if path.is_dir() else path
    if not path.exists():
        raise BadInput(f"{path}: there is no journal; give the data folder of a manager")
    refuse_damage(path)
    try:
        with (
            index_room(path),
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection,
        ):
            require(connection)
            return finished(connection, wanted)
    except sqlite3.Error as error:
        raise JournalFailed(f"{path} cannot be read ({error}): try `headway journal check`") from None


def finished(connection: sqlite3.Connection, wanted: Wanted, but: Collection[int] = ()) -> list[HistoryRow]:
    """Finished jobs that are wanted, newest first, but for some."""
    where, values = wanted.where()
    most = -1 if wanted.limit is None else wanted.limit + len(but)
    sql = f"SELECT * FROM finished WHERE {where} ORDER BY job DESC LIMIT ?"
    wanted_rows = (row for row in connection.execute(sql, [*values, most]) if row[0] not in but)
    return [_row(row) for row in islice(wanted_rows, wanted.limit)]


def _row(row: Any) -> HistoryRow:
    values = verified("finished", row)
    rest = zlib.decompress(values[-1])
    message = json.loads(rest)["job"].get("message", "") if b'"message":' in rest else ""
    fields = [*values[:8], tuple(json.loads(values[8])), *values[9:14], message]
    return HistoryRow(*fields)


def insert_finished(connection: sqlite3.Connection, rows: Iterable[tuple[HistoryRow, bytes]]) -> None:
    """Write rows of jobs that have ended, each with what the manager needs to show or recall the job; later rows win."""
    for row, rest in rows:
        before = (row.job_id, row.user, row.queue, row.name, row.state, row.submitted_at, row.started_at, row.ended_at)
        after = (row.gpus, row.wait_s, row.gpu_hours, row.preemptions, row.exit_code, rest)
        values = sealed("finished", (*before, json.dumps(row.nodes), *after))
        connection.execute(insertion("finished", "REPLACE"), values)


def late_rounds(connection: sqlite3.Connection, since: float) -> list[tuple[float, float]]:
    """Return times (from, to) in which nothing was decided: the engine was woken too late, or no manager ran."""
    sql = f"""SELECT * FROM events WHERE time >= ? AND (kind = 'Opened' OR data LIKE '%"{LATE}":%') ORDER BY seq"""
    spans = []
    for row in connection.execute(sql, (since,)):
        _, time, *_, data = verified("events", row)
        about = json.loads(data)
        if AWAY_SINCE in about:
            spans.append((float(about[AWAY_SINCE]), float(time)))
        if about.get(LATE, 0.0) > 0:
            spans.append((time - about[LATE], float(time)))
    return sorted(spans)
