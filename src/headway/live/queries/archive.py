"""Queries about jobs that are no longer in memory, answered from the journal's table of finished jobs."""

import heapq
import sqlite3
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from headway.client.job import JobView
from headway.core.events import NOT_WAITING, REASONS
from headway.job_state import FINAL_STATES, JobState
from headway.live.queries import views
from headway.live.queries.explain.explain import Explanation
from headway.live.queries.replay.replay import PastJob
from headway.live.queries.views import JobFilter
from headway.live.state.cluster import ClusterState, charged_gpu_h
from headway.live.state.records import Job
from headway.live.store.archive import Archived, page
from headway.live.store.history import HistoryRow, Wanted
from headway.live.store.history import finished as finished_rows
from headway.live.store.integrity.checksum import verified
from headway.live.store.journal import Journal


def archived_view(state: ClusterState, archived: Archived) -> JobView:
    """A job as people see it."""
    return views.view(state, archived.job, archived.job.ended or 0.0, NOT_WAITING, archived.row)


def with_retired(
    state: ClusterState,
    views_in_memory: list[JobView],
    connection: sqlite3.Connection,
    wanted: JobFilter,
    in_memory: Collection[int],
) -> list[JobView]:
    """Jobs found in memory, and the retired ones that pass the same filter, by number; `in_memory`: numbers of jobs in memory."""
    states = sorted(FINAL_STATES if wanted.states is None else wanted.states & FINAL_STATES)
    if not states or not state.past.counts.total():
        return views_in_memory
    parts, values = ["1"], list[Any]()
    if wanted.states is not None:
        # The plus keeps several states from being sorted by number: the table is read in that order anyway.
        parts = [f"{'+' if len(states) > 1 else ''}finished.state IN ({', '.join('?' * len(states))})"]
        values += states
    beyond = None if wanted.newest and not wanted.after_id else wanted.after_id
    for condition, value in (
        ("finished.job < ?" if wanted.newest else "finished.job > ?", beyond),
        ("finished.user = ?", wanted.user),
        ("instr(finished.name, ?)", wanted.name),
        ("finished.queue = ?", wanted.queue),
        ("jobs.array_id = ?", wanted.array_id),
        ("jobs.submitted >= ?", wanted.since),
        ("jobs.submitted <= ?", wanted.until),
    ):
        if value is not None:
            parts.append(condition)
            values.append(value)
    rows = page(connection, " AND ".join(parts), values, wanted.limit + len(in_memory), wanted.newest, in_memory)
    retired = (archived_view(state, row) for row in rows)
    merged = heapq.merge(views_in_memory, retired, key=lambda view: view.job_id, reverse=wanted.newest)
    return list(islice(merged, wanted.limit))


def users_of(journal: Journal, job_ids: Sequence[int]) -> dict[int, str]:
    """Whose these retired jobs are."""
    sql = f"SELECT * FROM jobs WHERE id IN ({', '.join('?' * len(job_ids))})"
    return {row[0]: verified("jobs", row)[1] for row in journal.query(sql, *job_ids)} if job_ids else {}


def archived_explanation(archived: Archived) -> Explanation:
    """Where the wait of a job went that has left the memory."""
    final = archived.job.final or JobState.COMPLETED
    parts = {REASONS[code]: int(us) for code, us in enumerate(archived.receipt_us) if us and code != NOT_WAITING}
    message = archived.job.message or f"it has ended: {final.name}"
    return Explanation(archived.job.id, final.name, "", message, {}, (), (), sum(parts.values()), parts)


def retired_jobs(
    state: ClusterState, connection: sqlite3.Connection, since: float, in_memory: Collection[int]
) -> list[PastJob]:
    """Jobs submitted since then that ran at all, but for those that are still in memory."""
    rows = page(connection, "jobs.submitted >= ? AND finished.started IS NOT NULL", [since], -1)
    return [_past_job(state, row) for row in rows if row.job.id not in in_memory]


def _past_job(state: ClusterState, archived: Archived) -> PastJob:
    receipt_us = {REASONS[code]: int(us) for code, us in enumerate(archived.receipt_us)}
    run_s = float(archived.row["total"]) / archived.job.spec.gpus
    return views.past_job(state, archived.job, run_s, receipt_us, int(archived.row["attempt"]))


def active_rows(
    state: ClusterState, now: float, wanted: Wanted, unwritten: Sequence[HistoryRow] = ()
) -> list[HistoryRow]:
    """The jobs that have not ended, or whose ends are about to be written, and are wanted: newest first, at most as many as that."""
    jobs = (state.jobs[number] for number in sorted(state.active, reverse=True))
    rows = heapq.merge((history_row(state, job, now) for job in jobs), reversed(unwritten), key=lambda row: -row.job_id)
    return list(islice((row for row in rows if wanted.passes(row)), wanted.limit))


def with_finished(
    rows: list[HistoryRow], active: frozenset[int], connection: sqlite3.Connection, wanted: Wanted
) -> list[HistoryRow]:
    """The same with those that have ended, but for earlier ends of jobs that were run again."""
    ended = finished_rows(connection, wanted, active | {row.job_id for row in rows})
    return list(islice(heapq.merge(rows, ended, key=lambda row: -row.job_id), wanted.limit))


def history_row(state: ClusterState, job: Job, now: float) -> HistoryRow:
    """The row of a job that has not ended."""
    row = state.tables.jobs[job.row]
    # What the receipt has of not waiting lacks the interval that the job is in (core/receipts.py).
    on_gpus = row["state"] in (JobState.STARTING, JobState.RUNNING)
    waited_s = now - job.submitted - float(state.tables.receipts[NOT_WAITING, job.row]) - (now if on_gpus else 0.0)
    on = tuple(state.cluster.nodes[node] for node, _ in job.places) or job.ran_on
    return HistoryRow(
        *(job.id, job.user, job.spec.queue, job.spec.name, state.shown_state(job).name, job.submitted),
        *(job.first_started, None, on, job.spec.gpus, max(0.0, waited_s)),
        *(charged_gpu_h(row, job, now), job.preemptions, job.exit_code, job.message),
    )
