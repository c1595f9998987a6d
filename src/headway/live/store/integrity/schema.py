"""The tables of the journal, and the version of their format."""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import cache
from typing import Final

from headway.errors import BadInput
from headway.live.errors import JournalDamaged

FORMAT: Final = 2  # 0: a new file
# Of `PRAGMA user_version`: every byte holds the version, so that a flipped bit is not taken for another version.
EACH_BYTE: Final = 0x01010101
STATEMENTS: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)",
    """CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, user TEXT NOT NULL, submitted REAL NOT NULL, spec INTEGER NOT NULL, array_id INTEGER, array_index INTEGER,
    checksum INTEGER NOT NULL)""",
    "CREATE TABLE specs (id INTEGER PRIMARY KEY, text TEXT NOT NULL, checksum INTEGER NOT NULL)",
    """CREATE TABLE keys (
    user TEXT NOT NULL, key TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, spec INTEGER NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (user, key)) WITHOUT ROWID""",
    """CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, job INTEGER NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
    checksum INTEGER NOT NULL)""",
    """CREATE TABLE finished (
    job INTEGER PRIMARY KEY, user TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
    submitted REAL NOT NULL, started REAL, ended REAL, nodes TEXT NOT NULL, gpus INTEGER NOT NULL, wait_s REAL NOT NULL,
    gpu_hours REAL NOT NULL, preemptions INTEGER NOT NULL, exit_code INTEGER, rest BLOB NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE INDEX finished_by_end ON finished (ended)",
    "CREATE INDEX finished_by_state ON finished (state, job)",
    "CREATE INDEX finished_by_user ON finished (user, job)",
    "CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, setting TEXT NOT NULL, content BLOB NOT NULL, checksum INTEGER NOT NULL)",
)
# On one line each: SQLite quotes them in messages.
SCHEMA: Final = tuple(" ".join(statement.split()) for statement in STATEMENTS)
NAMES: Final = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables of a new journal, in one transaction; BadInput if the journal has another format."""
    if version_of(connection) or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        require(connection)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT * EACH_BYTE}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a journal's format; 0 for a new file."""
    value = int(connection.execute("PRAGMA user_version").fetchone()[0])
    version = value & 0xFF
    if value != version * EACH_BYTE:
        raise JournalDamaged(f"the version of its format is {value:#x}")
    return version


def require(connection: sqlite3.Connection) -> None:
    """Raise BadInput for a journal of another format than this version's."""
    version = version_of(connection)
    if version != FORMAT:
        wrote = f"the journal has format {version}, and this version of Headway reads format {FORMAT}"
        raise BadInput(f"{wrote}: start the version that wrote it, or give another --data folder")


def problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield tables and indexes of a journal that are missing or differ from this version's."""
    stored = {name: (kind, sql) for kind, name, sql in connection.execute(NAMES)}
    for name, expected in _expected().items():
        if stored.get(name) != expected:
            yield f"the {expected[0]} {name} is missing or not as this version makes it"


@cache
def _expected() -> dict[str, tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        return {name: (kind, sql) for kind, name, sql in connection.execute(NAMES)}
