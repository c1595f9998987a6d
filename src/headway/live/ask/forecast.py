"""Where and roughly when a job would start: the simulated world, run ahead on a copy of the state with guessed run times.

Nobody says how long jobs take. The guess for a job is the mean run time of completed jobs that ran longer than it has so far.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.core.engine import Action, Cause, Event, drive
from headway.core.events import ENDED, PACK, RESERVE, RESIZE, START, STOP
from headway.core.operations import admit
from headway.core.tables.journal import empty, journal
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.engine import LiveEngine
from headway.live.jobfile.notes import notes_on
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.records import CANCEL, HOLD, TIME_UP
from headway.live.state import ClusterState, min_runtime
from headway.sim.world import new_world, resume_from, truth_table
from headway.sim.world_python import SimulatedWorld

Seconds = NDArray[np.float64]
MOST_ROUNDS = 10_000  # a second or two
MOST_SAMPLES = 1000
SHORTEST_S = 1.0  # of a job that has hardly begun, where nothing is known


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
    notes: tuple[str, ...] = ()


class Ahead(SimulatedWorld):
    """The simulated world from this moment until its last job starts, or until too many rounds have passed."""

    def __init__(self, engine: LiveEngine, left_s: Seconds, now: float, most_rounds: int) -> None:
        super().__init__(
            engine, new_world(truth_table(left_s), len(engine.state.seats)), journal(engine.state, 0, False)
        )
        self.wanted, self.now, self.round, self.most_rounds = len(left_s) - 1, now, 0, most_rounds
        self.starts_at: float | None = None
        # What the first decision does: for the wanted job, and to those that make room.
        self.at_once: Action | None = None
        self.stops: list[int] = []
        resume_from(self.state, self.world, now)

    def wait(self, until: float) -> float | None:
        """Jump to the next moment, unless the job has started."""
        at = super().wait(until)
        if at is None or self.starts_at is not None or self.round == self.most_rounds:
            return None
        self.round += 1
        empty(self.journal)  # of changes of rate
        self.now = max(self.now, at)  # an accepted job may be older than this moment
        return self.now

    def perform(self, action: Action, now: float) -> Iterator[Event]:
        """Watch for the job's start."""
        if action.kind in (STOP, RESIZE) and self.round == 1:
            self.stops.append(action.job + 1)
        if action.job == self.wanted:
            self.at_once = action if self.round == 1 else self.at_once
            self.starts_at = now if action.kind in (START, PACK) else None
        return super().perform(action, now)

    def note(self, event: Event | Action | Cause, now: float) -> None:
        """Write nothing down: none of this has happened."""

    def nodes(self) -> list[int]:
        """The nodes that the job got, or is promised, in order."""
        if self.at_once and self.at_once.kind == RESERVE:
            return [node for node, _ in self.at_once.places]
        found, seat = [], int(self.state.jobs["seat"][self.wanted])
        while seat >= 0:
            found.append(int(self.state.seats["node"][seat]))
            seat = int(self.state.seats["next"][seat])
        return sorted(found)


class Forecast:
    """A forecast for one job: made under the manager's lock, run without it."""

    def __init__(self, state: ClusterState, spec: JobSpec, now: float) -> None:
        self.names, self.spec, self.now = state.cluster.nodes, spec, now
        self.engine = state.engine.copy_for(len(state.jobs) + 1)
        done = [job for job in state.jobs.values() if job.final == JobState.COMPLETED][-MOST_SAMPLES:]
        self.samples = np.sort([state.run_s(job, now) for job in done])
        self.ran_s = np.zeros(len(state.jobs) + 1)
        self.leaving: list[int] = []  # rows of jobs that will not come back
        for job in state.active_jobs():
            self.ran_s[job.row] = state.run_s(job, now)
            if state.job_state(job) == JobState.STOPPING and job.stop_reason in (CANCEL, TIME_UP, HOLD):
                self.leaving.append(job.row)

    def run(self) -> DryRun:
        """Submit the job to the copy, and see when it starts."""
        tables = self.engine.state
        admit(tables, len(self.ran_s) - 1, submit=self.now, gpus=self.spec.gpus, min_runtime=min_runtime(self.spec))
        for j in self.leaving:
            self.engine.record(Event(ENDED, j), self.now)
        waiting = np.isin(tables.jobs["state"], (JobState.FUTURE, JobState.PENDING))
        world = Ahead(self.engine, self._left_s(), self.now, MOST_ROUNDS if len(self.samples) else 1)
        drive(self.engine, world)
        return self._answer(world, int(waiting.sum()) - 1)

    def _left_s(self) -> Seconds:
        """The guessed run time left of each job."""
        longer = np.searchsorted(self.samples, self.ran_s, side="right")
        count = len(self.samples) - longer
        sums = np.concatenate([np.cumsum(self.samples[::-1])[::-1], [0.0]])
        mean = sums[longer] / np.maximum(count, 1)
        return np.where(count > 0, mean - self.ran_s, np.maximum(SHORTEST_S, self.ran_s))

    def _answer(self, world: Ahead, ahead: int) -> DryRun:
        left_s = None if world.starts_at is None else world.starts_at - self.now
        starts_now = world.at_once is not None and world.at_once.kind in (START, PACK)
        nodes = tuple(dict.fromkeys(self.names[node] for node in world.nodes())) if world.at_once else ()
        stops: tuple[int, ...] = ()
        if starts_now:
            message = f"would start now on {', '.join(nodes)}"
        elif world.at_once:
            left_s, stops = None, tuple(world.stops)
            message = f"would start on {', '.join(nodes)} after stopping {counted(len(stops), 'job')} to make room"
        elif left_s is not None:
            message = f"would start in roughly {left_s:.0f} s, behind {counted(ahead, 'job')}, if jobs take as long as those before them"
        else:
            no_samples = "no job has completed yet, so run times cannot be guessed"
            why = "the queue is too long to guess" if len(self.samples) else no_samples
            message = f"would wait behind {counted(ahead, 'job')}; {why}"
        tasks = len(array_tasks(self.spec.array)[0]) if self.spec.array else 1
        return DryRun(self.spec.gpus, tasks, starts_now, nodes, left_s, stops, ahead, message, notes_on(self.spec))
