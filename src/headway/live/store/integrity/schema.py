"""The tables of the journal, the version of their format, and the conversion of journals that earlier versions wrote."""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import cache
from typing import Final

from headway.errors import BadInput
from headway.live.errors import JournalDamaged
from headway.live.store.integrity.checksum import WIDTHS, checksum
from headway.live.store.integrity.convert import convert

FORMAT: Final = 2  # 1: version 0.1; 0: before checksums
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


def prepare(connection: sqlite3.Connection) -> bool:
    """Create the tables of a new journal, or convert those of an earlier version, in one transaction. Return whether it converted."""
    if version_of(connection) == FORMAT:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        former = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not version_of(connection):
            _make_tables(connection, former)
        if former:
            convert(connection)
        connection.execute(f"PRAGMA user_version = {FORMAT * EACH_BYTE}")
        connection.execute("COMMIT")
        return bool(former)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _make_tables(connection: sqlite3.Connection, former: set[str]) -> None:
    """Create the tables, and copy the rows of tables without checksums."""
    _set_aside(connection, former)
    for statement in SCHEMA:
        connection.execute(statement)
    for table in WIDTHS:
        if table in former:
            _convert(connection, table)


def _set_aside(connection: sqlite3.Connection, former: set[str]) -> None:
    for (index,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL"
    ).fetchall():
        connection.execute(f"DROP INDEX {index}")
    for table in former & set(WIDTHS):
        connection.execute(f"ALTER TABLE {table} RENAME TO former_{table}")


def _convert(connection: sqlite3.Connection, table: str) -> None:
    """Copy the rows of a table that had no checksums. A snapshot had a hash instead."""
    connection.create_function("checksum", -1, lambda *values: checksum(table, values), deterministic=True)
    columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")][:-1]
    listed = ", ".join(columns)
    connection.execute(f"INSERT INTO {table} SELECT {listed}, checksum({listed}) FROM former_{table}")
    connection.execute(f"DROP TABLE former_{table}")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a journal's format, 0 for one without checksums; BadInput if a newer version wrote it."""
    value = int(connection.execute("PRAGMA user_version").fetchone()[0])
    version = value & 0xFF
    if value != version * EACH_BYTE:
        raise JournalDamaged(f"the version of its format is {value:#x}")
    if version > FORMAT:
        wrote = f"a newer version of Headway wrote the journal (format {version}, this version knows {FORMAT})"
        raise BadInput(f"{wrote}: start that version, or give another --data folder")
    return version


def require(connection: sqlite3.Connection) -> None:
    """Raise BadInput for a journal that this version does not read as it is."""
    if version_of(connection) != FORMAT:
        raise BadInput("an earlier version wrote the journal: start the manager once, which converts it")


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
