"""The life cycle of a job: which facts follow from reports, alarms and requests. Runs in the engine's thread, under the manager's lock.

Generators yield facts; the loop (`drive`) records and notes each before the generator goes on, so what comes next reads the new state.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headway.core.engine import Action, Cause, Event
from headway.core.events import CROSSED, ENDED, HELD, NAMES, REASONS, RELEASED, STARTED, STOP, STOPPED, SUBMITTED
from headway.job_state import JobState
from headway.live import executors
from headway.live.errors import WrongState
from headway.live.executors import Executor, NodeReport, Report
from headway.live.nodes import node_changes
from headway.live.outcome import Backoff, outcome
from headway.live.records import CANCEL, HOLD, NOTHING, REQUEUE, TIME_UP, Blocker, Job, Progress
from headway.live.state import ASKED, BLOCKED, PROGRESSED, ClusterState
from headway.live.store.journal import JournalRow

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
        self._progress_at: dict[int, float] = {}

    def note(self, event: Event | Action | Cause, now: float) -> None:
        """Write down what the engine recorded, an action with the places it was given."""
        if isinstance(event, Cause):
            self._write(NAMES[event.kind], event.job, now, {"class": event.group, "why": REASONS[event.why]})
            return
        data, self._data = self._data, {}
        if isinstance(event, Action) and event.places:
            data = {**data, "places": event.places, **({"links": event.links} if event.links else {})}
        self._write(NAMES[event.kind], event.job, now, data)
        if event.kind == STARTED:
            self.set_alarms(self.state.jobs[event.job + 1], now)

    def _write(self, kind: str, job: int, now: float, data: dict[str, Any]) -> None:
        """Write a row of the journal, and learn from it. `job` is the engine's row, or -1 for a fact about no job."""
        attempt = self.state.attempt(self.state.jobs[job + 1]) if job >= 0 else 0
        row = JournalRow(now, kind, job + 1, attempt, data)
        self._rows.append(row)
        self.state.learn(row)

    def note_about_nodes(self, kind: str, now: float, data: dict[str, Any]) -> Iterator[Event]:
        """Write down a fact about nodes, which the engine does not record."""
        self._write(kind, -1, now, data)
        yield from ()

    def nodes_reported(self, reports: Iterable[NodeReport], now: float) -> Iterator[Event]:
        """What an executor says of its nodes, where that is news."""
        changes = node_changes(self.state.tables, self.state.cluster.nodes, self.state.drained, reports)
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
            yield Event(STARTED, job.row)
        elif report.what == executors.ENDED:
            yield from self._attempt_over(job, report, now)

    def _attempt_over(self, job: Job, report: Report, now: float) -> Iterator[Event]:
        if job.progress != job.noted:
            self._note_progress(job, now)
        found = outcome(job, report, now, self.backoff)
        if found.state:
            yield from self.ended(job, found.state, found.data)
            return
        self._data = found.data
        yield Event(STOPPED, job.row)
        if found.blockers:
            yield from self.block(job, found.blockers, found.not_before)

    def ended(self, job: Job, state: JobState, data: dict[str, Any]) -> Iterator[Event]:
        """The job is over; others may have waited for that."""
        self._data = {**data, "state": state.name}
        yield Event(ENDED, job.row)
        for other_id in sorted(self.state.dependants.pop(job.id, ())):
            other = self.state.jobs[other_id]
            if state != JobState.COMPLETED and not other.final:
                yield from self._cancel_dependant(other, job.id, state)
            elif not other.waits_for:
                yield from self.unblock(other, Blocker.DEPENDENCY)
        if job.array_id is not None:
            yield from self._next_of_array(job.array_id)

    def _cancel_dependant(self, job: Job, other: int, state: JobState) -> Iterator[Event]:
        message = f"job {other}, which it was to follow, ended as {state.name}"
        yield from self.ended(job, JobState.CANCELLED, {"message": message})

    def progressed(self, job: Job, progress: Progress, now: float) -> Iterator[Event]:
        """Keep what the job says; first steps and checkpoints go to the journal at once, the rest now and then."""
        saved = progress.checkpointed is not None and progress.checkpointed != job.progress.checkpointed
        first = job.attempts.stepped is None and progress.step is not None
        job.progress = progress
        news = saved or first or not job.attempts.reports
        if news or now - self._progress_at.get(job.id, -1e18) >= PROGRESS_ROW_S:
            self._note_progress(job, now)
        if first and self.state.job_state(job) == JobState.RUNNING:
            yield Event(CROSSED, job.row)  # its turn is another now

    def _note_progress(self, job: Job, now: float) -> None:
        self._progress_at[job.id] = now
        self._write(PROGRESSED, job.row, now, job.progress.as_dict())

    # ---- arrivals, blockers and alarms

    def submitted(self, job: Job, now: float) -> Iterator[Event]:
        """Hand an accepted job to the engine, and block it while it has to wait for others."""
        yield Event(SUBMITTED, job.row)
        for other in sorted(job.waits_for):
            if final := self.state.jobs[other].final:  # it failed before this one came
                yield from self._cancel_dependant(job, other, final)
                return
        blockers = Blocker.DEPENDENCY if job.waits_for else NOTHING
        array = self.state.arrays.get(job.array_id or 0)
        if array and array.limit is not None and array.active > array.limit:
            blockers |= Blocker.ARRAY_LIMIT
        if blockers:
            yield from self.block(job, blockers)

    def block(self, job: Job, blockers: Blocker, not_before: float = 0.0) -> Iterator[Event]:
        """Keep the job from the engine until all of its blockers are gone."""
        data: dict[str, Any] = {"blockers": int(job.blockers | blockers)}
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
        left = job.blockers & ~blockers
        if left or self.state.job_state(job) != JobState.HELD:
            self._write(BLOCKED, job.row, self._now, {"blockers": int(left)})
        else:
            yield Event(RELEASED, job.row)

    def _next_of_array(self, array_id: int) -> Iterator[Event]:
        """Unblock as many tasks as the limit of their array allows, in order."""
        array = self.state.arrays[array_id]
        while array.limit is not None and array.active < array.limit and array.next < len(array.tasks):
            task = self.state.jobs[array.tasks[array.next]]
            array.next += 1
            yield from self.unblock(task, Blocker.ARRAY_LIMIT)

    def set_alarms(self, job: Job, now: float) -> None:
        """Remember what happens to a running (or backing off) job at a known time."""
        if job.blockers & Blocker.RETRY_BACKOFF:
            heapq.heappush(self._alarms, (job.not_before, RETRY, job.id, 0))
        limit_s = self.state.limit_s(job.spec)
        if self.state.job_state(job) == JobState.RUNNING and limit_s is not None:
            left = limit_s - self.state.run_s(job, now)
            heapq.heappush(self._alarms, (now + left, TIME_LIMIT, job.id, self.state.attempt(job)))

    def alarms_due(self, now: float) -> Iterator[Event]:
        """Back-offs that are over, and attempts whose time is up."""
        while self._alarms and self._alarms[0][0] <= now:
            _, what, job_id, attempt = heapq.heappop(self._alarms)
            job = self.state.jobs[job_id]
            if what == RETRY:
                if job.not_before <= now:
                    yield from self.unblock(job, Blocker.RETRY_BACKOFF)
            elif attempt == self.state.attempt(job) and self.state.job_state(job) == JobState.RUNNING:
                yield from self.stop(job, TIME_UP)

    # ---- stopping and starting

    def stop(self, job: Job, why: str) -> Iterator[Event]:
        """Ask a job with processes to stop, for a reason other than making room."""
        if self.state.job_state(job) != JobState.STOPPING:
            self._data = {"why": why}
            yield Event(STOP, job.row)
        elif job.stop_reason != CANCEL:
            self._write(ASKED, job.row, self._now, {"why": why})
        self.stop_processes(job)

    def stop_processes(self, job: Job) -> None:
        """Signal the ranks once this round is in the journal."""
        attempt, how = self.state.attempt(job), job.spec.preemption
        self._to_do.append(lambda: self.executor.stop(job.id, attempt, how.signal, how.grace))

    # ---- what people ask for

    def cancel(self, job: Job) -> Iterator[Event]:
        """End a job; its processes get the signal and the grace of its own preemption."""
        if self.state.job_state(job).has_processes:
            yield from self.stop(job, CANCEL)
        else:
            yield from self.ended(job, JobState.CANCELLED, {"message": "cancelled"})

    def hold(self, job: Job) -> Iterator[Event]:
        """Keep a job from running until it is released; one that runs is stopped."""
        if self.state.job_state(job).has_processes:
            yield from self.stop(job, HOLD)
        else:
            yield from self.block(job, Blocker.HELD)

    def release(self, job: Job) -> Iterator[Event]:
        """Let a held job run."""
        if not job.blockers & Blocker.HELD:
            shown = self.state.shown_state(job).name
            raise WrongState(f"job {job.id} is {shown}: only a HELD job can be released")
        yield from self.unblock(job, Blocker.HELD)

    def requeue(self, job: Job, now: float) -> Iterator[Event]:
        """Run it again: a running job is stopped first, a finished one waits anew."""
        if self.state.job_state(job).has_processes:
            yield from self.stop(job, REQUEUE)
        elif job.final:
            yield from self.submitted(job, now)
        else:
            raise WrongState(f"job {job.id} is {self.state.shown_state(job).name}: it waits already")
