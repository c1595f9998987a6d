"""A check of the whole journal: SQLite's own, the schema, the checksum of every row, missing numbers, and unknown kinds of rows."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headway.live.errors import JournalDamaged
from headway.live.operation.index_room import in_use
from headway.live.store.integrity import schema
from headway.live.store.integrity.checksum import WIDTHS, intact
from headway.live.store.integrity.log import PAGE_SIZES, read_log

FLOOR: Final = "last_number"  # name in `meta`: job numbers up to this one may be missing
COMPLETE_FROM: Final = "complete_from"  # name in `meta`: rows of `events` up to this one may be missing
SUSPECT: Final = (
    "journal.suspect"  # file beside the journal: damage was seen, so the next start checks the whole journal
)


def problems(file: sqlite3.Connection) -> Iterator[str]:
    """Yield the damage of a journal, the worst first."""
    for (text,) in file.execute("PRAGMA integrity_check"):
        yield from (line for line in text.splitlines() if line != "ok" and not line.startswith("***"))
    if not schema.version_of(file):
        return  # an earlier version wrote it, without checksums
    if wrong := list(schema.problems(file)):
        yield from wrong
        return
    for table in WIDTHS:
        bad = [str(row[0]) for row in file.execute(f"SELECT * FROM {table}") if not intact(table, row)]
        if bad:
            yield f"{len(bad)} rows of table {table} fail their checksums, the first is {bad[0]}"
    floor, complete_from = (_number(file, name) for name in (FLOOR, COMPLETE_FROM))
    for table, key, low in (("events", "seq", complete_from), ("jobs", "id", floor)):
        count, last = file.execute(
            f"SELECT count(*), coalesce(max({key}), 0) FROM {table} WHERE {key} > ?", [low]
        ).fetchone()
        if count != max(0, last - low):
            yield f"{last - low - count} rows of table {table} are missing between {low + 1} and {last}"
    for sql, what in (
        (
            "SELECT jobs.id FROM jobs LEFT JOIN specs ON specs.id = spec WHERE specs.id IS NULL AND jobs.id > ?",
            "job file",
        ),
        ("SELECT job FROM finished WHERE job NOT IN (SELECT id FROM jobs) AND job > ?", "submission"),
        ("SELECT job FROM events WHERE job NOT IN (SELECT id FROM jobs) AND job > ?", "submission"),
    ):
        if found := file.execute(f"{sql} LIMIT 1", [floor]).fetchone():
            yield f"the {what} of job {found[0]} is missing"


def unknown_rows(file: sqlite3.Connection) -> Iterator[str]:
    """Yield what this version does not understand, though the checksums are right: a newer version wrote it."""
    from headway.live.store.learn import ALL_KINDS

    kinds = [kind for (kind,) in file.execute("SELECT DISTINCT kind FROM events") if kind not in ALL_KINDS]
    if kinds:
        yield f"this version does not know rows of the kind {kinds[0]!r}: a newer version wrote them"
    for table, key, text in (("events", "seq", "data"), ("specs", "id", "text")):
        for number, content in file.execute(f"SELECT {key}, {text} FROM {table}"):
            try:
                json.loads(content)
            except (TypeError, ValueError):
                yield f"row {number} of table {table} is not JSON"
                break


def _number(file: sqlite3.Connection, name: str) -> int:
    row = file.execute("SELECT * FROM meta WHERE name = ?", [name]).fetchone()
    return int(row[1]) if row and intact("meta", row) else 0


def file_damage(path: Path) -> str:
    """Return what is wrong with the file's header or its write-ahead log, which SQLite would not say; empty if nothing is."""
    with open(path, "rb") as file:
        header = file.read(100)
    if header and not (
        header[:16] == b"SQLite format 3\0"
        and int.from_bytes(header[16:18], "big") in (*PAGE_SIZES, 1)
        and header[18:20] in (b"\1\1", b"\2\2")
        and header[20:24] == b"\0\x40\x20\x20"
        and header[56:60] in (bytes(4), b"\0\0\0\1")  # UTF-8; 0 while the first table is in the log alone
    ):
        return f"the header of {path.name} is not that of a database"
    log = read_log(path, with_frames=not header)
    return log.damage or (f"{path.name} is empty, and its write-ahead log is not" if log.frames else "")


def refuse_damage(path: Path) -> None:
    """Raise JournalDamaged for a file that SQLite would read only a part of; not while a manager writes it, which has checked it."""
    with contextlib.suppress(OSError):  # SQLite says why it cannot be read
        if not in_use(path) and (damage := file_damage(path)):
            raise JournalDamaged(damage, str(path))


def suspect(data: Path) -> None:
    """Let the next manager check the whole journal before it uses it."""
    with contextlib.suppress(OSError):
        (data / SUSPECT).touch(0o600)
