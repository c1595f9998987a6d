"""The simulated world with the minimum run times of a live manager, which follow from measured stops and starts.

A live manager does not know what stopping a job takes before it has stopped it once, and waits for the first step of one that reports
steps. So does this world. From the start of an attempt until its processes run a job holds GPUs and does not run, so its minimum run time
begins after that; what it then takes until it goes on with its work counts as running, as it does live.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.engine import Engine, EngineAction, Event, Recorded
from headway.core.events import CROSSED, ENDED, MIGRATE, PACK, RESIZE, START, STARTED, STOP, STOPPED
from headway.core.operations import credit, set_costs, set_min_runtime
from headway.core.tables.journal import empty, journal
from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.attempts import Attempts, Span
from headway.sim.loop import any_fact
from headway.sim.world import learn, next_time, perform
from headway.sim.world_python import SimulatedWorld
from headway.sim.world_tables import WorldTables

SAME_S = 0.001  # moments that are as far apart are one


@dataclass(frozen=True, slots=True)
class Habits:
    """What is true of a job beside its work: seconds until its first step, whether it reports steps, and the rules of its turns.

    `spans` are what its attempts take one by one, with one more for all after them.
    """

    start_s: float
    reports: bool
    preemptible: bool
    min_runtime_s: float | None  # None: by cost
    cut: bool = False  # it did not end by itself: it was stopped, and held its GPUs until it was gone
    spans: tuple[Span, ...] = ((0.0, 0.0, 0.0, 0.0),)


class Relived(SimulatedWorld):
    """Jobs with their habits, from the first arrival to the last end."""

    def __init__(
        self, engine: Engine, world: WorldTables, habits: Sequence[Habits], late: Sequence[tuple[float, float]] = ()
    ) -> None:
        super().__init__(engine, world, journal(engine.state, 0, False))
        self.late = late  # times in which nothing is decided, in order; none overlap
        self.habits, self.auto_min_runtime_s = habits, engine.policy.auto_min_runtime
        self.attempts = [Attempts() for _ in habits]
        self.specs = {may: JobSpec(command=("true",), preemptible=may) for may in (True, False)}
        self.work_s: Any = world.truth["left"].copy()  # left of each job's own work
        self.steps: list[tuple[float, int, int]] = []  # (time, job, attempt) of first steps to come
        self.launched: list[tuple[float, int, int]] = []  # the same of processes that will run
        self.began = [0.0] * len(habits)
        self.missed_s = [0.0] * len(habits)  # by which the last end or stop was heard later, as nothing was decided
        self.cut: set[int] = set()  # jobs that are being stopped for good
        self.over: set[int] = set()  # jobs that had ended when they were asked to stop
        for j in range(len(habits)):
            self._tell(j)

    def span(self, j: int) -> Span:
        """Return what the present or last attempt of a job takes."""
        spans = self.habits[j].spans
        return spans[min(max(1, int(self.state.jobs["attempt"][j])), len(spans)) - 1]

    def idle_s(self, j: int) -> float:
        """Return the seconds that a job runs before it works."""
        return max(0.0, self.habits[j].start_s - self.span(j)[0]) if self.habits[j].reports else 0.0

    def wait(self, until: float) -> float | None:
        """Jump to the next moment, be it a first step; what falls into a time in which the manager was late is noticed after it."""
        empty(self.journal)  # of changes of rate
        at = super().wait(min(until, *(coming[0][0] for coming in (self.steps, self.launched) if coming), np.inf))
        if at is None:
            return None
        here = bisect_right(self.late, (at + SAME_S, np.inf)) - 1
        return max(at, self.late[here][1]) if here >= 0 else at

    def facts(self, now: float) -> Iterator[Event]:
        """What happens, then first steps: from then on the turn of the job is another."""
        while self.launched and self.launched[0][0] <= now:
            at, j, attempt = heapq.heappop(self.launched)
            row = self.state.jobs[j]
            if row["state"] == JobState.STARTING and row["attempt"] == attempt:
                self.began[j] = at - self.span(j)[1]
                left_s = float(self.world.truth["left"][j]) - (now - at)
                self.world.truth["left"][j], self.missed_s[j] = max(0.0, left_s), max(0.0, -left_s)
                credit(self.state, j, now - self.began[j])
                yield Event(STARTED, j)
                learn(self.state, self.world, self.journal, STARTED, j, int(row["partner"]), now)
        while True:
            missed_s = now - self._due(now)
            kind, j = any_fact(self.state, self.world, now)
            if kind < 0:
                break
            if kind in (STOPPED, ENDED):
                self.missed_s[j] += missed_s
            yield from self._fact(int(kind), int(j), now)
        while self.steps and self.steps[0][0] <= now:
            _, j, attempt = heapq.heappop(self.steps)
            row = self.state.jobs[j]
            if row["state"] == JobState.RUNNING and row["attempt"] == attempt:
                self.attempts[j].progressed(self.attempts[j].furthest + 1, None, now)
                self._tell(j)
                yield Event(CROSSED, j)

    def _due(self, now: float) -> float:
        """Return when the next end or stop is due to be heard, at most `now`."""
        next_time(self.state, self.world, now)  # drops entries that no longer hold
        return min(now, float(self.world.heap["at"][0])) if self.world.clock["heap"][0] else now

    def _fact(self, kind: int, j: int, now: float) -> Iterator[Event]:
        """One fact with its consequences; a job that is cut is stopped where it would have ended, and ends when it has stopped."""
        if kind == ENDED and self.habits[j].cut and self.state.jobs["state"][j] == JobState.RUNNING:
            yield Event(STOP, j)
            perform(self.state, self.world, self.journal, STOP, j, now)
            self.cut.add(j)
            return
        kind = ENDED if kind == STOPPED and j in self.cut | self.over else kind
        partner = int(self.state.jobs[j]["partner"])
        yield Event(kind, j)
        learn(self.state, self.world, self.journal, kind, j, partner, now)

    def perform(self, action: EngineAction, now: float) -> Iterator[Event]:
        """Schedule what follows; a job that starts has its start before it, and one that is stopped keeps what it did after that."""
        j = action.job
        if action.kind in (START, PACK):
            launch_s, heard_s, _, gone_s = self.span(j)
            self.world.truth["left"][j] = max(0.0, self.work_s[j] + self.idle_s(j) - heard_s + gone_s)
            self.missed_s[j] = 0.0
        elif action.kind in (STOP, RESIZE, MIGRATE):
            self.work_s[j] -= max(0.0, now - self.began[j] - self.idle_s(j))
            self.world.costs["save"][j] = sum(self.span(j)[2:])
            if self.work_s[j] < 0.0:  # it had ended by itself, which is heard after it was asked to stop
                self.over.add(j)
                heard_s = self.work_s[j] + self.span(j)[3]
                self.world.costs["save"][j], self.missed_s[j] = max(0.0, heard_s), max(0.0, -heard_s)
        if perform(self.state, self.world, self.journal, action.kind, j, now):
            heapq.heappush(self.launched, (now + launch_s + heard_s, j, int(self.state.jobs["attempt"][j])))
        yield from ()

    def note(self, event: Recorded, now: float) -> None:
        """Learn as the live state does (`ClusterState._measure`); nothing is written down."""
        kind, j = event.kind, event.job
        if j < 0:
            return
        attempts, habits = self.attempts[j], self.habits[j]
        if kind in (START, PACK):
            attempts.start(now)
        elif kind == STARTED:
            attempts.started(self.began[j], now)
            if habits.reports:
                attempts.progressed(None, None, now)
                step_at = max(now, self.began[j] + self.idle_s(j))
                heapq.heappush(self.steps, (step_at, j, int(self.state.jobs["attempt"][j])))
        elif kind in (STOP, RESIZE, MIGRATE):
            attempts.stop(now)
        elif kind in (STOPPED, ENDED) and attempts.runs:
            attempts.over(now - self.span(j)[3] - self.missed_s[j], now, preempted=kind == STOPPED)
        else:
            return
        self._tell(j)

    def _tell(self, j: int) -> None:
        """Put into the engine's table what is known of the job's costs and turns."""
        attempts, habits = self.attempts[j], self.habits[j]
        set_costs(self.state, j, attempts.save.value, attempts.resume.value)
        turn_s = attempts.min_runtime(self.specs[habits.preemptible], habits.min_runtime_s, self.auto_min_runtime_s)
        set_min_runtime(self.state, j, turn_s)
