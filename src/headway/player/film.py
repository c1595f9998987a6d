"""A run as a film: which jobs hold which GPUs, wait or have ended at any moment, read from its journal in whole columns."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.classes import classes_of
from headway.core.events import EXPLAINED, NO_JOB, REASONS, WAIT_GPUS, WAIT_PREEMPTED
from headway.job_state import JobState
from headway.sim.results.result import Result
from headway.sim.results.timeline import holds

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


class Film:
    """A run at any time. Jobs are numbered from 1 in the order of the trace, because names of traces are not numbers."""

    def __init__(self, result: Result) -> None:
        self.result, self.run = result.with_journal(), result.run
        self.run = self.result.run
        run = self.run
        self.held = holds(run)
        self.entries = run.entries
        self.submit: Floats = run.jobs["submit"].astype(np.float64)
        self.end: Floats = run.jobs["end"].astype(np.float64)
        self.first, self.last = float(self.submit.min()), float(self.end[np.isfinite(self.end)].max())
        # Rows of the journal by job, and within a job in time.
        about = np.flatnonzero(run.entries["job"] != NO_JOB)
        order = np.argsort(run.entries["job"][about], kind="stable")
        self._rows: Whole = about[order]
        self._keys: Whole = run.entries["job"][self._rows].astype(np.int64) * (len(run.entries) + 1) + self._rows
        self._first_hold: Whole = np.searchsorted(self.held.job, np.arange(len(run.jobs) + 1))

    @cached_property
    def node_of(self) -> Whole:
        """The node of each GPU."""
        cluster = self.run.cluster
        return np.repeat(np.arange(len(cluster.nodes)), cluster.gpus)

    @property
    def jobs(self) -> int:
        """How many there are."""
        return len(self.submit)

    def name(self, j: int) -> str:
        """What the trace calls the job, after its model where there is one."""
        load = self.run.workload
        model = str(load.model[j])
        return f"{model or 'trace'} {load.job_id[j]}"

    def at(self, time: float) -> "FilmFrame":
        """The run at this moment."""
        return FilmFrame(self, min(max(time, self.first), self.last))

    def last_row(self, jobs: Whole, time: float) -> Whole:
        """The last row about each of these jobs up to a time; -1: none."""
        until = int(np.searchsorted(self.entries["time"], time, side="right"))
        place = np.searchsorted(self._keys, jobs * (len(self.entries) + 1) + until) - 1
        rows = self._rows[np.maximum(place, 0)]
        return np.where((place >= 0) & (self.entries["job"][rows] == jobs), rows, -1)

    def rows_of(self, j: int, time: float) -> Whole:
        """The numbers of the rows about one job up to a time."""
        size = len(self.entries) + 1
        low, high = np.searchsorted(self._keys, [j * size, (j + 1) * size])
        rows = self._rows[low:high]
        return np.asarray(rows[self.entries["time"][rows] <= time])

    def links_of(self, row: int) -> list[tuple[int, int]]:
        """The links that the start in this row was given: leaves, each with a bit per spine."""
        links, at = self.run.journal.links, self.entries["link_at"]
        if not len(links):
            return []
        end = int(at[row + 1]) if row + 1 < len(at) else len(links)
        return [(int(each["leaf"]), int(each["mask"])) for each in links[int(at[row]) : end]]

    def notice_in(self, row: int) -> dict[str, Any]:
        """Return the notice in a row: when it is over (None: it is withdrawn), and the queue that gets the GPUs."""
        until, at, places = float(self.entries["until"][row]), self.entries["place_at"], self.run.journal.places
        end = int(at[row + 1]) if row + 1 < len(at) else len(places)
        teams = [int(place["node"]) for place in places[int(at[row]) : end]] if self.run.teams else []
        receiver = {"team": [self.run.teams.name_of(teams[0])]} if self.run.teams and teams else {}
        return {"until": until if until < np.inf else None, **receiver}

    def holds_of(self, j: int) -> range:
        """The rows of `held` about one job."""
        return range(int(self._first_hold[j]), int(self._first_hold[j + 1]))

    @cached_property
    def _classes(self) -> Whole:
        """The class of each job at the size that it asked for: jobs of a class wait for one reason."""
        jobs = self.run.jobs.copy()
        jobs["gpus"] = jobs["asked"]
        return classes_of(jobs, self.run.class_sizes)

    @cached_property
    def _explained(self) -> tuple[Whole, Whole]:
        """Rows that say why a class waits, by class and then in time: their keys, and the rows."""
        rows = np.flatnonzero(self.entries["kind"] == EXPLAINED)
        rows = rows[np.argsort(self.entries["gpus"][rows], kind="stable")]
        return self.entries["gpus"][rows].astype(np.int64) * (len(self.entries) + 1) + rows, rows

    def reasons(self, jobs: Whole, time: float, again: NDArray[np.bool_]) -> list[str]:
        """Why each of these waiting jobs waits; `again`: it has run before."""
        keys, rows = self._explained
        if not len(rows):
            return ["gpus"] * len(jobs)
        until = int(np.searchsorted(self.entries["time"], time, side="right"))
        place = np.searchsorted(keys, self._classes[jobs] * (len(self.entries) + 1) + until) - 1
        entries = rows[np.maximum(place, 0)]
        known = (place >= 0) & (self.entries["gpus"][entries] == self._classes[jobs])
        codes = np.where(known, self.entries["level"][entries], WAIT_GPUS)
        codes = np.where((codes == WAIT_GPUS) & again, WAIT_PREEMPTED, codes)
        return [REASONS[code] for code in codes.tolist()]


class FilmFrame:
    """One moment of a film."""

    def __init__(self, film: Film, time: float) -> None:
        self.film, self.time = film, time
        held = film.held
        self.on: Whole = np.flatnonzero((held.start_s <= time) & (time < held.end_s))  # rows of `held`
        came, over = film.submit <= time, film.end <= time
        self.active: Whole = np.flatnonzero(came & ~over)
        self.ended: Whole = np.flatnonzero(over)
        self.states = np.full(film.jobs, JobState.FUTURE, np.int64)
        self.states[self.active] = JobState.PENDING
        self.states[self.ended] = JobState.COMPLETED
        now = np.where(time < held.running_s[self.on], JobState.STARTING, JobState.RUNNING)
        now = np.where(time >= held.leaving_s[self.on], JobState.STOPPING, now)
        self.states[held.job[self.on]] = now
        begun = held.start_s <= time
        self.attempts: Whole = np.bincount(held.job[begun], minlength=film.jobs)
        ran = np.clip(np.minimum(held.leaving_s, time) - held.running_s, 0.0, None)
        self.service: Floats = np.bincount(held.job, weights=held.gpus * ran, minlength=film.jobs).astype(np.float64)
        self.stops: Whole = np.bincount(held.job[held.end_s <= time], minlength=film.jobs) - over

    @cached_property
    def waiting(self) -> Whole:
        """The jobs that wait, in the order of their levels and then as they came."""
        jobs = self.active[self.states[self.active] == JobState.PENDING]
        return np.asarray(jobs[np.lexsort((jobs, self.levels(jobs)))])

    def levels(self, jobs: Whole) -> Whole:
        """The priority queue of each of these jobs."""
        rows = self.film.last_row(jobs, self.time)
        return np.where(rows >= 0, self.film.entries["level"][rows], 0).astype(np.int64)

    @cached_property
    def hold_of(self) -> dict[int, int]:
        """The row of `held` by job on GPUs, in the order of jobs."""
        return dict(sorted(zip(self.film.held.job[self.on].tolist(), self.on.tolist(), strict=True)))

    @property
    def on_gpus(self) -> list[int]:
        """The jobs on GPUs."""
        return list(self.hold_of)

    @cached_property
    def waits_for(self) -> dict[int, str]:
        """Why each waiting job waits."""
        jobs = self.waiting
        reasons = self.film.reasons(jobs, self.time, self.attempts[jobs] > 0)
        return dict(zip(jobs.tolist(), reasons, strict=True))

    @cached_property
    def holders(self) -> list[list[int]]:
        """For each GPU the rows of jobs that hold it."""
        jobs_by_gpu: list[list[int]] = [[] for _ in range(self.film.run.cluster.total)]
        for row in self.on.tolist():
            for gpu in self.gpus_of(row).tolist():
                jobs_by_gpu[gpu].append(int(self.film.held.job[row]))
        return jobs_by_gpu

    def gpus_of(self, hold: int) -> Whole:
        """The GPUs of a hold, in the order of ranks: the chain of seats has the last first."""
        held, run = self.film.held, self.film.run
        at, count = int(held.seat_at[hold]), int(held.gpus[hold])
        return np.asarray(run.seats[at : at + count][::-1].astype(np.int64) % run.cluster.total)
