"""Job history: one row per ended job, in the table `finished` of the journal.

A job's row is written in the same transaction as its Ended.
"""

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from headway.client.job import JobView
from headway.live.rows import AWAY_SINCE, LATE
from headway.live.store.integrity.checksum import insertion, sealed, verified


def finished(
    connection: sqlite3.Connection,
    where: str,
    given: Collection[Any],
    limit: int,
    descending: bool,
    but: Collection[int],
) -> Iterator[JobView]:
    """Yield finished jobs by number that fulfil a condition, except `but`; at most `limit` (-1: all)."""
    order = "DESC" if descending else "ASC"
    sql = f"SELECT * FROM finished WHERE {where} ORDER BY job {order} LIMIT ?"
    for row in connection.execute(sql, [*given, limit]):
        if row[0] not in but:
            yield _view(verified("finished", row))


def _view(row: Sequence[Any]) -> JobView:
    job_id, user, queue, name, state, submitted, started, ended, nodes, gpus, wait_s, gpu_hours, *others, rest = row
    preemptions, exit_code = others
    content = zlib.decompress(rest)
    return JobView(
        job_id=job_id,
        name=name,
        user=user,
        state=state,
        gpus=gpus,
        queue=queue,
        submitted_at=submitted,
        started_at=started,
        preemptions=preemptions,
        exit_code=exit_code,
        ended_at=ended,
        nodes=tuple(json.loads(nodes)),
        message=json.loads(content)["job"].get("message", "") if b'"message":' in content else "",
        wait_s=wait_s,
        gpu_hours=gpu_hours,
    )


def insert_finished(connection: sqlite3.Connection, rows: Iterable[tuple[JobView, bytes]]) -> None:
    """Write a row for each job that has ended, or replace it. The bytes show or recall the job (state/retired.py: content)."""
    for row, rest in rows:
        before = (row.job_id, row.user, row.queue, row.name, row.state, row.submitted_at, row.started_at, row.ended_at)
        after = (row.gpus, row.wait_s, row.gpu_hours, row.preemptions, row.exit_code, rest)
        values = sealed("finished", (*before, json.dumps(row.nodes), *after))
        connection.execute(insertion("finished", "REPLACE"), values)


def late_rounds(connection: sqlite3.Connection, since: float) -> list[tuple[float, float]]:
    """Return the intervals (from, to) without a decision: the engine was woken too late, or no manager ran."""
    sql = f"""SELECT * FROM events WHERE time >= ? AND (kind = 'Opened' OR data LIKE '%"{LATE}":%') ORDER BY seq"""
    spans = []
    for row in connection.execute(sql, (since,)):
        _, time, *_, data = verified("events", row)
        about = json.loads(data)
        if AWAY_SINCE in about:
            spans.append((float(about[AWAY_SINCE]), float(time)))
        if about.get(LATE, 0.0) > 0:
            spans.append((time - about[LATE], float(time)))
    return sorted(spans)
