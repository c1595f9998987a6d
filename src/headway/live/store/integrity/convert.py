"""Conversion of journals of format 1 (version 0.1): other kinds of rows, other reasons, other columns of jobs.

Rows keep their numbers. What an old row says is never decided again, only written in today's words; snapshots are dropped, and the next
manager rebuilds the state from the rows. Finished jobs are converted when they are read (`job_row`).
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from numpy.typing import NDArray

from headway.core.tables.jobs import job_table
from headway.errors import BadInput
from headway.live.store.integrity.checksum import checksum, remembered, verified

COMPLETE_FROM: Final = "complete_from"  # name in `meta`: rows of `events` up to this one may be missing
FORMER_KINDS: Final = frozenset({"Reserve", "Resize", "Claim"})
FORMER_REASONS: Final = {"turn": "min_runtime", "reservation": "backfill_reservation"}
NO_RETRY: Final = ("Deferred", 0, 0, '{"until":null}')  # kind, job, attempt and data of a row that changes nothing
# Columns of the job table in format 1.
FORMER_COLUMNS: Final = (
    *("submit", "service", "ran", "waited", "total", "pending", "done", "left", "rate", "since", "first", "started"),
    *("queued", "end", "min_runtime", "turns", "save", "resume", "limit", "claimed", "change_at", "k1", "k2"),
    *("slice_wait", "whole_wait", "skew", "asked", "gpus", "model", "attempt", "preemptions", "resizes", "moves"),
    *("wasted", "seat", "link", "promise", "partner", "low", "high", "team", "demand", "group", "row", "level"),
    *("state", "resizing", "freeing", "displaced", "held_for", "rings"),
)
# Columns that were added within format 1, by version: with queues of teams, with kinds of nodes, and with groups of jobs.
ADDED: Final = (("claimed", "team"), ("demand",), ("group", "rings"))
RENAMED: Final = {"moves": "migrations", "claimed": None}  # None: the column is not kept


def convert(connection: sqlite3.Connection) -> None:
    """Convert a journal of format 1; BadInput if its state cannot be rebuilt without a snapshot."""
    incomplete = int(remembered(connection, COMPLETE_FROM) or 0)
    if incomplete:
        lost = f"rows before number {incomplete} were lost, and a snapshot of version 0.1 stands for them"
        fix = "drain it with version 0.1, and give this version another --data folder"
        raise BadInput(f"the journal cannot be converted ({lost}): {fix}")
    connection.execute("DELETE FROM snapshots")
    convert_events(connection)


def convert_events(connection: sqlite3.Connection) -> None:
    """Write rows of format 1 in the words of format 2; rows of format 2 stay as they are."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted({*FORMER_KINDS, "Explained"}))
    promised: dict[tuple[int, float], Any] = {}  # places of a Reserve, by job and time
    changes = []
    for row in connection.execute(f"SELECT * FROM events WHERE kind IN ({kinds}) ORDER BY seq"):
        seq, time, kind, job, attempt, text = verified("events", row)
        converted = _converted(time, kind, job, attempt, text, promised)
        if converted != (kind, job, attempt, text):
            changes.append((*converted, checksum("events", (seq, time, *converted)), seq))
    sql = "UPDATE events SET kind = ?, job = ?, attempt = ?, data = ?, checksum = ? WHERE seq = ?"
    connection.executemany(sql, changes)


def _converted(
    time: float, kind: str, job: int, attempt: int, text: str, promised: dict[tuple[int, float], Any]
) -> tuple[str, int, int, str]:
    """Return kind, job, attempt and data of a row in the words of format 2."""
    if kind == "Claim":
        return NO_RETRY
    data = json.loads(text)
    if kind == "Explained":
        data["why"] = FORMER_REASONS.get(data["why"], data["why"])
    elif kind == "Reserve":
        kind, promised[job, time] = "Promise", data.get("places")
    else:  # live jobs do not change their sizes: it ran elsewhere, on what was reserved in the same decision
        kind, places = "Migrate", promised.get((job, time))
        data = {name: value for name, value in data.items() if name != "places"} | (
            {"places": places} if places else {}
        )
    return kind, job, attempt, json.dumps(data, separators=(",", ":"))


def job_row(values: Sequence[Any]) -> NDArray[Any]:
    """Return a row of the job table from the values of format 1, also of versions that lack the last columns."""
    row, later = job_table(1), set[str]()
    for names in reversed(ADDED):
        later |= set(names) if len(values) + len(later) < len(FORMER_COLUMNS) else set()
    for name, value in zip([name for name in FORMER_COLUMNS if name not in later], values, strict=True):
        column = RENAMED.get(name, name)
        if column is not None:
            row[column] = value
    return row
