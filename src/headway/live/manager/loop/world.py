"""The live world: fills the World protocol of core/engine.py with a clock, a journal and an executor.

Everything recorded in a round is written to the journal first, in one transaction; only then are the round's effects performed and its
requests answered.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from headway.client.job import JobView
from headway.cluster.nodes import Cluster
from headway.core.engine import EngineAction, Event, PreemptionRetry, Recorded, drive
from headway.core.events import CROSSED, ENDED, STOPPED
from headway.core.timers import due
from headway.errors import HeadwayError
from headway.job_state import JobState
from headway.live import executors
from headway.live.errors import JournalFailed, NotDoneYet, Stopping
from headway.live.executors import Executor, NodeReport, Report
from headway.live.manager import lifecycle
from headway.live.manager.aftermath import Aftermath
from headway.live.manager.disk import Disk
from headway.live.manager.lifecycle import LifecycleRules
from headway.live.manager.loop.inbox import Inbox, ManagerRequest
from headway.live.manager.loop.opening import adopted, opened
from headway.live.manager.loop.performer import Environment, Performer
from headway.live.manager.loop.recorder import JournalRound, Recorder
from headway.live.manager.loop.writer import RoundWriter
from headway.live.manager.outcome import Backoff
from headway.live.manager.steps import Steps
from headway.live.rows import AWAY_SINCE
from headway.live.state.cluster import ClusterState
from headway.live.store.journal import Journal

JOURNAL_RETRY_S = 0.5
POLICY = "policy"  # name in `meta`: the policy of the last manager


class LiveWorld:
    """The state, the inbox, the recorder, the writer and the performer, composed for one loop."""

    def __init__(
        self,
        state: ClusterState,
        journal: Journal,
        executor: Executor,
        clock: Callable[[], float],
        backoff: Backoff,
        environment: Environment,
        *,
        disk: Disk | None = None,
        identity: str = "",
        last_seq: int = 0,
        snapshot_seq: int = 0,
        mark: Callable[..., None] = lambda **_: None,
    ) -> None:
        self.state, self.journal, self.clock = state, journal, clock
        self.opened = clock()  # when this manager began
        self.rules = LifecycleRules(backoff)
        self.inbox, self.recorder = Inbox(), Recorder(state, self.opened)
        self.measures = self.recorder.measures
        self.writer = RoundWriter(journal, self.measures, disk, last_seq, snapshot_seq)
        self.performer = Performer(state, executor, environment, identity)
        self.mark = mark  # `JournalMark.set`: called with how far the journal is written
        self.lock = threading.RLock()  # held by the engine's thread while it records and decides
        self.failure = ""  # why the engine stopped for good
        self.engine_gone = threading.Event()
        self._disk = disk  # None: its free space is not watched
        self._nodes: list[NodeReport] = []  # the executor's last reports of its nodes
        self._rounds = 0
        self._decided = threading.Event()  # set after the first decision, and when the engine has stopped

    # ---- the four calls of the protocol

    def wait(self, until: float) -> float | None:
        """End the round: write the journal, perform, answer; then sleep until there is news, or `until`."""
        current = self.recorder.round
        self.measures.rounds.add(perf_counter() - current.began)
        self.recorder.end_round(self.writer.last_seq - self.writer.snapshot_seq)
        if self._rounds:
            self._decided.set()
        self.lock.release()
        try:
            if self._finish(current):
                self._sleep(self.recorder.wake_at(until))
        finally:
            self.lock.acquire()
        now = max(current.now, self.clock())
        self.mark(seq=self.last_seq, now=now)
        late_s = max(0.0, now - until)
        if not self._rounds and self.rules.away[0] < self.rules.away[1]:  # no manager ran until this first round
            late_s, self.rules = now - self.opened, replace(self.rules, away=(self.rules.away[0], now))
        if not self.inbox.closing:
            self.recorder.round = JournalRound(now, late_s)
        self._rounds += 1
        return None if self.inbox.closing else now

    def facts(self, now: float) -> Iterator[Recorded]:
        """Apply the steps of all news; yield those that the engine records."""
        return self.recorder.take(self._steps(now), now)

    def perform(self, action: EngineAction, now: float) -> Iterator[Recorded]:
        """Add the effects of an action to the round; the executor reports their results later."""
        return self.recorder.take(lifecycle.effects_of(self.state, action), now)

    def note(self, event: Recorded, now: float) -> None:
        """Add the row of an event that the engine recorded; return the links of a job that has stopped."""
        self.recorder.add_row(event, now)
        if event.kind in (STOPPED, ENDED):
            self.performer.give_back(self.state.at(event.job).id)

    # ---- news

    def _steps(self, now: float) -> Steps:
        """Yield the steps of reports, crossings, alarms, arrivals and requests, in this order."""
        yield from self._reported(now)
        while (j := int(due(self.state.tables, now))) >= 0:
            yield Event(CROSSED, j)
        while alarm := self.recorder.next_alarm(now):
            yield from lifecycle.alarm_rang(self.state, alarm, now)
        while self.inbox.arrivals:
            yield from lifecycle.submitted(self.state, self.state.jobs[self.inbox.arrivals.popleft()])
        while self.inbox.requests:
            yield from self._asked(self.inbox.requests.popleft(), now)
        yield from lifecycle.disk_checked(self.state, self._disk.look() if self._disk else "")

    def _reported(self, now: float) -> Steps:
        """Yield the steps of reports of attempts, and of nodes if they changed or an attempt has ended."""
        changed_nodes, reports = self.performer.executor.node_reports(), self.performer.reports()
        self._nodes = changed_nodes or self._nodes
        for report in reports:
            yield from lifecycle.reported(self.state, report, self._happened(report), now, self.rules)
        if changed_nodes or any(report.what == executors.ENDED for report in reports):
            yield from lifecycle.nodes_reported(self.state, self._nodes)

    def _happened(self, report: Report) -> float | None:
        """Return the time of a report by the manager's clock, or None: it has no stamp, or the clock of a test reads none."""
        read = getattr(self.clock, "when", None)
        return float(read(report.at)) if read and report.at else None

    def _asked(self, request: ManagerRequest, now: float) -> Steps:
        answers = self.recorder.round.answers
        answers.append(request.done)
        try:
            yield from request.act(now)
        except Exception as error:
            if not isinstance(error, HeadwayError):
                self.measures.error(now, f"{type(error).__name__}: {error}")
            answers.remove(request.done)
            request.done.set_exception(error)

    # ---- the end of a round

    def _finish(self, current: JournalRound) -> bool:
        """Write the round, perform its effects and answer its requests; False if the manager is stopped before that."""
        if not self.writer.write(current, partial(self._refused, current)):
            return False
        current.rows, current.finished, current.snapshot = [], [], None
        self.mark(seq=self.last_seq, now=self.clock())
        effects, current.effects = current.effects, []
        try:
            for effect in effects:
                if not self.performer.perform(effect, self.clock()):
                    self.wake()
        finally:  # the rows are written, so the requests are done though an effect fails
            while current.answers:
                current.answers.popleft().set_result(None)
        return True

    def _refused(self, current: JournalRound, error: JournalFailed) -> bool:
        """Refuse all requests of a round that the journal refused, and wait JOURNAL_RETRY_S; False if the manager is to stop."""
        self.measures.error(self.clock(), str(error))
        self._refuse(current, error)
        if not self.inbox.closing:
            self._sleep(self.clock() + JOURNAL_RETRY_S, always=True)
            return True
        return False

    def _refuse(self, current: JournalRound, error: JournalFailed) -> None:
        """Refuse all requests with the error. If its cause can pass, requests that have begun are done later."""
        begun = NotDoneYet(error.fields["cause"]) if error.can_pass and "cause" in error.fields else error
        while current.answers:
            current.answers.pop().set_exception(begun)
        self.inbox.refuse(error)

    def _sleep(self, until: float, always: bool = False) -> None:
        """Sleep until a time of the manager's clock, or until woken."""
        self.inbox.sleep(until - self.clock(), always)

    # ---- life

    def open(self, cluster: Cluster, about: dict[str, Any], numbered: bool) -> None:
        """Record that a manager opens, before the loop begins. `about` has more fields of its row, such as the policy."""
        now = self.opened = self.recorder.round.now = self.clock()
        self.rules = replace(self.rules, away=(about.get(AWAY_SINCE, now), now))
        self.recorder.apply(opened(self.state, cluster, about, numbered), now)
        if self.last_seq and self.journal.meta(POLICY) != about["policy"]:  # another policy set the time of its retry
            self.recorder.apply([PreemptionRetry(now)], now)
        self.recorder.round.effects.clear()  # `adopt` repeats the stops
        if not self._finish(self.recorder.round):
            raise JournalFailed(self.trouble, {"cause": self.trouble, "path": str(self.journal.path)})
        self.journal.remember(POLICY, about["policy"])
        self.performer.open_ledger()

    def adopt(self, aftermath: Aftermath | None) -> None:
        """Adopt the jobs of the last manager, and take accepted jobs that the engine has not recorded."""
        jobs = self.state.by_row
        self.inbox.arrivals.extend(job.id for job in jobs if self.state.job_state(job) == JobState.FUTURE)
        if aftermath:
            request = ManagerRequest(partial(aftermath.steps, self.state))
            request.done.add_done_callback(partial(aftermath.forget, self.journal))
            self.inbox.requests.append(request)
            self.measures.error(self.opened, aftermath.line)
        held_jobs = aftermath.held if aftermath else frozenset()
        self.recorder.apply(adopted(self.state, self.opened, held_jobs), self.opened)
        self._finish(self.recorder.round)

    def run(self) -> None:
        """Run the loop of the simulator until closed; this is the engine's thread."""
        self.lock.acquire()
        self.recorder.round = JournalRound(self.clock())
        try:
            drive(self.state.engine, self)
        except HeadwayError as error:
            self.failure = f"the engine stopped: {error}"
        except BaseException as error:
            self.failure = f"the engine stopped: {type(error).__name__}: {error}"
            raise
        finally:
            self.inbox.closing = self.inbox.gone = True
            self.lock.release()
            self._refuse(self.recorder.round, Stopping())
            self.engine_gone.set()
            self._decided.set()

    def close(self) -> None:
        """End the loop after this round."""
        self.inbox.close()

    def save(self) -> None:
        """Write a snapshot, so that the next manager starts quickly. Call it when the loop has ended."""
        if not self.failure and not self.unwritten:
            self.writer.save(self.state)

    # ---- for other threads

    def ask(self, act: Callable[[float], Steps]) -> None:
        """Let the engine's thread take the steps of `act`, and wait until they are on disk."""
        self.inbox.ask(act)

    def wake(self) -> None:
        """End the sleep of the engine's thread."""
        self.inbox.wake()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait, round by round, until a condition is true."""
        while not self.inbox.closing:
            with self.lock:
                if condition():
                    return
            with self.writer.committed:
                self.writer.committed.wait(0.1)

    def wait_for_decision(self) -> None:
        """Wait for the first decision, or until the engine has stopped. The journal may not have the decision yet."""
        self._decided.wait()

    @property
    def last_seq(self) -> int:
        """Return the number of the journal's last row."""
        return self.writer.last_seq

    @property
    def trouble(self) -> str:
        """Return why no job is started; empty if all is well."""
        return self.failure or self.writer.trouble

    @property
    def just_ended(self) -> list[JobView]:
        """Return the jobs that have ended, but whose end is not in the journal yet."""
        return [row for row, _ in self.recorder.round.finished]

    @property
    def unwritten(self) -> int:
        """Return the number of rows that are recorded, but not in the journal yet."""
        return len(self.recorder.round.rows)
