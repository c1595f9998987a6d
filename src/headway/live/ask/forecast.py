"""Where and roughly when a job would start: the engine itself, run ahead on a copy of the state with guessed run times.

Nobody tells Headway how long jobs take. The guess for a job is the mean run time of completed jobs that ran longer than it has so far.
"""

import copy
import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.engine import Event
from headway.core.events import CROSSED, ENDED, RESERVE, RESIZE, START, STARTED, STOP, STOPPED, SUBMITTED
from headway.core.operations import admit, copied, grow
from headway.core.tables.jobs import FUTURE, PENDING, RUNNING, STARTING, STOPPING
from headway.core.tables.state import room_for_actions
from headway.core.timers import due
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.state import Book, min_runtime

MOST_ROUNDS = 2000
MOST_SAMPLES = 1000


@dataclass(frozen=True, slots=True)
class DryRun:
    """`starts_in_s` is 0 for at once and None where it cannot be said; `nodes` where it would start now."""

    gpus: int
    tasks: int
    starts_now: bool
    nodes: tuple[str, ...]
    starts_in_s: float | None
    preempts: tuple[int, ...]
    jobs_ahead: int
    message: str


class Forecast:
    """Made under the manager's lock, run without it."""

    def __init__(self, book: Book, spec: JobSpec, now: float) -> None:
        self.names, self.spec, self.now = book.cluster.nodes, spec, now
        self.engine: Any = copy.copy(book.engine)
        self.engine.state = copied(book.engine.state)
        self.engine.options = book.engine.options._replace(history=copied(book.engine.options.history))
        self.j = len(book.jobs)
        if self.j >= len(self.engine.state.jobs):
            self.engine.state = grow(self.engine.state, self.j + 1)
        self.engine._out = room_for_actions(self.engine.state)
        done = [job for job in book.jobs.values() if job.final == "COMPLETED"][-MOST_SAMPLES:]
        self.samples = np.sort([book.run_s(job, now) for job in done])
        self.ran = {i - 1: book.run_s(book.jobs[i], now) for i in book.active}
        self.ends: list[tuple[float, int]] = []

    def run(self) -> DryRun:
        """Submit it to the copy, and see."""
        admit(self.engine.state, self.j, submit=self.now, gpus=self.spec.gpus, min_runtime=min_runtime(self.spec))
        self.ran[self.j] = 0.0
        states = self.engine.state.jobs["state"]
        for j in sorted(self.ran):
            if states[j] in (RUNNING, STARTING, STOPPING):
                self._expect(j, self.now)
            elif states[j] == FUTURE:
                self.engine.record(Event(SUBMITTED, j), self.now)
        ahead = int((states == PENDING).sum()) - 1
        actions = self.engine.decide(self.now).actions
        mine = [action for action in actions if action.job == self.j]
        stops = tuple(action.job + 1 for action in actions if action.kind in (STOP, RESIZE))
        tasks = len(array_tasks(self.spec.array)[0]) if self.spec.array else 1
        if mine and mine[0].kind == START:
            nodes = tuple(dict.fromkeys(self.names[node] for node, _ in mine[0].places))
            return DryRun(self.spec.gpus, tasks, True, nodes, 0.0, (), ahead, f"would start now on {', '.join(nodes)}")
        if mine and mine[0].kind == RESERVE:
            nodes = tuple(dict.fromkeys(self.names[node] for node, _ in mine[0].places))
            message = f"would start on {', '.join(nodes)} as soon as {len(stops)} jobs have stopped for it"
            return DryRun(self.spec.gpus, tasks, False, nodes, None, stops, ahead, message)
        return self._later(ahead, tasks)

    def _later(self, ahead: int, tasks: int) -> DryRun:
        at = self._start_of(self.j) if len(self.samples) else None
        if at is None:
            why = (
                "no job has completed yet, so run times cannot be guessed"
                if not len(self.samples)
                else "the queue is too long to guess"
            )
            return DryRun(self.spec.gpus, tasks, False, (), None, (), ahead, f"would wait behind {ahead} jobs; {why}")
        left = at - self.now
        message = f"would start in roughly {left:.0f} s, behind {ahead} jobs, if jobs take as long as those before them"
        return DryRun(self.spec.gpus, tasks, False, (), left, (), ahead, message)

    def _expect(self, j: int, now: float) -> None:
        """Guess when a running job ends."""
        longer = self.samples[self.samples > self.ran[j]] if len(self.samples) else self.samples
        left = float(longer.mean()) - self.ran[j] if len(longer) else max(1.0, self.ran[j])
        heapq.heappush(self.ends, (now + left, j))

    def _start_of(self, wanted: int) -> float | None:
        """Run ahead until the wanted job starts: ends as guessed, stops and starts at once."""
        now, began = self.now, dict.fromkeys(self.ran, self.now)
        for _ in range(MOST_ROUNDS):
            for action in self.engine.decide(now).actions:
                self.engine.record(action, now)
                j = action.job
                if action.kind == START:
                    if j == wanted:
                        return now
                    self.engine.record(Event(STARTED, j), now)
                    began[j] = now
                    self._expect(j, now)
                elif action.kind == STOP:
                    self.engine.record(Event(STOPPED, j), now)
                    self.ran[j] += now - began[j]
                    self.ends = [(at, other) for at, other in self.ends if other != j]
            heapq.heapify(self.ends)
            now = max(now, min(self.ends[0][0] if self.ends else np.inf, self.engine.wake_at(now)))
            if not np.isfinite(now):
                return None
            while self.ends and self.ends[0][0] <= now:
                self.engine.record(Event(ENDED, heapq.heappop(self.ends)[1]), now)
            while (j := int(due(self.engine.state, now))) >= 0:
                self.engine.record(Event(CROSSED, j), now)
        return None
