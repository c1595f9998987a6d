"""The live world: fills the World protocol of core/engine.py with a clock, a journal and an executor.

Everything recorded in a round is written to the journal first, in one transaction; only then are the round's actions performed and its
requests answered. While the journal cannot be written nothing is performed: the rows wait, and the manager says so.
"""

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from headway.cluster.nodes import Cluster
from headway.core.engine import Action, Event, Recorded, Retry, drive
from headway.core.events import (
    CROSSED,
    ENDED,
    MIGRATE,
    NAMES,
    NO_JOB,
    NOTIFY,
    PACK,
    PROMISE,
    RESIZE,
    START,
    STOP,
    STOPPED,
)
from headway.core.timers import due
from headway.errors import BadInput, HeadwayError
from headway.job_state import JobState
from headway.live.errors import JournalFailed, WrongState
from headway.live.executors import Executor, Launch, Notifies, Report, Shared, Stamp, not_started
from headway.live.fabric.ledger import SliceLedger
from headway.live.fabric.slices import files_of, slice_of
from headway.live.manager.disk import Disk
from headway.live.manager.lifecycle import Lifecycle
from headway.live.manager.outcome import Backoff
from headway.live.state.cluster import ClusterState
from headway.live.state.demands import lacks_nodes
from headway.live.state.learn import OPENED, RECALLED, RETIRED, learn
from headway.live.state.nodes import AWAY, BACK
from headway.live.state.records import REQUEUE, Blocker, Job
from headway.live.state.turnover import losers
from headway.live.store.archive import archived, finished_row
from headway.live.store.history import ARCHIVED, HistoryRow
from headway.live.store.journal import Journal, JournalRow
from headway.live.store.snapshot import capture
from headway.live.store.snapshot_table import Snapshot, insert_snapshot

STOPPED_MESSAGE = "the manager is stopping: nothing was accepted"
JOURNAL_RETRY_S = 0.5
KEPT_FINISHED = 1000  # finished jobs in memory at least; when there are twice as many, the older ones are retired
ROWS_PER_SNAPSHOT = 20_000  # a restart reads at most this many rows
ENDED_NAME = NAMES[ENDED]
POLICY = "policy"  # name in `meta`: the policy of the last manager


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
        self.opened = clock()  # when this manager began
        self._began = perf_counter()
        self._wake = threading.Condition()
        self._woken = self._closing = self._gone = False
        self._first = True  # no round has been yet
        self._decided = threading.Event()  # set after the first decision, and when the engine has stopped
        self._answers: list[Future[None]] = []
        self._ledger: SliceLedger | None = None  # where there is a fabric whose links are reserved
        self._refused: list[Report] = []  # starts on slices that the verifier did not accept
        self.disk: Disk | None = None  # is looked at, where there is a floor for it
        self.identity = ""  # of the journal
        self.mark: Callable[..., None] = lambda **_: None  # told how far the journal is written: `Mark.set`
        self.on_commit: Callable[[list[JournalRow]], None] = lambda rows: None  # given the rows that were written
        self.snapshot_seq = 0  # the last row that a snapshot knows
        self._finished: list[tuple[HistoryRow, bytes]] = []  # of the round, like `_rows`
        self._snapshot: Callable[[], Snapshot] | None = None  # to be made when the lock is free

    # ---- the four calls of the protocol

    def wait(self, until: float) -> float | None:
        """End the round: journal, perform, answer; then sleep until something happens."""
        self.measures.rounds.add(perf_counter() - self._began)
        self._tidy()
        if not self._first:
            self._decided.set()
        self.lock.release()
        try:
            if self._commit():
                self._perform()
                self._sleep(min(until, self._alarms[0][0] if self._alarms else until))
        finally:
            self.lock.acquire()
        self._began = perf_counter()
        self._now = max(self._now, self.clock())
        self.mark(seq=self.last_seq, now=self._now)
        self._late_s = max(0.0, self._now - until)
        if self._first and self.away[0] < self.away[1]:  # no job was started or stopped before this first round
            self._late_s, self.away = self._now - self.opened, (self.away[0], self._now)
        return None if self._closing else self._now

    def facts(self, now: float) -> Iterator[Event]:
        """What happened to processes; then crossings, alarms, arrivals, and what people asked for, in this order."""
        self._first = False
        if isinstance(self.executor, Shared):
            yield from self.nodes_reported(self.executor.node_reports(), now)
        refused, self._refused = self._refused, []
        for report in refused + self.executor.reports():
            yield from self.reported(report, now)
        while (j := int(due(self.state.tables, now))) >= 0:
            yield Event(CROSSED, j)
        yield from self.alarms_due(now)
        while self.arrivals:
            yield from self.submitted(self.state.jobs[self.arrivals.popleft()], now)
        while self.state.strange:
            yield from self.block(self.state.jobs[self.state.strange.pop()], Blocker.HELD)
        while self.requests:
            request = self.requests.popleft()
            try:
                yield from request.act(now)
            except Exception as error:
                if not isinstance(error, HeadwayError):
                    self.measures.error(now, f"{type(error).__name__}: {error}")
                request.done.set_exception(error)
            else:
                self._answers.append(request.done)
        yield from self._watch_disk(now)

    def _watch_disk(self, now: float) -> Iterator[Event]:
        """Close all nodes while the disk is nearly full, also those that a person has just resumed, and open them again."""
        before, low = self.state.low_disk, self.disk.look() if self.disk else ""
        self.state.low_disk = low
        if not low and not before:
            return
        if low and not before:
            self.measures.error(now, low)
        for node, shut in enumerate(self.state.tables.nodes["closed"].tolist()):
            about = {"node": self.state.cluster.nodes[node]}
            if low and not shut:
                yield from self.note_about_nodes(AWAY, now, {**about, "why": low})
            elif not low and shut and node not in self.state.drained:
                yield from self.note_about_nodes(BACK, now, about)

    def perform(self, action: Action, now: float) -> Iterator[Event]:
        """Remember what to do once the journal has it; what comes of it is reported later."""
        job = self.state.at(action.job)
        if action.kind in (START, PACK):
            launch = replace(self._launch(job), links=action.links)
            self._to_do.append(lambda: self._start(launch))
        elif action.kind in (STOP, RESIZE, MIGRATE) and self.state.job_state(job) == JobState.STOPPING:
            self.stop_processes(job)
        elif action.kind == NOTIFY:
            self.announce(job, action.until)
        return iter(())

    def announce(self, job: Job, until: float) -> None:
        """Tell the ranks when their GPUs are taken back (infinity: not any more), once this round is in the journal."""
        if isinstance(self.executor, Notifies):
            executor, attempt = self.executor, self.state.attempt(job)
            self._to_do.append(lambda: executor.notify(job.id, attempt, self._wall_time(until)))

    def _wall_time(self, at: float) -> float | None:
        """Return a time of the manager's clock by the wall clock, which jobs read; None for infinity."""
        return time.time() + at - self.clock() if at < math.inf else None

    def note(self, event: Recorded, now: float) -> None:
        """Write down what the engine recorded; who has stopped holds no slice any more."""
        super().note(event, now)
        if self._ledger is not None and event.kind in (STOPPED, ENDED):
            self._ledger.give_back(self.state.at(event.job).id)

    def when(self, stamp: Stamp) -> float | None:
        """When something was by the manager's clock; clocks of tests need not know."""
        read = getattr(self.clock, "when", None)
        return None if read is None else float(read(stamp))

    def recall(self, job_id: int, now: float) -> None:
        """Take a retired job back into memory."""
        archived_job = self.journal.read(lambda connection: archived(connection, job_id))
        if archived_job is None:
            raise WrongState(f"job {job_id} has ended, and the journal has not kept enough of it: submit it anew")
        self.state.check_more(archived_job.job.spec, archived_job.job.user, 1)
        row = JournalRow(
            now,
            RECALLED,
            job_id,
            int(archived_job.row["attempt"]),
            {"text": archived_job.text, "accepted": max(self.state.jobs, default=0)},
        )
        self._rows.append(row)
        learn(self.state, row)

    # ---- from other threads

    @property
    def just_ended(self) -> list[HistoryRow]:
        """Jobs that have ended, but not in the journal yet."""
        return [row for row, _ in self._finished]

    @property
    def unwritten(self) -> int:
        """Rows that are recorded, but not in the journal yet."""
        return len(self._rows)

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

    def wait_for_decision(self) -> None:
        """Wait for the first decision, or until the engine has stopped. The journal may not have the decision yet."""
        self._decided.wait()

    def close(self) -> None:
        """End the loop after this round."""
        self._closing = True
        self.wake()

    # ---- the end of a round

    def run(self) -> None:
        """The engine's thread: the loop of the simulator, until closed."""
        self.lock.acquire()
        self._now, self._began = self.clock(), perf_counter()
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
            self._decided.set()

    def open(self, cluster: Cluster, rules: dict[str, Any], numbered: bool) -> None:
        """Write down that a manager opens, before the loop begins. On another cluster than before, jobs on what is gone make room first."""
        now = self._now = self.opened = self.clock()
        if not cluster.same_nodes(self.state.cluster):
            self._record(self._make_way(cluster, numbered), now)
        data = {"cluster": list(cluster.gpus), "nodes": list(cluster.nodes), "name": cluster.name, "numbered": numbered}
        kinds = {"types": list(cluster.types), "features": [list(each) for each in cluster.features]}
        self._write(OPENED, NO_JOB, now, {**data, **{name: kind for name, kind in kinds.items() if kind}, **rules})
        fits = [
            job
            for job in self.state.active_jobs()
            if job.blockers & Blocker.NODE_DOWN and not lacks_nodes(job.spec, cluster)
        ]
        for job in fits:
            self._record(self.unblock(job, Blocker.NODE_DOWN), now)
        if self.last_seq and self.journal.meta(POLICY) != rules["policy"]:  # times of retries were another policy's
            self._record([Retry(now)], now)
        if not self._commit():
            raise JournalFailed(self.trouble)
        self.journal.remember(POLICY, rules["policy"])
        if self.state.site.fabric is not None and self.state.engine.uplinks:
            held = [(job.id, job.seats, job.links) for job in self.state.active_jobs() if job.seats]
            self._ledger = SliceLedger(self.state.site.fabric, held)

    def _make_way(self, cluster: Cluster, numbered: bool) -> Iterator[Event]:
        """Before the nodes change: stop whoever holds GPUs that go, withdraw promises, and hold jobs that have become too large."""
        for job in losers(self.state, cluster, numbered):
            if self.state.job_state(job) != JobState.STOPPING:
                yield from self.stop(job, REQUEUE)
        self._to_do.clear()  # whoever adopts them stops them
        for job in self.state.active_jobs():
            if self.state.tables.jobs["promise"][job.row] >= 0:
                yield Event(PROMISE, job.row)
            if lacks_nodes(job.spec, cluster) and not job.blockers & Blocker.NODE_DOWN and job.known:
                yield from self.block(job, Blocker.NODE_DOWN)

    def _record(self, facts: Iterable[Recorded], now: float) -> None:
        """Record facts outside of the loop."""
        for event in facts:
            self.state.engine.record(event, now)
            self.note(event, now)

    def _tidy(self) -> None:
        """Write down who ended in this round; now and then let finished jobs leave the memory, and take a snapshot."""
        ended = {row.job: None for row in self._rows if row.kind == ENDED_NAME and ARCHIVED not in row.data}
        jobs = [job for job in map(self.state.jobs.get, ended) if job and job.final]
        self._finished += [finished_row(self.state, job, self._now) for job in jobs]
        many = len(self.state.finished) >= 2 * KEPT_FINISHED
        # Those of this round are not on disk yet: nobody would find them.
        keep = max(len(jobs), KEPT_FINISHED if many else 0)
        if (many or self.state.demands.crowded) and keep < len(self.state.finished):
            self._write(RETIRED, NO_JOB, self._now, {"keep": keep})
        if self.last_seq + len(self._rows) - self.snapshot_seq >= ROWS_PER_SNAPSHOT:
            self._snapshot = capture(self.state)

    def save(self) -> None:
        """Take a snapshot, so that the next manager starts quickly. To be called when the loop has ended."""
        if self.failure or self._rows or self.last_seq == self.snapshot_seq:
            return
        with contextlib.suppress(JournalFailed):
            snapshot, seq = capture(self.state)(), self.last_seq
            self.journal.commit(lambda connection: insert_snapshot(connection, seq, snapshot))

    def _commit(self) -> bool:
        """Write the round's rows; keep trying while the journal refuses. False: the manager was asked to stop meanwhile."""
        snapshot = self._snapshot() if self._snapshot else None
        while self._rows:
            began = perf_counter()
            try:
                self.last_seq = self.journal.append(self._rows, self._finished, snapshot)
                self.snapshot_seq = self.last_seq if snapshot else self.snapshot_seq
                self.on_commit(self._rows)
                self._rows, self._finished, self._snapshot = [], [], None
                self.mark(seq=self.last_seq, now=self.clock())
                self.measures.commits.add(perf_counter() - began)
            except JournalFailed as error:
                snapshot = self._snapshot = (
                    None  # it is large: there may be room for the rows alone; another is made later
                )
                self.trouble = str(error)
                self.measures.error(self.clock(), str(error))
                self.refuse_all(error)
                if self.disk is not None:
                    self.disk.give_up_reserve()
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
                seconds = until - self.clock()
                # Bounded, because a clock given by a test may move without telling anyone.
                if seconds > 0:
                    self._wake.wait(min(seconds, 1.0))
            self._woken = False

    def _start(self, launch: Launch) -> None:
        """Start an attempt; one whose slice the verifier does not accept is put back, like one that the machine could not start."""
        try:
            self.executor.start(self._with_slice(launch))
        except BadInput as error:
            self._refused.append(not_started(launch, str(error)))
            self.wake()

    def _with_slice(self, launch: Launch) -> Launch:
        """What an attempt is given on a fabric; worked out when its start is in the journal, without holding anybody up."""
        if (fabric := self.state.site.fabric) is None or self._ledger is None:
            return launch
        slice_of_job = slice_of(fabric, launch.spec, launch.gpus, launch.links)
        self._ledger.admit(launch.job, slice_of_job)
        environment = {**launch.environment, "HEADWAY_COLLECTIVE_PLAN": slice_of_job.plan}
        return replace(launch, environment=environment, files=files_of(fabric, slice_of_job))

    def _launch(self, job: Job) -> Launch:
        names = self.state.cluster.nodes
        nodes = tuple(names[node] for node, gpus in job.places for _ in range(gpus))
        attempt = self.state.attempt(job)
        task, environment = (job.array_id, job.array_index), self.environment(job, attempt)
        site, about = self.state.site, (job.id, attempt, job.user, job.spec, job.seats, nodes)
        return Launch(*about, *task, environment, site.prolog, site.epilog, site.max_processes, self.identity)
