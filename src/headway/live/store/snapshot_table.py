"""The table of snapshots in the journal's file: the last two snapshots."""

import sqlite3
from dataclasses import dataclass

from headway.live.store.integrity.checksum import insertion, intact, sealed

KEPT = 2  # if the last snapshot is damaged, a restart reads the one before it


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state as a row of the table: the setting in which it can be used, and its content as bytes (snapshot.py)."""

    setting: str
    content: bytes


def insert_snapshot(connection: sqlite3.Connection, seq: int, snapshot: StateSnapshot) -> None:
    """Write a snapshot of the state after row `seq`, and delete all but the last two."""
    connection.execute(
        insertion("snapshots", "REPLACE"), sealed("snapshots", (seq, snapshot.setting, snapshot.content))
    )
    sql = "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)"
    connection.execute(sql, (KEPT,))


def stored(connection: sqlite3.Connection) -> list[tuple[int, StateSnapshot | None]]:
    """Return the snapshots with their last rows, newest first; None for a damaged snapshot."""
    rows = connection.execute("SELECT * FROM snapshots ORDER BY seq DESC")
    return [(row[0], StateSnapshot(row[1], row[2]) if intact("snapshots", row) else None) for row in rows]
