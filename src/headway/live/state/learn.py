"""Apply a row of the journal to the state of the cluster, beside what the engine records.

The live loop and the replay after a restart go through the same two calls for every row, record then learn, so the state after a restart
equals the state that wrote the journal.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from headway.core import events
from headway.core.operations import (
    credit,
    set_costs,
    set_displaced,
    set_hold,
    set_left,
    set_limit,
    set_min_runtime,
    set_outcome,
)
from headway.errors import BadInput
from headway.job_state import JobState
from headway.live.rows import (
    ALL_KINDS,
    ASKED,
    AWAY_S,
    CLOSING,
    ENGINE_KINDS,
    MIGRATE,
    NO_BLOCKERS,
    NODE_KINDS,
    OPENED,
    PREEMPT,
    PROGRESSED,
    RECALLED,
    RESERVED,
    RETIRED,
    UNRESERVED,
    Blocker,
    row_meaning,
)
from headway.live.state import nodes, turnover
from headway.live.state.attempts import requested_min_runtime
from headway.live.state.cluster import Array, ClusterState
from headway.live.state.facts import fact_in
from headway.live.state.records import Job, JobProgress, JournalRow
from headway.live.state.retired import from_text


def replay(
    state: ClusterState, rows: Iterable[JournalRow], accept: Callable[[float], None] = lambda job_id: None
) -> None:
    """Record and learn every row of the journal again. `accept` adds the accepted jobs up to a number to the state."""
    for row in rows:
        if row.kind not in ALL_KINDS:
            what = f"row {row.seq} of the journal is of the kind {row.kind!r}, which this version does not know"
            raise BadInput(f"{what}: start the newer version that wrote it")
        accept(row.data.get("accepted", row.job))
        try:
            _replay_row(state, row)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            what = f"row {row.seq} of the journal ({row.kind}) cannot be understood ({type(error).__name__}: {error})"
            raise BadInput(f"{what}: start the version that wrote it, or `headway journal restore` a backup") from None
    accept(np.inf)


def _replay_row(state: ClusterState, row: JournalRow) -> None:
    if "at" in row.data:
        charge(state, state.jobs[row.job], ENGINE_KINDS[row.kind], row.data["at"], row.time)
    fact = fact_in(state, row) if row.kind in ENGINE_KINDS else None
    if fact is not None:
        state.engine.record(fact, row.time)
    learn(state, row)


def charge(state: ClusterState, job: Job, kind: int, at: float, now: float) -> None:
    """Correct the service of a job for a start or an end at `at` that is about to be recorded at `now`."""
    present, attempts = state.job_state(job), job.attempts
    if kind == events.STARTED:
        credit(state.tables, job.row, now - at)
        return
    has_run = job.started is not None and job.started >= attempts.began  # else nothing was charged for this attempt
    charged_until = at
    if present == JobState.RUNNING:
        charged_until = now
    elif present == JobState.STOPPING and has_run and attempts.stop_asked is not None:
        charged_until = max(at, attempts.stop_asked)
    credit(state.tables, job.row, at - charged_until)


def keep_progress(job: Job, progress: JobProgress) -> None:
    """Store the progress that a job reported between two rows of the journal."""
    job.progress = progress


def learn(state: ClusterState, row: JournalRow) -> None:
    """Apply a row to its job, or to the cluster."""
    job = state.jobs.get(row.job)
    if job is None:
        _learn_cluster(state, row)
        return
    was_active, preempted = job.active_task, job.stop_reason in (PREEMPT, MIGRATE)
    _learn_job(state, job, row)
    _measure(state, job, row, preempted)
    if job.array_id is not None:
        array = state.arrays[job.array_id]
        array.active += job.active_task - was_active
        _move_next(state, job, array)


def _move_next(state: ClusterState, job: Job, array: Array) -> None:
    """Set `array.next` to the first task that may wait for the limit, after a row about `job`."""
    if job.blockers & Blocker.ARRAY_LIMIT:
        array.next = min(array.next, job.id - array.tasks[0])
    while array.next < len(array.tasks):
        task = state.jobs.get(array.tasks[array.next])
        if task and (not task.known or task.blockers & Blocker.ARRAY_LIMIT):
            return
        array.next += 1


def _learn_job(state: ClusterState, job: Job, row: JournalRow) -> None:
    kind, data = ENGINE_KINDS.get(row.kind, -1), row.data
    at, meaning = float(data.get("at", row.time)), row_meaning(row.kind, data)
    if kind == events.SUBMITTED:
        if job.known:  # requeued after its end: it gets its whole time limit again
            job.ran_before = state.run_s(job, row.time)
            set_limit(state.tables, job.row, state.limit_with_grace_s(job.spec) + job.ran_before)
        else:
            job.attempts.arrived_s = max(0.0, row.time - job.submitted)
        job.known, job.final, job.ended, job.exit_code = True, None, None, None
        job.stop_reason = job.message = ""
        state.count(job, True)
        state.finished.pop(job.id, None)
        job.waits_for = state.needs(job)
        for other in job.waits_for:
            state.dependants.setdefault(other, set()).add(job.id)
    elif meaning.blockers is not None:
        _block(state, job, meaning.blockers, row.time)
        job.not_before = float(data.get("not_before", job.not_before))
        job.message = data.get("message", job.message)
    elif kind in (events.START, events.PACK):
        _take_gpus(state, job, row)
    elif kind == events.STARTED:
        job.started = at
        if job.first_started is None:
            job.first_started = at
    elif meaning.stop_reason:
        job.stop_reason, job.kill = meaning.stop_reason, bool(data.get("now"))
        preempted = row.kind != ASKED and job.stop_reason == PREEMPT
        job.preemptions += preempted
        set_displaced(state.tables, job.row, preempted)
    elif kind in (events.STOPPED, events.ENDED):
        _release_gpus(state, job, data)
        if kind == events.ENDED and meaning.state:
            _end(state, job, meaning.state, at, row.time)
    elif row.kind == PROGRESSED:
        if data.get("checkpointed") not in (None, job.noted.checkpointed):
            job.saved = row.time
        job.progress = job.noted = JobProgress(**data)
        job.noted_at = row.time


def _measure(state: ClusterState, job: Job, row: JournalRow, preempted: bool) -> None:
    """Apply a row to the measured costs and the minimum run time of its job."""
    kind, attempts, at = ENGINE_KINDS.get(row.kind, -1), job.attempts, float(row.data.get("at", row.time))
    heard = row.time - float(row.data.get(AWAY_S, 0.0))  # when a running manager would have received the report
    if kind in (events.START, events.PACK):
        attempts.start(row.time)
    elif kind == events.STARTED:
        attempts.started(at, heard)
    elif row.kind == PROGRESSED:
        attempts.progressed(job.noted.step, job.noted.total, row.time, state.run_s(job, row.time))
    elif kind in (events.STOP, events.RESIZE, events.MIGRATE):
        attempts.stop(row.time)
    elif kind in (events.STOPPED, events.ENDED) and attempts.runs:
        attempts.over(at, heard, preempted)
    else:
        return
    set_costs(state.tables, job.row, attempts.save.value, attempts.resume.value)
    requested = requested_min_runtime(job.spec, state.min_runtimes)
    set_min_runtime(state.tables, job.row, attempts.min_runtime(job.spec, requested, state.auto_min_runtime_s))
    if state.engine.policy.reports and row.kind == PROGRESSED:
        left_s = attempts.believed_s
        set_left(state.tables, job.row, np.nan if left_s is None else left_s, row.time)


def _block(state: ClusterState, job: Job, blockers: Blocker, now: float) -> None:
    job.blockers = blockers
    if job.blocked_by:
        set_hold(state.tables, job.row, events.REASONS.index(job.blocked_by), now)


def _take_gpus(state: ClusterState, job: Job, row: JournalRow) -> None:
    """Begin an attempt: set the GPUs that the job holds, in the order that the placement decided."""
    seats, seat = state.tables.seats, int(state.tables.jobs["seat"][job.row])
    gpus_of: dict[int, list[int]] = {}
    while seat >= 0:
        gpus_of.setdefault(int(seats["node"][seat]), []).append(seat % state.cluster.total)
        seat = int(seats["next"][seat])
    order = [node for node, _ in row.data["places"] if node in gpus_of] if row.kind == "Start" else sorted(gpus_of)
    job.places = tuple((node, len(gpus_of[node])) for node in dict.fromkeys(order))
    job.seats = tuple(gpu for node, _ in job.places for gpu in sorted(gpus_of[node]))
    job.links = tuple((int(leaf), int(mask)) for leaf, mask in row.data.get("links", ()))
    job.progress = job.noted = JobProgress()
    job.stop_reason, job.kill, job.saved, job.exit_code = "", False, None, None


def _release_gpus(state: ClusterState, job: Job, data: dict[str, Any]) -> None:
    """End an attempt: set how it ended, and that the job holds no GPUs."""
    job.failures = int(data.get("failures", job.failures))
    job.exit_code, job.message = data.get("exit_code"), data.get("message", "")
    job.ran_on = tuple(state.cluster.nodes[node] for node, _ in job.places) or job.ran_on
    job.stop_reason, job.places, job.seats, job.links = "", (), (), ()


def _end(state: ClusterState, job: Job, final: JobState, at: float, now: float) -> None:
    """End a job, and remove it from the jobs that its dependants wait for."""
    job.final, job.ended = final, at
    _block(state, job, NO_BLOCKERS, now)
    set_outcome(state.tables, job.row, final)
    state.count(job, False)
    state.finished[job.id] = None
    job.noted_at = None
    for other in map(state.jobs.get, state.dependants.pop(job.id, ())):
        if other:
            other.waits_for.discard(job.id)


def _learn_cluster(state: ClusterState, row: JournalRow) -> None:
    """Apply a row about nodes, reservations or the manager, or about jobs that leave the memory or return to it."""
    if row.kind in NODE_KINDS:
        nodes.learn(state, row)
    elif row.kind in (CLOSING, OPENED):
        if row.kind == OPENED:
            turnover.move(state, turnover.cluster_in(row.data), bool(row.data.get("numbered")), row.time)
            state.away, state.low_disk = set(), ""  # the executor reports its nodes again
        state.closing = row.kind == CLOSING
        nodes.close_nodes(state, range(len(state.cluster.nodes)), row.time)
    elif row.kind in (RESERVED, UNRESERVED):
        state.teams.learn_bookings(row.data, row.time)
        state.teams.book(state.cluster.nodes, row.time)
    elif row.kind == RETIRED:
        turnover.retire(state, int(row.data["keep"]))
    elif row.kind == RECALLED:
        turnover.recall(state, from_text(row.data["text"]))
