"""Submissions on disk: jobs as they were accepted, once each. The same user and key again give the same jobs."""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.errors import HeadwayError
from headway.live.errors import KeyReused
from headway.live.jobfile.spec import JobSpec
from headway.live.store.integrity.check import FLOOR
from headway.live.store.integrity.checksum import insertion, remembered, sealed, verified


@dataclass(slots=True)
class Submission:
    """A submitted job, or the tasks of an array; later their numbers, or why they were refused."""

    spec: JobSpec
    text: str  # `spec` as the journal stores it
    user: str
    key: str | None
    submitted: float
    tasks: Sequence[int | None]  # indices of an array, or None
    on_done: Callable[["Submission"], None]  # called once it is on disk or refused
    numbers: Sequence[int] = ()
    new: bool = False  # accepted now, not by an earlier submission with the same key
    counted: int = 0  # jobs that count against the limits of the user
    error: Exception | None = None
    digest: int = field(init=False)

    def __post_init__(self) -> None:
        self.digest = int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:7], "big")


def insert_all(
    connection: sqlite3.Connection, batch: Sequence[Submission], count: Callable[[Submission], None]
) -> None:
    """Write the new submissions of a batch with a few statements. `count` refuses jobs beyond the limits of their user."""
    sql = "SELECT coalesce(max(id), 0), (SELECT coalesce(max(id), 0) + 1 FROM specs) FROM jobs"
    last, spec_id = connection.execute(sql).fetchone()
    number = max(last, int(remembered(connection, FLOOR) or 0)) + 1
    by_key: dict[tuple[str, str | None], Submission] = {}  # of this batch
    specs, jobs, keys = [], [], []
    for each in batch:
        try:
            if _given_before(connection, each, by_key):
                continue
            count(each)
        except HeadwayError as error:
            each.error = error
            continue
        each.numbers, each.new = range(number, number + len(each.tasks)), True
        array_id = None if each.tasks[0] is None else number
        specs.append(sealed("specs", (spec_id, each.text)))
        jobs += [
            sealed("jobs", (own, each.user, each.submitted, spec_id, array_id, index))
            for own, index in zip(each.numbers, each.tasks, strict=True)
        ]
        if each.key is not None:
            keys.append(sealed("keys", (each.user, each.key, number, len(each.tasks), each.digest)))
            by_key[each.user, each.key] = each
        number, spec_id = number + len(each.tasks), spec_id + 1
    for table, rows in (("specs", specs), ("jobs", jobs), ("keys", keys)):
        connection.executemany(insertion(table), rows)


def _given_before(
    connection: sqlite3.Connection, each: Submission, by_key: dict[tuple[str, str | None], Submission]
) -> bool:
    """Return whether the key has numbers already, and set them; KeyReused if they are of another job."""
    if each.key is None:
        return False
    if twin := by_key.get((each.user, each.key)):
        first, count, digest = twin.numbers[0], len(twin.numbers), twin.digest
    else:
        row = connection.execute("SELECT * FROM keys WHERE user = ? AND key = ?", (each.user, each.key)).fetchone()
        if row is None:
            return False
        _, _, first, count, digest = verified("keys", row)
    if digest != each.digest:
        raise KeyReused(f"the key {each.key!r} was used for another job: take a new key for a new job")
    each.numbers = range(first, first + count)
    return True
