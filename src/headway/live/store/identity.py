"""Whose runs these are: a journal has an identity, and every attempt carries that of the journal that started it.

A small file beside the journal (`journal.mark`) says which journal was written last, how far, and when its manager was last alive. A
journal that is missing, or older than that because somebody put a copy in its place, is noticed: it gets a new identity, so that nothing
is adopted that it does not know, and job numbers go on after the highest that has a run folder.
"""

import contextlib
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from headway.live.store.journal import Journal

MARK = "journal.mark"
FLOOR = "last_number"  # numbers up to this one were given by another journal
IDENTITIES = "identities"
UNMARKED = ""  # of attempts that were started before journals had identities
LONGEST = 80


@dataclass(frozen=True, slots=True)
class Identity:
    """The identities of a journal, the present one last, and what to tell the operator."""

    known: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def present(self) -> str:
        """What attempts started now carry."""
        return self.known[-1]


class Mark:
    """The file that says how far the journal was written, and until when. Not flushed: after a loss of power it may lag behind."""

    def __init__(self, data: Path, identity: str) -> None:
        self._file = os.open(data / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._identity = identity

    def set(self, seq: int, now: float) -> None:
        """Note that the journal is written up to this row, and that the manager is alive now."""
        with contextlib.suppress(OSError):  # a full disk: the journal itself says so
            os.pwrite(self._file, f"{self._identity} {seq} {now!r}".ljust(LONGEST).encode(), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_mark(data: Path) -> tuple[str, int]:
    """The identity of the journal that was written last in this folder, and how far; empty if that is not known."""
    try:
        identity, seq = (data / MARK).read_text(encoding="ascii").split()[:2]
        return identity, int(seq)
    except (OSError, ValueError):
        return "", 0


def last_alive(data: Path) -> float:
    """Return when the last manager of this folder was alive, by the manager's clock; 0 if that is not known."""
    try:
        return float((data / MARK).read_text(encoding="ascii").split()[2])
    except (OSError, ValueError, IndexError):
        return 0.0


def highest_run(data: Path) -> int:
    """The highest job number that has a folder of runs."""
    try:
        return max((int(name) for name in os.listdir(data / "runs") if name.isdigit()), default=0)
    except OSError:
        return 0


def settle(journal: Journal) -> Identity:
    """Find out whether this is the journal that was written here last; if not, give it a new identity. Numbers never start again."""
    data, (last_seq, _) = journal.path.parent, journal.last
    known: list[str] = json.loads(journal.meta(IDENTITIES) or "[]")
    (marked, marked_seq), highest = read_mark(data), highest_run(data)
    most = int(journal.query("SELECT coalesce(max(id), 0) FROM jobs")[0][0])
    floor = max(highest, int(journal.meta(FLOOR) or 0))
    warnings = []
    if not last_seq and (marked or highest):
        warnings.append(f"{journal.path} is missing, though jobs were run from here: a new journal is begun")
    elif (marked and marked not in known) or highest > max(most, int(journal.meta(FLOOR) or 0)):
        warnings.append(f"{journal.path} is not the journal that was written here last, or an older copy of it")
    elif marked and (marked != known[-1] or marked_seq > last_seq):
        warnings.append(f"{journal.path} is older than what was written here last: it ends at row {last_seq}")
    if warnings:
        warnings[0] += f"; job numbers go on after {max(most, floor)}, and runs that it does not know are left alone"
    if not known or warnings:
        upgraded = [UNMARKED] if not known and last_seq else []
        known += [*upgraded, uuid.uuid4().hex]
        journal.remember(IDENTITIES, json.dumps(known))
    if floor > most:
        journal.remember(FLOOR, str(floor))
    return Identity(tuple(known), tuple(warnings))
