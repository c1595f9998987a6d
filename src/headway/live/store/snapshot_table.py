"""The table of snapshots in the journal's file: the last two."""

import sqlite3
from dataclasses import dataclass

from headway.live.store.integrity.checksum import insertion, intact, sealed

KEPT = 2  # should the last be damaged, the one before it is read


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state, ready to be written: what it was made under, and the rest as bytes (see snapshot.py)."""

    setting: str
    content: bytes


def insert_snapshot(connection: sqlite3.Connection, seq: int, made: StateSnapshot) -> None:
    """Write a snapshot that knows everything up to a row of the journal; older ones make room."""
    connection.execute(insertion("snapshots", "REPLACE"), sealed("snapshots", (seq, made.setting, made.content)))
    sql = "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)"
    connection.execute(sql, (KEPT,))


def stored(connection: sqlite3.Connection) -> list[tuple[int, StateSnapshot | None]]:
    """Yield the snapshots by their last row, newest first; None for a damaged one."""
    rows = connection.execute("SELECT * FROM snapshots ORDER BY seq DESC")
    return [(row[0], StateSnapshot(row[1], row[2]) if intact("snapshots", row) else None) for row in rows]
