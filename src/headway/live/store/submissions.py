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
    """Write the new submissions of a batch, and give their jobs numbers. `count` refuses jobs beyond the limits of their user."""
    sql = "SELECT coalesce(max(id), 0), (SELECT coalesce(max(id), 0) + 1 FROM specs) FROM jobs"
    last, spec_id = connection.execute(sql).fetchone()
    number = max(last, int(remembered(connection, FLOOR) or 0)) + 1
    by_key: dict[tuple[str, str | None], Submission] = {}  # of this batch
    specs, jobs, keys = [], [], []
    for submission in batch:
        try:
            if _repeated(connection, submission, by_key):
                continue
            count(submission)
        except HeadwayError as error:
            submission.error = error
            continue
        submission.numbers, submission.new = range(number, number + len(submission.tasks)), True
        array_id = None if submission.tasks[0] is None else number
        specs.append(sealed("specs", (spec_id, submission.text)))
        jobs += [
            sealed("jobs", (job_id, submission.user, submission.submitted, spec_id, array_id, index))
            for job_id, index in zip(submission.numbers, submission.tasks, strict=True)
        ]
        if submission.key is not None:
            keys.append(
                sealed("keys", (submission.user, submission.key, number, len(submission.tasks), submission.digest))
            )
            by_key[submission.user, submission.key] = submission
        number, spec_id = number + len(submission.tasks), spec_id + 1
    for table, rows in (("specs", specs), ("jobs", jobs), ("keys", keys)):
        connection.executemany(insertion(table), rows)


def _repeated(
    connection: sqlite3.Connection, submission: Submission, by_key: dict[tuple[str, str | None], Submission]
) -> bool:
    """Return whether an earlier submission has the same key, and copy its numbers; KeyReused if they are of another job."""
    if submission.key is None:
        return False
    if earlier := by_key.get((submission.user, submission.key)):
        first, count, digest = earlier.numbers[0], len(earlier.numbers), earlier.digest
    else:
        row = connection.execute(
            "SELECT * FROM keys WHERE user = ? AND key = ?", (submission.user, submission.key)
        ).fetchone()
        if row is None:
            return False
        _, _, first, count, digest = verified("keys", row)
    if digest != submission.digest:
        raise KeyReused(f"the key {submission.key!r} was used for another job: take a new key for a new job")
    submission.numbers = range(first, first + count)
    return True
