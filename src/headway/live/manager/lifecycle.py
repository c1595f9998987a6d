"""The life cycle of a job: which facts follow from reports, alarms and requests. Runs in the engine's thread, under the manager's lock.

Generators yield facts; the loop (`drive`) records and notes each before the generator goes on, so what comes next reads the new state.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headway.core.classes import split_class
from headway.core.engine import Action, Cause, Event, Recorded, Retry
from headway.core.events import (
    CROSSED,
    ENDED,
    HELD,
    NAMES,
    NOTIFY,
    REASONS,
    RELEASED,
    STARTED,
    STOP,
    STOPPED,
    SUBMITTED,
)
from headway.core.tables.teams import CLUSTER
from headway.job_state import JobState
from headway.live import executors
from headway.live.errors import WrongState
from headway.live.executors import Executor, NodeReport, Report, Stamp
from headway.live.manager.outcome import Backoff, outcome
from headway.live.measures import Measures
from headway.live.state.cluster import ClusterState
from headway.live.state.demands import lacks_nodes
from headway.live.state.learn import ASKED, AWAY, BEFORE, BLOCKED, PROGRESSED, UNTIL, charge, finite, learn
from headway.live.state.nodes import node_changes
from headway.live.state.records import CANCEL, HOLD, MIGRATE, NOTHING, PREEMPT, REQUEUE, TIME_UP, Blocker, Job, Progress
from headway.live.store.history import LATE
from headway.live.store.journal import JournalRow

LATE_S = 0.002  # the first row of a round that begins so much too late says so: replays are late then too
PROGRESS_ROW_S = 10.0  # progress is written to the journal at most this often, but every checkpoint is

# Alarms: what the engine's own timers do not know.
TIME_LIMIT, RETRY = "time_limit", "retry"


class Lifecycle:
    """What happens to jobs, one fact after the other."""

    def __init__(self, state: ClusterState, executor: Executor, backoff: Backoff) -> None:
        self.state, self.executor, self.backoff = state, executor, backoff
        self._now = 0.0
        self._rows: list[JournalRow] = []  # recorded, but not in the journal yet
        self._to_do: list[Callable[[], None]] = []  # to be done once they are
        self._alarms: list[tuple[float, str, int, int]] = []
        self._data: dict[str, Any] = {}  # goes with the next fact that the engine records
        self.away = (0.0, 0.0)  # (from, to) in which no manager ran, before this one
        self._late_s = 0.0  # that this round begins after the engine was to be woken
        self._progress_at: dict[int, float] = {}
        self._of_nodes: Sequence[NodeReport] = ()  # what the executor said of its nodes last
        self.measures = Measures()

    def note(self, event: Recorded, now: float) -> None:
        """Write down what the engine recorded, an action with the places it was given."""
        if isinstance(event, Cause):
            self._write(NAMES[event.kind], event.job, now, {**self._class(event.group), "why": REASONS[event.why]})
            return
        if isinstance(event, Retry):
            self._write(NAMES[event.kind], event.job, now, {UNTIL: finite(event.at)})
            return
        data, self._data = self._data, {}
        if isinstance(event, Action):
            data = {**data, **self._action(event)}
        if self._late_s >= LATE_S:
            data, self._late_s = {**data, LATE: round(self._late_s, 6)}, 0.0
        self._write(NAMES[event.kind], event.job, now, data)
        if event.kind == STARTED:
            job = self.state.at(event.job)
            self.set_alarms(job, now)
            if self.state.attempt(job) == 1:
                self.measures.waited(job.spec.queue, now - job.submitted)

    def _action(self, action: Action) -> dict[str, Any]:
        """Return what the row of an action says. Rows of teams change with the queues file, so that they are named."""
        if action.kind == NOTIFY:
            teams = [(self.state.teams.label(team), gpus) for team, gpus in action.places if team > CLUSTER]
            return {UNTIL: finite(action.until), **({"team": teams[0][0], "gpus": teams[0][1]} if teams else {})}
        places = {"places": action.places} if action.places else {}
        links = {"links": action.links} if action.links else {}
        return places | links | ({UNTIL: action.until} if math.isfinite(action.until) else {})

    def _class(self, number: int) -> dict[str, Any]:
        """A class of jobs; teams have other numbers when the queues file changes, and demands are numbered as they come: they are named."""
        kind, team, demand = split_class(number, self.state.engine.options)
        asked = {"demand": self.state.demands.label(demand)} if demand else {}
        return {"class": kind, **({"team": self.state.teams.label(team)} if self.state.teams else {}), **asked}

    def _write(self, kind: str, job: int, now: float, data: dict[str, Any]) -> None:
        """Write a row of the journal, and learn from it. `job` is the engine's row, or -1 for a fact about no job."""
        about = self.state.at(job) if job >= 0 else None
        row = JournalRow(now, kind, *((about.id, self.state.attempt(about)) if about else (0, 0)), data)
        if not self._rows:
            self.measures.behind_since = now
        self._rows.append(row)
        learn(self.state, row)

    def note_about_nodes(self, kind: str, now: float, data: dict[str, Any]) -> Iterator[Event]:
        """Write down a fact about nodes, which the engine does not record."""
        self._write(kind, -1, now, data)
        yield from ()

    def nodes_reported(self, reports: Sequence[NodeReport], now: float) -> Iterator[Event]:
        """What an executor says of its nodes, where that is news."""
        nodes, self._of_nodes = self.state.cluster.nodes, reports or self._of_nodes
        drained = set(range(len(nodes))) if self.state.low_disk else self.state.drained  # none comes back meanwhile
        changes = node_changes(self.state.tables, nodes, drained, reports)
        for kind, data in list(changes):
            yield from self.note_about_nodes(kind, now, data)

    # ---- facts from the executor

    def reported(self, report: Report, now: float) -> Iterator[Event]:
        """The facts in a report; a late or doubled one is dropped by its attempt."""
        job = self.state.jobs.get(report.job)
        if job is None or report.attempt != self.state.attempt(job) or job.final:
            return
        state = self.state.job_state(job)
        if not state.has_processes:
            return
        if report.progress is not None:
            yield from self.progressed(job, report.progress, now)
        if report.what == executors.STARTED and state == JobState.STARTING:
            self._data = self._charged(job, STARTED, report, now)
            yield Event(STARTED, job.row)
        elif report.what == executors.ENDED:
            yield from self._attempt_over(job, report, now)
            yield from self.nodes_reported(self._of_nodes, now)  # what it gave back may be for others

    def _attempt_over(self, job: Job, report: Report, now: float) -> Iterator[Event]:
        if job.progress != job.noted:
            self._note_progress(job, now)
        if report.lost or report.refused:
            self.measures.error(now, f"job {job.id}: {report.message}")
        if report.trouble:
            self.measures.error(now, f"job {job.id}: {report.trouble}")
        result = outcome(job, report, now, self.backoff)
        data = result.data | self._charged(job, ENDED if result.state else STOPPED, report, now)
        if result.state:
            yield from self.ended(job, result.state, data)
            return
        self._data = data
        yield Event(STOPPED, job.row)
        blockers = result.blockers | self._too_large(job)
        if blockers:
            yield from self.block(job, blockers, result.not_before)

    def _charged(self, job: Job, kind: int, report: Report, now: float) -> dict[str, float]:
        """Charge the job for the time that it ran, where a report says when that began or ended; the part of the row about it."""
        at = self.when(report.at) if report.at else None
        if at is None:
            return {}
        began = job.attempts.began
        if kind != STARTED and job.started is not None:
            began = max(began, job.started)
        at = max(at, began)
        charge(self.state, job, kind, at, now)
        away_s = self.away[1] - max(at, self.away[0])
        return {"at": at, **({AWAY: away_s} if away_s > 0.0 else {})}

    def when(self, stamp: Stamp) -> float | None:
        """When something was by the manager's clock; None: not known."""
        return None

    def ended(self, job: Job, state: JobState, data: dict[str, Any]) -> Iterator[Event]:
        """The job is over; others may have waited for that, and others again for these: a chain may be long."""
        over: deque[tuple[Job, JobState, dict[str, Any]]] = deque([(job, state, data)])
        while over:
            job, state, data = over.popleft()
            if job.final:
                continue  # it followed two that ended
            self._data = {**data, "state": state.name}
            self._progress_at.pop(job.id, None)
            waiting = sorted(self.state.dependants.get(job.id, ()))  # nobody does any more once it is recorded
            yield Event(ENDED, job.row)
            for other in filter(None, map(self.state.jobs.get, waiting)):
                if not other.blockers & Blocker.DEPENDENCY:
                    continue  # it is over, or has been let go
                if why := self.state.unmet(other, job):
                    over.append((other, JobState.CANCELLED, {"message": why}))
                elif not other.waits_for:
                    yield from self.unblock(other, Blocker.DEPENDENCY)
            if job.array_id is not None:
                yield from self._next_of_array(job.array_id)

    def progressed(self, job: Job, progress: Progress, now: float) -> Iterator[Event]:
        """Keep what the job says; first steps and checkpoints go to the journal at once, the rest now and then."""
        saved = progress.checkpointed is not None and progress.checkpointed != job.progress.checkpointed
        first = job.attempts.stepped is None and progress.step is not None
        job.progress = progress
        news, before = saved or first or not job.attempts.reports, job.attempts.believed_s
        if news or now - self._progress_at.get(job.id, -1e18) >= PROGRESS_ROW_S:
            self._note_progress(job, now)
        told = self.state.engine.policy.reports and _another(before, job.attempts.believed_s)
        if (first or told) and self.state.job_state(job) == JobState.RUNNING:
            yield Event(CROSSED, job.row)  # its turn, or its place in the order, is another now

    def _note_progress(self, job: Job, now: float) -> None:
        self._progress_at[job.id] = now
        self._write(PROGRESSED, job.row, now, job.progress.as_dict())

    # ---- arrivals, blockers and alarms

    def submitted(self, job: Job, now: float) -> Iterator[Event]:
        """Hand an accepted job to the engine, and block it while it has to wait for others."""
        yield Event(SUBMITTED, job.row)
        if why := self.state.unmet(job):  # it failed before this one came
            yield from self.ended(job, JobState.CANCELLED, {"message": why})
            return
        blockers = self._too_large(job) | (Blocker.DEPENDENCY if job.waits_for else NOTHING)
        if job.spec.hold and not self.state.attempt(job):
            blockers |= Blocker.HELD
        array = self.state.arrays.get(job.array_id or 0)
        if array and array.limit is not None and array.active > array.limit:
            blockers |= Blocker.ARRAY_LIMIT
        if blockers:
            yield from self.block(job, blockers)

    def _too_large(self, job: Job) -> Blocker:
        """A job that was accepted for a larger cluster, or for nodes that are gone, waits until there is one again."""
        return Blocker.NODE_DOWN if lacks_nodes(job.spec, self.state.cluster) else NOTHING

    def block(self, job: Job, blockers: Blocker, not_before: float = 0.0, message: str = "") -> Iterator[Event]:
        """Keep the job from the engine until all of its blockers are gone."""
        data: dict[str, Any] = {"blockers": int(job.blockers | blockers), BEFORE: int(job.blockers)}
        if message:
            data["message"] = message
        if not_before:
            data["not_before"] = not_before
            heapq.heappush(self._alarms, (not_before, RETRY, job.id, 0))
        if self.state.job_state(job) == JobState.PENDING:
            self._data = data
            yield Event(HELD, job.row)
        else:
            self._write(BLOCKED, job.row, self._now, data)

    def unblock(self, job: Job, blockers: Blocker) -> Iterator[Event]:
        """Take some blockers away; without any, the job is the engine's again."""
        if not job.blockers & blockers or job.final:
            return
        remaining, before = job.blockers & ~blockers, {BEFORE: int(job.blockers)}
        if remaining or self.state.job_state(job) != JobState.HELD:
            self._write(BLOCKED, job.row, self._now, {"blockers": int(remaining), **before})
        else:
            self._data = before
            yield Event(RELEASED, job.row)

    def _next_of_array(self, array_id: int) -> Iterator[Event]:
        """Unblock as many tasks as the limit of their array allows, in order."""
        array = self.state.arrays[array_id]
        while array.limit is not None and array.active < array.limit and array.next < len(array.tasks):
            task = self.state.jobs.get(array.tasks[array.next])
            array.next += 1
            if task:  # it may have been cancelled, and retired
                yield from self.unblock(task, Blocker.ARRAY_LIMIT)

    def set_alarms(self, job: Job, now: float) -> None:
        """Remember what happens to a running (or backing off) job at a known time."""
        if job.blockers & Blocker.RETRY_BACKOFF:
            heapq.heappush(self._alarms, (job.not_before, RETRY, job.id, 0))
        limit_s = self.state.limit_s(job.spec)
        if self.state.job_state(job) == JobState.RUNNING and limit_s is not None:
            seconds = limit_s - self.state.run_s(job, now)
            heapq.heappush(self._alarms, (now + seconds, TIME_LIMIT, job.id, self.state.attempt(job)))

    def alarms_due(self, now: float) -> Iterator[Event]:
        """Back-offs that are over, and attempts whose time is up."""
        while self._alarms and self._alarms[0][0] <= now:
            _, what, job_id, attempt = heapq.heappop(self._alarms)
            job = self.state.jobs.get(job_id)
            if job is None:
                continue  # it is over, and retired
            if what == RETRY:
                if job.not_before <= now:
                    yield from self.unblock(job, Blocker.RETRY_BACKOFF)
            elif attempt == self.state.attempt(job) and self.state.job_state(job) == JobState.RUNNING:
                yield from self.stop(job, TIME_UP)

    # ---- stopping and starting

    def stop(self, job: Job, why: str, at_once: bool = False) -> Iterator[Event]:
        """Ask a job with processes to stop, for a reason other than making room; `at_once` leaves it no grace."""
        data: dict[str, Any] = {"why": why, **({"now": True} if at_once else {})}
        if self.state.job_state(job) != JobState.STOPPING:
            self._data = data
            yield Event(STOP, job.row)
        elif job.stop_reason != CANCEL or (at_once and not job.kill):
            self._write(ASKED, job.row, self._now, data)
        self.stop_processes(job)

    def stop_processes(self, job: Job) -> None:
        """Signal the ranks once this round is in the journal."""
        attempt, how = self.state.attempt(job), self.state.how_to_stop(job)
        self._to_do.append(lambda: self.executor.stop(job.id, attempt, *how))

    # ---- what people ask for

    def cancel(self, job: Job, at_once: bool = False) -> Iterator[Event]:
        """End a job; its processes get the signal and the grace of its own preemption, or are killed at once."""
        if self.state.job_state(job).has_processes:
            yield from self.stop(job, CANCEL, at_once)
        else:
            yield from self.ended(job, JobState.CANCELLED, {"message": "cancelled"})

    def hold(self, job: Job) -> Iterator[Event]:
        """Keep a waiting job from running until it is released; one that is being stopped to run again later is held after that."""
        if not self.state.job_state(job).has_processes:
            yield from self.block(job, Blocker.HELD)
        elif self.state.job_state(job) == JobState.STOPPING and job.stop_reason in (PREEMPT, MIGRATE, REQUEUE, HOLD):
            yield from self.stop(job, HOLD)
        else:
            what = "hold acts on jobs that wait, and stops none"
            instead = f"`headway requeue --hold {job.id}` stops this one and holds it"
            raise WrongState(f"job {job.id} is {self.state.shown_state(job).name}: {what}; {instead}")

    def release(self, job: Job) -> Iterator[Event]:
        """Let a held job run; one that is being stopped to be held then waits instead."""
        if self.state.job_state(job) == JobState.STOPPING and job.stop_reason == HOLD:
            yield from self.stop(job, REQUEUE)
            return
        if not job.blockers & Blocker.HELD:
            shown = self.state.shown_state(job).name
            raise WrongState(f"job {job.id} is {shown}: only a HELD job can be released")
        yield from self.unblock(job, Blocker.HELD)

    def requeue(self, job: Job, now: float, hold: bool = False) -> Iterator[Event]:
        """Run it again: a running job is stopped first, a finished one waits anew; with `hold` once it is released."""
        if self.state.job_state(job).has_processes:
            yield from self.stop(job, HOLD if hold else REQUEUE)
        elif job.final:
            self.state.count_again(job)
            yield from self.submitted(job, now)
            if hold and not job.final:
                yield from self.block(job, Blocker.HELD)
        else:
            instead = f": `headway hold {job.id}` keeps it from starting" if hold else ""
            raise WrongState(f"job {job.id} is {self.state.shown_state(job).name}: it waits already{instead}")


def _another(before: float | None, now: float | None) -> bool:
    """Whether what is left of a job is known for the first time, no longer, or less than half or more than twice of what it was."""
    if before is None or now is None:
        return before is not now
    return not before / 2 <= now <= before * 2
