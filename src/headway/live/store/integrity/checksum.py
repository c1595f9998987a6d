"""Row checksums: the last column of every table of the journal is a CRC-32 of the table's name and the columns before it."""

import sqlite3
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from headway.live.errors import JournalDamaged

# Columns before the checksum, by table.
WIDTHS: Final = {"meta": 2, "jobs": 6, "specs": 2, "keys": 5, "events": 6, "finished": 15, "snapshots": 3}
UNCHANGED: Final = frozenset({int, str, type(None)})  # types that SQLite gives back as they were written


def checksum(table: str, values: Sequence[Any]) -> int:
    """Return the CRC-32 of a row. SQLite may store 2.0 as 2: whole numbers count as integers."""
    crc = zlib.crc32(table.encode())
    for value in values:
        if type(value) is bytes:
            crc = zlib.crc32(value, crc)
    plain = [v if type(v) in UNCHANGED else _stored(v) for v in values if type(v) is not bytes]
    return zlib.crc32(repr(plain).encode("utf-8", "surrogatepass"), crc)


def _stored(value: Any) -> Any:
    """Return a number or a text, also of a subclass, as SQLite gives it back."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    return int(value) if isinstance(value, int) else str.__str__(value)


def sealed(table: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with its checksum, ready to be inserted."""
    return (*values, checksum(table, values))


def intact(table: str, row: Sequence[Any]) -> bool:
    """Return whether the checksum of a row is right."""
    return len(row) == WIDTHS[table] + 1 and row[-1] == checksum(table, row[:-1])


def verified(table: str, row: Sequence[Any]) -> Sequence[Any]:
    """Return the columns of a row without its checksum; JournalDamaged if the checksum is wrong."""
    if not intact(table, row):
        raise JournalDamaged(f"row {row[0]!r} of table {table} fails its checksum")
    return row[:-1]


@cache
def insertion(table: str, verb: str = "INSERT") -> str:
    """Return the SQL that inserts a sealed row."""
    return f"{verb} INTO {table} VALUES ({', '.join('?' * (WIDTHS[table] + 1))})"


def remembered(connection: sqlite3.Connection, name: str) -> str | None:
    """Return a value of the table `meta`."""
    row = connection.execute("SELECT * FROM meta WHERE name = ?", (name,)).fetchone()
    return str(verified("meta", row)[1]) if row else None
