"""Queries about jobs that are no longer in memory, answered from the journal's table of finished jobs."""

import heapq
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from headway.client.job import JobQuery, JobView
from headway.core.events import NOT_WAITING, REASONS
from headway.core.receipts import by_reason
from headway.job_state import JobState
from headway.live.queries import views
from headway.live.queries.explain.explain import Explanation
from headway.live.queries.lists.selection import has_text, is_over, where
from headway.live.queries.replay.replay import PastJob
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job
from headway.live.state.retired import Archived, content
from headway.live.store.archive import page
from headway.live.store.history import finished
from headway.live.store.integrity.checksum import verified
from headway.live.store.journal import Journal


def archived_view(state: ClusterState, archived: Archived) -> JobView:
    """Return the view of a job that has left the memory."""
    past = archived.job
    return views.view(state, past, past.ended or 0.0, archived.row, NOT_WAITING, float(archived.receipt[NOT_WAITING]))


def finished_row(state: ClusterState, job: Job, now: float) -> tuple[JobView, bytes]:
    """Return the row about a job that has just ended: as the history has it, and what shows or recalls the job later."""
    (view,) = views.job_views(state, [job], now, ended=True)
    return view, content(state.tables, job)


def retired(
    state: ClusterState, connection: sqlite3.Connection, query: JobQuery, but: Collection[int]
) -> Iterator[JobView]:
    """Yield the finished jobs that a query chooses, by number, but for some."""
    if is_over(query):
        yield from (archived_view(state, job) for job in page(connection, *_asked(connection, query, but), but))


def accounted(connection: sqlite3.Connection, query: JobQuery, but: Collection[int]) -> Iterator[JobView]:
    """Yield the same as the history has them, from the columns of the table alone."""
    if is_over(query):
        yield from finished(connection, *_asked(connection, query, but), but)


def _asked(connection: sqlite3.Connection, query: JobQuery, but: Collection[int]) -> tuple[str, list[Any], int, bool]:
    """Return the conditions of a query in SQL, their values, the most rows to read (-1: all), and whether the last come first."""
    if query.text:
        connection.create_function("has_text", 4, lambda job, name, user, text: has_text((job, name, user), text))
    return *where(query), -1 if query.limit is None else query.limit + len(but), query.descending


def with_stored(views: Sequence[JobView], stored: Iterable[JobView], query: JobQuery) -> list[JobView]:
    """Return jobs in memory and finished jobs together, by number."""
    every = heapq.merge(views, stored, key=lambda view: view.job_id, reverse=query.descending)
    return list(islice(every, query.limit))


def users_of(journal: Journal, job_ids: Sequence[int]) -> dict[int, str]:
    """Return the users of jobs that have left the memory, by number."""
    sql = f"SELECT * FROM jobs WHERE id IN ({', '.join('?' * len(job_ids))})"
    return {row[0]: verified("jobs", row)[1] for row in journal.query(sql, *job_ids)} if job_ids else {}


def archived_explanation(archived: Archived) -> Explanation:
    """Return the explanation of a job that has left the memory: how it ended, and its receipt."""
    final = archived.job.final or JobState.COMPLETED
    parts = by_reason(archived.receipt_us)
    message = archived.job.message or f"it has ended: {final.name}"
    return Explanation(archived.job.id, final.name, "", message, {}, (), (), sum(parts.values()), parts)


def retired_jobs(
    state: ClusterState, connection: sqlite3.Connection, since: float, in_memory: Collection[int]
) -> list[PastJob]:
    """Return the jobs submitted since a time that ran, except those in memory."""
    rows = page(connection, "jobs.submitted >= ? AND finished.started IS NOT NULL", [since], -1)
    return [_past_job(state, row) for row in rows if row.job.id not in in_memory]


def _past_job(state: ClusterState, archived: Archived) -> PastJob:
    receipt_us = {REASONS[code]: int(us) for code, us in enumerate(archived.receipt_us)}
    run_s = float(archived.row["total"]) / archived.job.spec.gpus
    return views.past_job(state, archived.job, run_s, receipt_us, int(archived.row["attempt"]))
