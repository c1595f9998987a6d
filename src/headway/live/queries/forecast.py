"""Where and roughly when a job would start: the simulated world, run ahead on a copy of the state with guessed run times.

Run times are not known (see guesses.py): the future is run several times with other draws of them, and the mean of the starts counts.
Were every job given the mean run time instead, jobs that began together would all end together, and the answer would be too late.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.engine import Disconnection, EngineAction, Event, Recorded, drive
from headway.core.events import ENDED, HELD, MIGRATE, PACK, PROMISE, RELEASED, RESIZE, START, STOP, STOPPED, SUBMITTED
from headway.core.operations import admit, set_costs, set_min_runtime
from headway.core.tables.journal import empty, journal
from headway.io.units import counted, ranges
from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.queries.guesses import Guesses
from headway.live.rows import CANCEL, HOLD, TIME_UP, Blocker
from headway.live.state.attempts import requested_min_runtime
from headway.live.state.cluster import ClusterState
from headway.live.state.engine import LiveEngine
from headway.live.state.records import Job
from headway.sim.world import resume_from
from headway.sim.world_python import SimulatedWorld
from headway.sim.world_tables import cost_table, new_world, truth_table

MOST_ROUNDS = 10_000  # a second or two, of all futures together
DRAWS = 15  # futures


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

    def __init__(
        self,
        engine: LiveEngine,
        truth: NDArray[Any],
        costs: NDArray[Any],
        now: float,
        most_rounds: int,
        waits: Mapping[int, set[int]],
    ) -> None:
        world = new_world(truth, len(engine.state.seats), costs=costs)
        super().__init__(engine, world, journal(engine.state, 0, False))
        # Rows of jobs that are blocked until others (rows too) have ended.
        self.waits = {row: set(others) for row, others in waits.items()}
        self.wanted, self.now, self.round, self.most_rounds = len(truth) - 1, now, 0, most_rounds
        self.starts_at: float | None = None
        # What the first decision does: for the wanted job, and to those that make room.
        self.at_once: EngineAction | None = None
        self.stops: list[int] = []
        self.needs_notice = False  # whether the wanted job is promised GPUs of jobs under notice
        resume_from(self.state, self.world, now)
        self.world.clock["done"] -= sum(1 for row in waits if row != self.wanted)  # these end after all

    def wait(self, until: float) -> float | None:
        """Jump to the next moment, unless the job has started."""
        at = super().wait(until)
        if at is None or self.starts_at is not None or self.round == self.most_rounds:
            return None
        self.round += 1
        empty(self.journal)  # of changes of rate
        self.now = max(self.now, at)  # an accepted job may be older than this moment
        return self.now

    def facts(self, now: float) -> Iterator[Event | Disconnection]:
        """Yield what happens, with the releases of jobs whose dependencies have ended; block the wanted job if it has dependencies."""
        for event in super().facts(now):
            yield event
            if event.kind == ENDED:
                for others in self.waits.values():
                    others.discard(event.job)
            elif event.kind == SUBMITTED and event.job == self.wanted and self.waits.get(self.wanted):
                yield Event(HELD, self.wanted)
        for row in [row for row, others in self.waits.items() if not others]:
            if self.state.jobs["state"][row] == JobState.HELD:
                del self.waits[row]
                yield Event(RELEASED, row)

    def perform(self, action: EngineAction, now: float) -> Iterator[Event]:
        """Watch for the job's start."""
        if action.kind in (STOP, RESIZE, MIGRATE) and self.round == 1:
            self.stops.append(action.job)
        if action.job == self.wanted:
            needs_notice = action.kind == PROMISE and action.until > -np.inf
            self.needs_notice |= self.round == 1 and needs_notice
            at_once = self.round == 1 and not needs_notice
            self.at_once = action if at_once else self.at_once
            self.starts_at = now if action.kind in (START, PACK) else self.starts_at
        return super().perform(action, now)

    def note(self, event: Recorded, now: float) -> None:
        """Write nothing down: none of this has happened. What a stop took is known after it."""
        if event.kind == STOPPED:
            cost = self.world.costs[event.job]
            set_costs(self.state, event.job, float(cost["save"]), float(cost["resume"]))

    def nodes(self) -> list[int]:
        """Return the nodes that the job has or is promised, in order."""
        if self.at_once and self.at_once.kind == PROMISE:
            return [node for node, _ in self.at_once.places]
        nodes, seat = [], int(self.state.jobs["seat"][self.wanted])
        while seat >= 0:
            nodes.append(int(self.state.seats["node"][seat]))
            seat = int(self.state.seats["next"][seat])
        return sorted(nodes)


class Forecast:
    """A forecast for one job: made under the manager's lock, run without it."""

    def __init__(self, state: ClusterState, spec: JobSpec, now: float, user: str = "") -> None:
        self.names, self.spec, self.now, self.notes = state.cluster.nodes, spec, now, state.notes(spec)
        self.known = state.known(spec, state.teams.row_of(spec, user))
        self.engine, self.guesses = state.engine.copy_for(len(state.jobs) + 1), Guesses(state, spec, now)
        self.known["demand"] = state.demands.row_ahead(spec, self.engine)
        self.known["group"] = state.groups.row_ahead(spec, user)
        self.numbers = list(state.jobs)  # by row
        new = Job(max(state.jobs, default=0) + 1, user, spec, now)
        needs = state.needs(new)
        self.unmet, self.follows = state.unmet(new), tuple(sorted(needs))
        self.waits = {len(state.jobs): {state.jobs[other].row for other in needs}} if needs else {}
        for job in state.active_jobs():
            if job.blockers == Blocker.DEPENDENCY and job.known:
                self.waits[job.row] = {state.jobs[other].row for other in job.waits_for}
        self.leaving: list[int] = []  # rows of jobs that will not come back
        for job in state.active_jobs():
            if state.job_state(job) == JobState.STOPPING and job.stop_reason in (CANCEL, TIME_UP, HOLD):
                self.leaving.append(job.row)
            if job.attempts.waits_for_step:  # which no simulated job reports
                min_runtime = requested_min_runtime(job.spec, state.min_runtimes)
                set_min_runtime(
                    self.engine.state,
                    job.row,
                    job.attempts.min_runtime_once_stepped(job.spec, min_runtime, state.auto_min_runtime_s),
                )

    def run(self) -> DryRun:
        """Submit the job to copies, and see when it starts."""
        tables, guesses = self.engine.state, self.guesses
        n = len(guesses.ran_s)
        admit(tables, n - 1, submit=self.now, gpus=self.spec.gpus, **self.known)
        for j in range(n):  # what a stop takes is known after the first
            set_costs(tables, j, float(guesses.save[j] * guesses.saved[j]), float(guesses.resume[j]))
        for j in self.leaving:
            self.engine.record(Event(ENDED, j), self.now)
        waiting = np.isin(tables.jobs["state"], (JobState.FUTURE, JobState.PENDING))
        # Each job gets every part of the distribution once, in an order of its own.
        chance = np.random.default_rng(n)
        parts = (np.argsort(chance.random((DRAWS, n)), axis=0) + 0.5) / DRAWS
        worlds: list[Ahead] = []
        rounds = MOST_ROUNDS if guesses.possible else 1
        for share in parts:
            worlds.append(self._ahead(share, rounds))
            rounds -= worlds[-1].round
            if rounds <= 0 or worlds[-1].at_once:
                break
        return self._answer(worlds, int(waiting.sum()) - 1)

    def _ahead(self, share: NDArray[np.float64], rounds: int) -> "Ahead":
        """Run one future."""
        engine, guesses = self.engine.copy_for(len(share)), self.guesses
        left_s = guesses.left_s(engine.state.jobs["limit"], share)
        world = Ahead(
            engine,
            truth_table(left_s),
            cost_table(len(share), save=guesses.save, resume=guesses.resume, moved=guesses.resume),
            self.now,
            rounds,
            self.waits,
        )
        drive(engine, world)
        return world

    def _answer(self, worlds: list[Ahead], ahead: int) -> DryRun:
        world, starts = worlds[0], [world.starts_at - self.now for world in worlds if world.starts_at is not None]
        left_s = float(np.mean(starts)) if starts else None
        starts_now = world.at_once is not None and world.at_once.kind in (START, PACK)
        nodes = tuple(dict.fromkeys(self.names[node] for node in world.nodes())) if world.at_once else ()
        stops: tuple[int, ...] = ()
        behind = counted(ahead, "job")
        if self.follows:
            named = f"job{'s' if len(self.follows) > 1 else ''} {ranges(self.follows)}"
            behind = f"{named}, which it follows" + (f", and {behind} in the queue" if ahead else "")
        if self.unmet:
            starts_now, left_s, nodes = False, None, ()
            message = f"would be cancelled at once: {self.unmet}"
        elif self.spec.hold:
            starts_now, left_s, nodes = False, None, ()
            message = "would wait until it is released"
        elif starts_now:
            message = f"would start now on {', '.join(nodes)}"
        elif world.at_once:
            stops = tuple(self.numbers[row] for row in world.stops)
            message = f"would start on {', '.join(nodes)} after stopping {counted(len(stops), 'job')} to make room"
        elif world.needs_notice:
            notice = f"(notice: {self.engine.options.notice:g} s)"
            message = f"would start after jobs that borrowed its queue's GPUs have checkpointed {notice}"
        elif left_s is not None:
            message = (
                f"would start in roughly {left_s:.0f} s, behind {behind}, if jobs take as long as those before them"
            )
        else:
            no_samples = "no job has completed yet, so run times cannot be guessed"
            why = "the queue is too long to guess" if self.guesses.possible else no_samples
            message = f"would wait behind {behind}; {why}"
        tasks = len(array_tasks(self.spec.array)[0]) if self.spec.array else 1
        return DryRun(self.spec.gpus, tasks, starts_now, nodes, left_s, stops, ahead, message, self.notes)
