"""Identity of a journal: every attempt carries the identity of the journal that started it.

A small file beside the journal (`journal.mark`) says which journal was written last, how far, and when its manager was last alive. So a
journal that is missing, or an older copy, is noticed. It gets a new identity: no attempt is adopted that it does not know. Job numbers go
on after the highest that has a run folder.
"""

import contextlib
import json
import os
import threading
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path

from headway.live.store.integrity.check import FLOOR, MISSING, missing_jobs, ranges_of
from headway.live.store.journal import Journal

MARK = "journal.mark"
IDENTITIES = "identities"
PENDING = "salvaged"  # name in `meta`: what was lost, until a manager has dealt with it
MOST_NAMED = 10  # ranges of job numbers in a message
LONGEST = 80  # bytes of the mark


class JournalMark:
    """The file that says how far the journal was written, and until when. Not flushed: after a loss of power it may lag behind."""

    def __init__(self, data: Path, identity: str) -> None:
        self._file = os.open(data / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._identity, self._seq, self._job, self._now = identity, 0, 0, 0.0
        self._lock = threading.Lock()

    def set(self, seq: int = 0, job: int = 0, now: float = 0.0) -> None:
        """Note that the journal has rows and jobs up to these numbers, and that the manager is alive now. Nothing goes back."""
        with self._lock, contextlib.suppress(OSError):  # a full disk: the journal itself says so
            self._seq, self._job, self._now = max(self._seq, seq), max(self._job, job), max(self._now, now)
            text = f"{self._identity} {self._seq} {self._job} {self._now!r}"
            os.pwrite(self._file, f"{text} {zlib.crc32(text.encode()):08x}".ljust(LONGEST).encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_mark(data: Path) -> tuple[str, int, int]:
    """Return the identity of the journal that was written last in this folder, its last row and last job; empty if unknown."""
    try:
        identity, seq, job, *_ = _mark_fields(data)
        return identity, int(seq), int(job)
    except (OSError, ValueError):
        return "", 0, 0


def last_alive(data: Path) -> float:
    """Return when the last manager of this folder was alive, by the manager's clock; 0 if that is not known."""
    try:
        return float(_mark_fields(data)[3])
    except (OSError, ValueError, IndexError):
        return 0.0


def _mark_fields(data: Path) -> list[str]:
    """Return the fields of the mark without their checksum: identity, row, job, time; ValueError if it is wrong."""
    *fields, crc = (data / MARK).read_text(encoding="ascii").split()
    if crc != f"{zlib.crc32(' '.join(fields).encode()):08x}":
        raise ValueError("the mark is damaged")
    return fields


def highest_run(data: Path) -> int:
    """Return the highest job number that has a folder of runs."""
    try:
        return max((int(name) for name in os.listdir(data / "runs") if name.isdigit()), default=0)
    except OSError:
        return 0


def settle(journal: Journal) -> tuple[str, ...]:
    """Return the identities of a journal, the present one last. A journal that was not written here last gets a new one.

    Numbers never start again. The row PENDING of `meta` says what was lost, until a manager has dealt with it (manager/aftermath.py).
    """
    data, (last_seq, last_time) = journal.path.parent, journal.last
    known: list[str] = json.loads(journal.meta(IDENTITIES) or "[]")
    (marked, marked_seq, marked_job), highest = read_mark(data), highest_run(data)
    most = int(journal.query("SELECT coalesce(max(id), 0) FROM jobs")[0][0])
    given = max(most, int(journal.meta(FLOOR) or 0))
    floor, warning = max(highest, marked_job, given), ""
    if not last_seq and (marked or highest):
        warning = f"{journal.path} is missing, though jobs were run from here: a new journal is begun"
    elif (marked and marked not in known) or floor > given:
        warning = f"{journal.path} is not the journal that was written here last, or an older copy of it"
    elif marked and (marked != known[-1] or marked_seq > last_seq):
        warning = f"{journal.path} is older than what was written here last: it ends at row {last_seq}"
    if warning:
        warning += f"; lost: {named(range(given + 1, marked_job + 1))}" if marked_job > given else ""
        warning += f"; job numbers go on after {floor}, and runs that it does not know are left alone"
        if copies := sorted(data.glob(f"{journal.path.name}.rescued-*"), key=lambda copy: copy.stat().st_mtime):
            warning += f"; to go back to {copies[-1].name}, stop the manager and `headway journal restore {copies[-1]}`"
        journal.remember(PENDING, json.dumps({"line": warning, "since": last_time}))
    if not known or warning:
        known.append(uuid.uuid4().hex)
        journal.remember(IDENTITIES, json.dumps(known))
    if floor > most:
        ranges = missing_jobs(journal.meta(MISSING), int(journal.meta(FLOOR) or 0))
        earlier = [[first, min(last, most)] for first, last in ranges if first <= most]
        journal.remember(MISSING, json.dumps([*earlier, [most + 1, floor]]))
        journal.remember(FLOOR, str(floor))
    return tuple(known)


def named(numbers: Iterable[int]) -> str:
    """Return job numbers as text, the first few ranges of them: "jobs 3, 5-7"."""
    ranges = ranges_of(numbers)
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:MOST_NAMED]]
    more = sum(last - first + 1 for first, last in ranges[MOST_NAMED:])
    plural = "s" if len(ranges) > 1 or ranges[0][0] != ranges[0][1] else ""
    return f"job{plural} {', '.join(shown)}" + (f" and {more} more" if more else "")
