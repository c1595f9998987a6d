"""Check the whole journal: SQLite's integrity check, the schema, row checksums, missing numbers, and unknown kinds of rows."""

import contextlib
import fcntl
import json
import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headway.io.units import counted
from headway.live.errors import JournalDamaged
from headway.live.store.integrity import schema
from headway.live.store.integrity.checksum import WIDTHS, intact
from headway.live.store.integrity.log import PAGE_SIZES, read_log

COMPLETE_FROM: Final = "complete_from"  # name in `meta`: rows of `events` up to this one may be missing
FLOOR: Final = "last_number"  # name in `meta`: job numbers up to this one are not given again
MISSING: Final = "missing"  # name in `meta`: ranges of job numbers that earlier losses took, as JSON
# A file beside the journal: damage was seen, so the next start checks the whole journal.
SUSPECT: Final = "journal.suspect"

IN_USE: Final = 128  # byte of a log's index that every process with an open connection locks (os_unix.c: UNIX_SHM_DMS)
_opened_here: set[str] = set()  # paths of journals


def problems(file: sqlite3.Connection) -> Iterator[str]:
    """Yield the damage of a journal, the worst first."""
    for (text,) in file.execute("PRAGMA integrity_check"):
        yield from (line for line in text.splitlines() if line != "ok" and not line.startswith("***"))
    if in_schema := list(schema.problems(file)):
        yield from in_schema
        return
    for table in WIDTHS:
        bad = [str(row[0]) for row in file.execute(f"SELECT * FROM {table}") if not intact(table, row)]
        if bad:
            yield f"table {table}: {counted(len(bad), 'row')} with a wrong checksum, the first is {bad[0]}"
    floor, complete_from = int(_value(file, FLOOR) or 0), int(_value(file, COMPLETE_FROM) or 0)
    count, last = file.execute(
        "SELECT count(*), coalesce(max(seq), 0) FROM events WHERE seq > ?", [complete_from]
    ).fetchone()
    if count != max(0, last - complete_from):
        lost = counted(last - complete_from - count, "row")
        yield f"table events: {lost} missing between {complete_from + 1} and {last}"
    missing = missing_jobs(_value(file, MISSING), floor)
    sql = "SELECT * FROM (SELECT lag(id, 1, 0) OVER (ORDER BY id) AS before, id FROM jobs) WHERE id > before + 1"
    for before, number in file.execute(sql):
        if not covered(missing, before + 1, number - 1):
            yield f"table jobs: {counted(number - before - 1, 'row')} missing between {before} and {number}"
    for sql, part in (
        ("SELECT jobs.id FROM jobs LEFT JOIN specs ON specs.id = spec WHERE specs.id IS NULL", "job file"),
        (f"SELECT job FROM finished WHERE job NOT IN (SELECT id FROM jobs) AND job > {floor}", "submission"),
        (f"SELECT job FROM events WHERE job NOT IN (SELECT id FROM jobs) AND job > {floor}", "submission"),
    ):
        if row := file.execute(f"{sql} LIMIT 1").fetchone():
            yield f"the {part} of job {row[0]} is missing"


def unknown_rows(file: sqlite3.Connection) -> Iterator[str]:
    """Yield rows that this version does not understand, though their checksums are right: a newer version wrote them."""
    from headway.live.rows import ALL_KINDS

    stored = (kind for (kind,) in file.execute("SELECT DISTINCT kind FROM events"))
    kinds = [kind for kind in stored if kind not in ALL_KINDS]
    if kinds:
        yield f"this version does not know rows of the kind {kinds[0]!r}: a newer version wrote them"
    for table, key, text in (("events", "seq", "data"), ("specs", "id", "text")):
        for number, content in file.execute(f"SELECT {key}, {text} FROM {table}"):
            try:
                json.loads(content)
            except (TypeError, ValueError):
                yield f"row {number} of table {table} is not JSON"
                break


def _value(file: sqlite3.Connection, name: str) -> str | None:
    row = file.execute("SELECT * FROM meta WHERE name = ?", [name]).fetchone()
    return str(row[1]) if row and intact("meta", row) else None


def missing_jobs(text: str | None, floor: int) -> list[list[int]]:
    """Return the ranges of job numbers that may be missing: the value of MISSING, or all up to `floor`."""
    ranges: list[list[int]] = json.loads(text) if text else [[1, floor]]
    return ranges


def covered(ranges: list[list[int]], first: int, last: int) -> bool:
    """Return whether one of the ranges holds all numbers from first to last."""
    return any(begin <= first and last <= end for begin, end in ranges)


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers as ranges, each with its first and its last number."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def file_damage(path: Path) -> str:
    """Return the damage of a database's header or write-ahead log, which SQLite does not report; empty if both are intact."""
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


@contextlib.contextmanager
def opened_here(path: Path) -> Iterator[None]:
    """Note that this process has a journal open."""
    _opened_here.add(os.path.realpath(path))
    try:
        yield
    finally:
        _opened_here.remove(os.path.realpath(path))


def in_use(path: Path) -> bool:
    """Return whether a process, this one included, has a database open: whether the index of its log is locked."""
    if (
        os.path.realpath(path) in _opened_here
    ):  # opening and closing the index would give up the locks that SQLite has on it
        return True
    try:
        index = os.open(f"{path}-shm", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        query = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, IN_USE, 1, 0)
        return bool(struct.unpack("hhqqi", fcntl.fcntl(index, fcntl.F_OFD_GETLK, query))[0] != fcntl.F_UNLCK)
    finally:
        os.close(index)


def refuse_damage(path: Path) -> None:
    """Raise JournalDamaged for a file that SQLite reads only in part. A running manager has checked its own file before."""
    with contextlib.suppress(OSError):  # SQLite says why it cannot be read
        if not in_use(path) and (damage := file_damage(path)):
            raise JournalDamaged(damage, str(path))


def suspect(data: Path) -> None:
    """Let the next manager check the whole journal before it uses it."""
    with contextlib.suppress(OSError):
        (data / SUSPECT).touch(0o600)
