"""The live world: fills the World protocol of core/engine.py with a clock, a journal and an executor.

Everything recorded in a round is written to the journal first, in one transaction; only then are the round's actions performed and its
requests answered. While the journal cannot be written nothing is performed: the rows wait, and the manager says so.
"""

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from headway.core.engine import Action, Event
from headway.core.events import CROSSED, ENDED, HELD, PACK, RELEASED, RESIZE, START, STARTED, STOP, STOPPED, SUBMITTED
from headway.core.jobs import ON_HOLD, PENDING, RUNNING, STARTING, STOPPING
from headway.core.timers import due
from headway.live import executors
from headway.live.book import ASKED, GATED, PROGRESSED, Book
from headway.live.errors import JournalFailed
from headway.live.executors import Executor, Launch, Report
from headway.live.journal import Journal, JournalRow
from headway.live.records import ARRAY_LIMIT, CANCEL, DEPENDENCY, RETRY_BACKOFF, TIME_UP, Job, Progress
from headway.live.rules import Backoff, outcome

JOURNAL_RETRY_S = 0.5
PROGRESS_ROW_S = 10.0  # progress is written to the journal at most this often, but every checkpoint is

# Alarms: what the engine's own timers do not know.
TIME_LIMIT, RETRY, SETTLED = "time_limit", "retry", "settled"


@dataclass(frozen=True, slots=True)
class Request:
    """Something a person asked for: `act(now)` yields facts in the engine's thread; `done` is set once they are on disk."""

    act: Callable[[float], Iterator[Event]]
    done: Future[None] = field(default_factory=Future)


class LiveWorld:
    """Where facts come from and actions go."""

    def __init__(
        self,
        book: Book,
        journal: Journal,
        executor: Executor,
        clock: Callable[[], float],
        backoff: Backoff,
        environment: Callable[[Job, int], dict[str, str]],
    ) -> None:
        self.book, self.journal, self.executor, self.clock, self.backoff = book, journal, executor, clock, backoff
        self.environment = environment
        self.lock = threading.RLock()  # held by the engine's thread while it records and decides
        self.committed = threading.Condition()
        self.last_seq = 0
        self.trouble = ""
        self.arrivals: deque[int] = deque()
        self.requests: deque[Request] = deque()
        self.early: deque[Report] = deque()
        self.rounds, self.busy_s, self.longest_s = 0, 0.0, 0.0
        self._began = perf_counter()
        self._wake = threading.Condition()
        self._woken = False
        self._closing = False
        self._rows: list[JournalRow] = []
        self._to_do: list[Callable[[], None]] = []
        self._answers: list[Future[None]] = []
        self._alarms: list[tuple[float, str, int, int]] = []
        self._data: dict[str, Any] = {}
        self._progress_at: dict[int, float] = {}

    # ---- the four calls of the protocol

    def wait(self, until: float) -> float | None:
        """End the round: journal, perform, answer; then sleep until something happens."""
        self.book.receipts.settle(self.book, self._now)
        spent = perf_counter() - self._began
        self.rounds, self.busy_s, self.longest_s = self.rounds + 1, self.busy_s + spent, max(self.longest_s, spent)
        self.lock.release()
        try:
            if self._commit():
                self._perform()
                self._sleep(min(until, self._alarms[0][0] if self._alarms else until))
        finally:
            self.lock.acquire()
        self._began = perf_counter()
        self._now = max(self._now, self.clock())
        return None if self._closing else self._now

    def facts(self, now: float) -> Iterator[Event]:
        """In the engine's order: ends, stops and starts, then crossings, then arrivals; last what people asked for."""
        reports = [*self.early, *self.executor.reports()]
        self.early.clear()
        reports.sort(key=lambda report: report.what == executors.STARTED)
        for report in reports:
            yield from self._reported(report, now)
        while (j := int(due(self.book.engine.state, now))) >= 0:
            yield Event(CROSSED, j)
        while self._alarms and self._alarms[0][0] <= now:
            _, what, job_id, attempt = heapq.heappop(self._alarms)
            yield from self._rang(what, self.book.jobs[job_id], attempt, now)
        while self.arrivals:
            yield from self.submitted(self.book.jobs[self.arrivals.popleft()], now)
        while self.requests:
            request = self.requests.popleft()
            try:
                yield from request.act(now)
            except Exception as error:
                request.done.set_exception(error)
            else:
                self._answers.append(request.done)

    def perform(self, action: Action, now: float) -> Iterator[Event]:
        """Remember what to do once the journal has it. Nothing is a fact at once here."""
        job = self.book.jobs[action.job + 1]
        if action.kind in (START, PACK):
            launch = self._launch(job)
            self._to_do.append(lambda: self.executor.start(launch))
        elif action.kind in (STOP, RESIZE) and self.book.engine_state(job) == STOPPING:
            self.stop_processes(job)
        return iter(())

    def note(self, kind: int | str, job: int, now: float) -> None:
        """Write down what was recorded, and learn from it. `job` is the engine's row; -1 for facts about no job."""
        record = self.book.jobs[job + 1] if job >= 0 else None
        row = self.book.row(kind, record, now, self._data)
        self._data = {}
        self._rows.append(row)
        self.book.learn(row)
        if kind == STARTED and record:
            self.set_alarms(record, now)

    # ---- from other threads

    def wake(self) -> None:
        """End the sleep."""
        with self._wake:
            self._woken = True
            self._wake.notify()

    def ask(self, request: Request) -> None:
        """Let the engine's thread do something, and wait until it is on disk."""
        if self._closing:
            raise JournalFailed("the manager is stopping: nothing was accepted")
        self.requests.append(request)
        self.wake()
        request.done.result()

    def tell(self, kind: str, now: float, data: dict[str, Any]) -> None:
        """Write down a fact about no job (in the engine's thread)."""
        self._data = data
        self.note(kind, -1, now)

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait, round by round, for something to become true."""
        while not self._closing:
            with self.lock:
                if true():
                    return
            with self.committed:
                self.committed.wait(0.1)

    def close(self) -> None:
        """End the loop after this round."""
        self._closing = True
        self.wake()

    # ---- the end of a round

    _now = 0.0

    def begin(self, now: float) -> None:
        """Called in the engine's thread before the loop."""
        self._now = now
        self.lock.acquire()

    def _commit(self) -> bool:
        """Write the round's rows; keep trying while the journal refuses. False: told to stop meanwhile."""
        while self._rows:
            try:
                self.last_seq = self.journal.append(self._rows)[-1]
                self._rows = []
            except JournalFailed as error:
                self.trouble = str(error)
                self.refuse_all(error)
                if self._closing:
                    return False
                self._sleep(self.clock() + JOURNAL_RETRY_S, always=True)
        self.trouble = ""
        with self.committed:
            self.committed.notify_all()
        return True

    def refuse_all(self, error: Exception) -> None:
        """Nobody is told that something is done while it is not on disk."""
        refused = [*self._answers, *(request.done for request in self.requests)]
        self._answers.clear()
        self.requests.clear()
        for done in refused:
            done.set_exception(error)

    def _perform(self) -> None:
        to_do, self._to_do = self._to_do, []
        for act in to_do:
            act()
        answers, self._answers = self._answers, []
        for done in answers:
            done.set_result(None)

    def _sleep(self, until: float, always: bool = False) -> None:
        """Until a moment of the manager's clock, or until woken."""
        with self._wake:
            if (not self._woken or always) and not self._closing:
                left = until - self.clock()
                # Bounded, because a clock given by a test may move without telling anyone.
                if left > 0:
                    self._wake.wait(min(left, 1.0))
            self._woken = False

    # ---- facts from the executor

    def _reported(self, report: Report, now: float) -> Iterator[Event]:
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
        if spec.may_preempt and spec.preemption.min_runtime:
            at = (job.started or now) + spec.preemption.min_runtime
            heapq.heappush(self._alarms, (at, SETTLED, job.id, attempt))

    def _rang(self, what: str, job: Job, attempt: int, now: float) -> Iterator[Event]:
        if what == RETRY:
            if job.not_before <= now:
                yield from self.open_gates(job, RETRY_BACKOFF)
        elif attempt == self.book.attempt(job) and self.book.engine_state(job) == RUNNING:
            if what == TIME_LIMIT:
                yield from self.stop(job, TIME_UP)
            else:
                self.book.engine.state.jobs["preemptible"][job.row] = 1
                self._data = {"preemptible": True}
                yield Event(CROSSED, job.row)

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

    def _launch(self, job: Job) -> Launch:
        names = self.book.cluster.nodes
        nodes = tuple(names[node] for node, gpus in job.places for _ in range(gpus))
        attempt = self.book.attempt(job)
        return Launch(
            job.id,
            attempt,
            job.user,
            job.spec,
            job.seats,
            nodes,
            job.array_id,
            job.array_index,
            self.environment(job, attempt),
        )
