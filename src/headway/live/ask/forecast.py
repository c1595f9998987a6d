"""Where and roughly when a job would start: the simulated world, run ahead on a copy of the state with guessed run times.

How long a job takes is guessed from its own progress reports, if it makes any. Otherwise the guess is what jobs took on average that ran
longer than it has so far, and jobs that still run (or were cancelled) count as what they are: jobs that take at least so long (Kaplan and
Meier). Without those the guess would be too short, because short jobs end first. A time limit bounds it. What stopping a job and starting
it again takes is as measured or, of a job that was not stopped yet, as in jobs of its size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.engine import Action, Event, drive
from headway.core.events import ENDED, PACK, RESERVE, RESIZE, START, STOP
from headway.core.operations import admit, set_costs, set_min_runtime
from headway.core.tables.journal import empty, journal
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.engine import LiveEngine
from headway.live.jobfile.notes import notes_on
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.records import CANCEL, HOLD, TIME_UP, Job
from headway.live.state import ClusterState
from headway.live.turns import Mean, given_turn
from headway.sim.world import new_world, resume_from, truth_table
from headway.sim.world_python import SimulatedWorld

Seconds = NDArray[np.float64]
MOST_ROUNDS = 10_000  # a second or two
MOST_SAMPLES = 1000
SHORTEST_S = 1e-3
UNKNOWN_S = 1.0  # of a job that has hardly begun, where nothing is known
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)  # a job that was cancelled would have run longer


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

    def __init__(self, engine: LiveEngine, truth: NDArray[Any], now: float, most_rounds: int) -> None:
        super().__init__(engine, new_world(truth, len(engine.state.seats)), journal(engine.state, 0, False))
        self.wanted, self.now, self.round, self.most_rounds = len(truth) - 1, now, 0, most_rounds
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
            self.starts_at = now if action.kind in (START, PACK) else self.starts_at
        return super().perform(action, now)

    def note(self, event: Event | Action, now: float) -> None:
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


def mean_left(ran_s: Seconds, ended: NDArray[np.bool_]) -> Callable[[Seconds], Seconds]:
    """The mean run time left of jobs that ran so long, by jobs of which some have ended and the others still run (Kaplan and Meier).

    The job that ran longest counts as ended. Of one that has run longer than all of them nothing is known: it runs as long again.
    """
    order = np.lexsort((~ended, ran_s))
    times, ends, n = ran_s[order], ended[order].copy(), len(ran_s)
    if n:
        ends[-1] = True
    lives = np.concatenate(
        [[1.0], np.cumprod(1.0 - ends / (n - np.arange(n)))]
    )  # the share that runs longer than the first i
    area = np.concatenate([np.cumsum((lives[1:n] * np.diff(times))[::-1])[::-1], [0.0]]) if n else np.zeros(1)

    def left(so_far_s: Seconds) -> Seconds:
        i = np.searchsorted(times, so_far_s, side="right")
        inside = np.minimum(i, n - 1) if n else i
        mean = times[inside] - so_far_s + area[inside] / np.maximum(lives[inside], 1e-12) if n else so_far_s
        found: Seconds = np.where(i < n, mean, np.maximum(UNKNOWN_S, so_far_s))
        return found

    return left


def worked_s(state: ClusterState, job: Job, now: float) -> float:
    """Seconds that a job ran, but for starting again: a forecast adds that by itself."""
    again = max(0, state.attempt(job) - 1) if job.attempts.furthest >= 0 else 0
    return max(0.0, state.run_s(job, now) - again * job.attempts.resume.value)


def _costs(state: ClusterState, ran: list[Job], spec: JobSpec) -> tuple[Seconds, Seconds]:
    """Seconds to save and to resume, of every job and last of the new one: as measured, or as in jobs of its size, or in all jobs."""

    def each(measured: Callable[[Job], Mean]) -> Seconds:
        by_size: dict[int, Mean] = {}
        for job in ran:
            if measured(job).count:
                for size in (job.spec.gpus, 0):
                    by_size.setdefault(size, Mean()).add(measured(job).value)
        every = by_size.get(0, Mean())
        own = [(job.spec.gpus, measured(job)) for job in state.jobs.values()] + [(spec.gpus, Mean())]
        return np.array([mean.value if mean.count else by_size.get(gpus, every).value for gpus, mean in own])

    return each(lambda job: job.attempts.save), each(lambda job: job.attempts.resume)


class Forecast:
    """A forecast for one job: made under the manager's lock, run without it."""

    def __init__(self, state: ClusterState, spec: JobSpec, now: float) -> None:
        self.names, self.spec, self.now, self.known = state.cluster.nodes, spec, now, state.known(spec)
        self.engine = state.engine.copy_for(len(state.jobs) + 1)
        recent = list(state.jobs.values())[-MOST_SAMPLES:]
        ran = [job for job in recent if job.first_started is not None]
        ended = np.array([job.final in ENDS for job in ran], bool)
        self.left_of = mean_left(np.array([worked_s(state, job, now) for job in ran]), ended)
        self.guessed = bool(ended.any())
        self.ran_s, self.own_left_s = np.zeros(len(state.jobs) + 1), np.full(len(state.jobs) + 1, np.nan)
        self.leaving: list[int] = []  # rows of jobs that will not come back
        self.costs = _costs(state, ran, spec)
        for job in state.active_jobs():
            self.ran_s[job.row] = worked_s(state, job, now)
            self.own_left_s[job.row] = np.nan if job.attempts.left_s is None else job.attempts.left_s
            if state.job_state(job) == JobState.STOPPING and job.stop_reason in (CANCEL, TIME_UP, HOLD):
                self.leaving.append(job.row)
            if job.attempts.waits_for_step:  # which no simulated job reports
                given = given_turn(job.spec, state.min_runtimes)
                set_min_runtime(self.engine.state, job.row, job.attempts.next_turn_s(job.spec, given))

    def run(self) -> DryRun:
        """Submit the job to the copy, and see when it starts."""
        tables = self.engine.state
        admit(tables, len(self.ran_s) - 1, submit=self.now, gpus=self.spec.gpus, **self.known)
        for j, (save, resume) in enumerate(zip(*self.costs, strict=True)):
            set_costs(tables, j, float(save), float(resume))
        for j in self.leaving:
            self.engine.record(Event(ENDED, j), self.now)
        waiting = np.isin(tables.jobs["state"], (JobState.FUTURE, JobState.PENDING))
        save, resume = self.costs
        truth = truth_table(self._left_s(), save=save, resume=resume, moved=resume)
        world = Ahead(self.engine, truth, self.now, MOST_ROUNDS if self.guessed else 1)
        drive(self.engine, world)
        return self._answer(world, int(waiting.sum()) - 1)

    def _left_s(self) -> Seconds:
        """The guessed run time left of each job."""
        left_s = np.where(np.isnan(self.own_left_s), self.left_of(self.ran_s), self.own_left_s)
        limit_left_s = np.maximum(0.0, self.engine.state.jobs["limit"] - self.ran_s)
        shortest: Seconds = np.maximum(SHORTEST_S, np.minimum(left_s, limit_left_s))
        return shortest

    def _answer(self, world: Ahead, ahead: int) -> DryRun:
        left_s = None if world.starts_at is None else world.starts_at - self.now
        starts_now = world.at_once is not None and world.at_once.kind in (START, PACK)
        nodes = tuple(dict.fromkeys(self.names[node] for node in world.nodes())) if world.at_once else ()
        stops: tuple[int, ...] = ()
        if starts_now:
            message = f"would start now on {', '.join(nodes)}"
        elif world.at_once:
            stops = tuple(world.stops)
            message = f"would start on {', '.join(nodes)} after stopping {counted(len(stops), 'job')} to make room"
        elif left_s is not None:
            message = f"would start in roughly {left_s:.0f} s, behind {counted(ahead, 'job')}, if jobs take as long as those before them"
        else:
            no_samples = "no job has completed yet, so run times cannot be guessed"
            why = "the queue is too long to guess" if self.guessed else no_samples
            message = f"would wait behind {counted(ahead, 'job')}; {why}"
        tasks = len(array_tasks(self.spec.array)[0]) if self.spec.array else 1
        return DryRun(self.spec.gpus, tasks, starts_now, nodes, left_s, stops, ahead, message, notes_on(self.spec))
