"""The live world: fills the World protocol of core/engine.py with a clock, a journal and an executor.

Everything recorded in a round is written to the journal first, in one transaction; only then are the round's actions performed and its
requests answered. While the journal cannot be written nothing is performed: the rows wait, and the manager says so.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from time import perf_counter

from headway.core.engine import Action, Event, drive
from headway.core.events import CROSSED, PACK, RESIZE, START, STOP
from headway.core.timers import due
from headway.errors import HeadwayError
from headway.job_state import JobState
from headway.live.errors import JournalFailed
from headway.live.executors import Executor, Launch, Shared
from headway.live.lifecycle import Lifecycle
from headway.live.outcome import Backoff
from headway.live.records import Job
from headway.live.state import ClusterState
from headway.live.store.journal import Journal

STOPPED_MESSAGE = "the manager is stopping: nothing was accepted"
JOURNAL_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Request:
    """Something a person asked for: `act(now)` yields facts in the engine's thread; `done` is set once they are on disk."""

    act: Callable[[float], Iterator[Event]]
    done: Future[None] = field(default_factory=Future)


class LiveWorld(Lifecycle):
    """Where facts come from and actions go."""

    def __init__(
        self,
        state: ClusterState,
        journal: Journal,
        executor: Executor,
        clock: Callable[[], float],
        backoff: Backoff,
        environment: Callable[[Job, int], dict[str, str]],
    ) -> None:
        super().__init__(state, executor, backoff)
        self.journal, self.clock, self.environment = journal, clock, environment
        self.lock = threading.RLock()  # held by the engine's thread while it records and decides
        self.committed = threading.Condition()
        self.last_seq = 0
        self.trouble = self.failure = ""  # why nothing is started for now; why the engine stopped for good
        self.engine_gone = threading.Event()
        self.arrivals: deque[int] = deque()
        self.requests: deque[Request] = deque()
        self.rounds, self.busy_s, self.longest_s = 0, 0.0, 0.0
        self._began = perf_counter()
        self._wake = threading.Condition()
        self._woken = False
        self._closing = False
        self._gone = False
        self._answers: list[Future[None]] = []

    # ---- the four calls of the protocol

    def wait(self, until: float) -> float | None:
        """End the round: journal, perform, answer; then sleep until something happens."""
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
        """What happened to processes; then crossings, alarms, arrivals, and what people asked for, in this order."""
        if isinstance(self.executor, Shared):
            yield from self.nodes_reported(self.executor.node_reports(), now)
        for report in self.executor.reports():
            yield from self.reported(report, now)
        while (j := int(due(self.state.tables, now))) >= 0:
            yield Event(CROSSED, j)
        yield from self.alarms_due(now)
        while self.arrivals:
            yield from self.submitted(self.state.jobs[self.arrivals.popleft()], now)
        while self.requests:
            request = self.requests.popleft()
            try:
                yield from request.act(now)
            except Exception as error:
                request.done.set_exception(error)
            else:
                self._answers.append(request.done)

    def perform(self, action: Action, now: float) -> Iterator[Event]:
        """Remember what to do once the journal has it; what comes of it is reported later."""
        job = self.state.jobs[action.job + 1]
        if action.kind in (START, PACK):
            launch = replace(self._launch(job), links=action.links)
            self._to_do.append(lambda: self.executor.start(launch))
        elif action.kind in (STOP, RESIZE) and self.state.job_state(job) == JobState.STOPPING:
            self.stop_processes(job)
        return iter(())

    # ---- from other threads

    def wake(self) -> None:
        """End the sleep."""
        with self._wake:
            self._woken = True
            self._wake.notify()

    def ask(self, act: Callable[[float], Iterator[Event]]) -> None:
        """Let the engine's thread do something, and wait until it is on disk."""
        if self._closing:
            raise JournalFailed(STOPPED_MESSAGE)
        request = Request(act)
        self.requests.append(request)
        self.wake()
        while not self._gone:
            with contextlib.suppress(FutureTimeout):
                request.done.result(1.0)
                return
        self.refuse_all(JournalFailed(STOPPED_MESSAGE))
        request.done.result(0)

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

    def run(self) -> None:
        """The engine's thread: the loop of the simulator, until closed."""
        self.lock.acquire()
        self._now = self.clock()
        try:
            drive(self.state.engine, self)
        except HeadwayError as error:
            self.failure = self.trouble = f"the engine stopped: {error}"
        except BaseException as error:
            self.failure = self.trouble = f"the engine stopped: {type(error).__name__}: {error}"
            raise
        finally:
            self._closing = self._gone = True
            self.lock.release()
            self.refuse_all(JournalFailed(STOPPED_MESSAGE))
            self.engine_gone.set()

    def _commit(self) -> bool:
        """Write the round's rows; keep trying while the journal refuses. False: the manager was asked to stop meanwhile."""
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
        """Answer everyone who waits with the error: nothing counts as done while it is not on disk."""
        late = JournalFailed(
            str(error).replace("nothing was accepted", "not done yet, but it will be once the journal can be written")
        )
        refused = [(done, late) for done in self._answers] + [(request.done, error) for request in self.requests]
        self._answers.clear()
        self.requests.clear()
        for done, why in refused:
            if not done.done():
                done.set_exception(why)

    def _perform(self) -> None:
        to_do, self._to_do = self._to_do, []
        for act in to_do:
            act()
        answers, self._answers = self._answers, []
        for done in answers:
            done.set_result(None)

    def _sleep(self, until: float, always: bool = False) -> None:
        """Sleep until a moment of the manager's clock, or until woken."""
        with self._wake:
            if (not self._woken or always) and not self._closing:
                left = until - self.clock()
                # Bounded, because a clock given by a test may move without telling anyone.
                if left > 0:
                    self._wake.wait(min(left, 1.0))
            self._woken = False

    def _launch(self, job: Job) -> Launch:
        names = self.state.cluster.nodes
        nodes = tuple(names[node] for node, gpus in job.places for _ in range(gpus))
        attempt = self.state.attempt(job)
        task, environment = (job.array_id, job.array_index), self.environment(job, attempt)
        return Launch(job.id, attempt, job.user, job.spec, job.seats, nodes, *task, environment)
