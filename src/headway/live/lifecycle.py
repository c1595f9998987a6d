"""The course of a job: which facts follow from reports, alarms and requests. Runs in the engine's thread, under the manager's lock.

Generators yield facts; the loop (`drive`) records and notes each before the generator goes on, so what comes next reads the new state.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from headway.core.engine import Event
from headway.core.events import ENDED, HELD, RELEASED, STARTED, STOP, STOPPED, SUBMITTED
from headway.core.tables.jobs import ON_HOLD, PENDING, RUNNING, STARTING, STOPPING
from headway.live import executors
from headway.live.executors import Executor, Report
from headway.live.outcome import Backoff, outcome
from headway.live.records import ARRAY_LIMIT, CANCEL, DEPENDENCY, RETRY_BACKOFF, TIME_UP, Job, Progress
from headway.live.state import ASKED, GATED, PROGRESSED, Book
from headway.live.store.journal import JournalRow

PROGRESS_ROW_S = 10.0  # progress is written to the journal at most this often, but every checkpoint is

# Alarms: what the engine's own timers do not know.
TIME_LIMIT, RETRY = "time_limit", "retry"


class Course:
    """What happens to jobs, one fact after the other."""

    def __init__(self, book: Book, executor: Executor, backoff: Backoff) -> None:
        self.book, self.executor, self.backoff = book, executor, backoff
        self._now = 0.0
        self._rows: list[JournalRow] = []  # recorded, but not in the journal yet
        self._to_do: list[Callable[[], None]] = []  # to be done once they are
        self._alarms: list[tuple[float, str, int, int]] = []
        self._data: dict[str, Any] = {}  # goes with the next row
        self._progress_at: dict[int, float] = {}

    def note(self, kind: int | str, job: int, now: float) -> None:
        """Write down what was recorded, and learn from it. `job` is the engine's row; -1 for facts about no job."""
        record = self.book.jobs[job + 1] if job >= 0 else None
        row = self.book.row(kind, record, now, self._data)
        self._data = {}
        self._rows.append(row)
        self.book.learn(row)
        if kind == STARTED and record:
            self.set_alarms(record, now)

    def tell(self, kind: str, now: float, data: dict[str, Any]) -> None:
        """Write down a fact about no job."""
        self._data = data
        self.note(kind, -1, now)

    # ---- facts from the executor

    def reported(self, report: Report, now: float) -> Iterator[Event]:
        """Late and doubled reports are dropped by attempt."""
        job = self.book.jobs.get(report.job)
        if job is None or report.attempt != self.book.attempt(job) or job.final:
            return
        state = self.book.engine_state(job)
        if state not in (STARTING, RUNNING, STOPPING):
            return
        if report.progress is not None:
            yield from self.progressed(job, report.progress, now, always=report.what == executors.ENDED)
        if report.what == executors.STARTED and state == STARTING:
            yield Event(STARTED, job.row)
        elif report.what == executors.ENDED:
            yield from self._over(job, report, now)

    def _over(self, job: Job, report: Report, now: float) -> Iterator[Event]:
        found = outcome(job, report, now, self.backoff)
        if found.state:
            yield from self.ended(job, found.state, found.data)
            return
        self._data = found.data
        yield Event(STOPPED, job.row)
        if found.gates:
            yield from self.close_gates(job, found.gates, found.not_before)

    def ended(self, job: Job, state: str, data: dict[str, Any]) -> Iterator[Event]:
        """The job is over; others may have waited for that."""
        self._data = {**data, "state": state}
        yield Event(ENDED, job.row)
        for other_id in sorted(self.book.dependants.pop(job.id, ())):
            other = self.book.jobs[other_id]
            if state != "COMPLETED" and not other.final:
                yield from self.ended(
                    other, "CANCELLED", {"message": f"job {job.id}, which it was to follow, ended as {state}"}
                )
            elif not other.waits_for:
                yield from self.open_gates(other, DEPENDENCY)
        if job.array_id is not None:
            yield from self._next_of_array(job.array_id)

    def progressed(self, job: Job, progress: Progress, now: float, always: bool = False) -> Iterator[Event]:
        """Keep what the job says; every checkpoint goes to the journal, the rest now and then."""
        saved = progress.checkpointed is not None and progress.checkpointed != job.progress.checkpointed
        job.progress = progress
        if saved or always or now - self._progress_at.get(job.id, -1e18) >= PROGRESS_ROW_S:
            self._progress_at[job.id] = now
            self._data = progress.as_dict()
            self.note(PROGRESSED, job.row, now)
        yield from ()

    # ---- arrivals, gates and alarms

    def submitted(self, job: Job, now: float) -> Iterator[Event]:
        """Tell the engine of an accepted job, and close the gates it has to wait behind."""
        yield Event(SUBMITTED, job.row)
        for other in sorted(job.waits_for):
            if self.book.jobs[other].final:  # it ended otherwise than well before this one came
                message = f"job {other}, which it was to follow, ended as {self.book.jobs[other].final}"
                yield from self.ended(job, "CANCELLED", {"message": message})
                return
        gates = DEPENDENCY if job.waits_for else 0
        array = self.book.arrays.get(job.array_id or 0)
        if array and array.limit is not None and array.active > array.limit:
            gates |= ARRAY_LIMIT
        if gates:
            yield from self.close_gates(job, gates)

    def close_gates(self, job: Job, gates: int, not_before: float = 0.0) -> Iterator[Event]:
        """Keep the job from the engine until all of its gates are open."""
        self._data = {"gates": job.gates | gates}
        if not_before:
            self._data["not_before"] = not_before
            heapq.heappush(self._alarms, (not_before, RETRY, job.id, 0))
        if self.book.engine_state(job) == PENDING:
            yield Event(HELD, job.row)
        else:
            self.note(GATED, job.row, self._now)

    def open_gates(self, job: Job, gates: int) -> Iterator[Event]:
        """Open some gates; behind the last one the engine takes over."""
        if not job.gates & gates or job.final:
            return
        left = job.gates & ~gates
        if left or self.book.engine_state(job) != ON_HOLD:
            self._data = {"gates": left}
            self.note(GATED, job.row, self._now)
        else:
            yield Event(RELEASED, job.row)

    def _next_of_array(self, array_id: int) -> Iterator[Event]:
        """Let as many tasks on as the limit of their array allows, in order."""
        array = self.book.arrays[array_id]
        while array.limit is not None and array.active < array.limit and array.next < len(array.tasks):
            task = self.book.jobs[array.tasks[array.next]]
            array.next += 1
            yield from self.open_gates(task, ARRAY_LIMIT)

    def set_alarms(self, job: Job, now: float) -> None:
        """What is to happen to a running (or backing off) job at a known time."""
        attempt, spec = self.book.attempt(job), job.spec
        if job.gates & RETRY_BACKOFF:
            heapq.heappush(self._alarms, (job.not_before, RETRY, job.id, 0))
        if self.book.engine_state(job) != RUNNING:
            return
        if spec.time_limit is not None:
            left = spec.time_limit - self.book.run_s(job, now)
            heapq.heappush(self._alarms, (now + left, TIME_LIMIT, job.id, attempt))

    def rang(self, what: str, job: Job, attempt: int, now: float) -> Iterator[Event]:
        if what == RETRY:
            if job.not_before <= now:
                yield from self.open_gates(job, RETRY_BACKOFF)
        elif attempt == self.book.attempt(job) and self.book.engine_state(job) == RUNNING:
            yield from self.stop(job, TIME_UP)

    # ---- stopping and starting

    def stop(self, job: Job, why: str) -> Iterator[Event]:
        """Ask a job with processes to stop, for another reason than making room."""
        if self.book.engine_state(job) == STOPPING:
            if job.asked != CANCEL:
                self._data = {"why": why}
                self.note(ASKED, job.row, self._now)
        else:
            self._data = {"why": why}
            yield Event(STOP, job.row)
        self.stop_processes(job)

    def stop_processes(self, job: Job) -> None:
        """Signal the ranks once this round is in the journal."""
        attempt, how = self.book.attempt(job), job.spec.preemption
        self._to_do.append(lambda: self.executor.stop(job.id, attempt, how.signal, how.grace))
