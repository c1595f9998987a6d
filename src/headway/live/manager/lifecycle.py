"""The life cycle of a job: pure functions from the state of the cluster and an input to steps (`steps.py`).

They only read the state. Each step is applied before the next one is taken, so that the code after a `yield` reads the new state.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from headway.core import events
from headway.core.engine import EngineAction, Event
from headway.job_state import JobState
from headway.live import executors
from headway.live.errors import WrongState
from headway.live.executors import Launch, NodeReport, Report
from headway.live.manager.outcome import Backoff, outcome
from headway.live.manager.steps import (
    Effect,
    Fact,
    KeepProgress,
    LogError,
    Note,
    NotifyAttempt,
    SetAlarm,
    StartAttempt,
    Steps,
    StopAttempt,
)
from headway.live.rows import (
    ASKED,
    AWAY_S,
    BEFORE,
    BLOCKED,
    CANCEL,
    CLOSING,
    DISK_FREE,
    DISK_FULL,
    HOLD,
    NO_BLOCKERS,
    PROGRESSED,
    RECALLED,
    REQUEUE,
    TIME_UP,
    Blocker,
)
from headway.live.state.cluster import ClusterState
from headway.live.state.demands import lacks_nodes
from headway.live.state.nodes import node_changes
from headway.live.state.records import Job, JobProgress
from headway.live.state.retired import Archived

PROGRESS_ROW_S = 10.0  # progress is written to the journal at most this often, but every checkpoint is
TIME_LIMIT, RETRY = "time_limit", "retry"  # why an alarm is set
ENDING = {CANCEL: "cancelled", TIME_UP: "stopped at its time limit"}  # the job ends after such a stop


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """The parameters of the life cycle beside the state."""

    backoff: Backoff  # between tries
    away: tuple[float, float] = (0.0, 0.0)  # from the end of the last manager to the first round of this one


# ---- reports of the executor


def reported(state: ClusterState, report: Report, at: float | None, now: float, rules: LifecycleRules) -> Steps:
    """Yield the steps that follow from a report at time `at` (None: unknown). Drop a report about an earlier attempt."""
    job = state.job_of_attempt(report.job, report.attempt)
    if job is None:
        return
    present = state.job_state(job)
    if report.progress is not None:
        yield from progressed(state, job, report.progress, now)
    if report.what == executors.STARTED and present == JobState.STARTING:
        yield Fact(events.STARTED, job.row, _time_fields(job, at, now, rules))
        yield from alarms(state, job, now)
    elif report.what == executors.ENDED:
        yield from _attempt_over(state, job, report, at, now, rules)


def _attempt_over(
    state: ClusterState, job: Job, report: Report, at: float | None, now: float, rules: LifecycleRules
) -> Steps:
    if job.progress != job.noted:
        yield Note(PROGRESSED, job.id, job.progress.as_dict())
    if report.lost or report.refused:
        yield LogError(f"job {job.id}: {report.message}")
    if report.trouble:
        yield LogError(f"job {job.id}: {report.trouble}")
    result = outcome(job, report, now, rules.backoff)
    data = result.data | _time_fields(job, at, now, rules)
    if result.state:
        yield from ended(state, job, result.state, data)
        return
    yield Fact(events.STOPPED, job.row, data)
    blockers = result.blockers | _too_large(state, job)
    if blockers:
        yield from block(state, job, blockers, result.not_before)


def _time_fields(job: Job, at: float | None, now: float, rules: LifecycleRules) -> dict[str, float]:
    """Return the fields "at" and AWAY_S for the row of a start or an end; none if its time is unknown."""
    if at is None:
        return {}
    at = min(max(at, job.attempts.began, job.started or 0.0), now)  # a report may be later than the round's time
    away_s = rules.away[1] - max(at, rules.away[0])
    return {"at": at, **({AWAY_S: away_s} if away_s > 0.0 else {})}


def job_reported(state: ClusterState, job_id: int, attempt: int, values: dict[str, Any], now: float) -> Steps:
    """Apply new values of JobProgress that a job itself reports. Drop a report of an earlier attempt."""
    job = state.job_of_attempt(job_id, attempt)
    if job is not None:
        yield from progressed(state, job, replace(job.progress, **values), now)


def progressed(state: ClusterState, job: Job, progress: JobProgress, now: float) -> Steps:
    """Store the progress of a job. Write first reports, first steps and checkpoints at once, others every PROGRESS_ROW_S."""
    saved = progress.checkpointed is not None and progress.checkpointed != job.progress.checkpointed
    first = job.attempts.stepped is None and progress.step is not None
    at_once = saved or first or not job.attempts.reports or job.noted_at is None
    left_before = job.attempts.believed_s
    yield KeepProgress(job.id, progress)
    if at_once or now - (job.noted_at or 0.0) >= PROGRESS_ROW_S:
        yield Note(PROGRESSED, job.id, progress.as_dict())
    reorders = state.engine.policy.reports and _differs(left_before, job.attempts.believed_s)
    if (first or reorders) and state.job_state(job) == JobState.RUNNING:
        yield Event(events.CROSSED, job.row)  # its minimum run time, or its place in the order, has changed


def _differs(left_before: float | None, left_now: float | None) -> bool:
    """Return whether the remaining time of a job changed by more than a factor of two, or has become known or unknown."""
    if left_before is None or left_now is None:
        return left_before is not left_now
    return not left_before / 2 <= left_now <= left_before * 2


def nodes_reported(state: ClusterState, reports: Iterable[NodeReport]) -> Steps:
    """Yield the changes in an executor's reports of its nodes."""
    for kind, data in list(node_changes(state, reports)):
        yield Note(kind, data=data)


def disk_checked(state: ClusterState, low: str) -> Steps:
    """Close all nodes while the disk is nearly full. `low` is the error message; empty: the disk has room."""
    if low and not state.low_disk:
        yield LogError(low)
        yield Note(DISK_FULL, data={"why": low})
    elif state.low_disk and not low:
        yield Note(DISK_FREE)


# ---- ends, arrivals and blockers


def ended(state: ClusterState, job: Job, final: JobState, data: dict[str, Any]) -> Steps:
    """End a job, then release or cancel its dependants, iteratively: chains can be thousands of jobs long."""
    ends: deque[tuple[Job, JobState, dict[str, Any]]] = deque([(job, final, data)])
    while ends:
        job, final, data = ends.popleft()
        if job.final:
            continue  # it depended on two of the jobs that ended
        dependants = sorted(state.dependants.get(job.id, ()))  # the row of the end removes them
        yield Fact(events.ENDED, job.row, {**data, "state": final.name})
        for dependant in filter(None, map(state.jobs.get, dependants)):
            if not dependant.blockers & Blocker.DEPENDENCY:
                continue  # it has ended, or was released
            if why := state.unmet(dependant, job):
                ends.append((dependant, JobState.CANCELLED, {"message": why}))
            elif not dependant.waits_for:
                yield from unblock(state, dependant, Blocker.DEPENDENCY)
        if job.array_id is not None:
            yield from _next_of_array(state, job.array_id)


def _next_of_array(state: ClusterState, array_id: int) -> Steps:
    """Unblock as many tasks as the limit of their array allows, in order."""
    array = state.arrays[array_id]
    for task in map(state.jobs.get, array.tasks[array.next :]):
        if array.limit is None or array.active >= array.limit:
            return
        if task:  # None: it was cancelled and retired
            yield from unblock(state, task, Blocker.ARRAY_LIMIT)


def submitted(state: ClusterState, job: Job) -> Steps:
    """Hand an accepted job to the engine, and block it if it waits for other jobs or is held."""
    yield Event(events.SUBMITTED, job.row)
    if why := state.unmet(job):  # the other job ended before this one was submitted
        yield from ended(state, job, JobState.CANCELLED, {"message": why})
        return
    blockers = _too_large(state, job) | (Blocker.DEPENDENCY if job.waits_for else NO_BLOCKERS)
    if job.spec.hold and not state.attempt(job):
        blockers |= Blocker.HELD
    array = state.arrays.get(job.array_id or 0)
    if array and array.limit is not None and array.active > array.limit:
        blockers |= Blocker.ARRAY_LIMIT
    if blockers:
        yield from block(state, job, blockers)


def _too_large(state: ClusterState, job: Job) -> Blocker:
    """Return NODE_DOWN for a job that was accepted for a larger cluster, or for nodes that are gone."""
    return Blocker.NODE_DOWN if lacks_nodes(job.spec, state.cluster) else NO_BLOCKERS


def block(state: ClusterState, job: Job, blockers: Blocker, not_before: float = 0.0, message: str = "") -> Steps:
    """Add blockers to a job. The engine does not start it until all its blockers are gone."""
    data: dict[str, Any] = {"blockers": int(job.blockers | blockers), BEFORE: int(job.blockers)}
    if message:
        data["message"] = message
    if not_before:
        data["not_before"] = not_before
        yield SetAlarm(not_before, RETRY, job.id)
    if state.job_state(job) == JobState.PENDING:
        yield Fact(events.HELD, job.row, data)
    else:
        yield Note(BLOCKED, job.id, data)


def unblock(state: ClusterState, job: Job, blockers: Blocker) -> Steps:
    """Remove blockers from a job. Without blockers, the engine may start it."""
    if not job.blockers & blockers or job.final:
        return
    remaining, before = job.blockers & ~blockers, {BEFORE: int(job.blockers)}
    if remaining or state.job_state(job) != JobState.HELD:
        yield Note(BLOCKED, job.id, {"blockers": int(remaining), **before})
    else:
        yield Fact(events.RELEASED, job.row, before)


# ---- alarms


def alarms(state: ClusterState, job: Job, now: float) -> Iterator[SetAlarm]:
    """Yield the alarms of a job that runs or backs off."""
    if job.blockers & Blocker.RETRY_BACKOFF:
        yield SetAlarm(job.not_before, RETRY, job.id)
    limit_s = state.limit_s(job.spec)
    if state.job_state(job) == JobState.RUNNING and limit_s is not None:
        left_s = limit_s + job.ran_before - state.run_s(job, now)
        yield SetAlarm(now + left_s, TIME_LIMIT, job.id, state.attempt(job))


def alarm_rang(state: ClusterState, alarm: SetAlarm, now: float) -> Steps:
    """Release a job whose back-off is over, or stop an attempt whose time is up."""
    job = state.jobs.get(alarm.job)
    if job is None:
        return  # the job has ended and is retired
    if alarm.why == RETRY:
        if job.not_before <= now:
            yield from unblock(state, job, Blocker.RETRY_BACKOFF)
    elif alarm.attempt == state.attempt(job) and state.job_state(job) == JobState.RUNNING:
        yield from stop(state, job, TIME_UP)


# ---- effects of recorded actions


def effects_of(state: ClusterState, action: EngineAction) -> Iterator[Effect]:
    """Yield the effects of a recorded action on the processes of its job."""
    job = state.at(action.job)
    if action.kind in (events.START, events.PACK):
        yield StartAttempt(_launch(state, job, action.links))
    elif action.kind in (events.STOP, events.RESIZE, events.MIGRATE) and state.job_state(job) == JobState.STOPPING:
        yield stop_attempt(state, job)
    elif action.kind == events.NOTIFY:
        yield NotifyAttempt(job.id, state.attempt(job), action.until)


def _launch(state: ClusterState, job: Job, links: tuple[tuple[int, int], ...]) -> Launch:
    names, site = state.cluster.nodes, state.site
    return Launch(
        job.id,
        state.attempt(job),
        job.user,
        job.spec,
        job.seats,
        tuple(names[node] for node, gpus in job.places for _ in range(gpus)),
        job.array_id,
        job.array_index,
        prolog=site.prolog,
        epilog=site.epilog,
        max_processes=site.max_processes,
        links=links,
    )


def stop_attempt(state: ClusterState, job: Job) -> StopAttempt:
    """Return the effect that signals the ranks of a job."""
    return StopAttempt(job.id, state.attempt(job), *state.how_to_stop(job))


# ---- commands


def stop(state: ClusterState, job: Job, why: str, at_once: bool = False) -> Steps:
    """Stop a job that has processes, for a reason other than preemption; `at_once`: without a grace period."""
    data: dict[str, Any] = {"why": why, **({"now": True} if at_once else {})}
    if state.job_state(job) != JobState.STOPPING:
        yield Fact(events.STOP, job.row, data)
    elif job.stop_reason != CANCEL or (at_once and not job.kill):
        yield Note(ASKED, job.id, data)
    yield stop_attempt(state, job)


def cancel(state: ClusterState, job: Job, at_once: bool = False) -> Steps:
    """End a job. Its processes get its preemption signal and grace period, or are killed at once."""
    if state.job_state(job).has_processes:
        yield from stop(state, job, CANCEL, at_once)
    else:
        yield from ended(state, job, JobState.CANCELLED, {"message": "cancelled"})


def _check_not_ending(job: Job) -> None:
    """Refuse a command on a job that ends once its processes have stopped."""
    if what := ENDING.get(job.stop_reason):
        fix = f"wait until it has ended; `headway requeue {job.id}` runs it again then"
        raise WrongState(f"job {job.id} is being {what}: {fix}")


def hold(state: ClusterState, job: Job) -> Steps:
    """Hold a waiting job until it is released. A job that is being stopped to run again is held afterwards."""
    _check_not_ending(job)
    if not state.job_state(job).has_processes:
        yield from block(state, job, Blocker.HELD)
    elif state.job_state(job) == JobState.STOPPING:
        yield from stop(state, job, HOLD)
    else:
        fix = f"hold acts on jobs that wait, and stops none; `headway requeue --hold {job.id}` stops this one and holds it"
        raise WrongState(f"job {job.id} is {state.shown_state(job).name}: {fix}")


def release(state: ClusterState, job: Job) -> Steps:
    """Let a held job run. A job that is being stopped to be held waits afterwards instead."""
    if state.job_state(job) == JobState.STOPPING and job.stop_reason == HOLD:
        yield from stop(state, job, REQUEUE)
        return
    if not job.blockers & Blocker.HELD:
        shown = state.shown_state(job).name
        raise WrongState(f"job {job.id} is {shown}: only a HELD job can be released")
    yield from unblock(state, job, Blocker.HELD)


def requeue(state: ClusterState, job: Job, hold: bool = False) -> Steps:
    """Stop a running job so that it waits again, or let a finished job wait again; with `hold`, it waits until it is released."""
    _check_not_ending(job)
    if state.job_state(job).has_processes:
        yield from stop(state, job, HOLD if hold else REQUEUE)
    elif job.final:
        yield from submitted(state, job)
        if hold and not job.final:
            yield from block(state, job, Blocker.HELD)
    else:
        instead = f": `headway hold {job.id}` keeps it from starting" if hold else ""
        raise WrongState(f"job {job.id} is {state.shown_state(job).name}: it waits already{instead}")


def closed(state: ClusterState) -> Steps:
    """Start no job until the next manager opens, and requeue the running jobs. Jobs that are being stopped keep their reason."""
    yield Note(CLOSING)
    for job in state.active_jobs():
        if state.job_state(job).has_processes and state.job_state(job) != JobState.STOPPING:
            yield from stop(state, job, REQUEUE)


def recall(state: ClusterState, job_id: int, archived: Archived | None) -> Steps:
    """Return a retired job to memory, from its row of finished jobs."""
    if archived is None:
        raise WrongState(f"job {job_id} has ended, and the journal has not kept enough of it: submit it anew")
    state.check_more(archived.job.spec, archived.job.user, 1)
    data = {"text": archived.text, "accepted": max(state.jobs, default=0)}
    yield Note(RECALLED, job_id, data, attempt=int(archived.row["attempt"]))
