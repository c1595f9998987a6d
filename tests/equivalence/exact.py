"""A second implementation of docs/semantics.md, written from that page: naive, in exact fractions, without an index.

Everything is computed anew at every instant. This file has time, facts and costs. Teams are in exact_teams.py, the
decision in exact_decision.py, its search in exact_search.py and its backfill reservation in exact_backfill.py.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.equivalence.exact_teams import NO_TEAMS, Teams

FUTURE, WAITING, STARTING, RUNNING, STOPPING, OVER = range(6)
AUTO_MIN_RUNTIME = 4  # times save and resume time
MOST_ROUNDS = 200  # decisions at one instant: more of them are a livelock
INF = math.inf
Seconds = Any  # int, Fraction or infinity: never another float
Place = dict[int, int]  # GPUs by node


def exact(value: float) -> Seconds:
    """Return the number as an int or a fraction; infinity stays."""
    if value == INF:
        return INF
    return int(value) if float(value).is_integer() else Fraction(value)


@dataclass
class Job:
    """One job. Its accounts are as of the present instant."""

    number: int
    submit: Seconds
    gpus: int
    left: Seconds
    save: Seconds = 0
    resume: Seconds = 0
    limit: Seconds = INF
    preemptible: bool = True
    queue: str = ""
    user: str = ""
    nodes: int = 0  # it needs GPUs on exactly N nodes, equally many on each; 0: on any number
    state: int = FUTURE
    ran: Seconds = 0  # in all
    served: Seconds = 0  # GPU-time since submission or the last promotion; so are the next two
    ran_lately: Seconds = 0
    waited_lately: Seconds = 0
    level: int = 0
    attempts: int = 0
    first: Seconds = INF  # first Start
    start: Seconds = INF  # last Start
    began: Seconds = INF  # last Started
    due: Seconds = INF  # of Started or Stopped
    queued: Seconds = 0  # when it last began to wait
    length: Seconds = 0  # work left then
    in_min_runtime: bool = False  # the end of its minimum run time is still to come
    until: Seconds | None = None  # the end of its notice; None: it is not under notice
    notice_for: str = ""  # the team whose guarantee its notice is for; "": an advance reservation
    notice_with: int | None = None  # the job its notice is for, if a job of that set will migrate
    migrating: bool = False  # from Migrate to the next Start
    place: Place = field(default_factory=dict)
    promise: Place = field(default_factory=dict)
    promised: int = 0  # the number of its promise, in the order in which promises were made
    promised_at: Seconds = -1

    @property
    def runs_from(self) -> Seconds:
        """Return when a running or starting job has Started."""
        return self.began if self.state == RUNNING else self.due


@dataclass(frozen=True)
class Rules:
    """A policy with its options, and the cluster."""

    policy: str
    nodes: tuple[int, ...]
    consolidated: bool = False
    quantum: Seconds = INF
    thresholds: tuple[Seconds, ...] = ()
    promote: Seconds = INF
    min_runtime: Seconds | None = 0  # None: auto
    limit: Seconds = INF  # the policy's time limit for jobs without one
    defragment_after: Seconds = INF
    rent: Seconds = 0
    teams: Teams = NO_TEAMS

    @property
    def preempts(self) -> bool:
        """Return whether the policy preempts jobs by its order."""
        return self.policy not in ("fifo", "best-effort", "sjf", "backfill")

    @property
    def reserves(self) -> bool:
        """Return whether there are backfill reservations: with queues under every policy."""
        return bool(self.teams.teams) or self.policy not in ("fifo", "best-effort", "sjf")

    @property
    def dynamic(self) -> bool:
        """Return whether keys of running jobs change with time."""
        return self.policy in ("las", "2d-las", "srtf", "srsf")

    def key(self, job: Job) -> tuple[Seconds, ...]:
        """Return the job's place in the order: first key, second key, then the order of submission."""
        match self.policy:
            case "sjf":
                keys = (job.length, 0)
            case "srtf":
                keys = (job.left, 0)
            case "srsf":
                keys = (job.left * job.gpus, 0)
            case "las":
                keys = (job.ran_lately, 0)
            case "2d-las":
                keys = (job.served, 0)
            case "tiresias-l":
                keys = (job.level, job.first)
            case _:
                keys = (job.submit, 0)
        return (*keys, job.number)

    def min_run(self, job: Job) -> Seconds:
        """Return the minimum run time of a job; infinity: it is non-preemptible."""
        if not job.preemptible:
            return INF
        return AUTO_MIN_RUNTIME * (job.save + job.resume) if self.min_runtime is None else self.min_runtime

    def min_run_over(self, job: Job) -> Seconds:
        """Return when the minimum run time of a running or starting job is over."""
        return job.runs_from + self.min_run(job)

    def threshold(self, job: Job) -> Seconds:
        """Return the GPU-time at which a job leaves its level."""
        return self.thresholds[job.level] if job.level < len(self.thresholds) else INF

    def worth_at(self, job: Job, released: list[Job]) -> Seconds:
        """Return when releasing these jobs pays for itself (`preempt_at`); minus infinity: at any time."""
        if self.rent == 0:
            return -INF
        cost = sum(one.gpus * (one.save + one.resume) for one in released)
        return job.queued + Fraction(self.rent * cost, job.gpus)


class Exact:
    """The simulation. `log` has every (time, kind, job, places) of End, Stop, Migrate, Promise, Notify and Start."""

    def __init__(self, rules: Rules, jobs: list[Job]) -> None:
        self.rules, self.jobs, self.teams = rules, jobs, rules.teams
        self.now: Seconds = 0
        self.may_preempt = False
        self.promises = 0
        self.wake_at: Seconds = INF  # the next preemption point that the last decision asked for
        self.usage: dict[str, Seconds] = {team.name: 0 for team in self.teams.teams}
        self.log: list[tuple[Seconds, str, int, Any]] = []

    def run(self, decide: Any) -> None:
        """Simulate from the first arrival to the last end; `decide` returns whether to decide again at once."""
        while any(job.state != OVER for job in self.jobs):
            at = self.next_instant()
            assert at < INF, "deadlock: jobs wait, and no instant will come"
            self.go_to(at)
            self.may_preempt = False
            self.record_facts()
            self.tick()
            rounds = 0
            while decide(self) or self.record_facts():
                rounds += 1
                assert rounds < MOST_ROUNDS, "livelock: decisions at one instant do not end"

    def those(self, *states: int) -> list[Job]:
        """Return the jobs in any of these states, by number."""
        return [job for job in self.jobs if job.state in states]

    def next_instant(self) -> Seconds:
        """Return the time of the next instant."""
        times = [INF, *self.team_times()]
        for job in self.jobs:
            if job.state == FUTURE:
                times.append(job.submit)
            elif job.state in (STARTING, STOPPING):
                times.append(job.due)
            elif job.state == RUNNING:
                times.append(self.now + job.left)
            if self.rules.quantum == INF:
                times.extend((self.timer(job), self.wake_at))
        if self.rules.quantum < INF and self.those(WAITING):
            times.append((self.now // self.rules.quantum + 1) * self.rules.quantum)
        return min(times)

    def team_times(self) -> list[Seconds]:
        """Return the coming ends of notices, and the coming times of advance reservations."""
        times = [self.notice_over(job) for job in self.those(STARTING, RUNNING) if job.until is not None]
        for booking in self.teams.bookings:
            times.extend((booking.begin - self.teams.notice, booking.begin, booking.end))
        return [at for at in times if at > self.now]

    def notice_over(self, job: Job) -> Seconds:
        """Return when a job under notice is preempted: not before it has run for a second."""
        assert job.until is not None
        return max(job.until, job.runs_from + 1)

    def timer(self, job: Job) -> Seconds:
        """Return when a job is promoted, leaves its level, or ends its minimum run time."""
        if job.state == WAITING and job.level > 0 and self.rules.promote < INF:
            return self.now + max(0, self.rules.promote * job.ran_lately - job.waited_lately)
        at = INF
        if job.state == RUNNING:
            if self.rules.threshold(job) < INF:
                at = self.now + max(0, Fraction(self.rules.threshold(job) - job.served, job.gpus))
            if job.in_min_runtime:
                at = min(at, self.rules.min_run_over(job))
        return at

    def go_to(self, at: Seconds) -> None:
        """Let time pass: running jobs make progress, waiting jobs wait; saving and resuming are neither."""
        self.add_usage(at)
        step = at - self.now
        self.now = at
        for job in self.those(RUNNING):
            job.left -= step
            job.ran += step
            job.ran_lately += step
            job.served += step * job.gpus
        for job in self.those(WAITING):
            job.waited_lately += step

    def add_usage(self, at: Seconds) -> None:
        """Add the GPU-seconds that teams hold until `at`, halved at every multiple of the half-life on the way."""
        now, period = self.now, self.teams.half_life
        while period < INF and now < at:
            stop = min(at, (now // period + 1) * period)
            for team in self.usage:
                holders = [job for job in self.those(STARTING, RUNNING, STOPPING) if team in self.teams.path(job)]
                self.usage[team] += (stop - now) * sum(job.gpus for job in holders)
                if stop % period == 0:
                    self.usage[team] = Fraction(self.usage[team]) / 2
            now = stop

    def record_facts(self) -> bool:
        """Record all facts that are due but Ticked, in order. Return whether there were any."""
        facts = 0
        for job in self.those(RUNNING):
            if job.left == 0:
                job.state, job.place, job.until = OVER, {}, None
                self.note("End", job)
                self.may_preempt = True
                facts += 1
        for job in self.those(STOPPING):
            if job.due <= self.now:
                job.state, job.place, job.queued, job.length = WAITING, {}, self.now, job.left
                facts += 1
        for job in self.those(STARTING):
            facts += self.has_started(job)
        for job in self.jobs:
            while self.timer(job) <= self.now:
                self.cross(job)
                self.may_preempt = True
                facts += 1
        for job in self.those(FUTURE):
            if job.submit <= self.now:
                job.state, job.queued, job.length = WAITING, self.now, job.left
                self.may_preempt = True
                facts += 1
        return facts > 0

    def has_started(self, job: Job) -> bool:
        """Let a starting job run if its start is due. Return whether it is."""
        if job.due > self.now:
            return False
        job.state, job.began = RUNNING, self.now
        job.in_min_runtime = self.has_timer(job)
        return True

    def has_timer(self, job: Job) -> bool:
        """Return whether the end of the job's minimum run time is an instant of its own."""
        if not self.rules.preempts or (self.rules.quantum < INF and self.rules.dynamic):
            return False
        return 0 < self.rules.min_run(job) < INF

    def cross(self, job: Job) -> None:
        """Promote the job, end its minimum run time, or let it leave its level."""
        if job.state == WAITING:
            job.level = job.served = job.ran_lately = job.waited_lately = 0
            return
        if job.in_min_runtime and self.rules.min_run_over(job) <= self.now:
            job.in_min_runtime = False
        if job.served >= self.rules.threshold(job):
            job.level += 1

    def tick(self) -> None:
        """Note a preemption point: the end of a quantum or notice, a wake-up, a time of an advance reservation."""
        if self.rules.quantum < INF and self.now % self.rules.quantum == 0 and self.those(WAITING):
            self.may_preempt = True
        if self.wake_at <= self.now:
            self.may_preempt = True
        if any(job.until is not None and self.notice_over(job) == self.now for job in self.those(STARTING, RUNNING)):
            self.may_preempt = True
        for booking in self.teams.bookings:
            if self.now in (booking.begin - self.teams.notice, booking.begin, booking.end):
                self.may_preempt = True

    def start(self, job: Job, place: Place) -> None:
        """Start a job; the first start takes no time, and such a start has Started with its Start."""
        assert sum(place.values()) == job.gpus
        job.state, job.place, job.promise, job.migrating = STARTING, dict(place), {}, False
        job.attempts += 1
        job.start, job.first = self.now, min(job.first, self.now)
        job.due = self.now + (job.resume if job.attempts > 1 else 0)
        self.has_started(job)
        self.note("Start", job, place)

    def stop(self, job: Job) -> None:
        """Stop a job: it holds its GPUs while it saves."""
        self.begin_saving(job)
        self.note("Stop", job)

    def migrate(self, job: Job, place: Place) -> None:
        """Stop a job that will start again at this place, which it is promised."""
        self.begin_saving(job)
        self.promises += 1
        job.promise, job.promised, job.migrating = dict(place), self.promises, True
        self.note("Migrate", job, place)

    def begin_saving(self, job: Job) -> None:
        """Let a running job save."""
        assert job.state == RUNNING
        assert job.preemptible
        assert job.began < self.now
        job.state, job.due, job.until, job.notice_for = STOPPING, self.now + job.save, None, ""

    def promise(self, job: Job, place: Place) -> None:
        """Promise GPUs to a waiting job."""
        self.promises += 1
        job.promise, job.promised, job.promised_at = dict(place), self.promises, self.now
        self.note("Promise", job, place)

    def withdraw(self, job: Job) -> None:
        """Withdraw a promise; a migration whose promise is withdrawn is a stop from then on."""
        job.promise, job.migrating = {}, False
        self.note("Promise", job)

    def notify(self, job: Job, until: Seconds | None, team: str = "") -> None:
        """Put a job under notice for a team's guarantee; with None, withdraw its notice."""
        job.until, job.notice_for, job.notice_with = until, team, None
        self.log.append((self.now, "Notify", job.number, until))

    def note(self, kind: str, job: Job, place: Place | None = None) -> None:
        """Add a row to the log."""
        self.log.append((self.now, kind, job.number, tuple(sorted((place or {}).items()))))
