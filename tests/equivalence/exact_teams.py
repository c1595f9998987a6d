"""Teams of the second implementation: what a queues file says, and the accounts of a decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.equivalence.exact import Job

INF = math.inf
NON_PREEMPTIBLE_FIRST, RUNNING_NEXT, NOTIFIED_LAST = range(3)


@dataclass(frozen=True)
class Team:
    """One queue. Jobs are in queues without a queue below them."""

    name: str
    parent: str = ""  # "": the cluster
    weight: Any = 1
    guarantee: int = 0
    priority: int = 0
    running: float = INF  # the limit of running jobs
    gpus: float = INF  # the limit of GPUs
    user_running: float = INF  # the same for each user
    user_gpus: float = INF


@dataclass(frozen=True)
class Booking:
    """An advance reservation: a node kept for a queue from `begin` to `end`."""

    node: int
    queue: str
    begin: Any
    end: Any


@dataclass(frozen=True)
class Teams:
    """All queues, parents before their children."""

    teams: tuple[Team, ...] = ()
    notice: Any = 0
    half_life: Any = INF  # infinity: usage has no memory
    horizon: Any = 1
    bookings: tuple[Booking, ...] = ()

    @cached_property
    def named(self) -> dict[str, Team]:
        """Return the queues by name."""
        return {team.name: team for team in self.teams}

    @cached_property
    def paths(self) -> dict[str, list[str]]:
        """Return each queue and the queues above it, from the lowest on, without the cluster."""
        paths: dict[str, list[str]] = {"": []}
        for team in self.teams:
            paths[team.name] = [team.name, *paths[team.parent]]
        return paths

    def __getitem__(self, name: str) -> Team:
        return self.named[name]

    def above(self, name: str) -> list[str]:
        """Return a queue and the queues above it, from the lowest on, without the cluster."""
        return self.paths[name]

    def path(self, job: Job) -> list[str]:
        """Return the job's queue and the queues above it."""
        return self.above(job.queue)

    def children(self, name: str) -> list[Team]:
        """Return the queues directly below this one; "": below the cluster."""
        return [team for team in self.teams if team.parent == name]

    def depth(self, name: str) -> int:
        """Return the number of queues on the path of a queue."""
        return len(self.above(name))

    def row(self, job: Job) -> tuple[str, str]:
        """Return the job's queue, and its user if the queue has limits per user."""
        if not job.queue:
            return "", ""
        team = self[job.queue]
        return job.queue, job.user if min(team.user_running, team.user_gpus) < INF else ""

    def siblings(self, one: Job, two: Job) -> tuple[str, str] | None:
        """Return the sibling teams of two jobs on their paths; None: they are of one queue."""
        first, second = self.path(one)[::-1], self.path(two)[::-1]
        return next(((a, b) for a, b in zip(first, second, strict=False) if a != b), None)


NO_TEAMS = Teams()


class Accounts:
    """What teams use in a decision. `used` and `leaving` list jobs; both are kept by the decision."""

    def __init__(self, teams: Teams, usage: dict[str, Any], gpus: int) -> None:
        self.teams, self.usage, self.cluster_gpus = teams, usage, gpus
        self.used: list[Job] = []  # starting, running, migrating, or with a start or promise of this decision
        self.leaving: list[Job] = []  # stopping jobs that do not migrate
        self.promised: list[Job] = []  # waiting jobs that had a promise when the decision began

    def gpus(self, team: str, without: Iterable[Job] = ()) -> int:
        """Return the GPUs that a team uses."""
        skipped = [job.number for job in without]
        return sum(job.gpus for job in self.used if team in self.teams.path(job) and job.number not in skipped)

    def within(self, job: Job) -> str:
        """Return the lowest team in whose guarantee the job fits by count, beside promises to other jobs; "": none."""
        if not job.queue:
            return ""
        promised = [one for one in self.promised if one not in self.used and one is not job]
        for name in self.teams.path(job):
            others = sum(one.gpus for one in promised if name in self.teams.path(one))
            if self.gpus(name, [job]) + others + job.gpus <= self.teams[name].guarantee:
                return name
        return ""

    def share(self, name: str, more: int = 0) -> Fraction:
        """Return usage over weight of a team that holds `more` GPUs than now."""
        gpus, team = self.gpus(name) + more, self.teams[name]
        usage = gpus if self.teams.half_life == INF else self.usage[name] + gpus * self.teams.horizon
        return Fraction(usage) / Fraction(team.weight)

    def exceeded(self, job: Job, stopping: bool, less: Iterable[Job] = ()) -> list[tuple[str, str]]:
        """Return the rows (queue, user) whose limits the job would exceed, without released jobs."""
        skipped = [job.number, *(one.number for one in less)]
        others = [one for one in self.used + (self.leaving if stopping else []) if one.number not in skipped]
        rows = []
        for name in self.teams.path(job):
            team, members = self.teams[name], [one for one in others if name in self.teams.path(one)]
            if over(members, job, team.running, team.gpus):
                rows.append((name, ""))
            members = [one for one in members if one.user == job.user]
            if name == job.queue and over(members, job, team.user_running, team.user_gpus):
                rows.append((name, job.user))
        return rows

    def keeps_guarantees(self, job: Job) -> bool:
        """Return whether all guarantees can be met when this job starts: always so if it is preemptible."""
        if job.preemptible or not self.teams.teams:
            return True
        return sum(self.needed(team, job) for team in self.teams.children("")) <= self.cluster_gpus

    def needed(self, team: Team, job: Job) -> int:
        """Return the larger of a team's guarantee and what its non-preemptible jobs and its sub-teams need."""
        pinned = [one for one in self.used if not one.preemptible and one.queue == team.name and one is not job]
        if job.queue == team.name:
            pinned.append(job)
        below = sum(self.needed(child, job) for child in self.teams.children(team.name))
        return max(team.guarantee, below + sum(one.gpus for one in pinned))

    def coverage(self, order: Callable[[Job], Any]) -> dict[int, tuple[str, bool]]:
        """Return for each starting, running or migrating job the team that covers it, and whether wholly."""
        left = {team.name: team.guarantee for team in self.teams.teams}
        jobs = [job for job in self.used if job.place or job.migrating]
        jobs.sort(key=lambda job: (use_rank(job), order(job)))
        covered: dict[int, tuple[str, bool]] = {}
        for team in sorted(self.teams.teams, key=lambda team: -self.teams.depth(team.name)):
            for job in jobs:
                if team.name not in self.teams.path(job) or covered.get(job.number, ("", False))[1]:
                    continue
                if job.gpus > left[team.name]:
                    if left[team.name] > 0:
                        covered.setdefault(job.number, (team.name, False))
                    left[team.name] = 0
                    break
                covered[job.number] = (team.name, True)
                for name in self.teams.above(team.name):
                    left[name] = max(0, left[name] - job.gpus)
        return covered


def use_rank(job: Job) -> int:
    """Return the rank in which jobs use a guarantee: jobs that cannot be released first, jobs under notice last."""
    if not job.preemptible or job.migrating:
        return NON_PREEMPTIBLE_FIRST
    return RUNNING_NEXT if job.until is None else NOTIFIED_LAST


def over(members: list[Job], job: Job, running: float, gpus: float) -> bool:
    """Return whether a job would exceed a limit beside these jobs."""
    return len(members) + 1 > running or sum(one.gpus for one in members) + job.gpus > gpus
