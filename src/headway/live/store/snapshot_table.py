"""The table of snapshots in the journal's file: the last two, each with a hash that tells a damaged one apart."""

import hashlib
import sqlite3
from dataclasses import dataclass

SCHEMA = """
CREATE TABLE IF NOT EXISTS snapshots (seq INTEGER PRIMARY KEY, setting TEXT NOT NULL, hash TEXT NOT NULL, content BLOB NOT NULL);
"""
KEPT = 2  # should the last be damaged, the one before it is read


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, ready to be written: what it was made under, and the rest as bytes (see snapshot.py)."""

    setting: str
    content: bytes

    @property
    def hash(self) -> str:
        """Tells a damaged one apart."""
        return hashlib.sha256(self.setting.encode() + self.content).hexdigest()


def insert_snapshot(connection: sqlite3.Connection, seq: int, made: Snapshot) -> None:
    """Write a snapshot that knows everything up to a row of the journal; older ones make room."""
    connection.execute("REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (seq, made.setting, made.hash, made.content))
    sql = "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)"
    connection.execute(sql, (KEPT,))


def stored(connection: sqlite3.Connection) -> list[tuple[int, Snapshot | None]]:
    """The snapshots by the rows that they know, newest first; None for a damaged one."""
    found: list[tuple[int, Snapshot | None]] = []
    for seq, setting, expected, content in connection.execute("SELECT * FROM snapshots ORDER BY seq DESC"):
        made = Snapshot(setting, content) if isinstance(content, bytes) and isinstance(setting, str) else None
        found.append((seq, made if made and made.hash == expected else None))
    return found
