"""The table of finished jobs, from which a job can be shown or recalled after it left the memory."""

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

from headway.live.jobfile.spec import JobSpec
from headway.live.state.retired import Archived, revive
from headway.live.store.integrity.checksum import WIDTHS, verified

_TABLES = "finished JOIN jobs ON jobs.id = finished.job JOIN specs ON specs.id = jobs.spec"


def archived(connection: sqlite3.Connection, job_id: int) -> Archived | None:
    """Return a finished job by its number, or None."""
    return next(page(connection, "finished.job = ?", [job_id], 1), None)


def page(
    connection: sqlite3.Connection,
    where: str,
    given: Collection[Any],
    limit: int,
    descending: bool = False,
    but: Collection[int] = (),
) -> Iterator[Archived]:
    """Yield finished jobs by number that fulfil a condition on the joined tables, except `but`; at most `limit` (-1: all)."""
    order = "DESC" if descending else "ASC"
    sql = f"SELECT finished.*, jobs.*, specs.* FROM {_TABLES} WHERE {where} ORDER BY finished.job {order} LIMIT ?"
    specs: dict[str, JobSpec] = {}
    for row in connection.execute(sql, [*given, limit]):
        if row[0] in but:
            continue
        finished, jobs = WIDTHS["finished"] + 1, WIDTHS["jobs"] + 1
        *_, rest = verified("finished", row[:finished])
        _, user, submitted, _, array_id, array_index = verified("jobs", row[finished : finished + jobs])
        _, text = verified("specs", row[finished + jobs :])
        spec = specs[text] if text in specs else specs.setdefault(text, JobSpec.model_validate_json(text))
        yield revive(rest, (user, spec, submitted, array_id, array_index))
