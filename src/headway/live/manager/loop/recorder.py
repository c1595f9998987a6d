"""A round of the engine's loop as a value, and the recorder that fills it: rows for the journal, and effects that wait for them."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from time import perf_counter

from headway.client.job import JobView
from headway.core import events
from headway.core.engine import Recorded
from headway.core.events import NAMES
from headway.live.manager.steps import (
    AdoptAttempt,
    Effect,
    Fact,
    KeepProgress,
    LogError,
    Note,
    NotifyAttempt,
    SetAlarm,
    StartAttempt,
    Step,
    StopAttempt,
)
from headway.live.measures import Measures
from headway.live.queries.archive import finished_row
from headway.live.rows import ARCHIVED, ENGINE_KINDS, LATE, RETIRED
from headway.live.state.cluster import ClusterState
from headway.live.state.facts import data_of
from headway.live.state.learn import charge, keep_progress, learn
from headway.live.state.records import JournalRow
from headway.live.store.snapshot import capture
from headway.live.store.snapshot_table import StateSnapshot

LATE_S = 0.002  # a round that begins at least this late says so in its first row, so that replays are late as well
KEPT_FINISHED = 1000  # finished jobs that stay in memory; when there are twice as many, older jobs are retired
ROWS_PER_SNAPSHOT = 20_000  # a restart reads at most this many rows
ENDED = NAMES[events.ENDED]
# Kinds of rows that can hold the field LATE.
LATE_KINDS = ENGINE_KINDS.keys() - {NAMES[events.EXPLAINED], NAMES[events.DEFERRED]}


@dataclass(slots=True)
class JournalRound:
    """The rows of one round, and the effects and answers that wait for them."""

    now: float
    late_s: float = 0.0  # seconds since the engine was to be woken
    rows: list[JournalRow] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    answers: deque[Future[None]] = field(default_factory=deque)  # of requests that have begun
    finished: list[tuple[JobView, bytes]] = field(default_factory=list)  # jobs that ended
    snapshot: Callable[[], StateSnapshot] | None = None  # called when the lock is free
    began: float = field(default_factory=perf_counter)

    def journal_rows(self) -> list[JournalRow]:
        """Return the rows to write; the first fact or action of a late round says how late it was."""
        first = next((i for i, row in enumerate(self.rows) if row.kind in LATE_KINDS), None)
        if self.late_s < LATE_S or first is None:
            return self.rows
        row = self.rows[first]
        late = replace(row, data={**row.data, LATE: round(self.late_s, 6)})
        return [*self.rows[:first], late, *self.rows[first + 1 :]]


class Recorder:
    """Applies the steps of the life cycle to the state, one at a time, and collects the round."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self.state, self.measures, self.round = state, Measures(), JournalRound(now)
        self._alarms: list[SetAlarm] = []

    def take(self, steps: Iterable[Step], now: float) -> Iterator[Recorded]:
        """Apply steps; yield those for the engine. The caller records each and calls `add_row` before it asks for the next."""
        for step in steps:
            match step:
                case Note(kind, job, data, attempt):
                    if job and attempt is None:
                        attempt = self.state.attempt(self.state.jobs[job])
                    self._add(JournalRow(now, kind, job, attempt or 0, dict(data)))
                case KeepProgress(job, progress):
                    keep_progress(self.state.jobs[job], progress)
                case SetAlarm():
                    heapq.heappush(self._alarms, step)
                case LogError(message):
                    self.measures.error(now, message)
                case AdoptAttempt() | StartAttempt() | StopAttempt() | NotifyAttempt():
                    self.round.effects.append(step)
                case _:
                    if isinstance(step, Fact) and "at" in step.data:
                        charge(self.state, self.state.at(step.job), step.kind, step.data["at"], now)
                    yield step

    def apply(self, steps: Iterable[Step], now: float) -> None:
        """Apply and record steps outside of the engine's loop."""
        for fact in self.take(steps, now):
            self.state.engine.record(fact, now)
            self.add_row(fact, now)

    def add_row(self, fact: Recorded, now: float) -> None:
        """Add the row of a fact or an action that the engine recorded."""
        data = dict(fact.data) if isinstance(fact, Fact) else data_of(self.state, fact)
        job = self.state.at(fact.job) if fact.job >= 0 else None
        number, attempt = (job.id, self.state.attempt(job)) if job else (0, 0)
        self._add(JournalRow(now, NAMES[fact.kind], number, attempt, data))
        if job and fact.kind == events.STARTED and attempt == 1:
            self.measures.waited(job.spec.queue, now - job.submitted)

    def _add(self, row: JournalRow) -> None:
        """Add a row to the round, and apply it to the state."""
        if not self.round.rows:
            self.measures.behind_since = row.time
        self.round.rows.append(row)
        learn(self.state, row)

    def next_alarm(self, now: float) -> SetAlarm | None:
        """Remove and return the next alarm that is due, or None."""
        return heapq.heappop(self._alarms) if self._alarms and self._alarms[0].at <= now else None

    def wake_at(self, until: float) -> float:
        """Return the time of the next alarm, at most `until`."""
        return min(until, self._alarms[0].at) if self._alarms else until

    def end_round(self, rows_since_snapshot: int) -> None:
        """Archive the jobs that ended; retire finished jobs if there are many; take a snapshot every ROWS_PER_SNAPSHOT rows."""
        current = self.round
        ended = {row.job: None for row in current.rows if row.kind == ENDED and ARCHIVED not in row.data}
        jobs = [job for job in map(self.state.jobs.get, ended) if job and job.final]
        current.finished += [finished_row(self.state, job, current.now) for job in jobs]
        many = len(self.state.finished) >= 2 * KEPT_FINISHED
        # A query finds retired jobs on disk, where the jobs of this round are not yet.
        keep = max(len(jobs), KEPT_FINISHED if many else 0)
        if (many or self.state.demands.crowded) and keep < len(self.state.finished):
            self.apply([Note(RETIRED, data={"keep": keep})], current.now)
        if rows_since_snapshot + len(current.rows) >= ROWS_PER_SNAPSHOT:
            current.snapshot = capture(self.state)
