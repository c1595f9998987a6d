"""Submissions on disk: jobs as they were accepted, once each. The same user and key again give the same jobs."""

import hashlib
import sqlite3

from headway.live.errors import WrongState


def find_key(connection: sqlite3.Connection, user: str, key: str | None, text: str) -> tuple[list[int], bool] | None:
    """The jobs that this key has given already, if any."""
    if key is None:
        return None
    sql = "SELECT first, count, spec FROM keys WHERE user = ? AND key = ?"
    found = connection.execute(sql, (user, key)).fetchone()
    if found is None:
        return None
    if found[2] != _digest(text):
        raise WrongState(f"the key {key!r} was used for another job: take a new key for a new job")
    return list(range(found[0], found[0] + found[1])), False


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def insert(
    connection: sqlite3.Connection, user: str, key: str | None, text: str, submitted: float, tasks: list[int | None]
) -> tuple[list[int], bool]:
    """Write new jobs."""
    given = (
        "(SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'last_number')"  # store/identity.py
    )
    first = int(connection.execute(f"SELECT max(coalesce(max(id), 0), {given}) + 1 FROM jobs").fetchone()[0])
    spec_id = connection.execute("INSERT INTO specs (text) VALUES (?)", (text,)).lastrowid
    ids = list(range(first, first + len(tasks)))
    array_id = None if tasks == [None] else first
    rows = [(i, user, submitted, spec_id, array_id, index) for i, index in zip(ids, tasks, strict=True)]
    connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)", rows)
    if key is not None:
        connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", (user, key, first, len(tasks), _digest(text)))
    return ids, True
