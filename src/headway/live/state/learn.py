"""Apply a row of the journal to the state of the cluster, beside what the engine records.

The live loop and the replay after a restart go through the same two calls for every row, record then learn, so the state after a restart
equals the state that wrote the journal.
"""

from collections.abc import Callable, Iterable

import numpy as np

from headway.core import events
from headway.core.classes import join_class
from headway.core.engine import Action, Cause, Event, Recorded, Retry
from headway.core.events import NO_JOB
from headway.core.operations import (
    close_node,
    credit,
    open_node,
    set_costs,
    set_displaced,
    set_hold,
    set_left,
    set_min_runtime,
    set_outcome,
)
from headway.core.tables.teams import CLUSTER
from headway.errors import BadInput
from headway.job_state import JobState
from headway.live.state import nodes, turnover
from headway.live.state.attempts import given_turn
from headway.live.state.cluster import ClusterState
from headway.live.state.records import MIGRATE, NOTHING, PREEMPT, Blocker, Job, Progress
from headway.live.store.archive import from_text
from headway.live.store.journal import JournalRow

KINDS = {name: kind for kind, name in enumerate(events.NAMES)}

# Facts that the engine does not know. Closing: the manager stops its jobs and starts no more until one opens again.
ASKED, BLOCKED, PROGRESSED, DRAINED, RESUMED = "Asked", "Blocked", "Progressed", "Drained", "Resumed"
OPENED, CLOSING = "Opened", "Closing"
BEFORE = "before"  # in a row that changes the blockers of a job: those that it had
UNTIL = "until"  # in rows of Notify, Promise and Deferred: a time, null for infinity (core/tables/actions.py: ROW)
AWAY = "away"  # in a row about a start or an end: seconds by which it was heard later, because no manager ran
# Reserved: nodes are kept for a queue for a time. Unreserved: what people reserved of them is not, any more.
RESERVED, UNRESERVED = "Reserved", "Unreserved"
# Retired: all but the last few jobs that are over leave the tables. Recalled: one of them comes back, to be run again.
RETIRED, RECALLED = "Retired", "Recalled"
# Salvaged: the journal was damaged, and what follows the row before this one is lost. Only people read it.
SALVAGED = "Salvaged"
# What journals of version 0.1 call a Blocked row and the blockers in it.
OLD_BLOCKED, OLD_BLOCKERS = "Gated", "gates"
OF_JOBS = (ASKED, BLOCKED, OLD_BLOCKED, PROGRESSED, RECALLED)
OF_NODES = (DRAINED, RESUMED, OPENED, CLOSING, RESERVED, UNRESERVED, RETIRED, SALVAGED, *nodes.KINDS)
ALL_KINDS = frozenset({*KINDS, *OF_JOBS, *OF_NODES})


def replay(
    state: ClusterState, rows: Iterable[JournalRow], accept: Callable[[float], None] = lambda job_id: None
) -> None:
    """Record and learn every row of the journal again; `accept` adds the jobs up to a number that were accepted."""
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
        charge(state, state.jobs[row.job], KINDS[row.kind], row.data["at"], row.time)
    fact = _fact(state, row) if row.kind in KINDS else None
    if fact is not None:
        state.engine.record(fact, row.time)
    learn(state, row)


def charge(state: ClusterState, job: Job, kind: int, at: float, now: float) -> None:
    """A start or an end that is recorded now was at another time: to be called before, so that the job is charged for what it ran."""
    late_s, present = now - at, state.job_state(job)
    if kind == events.STARTED:
        credit(state.tables, job.row, late_s)
    elif present == JobState.RUNNING:
        credit(state.tables, job.row, -late_s)
    elif present == JobState.STOPPING and job.attempts.stop_asked is not None:  # charged until it was asked to stop
        credit(state.tables, job.row, -max(0.0, job.attempts.stop_asked - at))


def _fact(state: ClusterState, row: JournalRow) -> Recorded | None:
    """What the engine recorded; a fact about no job has job 0 in the journal and -1 in the engine. None: about jobs that are gone."""
    kind, j = KINDS[row.kind], state.jobs[row.job].row if row.job else NO_JOB
    if kind == events.EXPLAINED:
        team = state.teams.row_named(row.data["team"]) if "team" in row.data else None if state.teams else CLUSTER
        demand = state.demands.row_named(row.data["demand"]) if "demand" in row.data else 0
        if team is None or demand is None:
            return None
        group = join_class(int(row.data["class"]), team, demand, state.engine.options)
        return Cause(group, events.REASONS.index(row.data["why"]))
    if kind == events.DEFERRED:
        return Retry(_or_infinity(row.data[UNTIL]))
    if kind == events.NOTIFY:
        team = state.teams.row_named(row.data["team"]) if "team" in row.data else None
        receiver = () if team is None else ((team, int(row.data["gpus"])),)
        return Action(kind, j, receiver, until=_or_infinity(row.data[UNTIL]))
    if "places" not in row.data:
        return Event(kind, j)
    pairs = {name: tuple((int(a), int(b)) for a, b in row.data.get(name, ())) for name in ("places", "links")}
    return Action(kind, j, pairs["places"], pairs["links"], float(row.data.get(UNTIL, -np.inf)))


def learn(state: ClusterState, row: JournalRow) -> None:
    """Take in what a row means for the job or the nodes it is about."""
    job = state.jobs.get(row.job)
    if job is None:
        _learn_nodes(state, row)
        return
    counted, preempted = job.active_task, job.stop_reason in (PREEMPT, MIGRATE)
    _learn_job(state, job, row)
    _measure(state, job, row, preempted)
    if job.array_id is not None:
        array = state.arrays[job.array_id]
        array.active += job.active_task - counted
        if job.blockers & Blocker.ARRAY_LIMIT:
            array.next = min(array.next, job.id - array.tasks[0])


def _learn_job(state: ClusterState, job: Job, row: JournalRow) -> None:
    kind, data = KINDS.get(row.kind, -1), row.data
    at = float(data.get("at", row.time))
    if kind == events.SUBMITTED:
        job.attempts.arrived_s = job.attempts.arrived_s if job.known else max(0.0, row.time - job.submitted)
        job.known, job.final, job.ended, job.exit_code = True, None, None, None
        job.stop_reason = job.message = ""
        state.count(job, True)
        state.finished.pop(job.id, None)
        job.waits_for = state.needs(job)
        for other in job.waits_for:
            state.dependants.setdefault(other, set()).add(job.id)
    elif kind == events.HELD or row.kind in (BLOCKED, OLD_BLOCKED):
        _block(state, job, Blocker(int(data["blockers"] if "blockers" in data else data[OLD_BLOCKERS])), row.time)
        job.not_before = float(data.get("not_before", job.not_before))
        job.message = data.get("message", job.message)
    elif kind == events.RELEASED:
        _block(state, job, NOTHING, row.time)
    elif kind in (events.START, events.PACK):
        _seat(state, job, row)
    elif kind == events.STARTED:
        job.started = at
        if job.first_started is None:
            job.first_started = at
    elif kind in (events.STOP, events.RESIZE, events.MIGRATE):
        usual = MIGRATE if kind == events.MIGRATE else PREEMPT
        job.stop_reason = data.get("why") or job.stop_reason or usual
        job.preemptions += job.stop_reason == PREEMPT
        job.kill = bool(data.get("now"))
        set_displaced(state.tables, job.row, job.stop_reason == PREEMPT)
    elif row.kind == ASKED:
        job.stop_reason, job.kill = data["why"], bool(data.get("now"))
        set_displaced(state.tables, job.row, False)
    elif kind in (events.STOPPED, events.ENDED):
        _unseat(state, job, row, ended=kind == events.ENDED)
    elif row.kind == PROGRESSED:
        if data.get("checkpointed") not in (None, job.noted.checkpointed):
            job.saved = row.time
        job.progress = job.noted = Progress(**data)


def _measure(state: ClusterState, job: Job, row: JournalRow, preempted: bool) -> None:
    """Take in what a row says about the costs and the turns of the job."""
    kind, attempts, at = KINDS.get(row.kind, -1), job.attempts, float(row.data.get("at", row.time))
    heard = row.time - float(row.data.get(AWAY, 0.0))  # as it would have been heard if a manager had run
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
    given = given_turn(job.spec, state.min_runtimes)
    set_min_runtime(state.tables, job.row, attempts.min_runtime(job.spec, given, state.auto_min_runtime_s))
    if state.engine.policy.reports and row.kind == PROGRESSED:
        set_left(state.tables, job.row, _or_nan(attempts.believed_s), row.time)


def _block(state: ClusterState, job: Job, blockers: Blocker, now: float) -> None:
    job.blockers = blockers
    if job.blocked_by:
        set_hold(state.tables, job.row, events.REASONS.index(job.blocked_by), now)


def _seat(state: ClusterState, job: Job, row: JournalRow) -> None:
    """Note which GPUs the job holds, in the order that the placement decided."""
    seats, seat = state.tables.seats, int(state.tables.jobs["seat"][job.row])
    held: dict[int, list[int]] = {}
    while seat >= 0:
        held.setdefault(int(seats["node"][seat]), []).append(seat % state.cluster.total)
        seat = int(seats["next"][seat])
    order = [node for node, _ in row.data["places"] if node in held] if row.kind == "Start" else sorted(held)
    job.places = tuple((node, len(held[node])) for node in dict.fromkeys(order))
    job.seats = tuple(gpu for node, _ in job.places for gpu in sorted(held[node]))
    job.links = tuple((int(leaf), int(mask)) for leaf, mask in row.data.get("links", ()))
    job.progress = job.noted = Progress()
    job.stop_reason, job.kill, job.saved, job.exit_code = "", False, None, None


def _unseat(state: ClusterState, job: Job, row: JournalRow, ended: bool) -> None:
    data = row.data
    job.failures = int(data.get("failures", job.failures))
    job.exit_code, job.message = data.get("exit_code"), data.get("message", "")
    job.ran_on = tuple(state.cluster.nodes[node] for node, _ in job.places) or job.ran_on
    job.stop_reason, job.places, job.seats, job.links = "", (), (), ()
    if not ended:
        return
    job.final, job.ended = JobState[data["state"]], float(data.get("at", row.time))
    _block(state, job, NOTHING, row.time)
    set_outcome(state.tables, job.row, job.final)
    state.count(job, False)
    state.finished[job.id] = None
    for other in map(state.jobs.get, state.dependants.pop(job.id, ())):
        if other:
            other.waits_for.discard(job.id)


def _learn_nodes(state: ClusterState, row: JournalRow) -> None:
    """Which nodes take jobs: all but the drained ones, and none from Closing until the next manager has opened."""
    if row.kind in (DRAINED, RESUMED):
        node = state.cluster.nodes.index(row.data["node"])
        (state.drained.add if row.kind == DRAINED else state.drained.discard)(node)
        (close_node if row.kind == DRAINED else open_node)(state.tables, node, row.time)
    elif row.kind in (CLOSING, OPENED):
        if row.kind == OPENED:
            turnover.move(state, turnover.cluster_in(row.data), bool(row.data.get("numbered")), row.time)
        for node in range(len(state.cluster.nodes)):
            if row.kind == CLOSING:
                close_node(state.tables, node, row.time)
            elif node not in state.drained and state.tables.nodes["closed"][node]:
                open_node(state.tables, node, row.time)
    elif row.kind in (RESERVED, UNRESERVED):
        state.teams.learn_bookings(row.data, row.time)
        state.teams.book(state.cluster.nodes, row.time)
    elif row.kind in nodes.KINDS:
        nodes.learn(state.tables, state.cluster.nodes, row)
    elif row.kind == RETIRED:
        turnover.retire(state, int(row.data["keep"]))
    elif row.kind == RECALLED:
        turnover.recall(state, from_text(row.data["text"]))


def finite(at: float) -> float | None:
    """Return a time as JSON has it: None for infinity."""
    return at if at < np.inf else None


def _or_infinity(at: float | None) -> float:
    return np.inf if at is None else float(at)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
