"""A second implementation of docs/semantics.md, written from that page: naive, in exact fractions, without an index, a heap or a timer.

Everything is worked out anew at every instant. This file has time, facts and costs (rules 1 to 3 and 12 to 15); decisions (rules 4 to 11)
are in exact_decision.py. Numbers in comments are those of the rules.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

FUTURE, WAITING, STARTING, RUNNING, STOPPING, OVER = range(6)
AUTO_TURN = 4  # times save and resume
INF = math.inf
Seconds = Any  # int, Fraction or infinity: never another float
Place = dict[int, int]  # GPUs by node


def exact(value: float) -> Seconds:
    """The same number as an int or a fraction; infinity stays."""
    if value == INF:
        return INF
    return int(value) if float(value).is_integer() else Fraction(value)


@dataclass
class Job:
    """One job. What it has done is as of the present instant."""

    number: int
    submit: Seconds
    gpus: int
    left: Seconds
    save: Seconds = 0
    resume: Seconds = 0
    limit: Seconds = INF
    preemptible: bool = True
    state: int = FUTURE
    ran: Seconds = 0  # in all
    served: Seconds = 0  # GPU-time since it was submitted or last promoted; so are the next two
    ran_lately: Seconds = 0
    waited_lately: Seconds = 0
    level: int = 0
    attempts: int = 0
    first: Seconds = INF  # first Start
    start: Seconds = INF  # last Start
    began: Seconds = INF  # last Started
    due: Seconds = INF  # of Started or Stopped
    queued: Seconds = 0  # when it last began to wait
    in_turn: bool = False  # the end of its turn is still to come
    place: Place = field(default_factory=dict)
    promise: Place = field(default_factory=dict)
    promised: int = 0  # the number of its promise, in the order in which they were made


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
    limit: Seconds = INF  # what jobs are taken to run at most
    clears: Seconds = INF  # rule 29
    tidies: bool = False  # rule 29, where moving costs nothing

    @property
    def preempts(self) -> bool:
        """Whether it ever stops a job."""
        return self.policy not in ("fifo", "best-effort", "sjf", "backfill")

    @property
    def reserves(self) -> bool:
        """Rule 10."""
        return self.policy not in ("fifo", "best-effort", "sjf")

    @property
    def moving(self) -> bool:
        """Whether the keys of running jobs move with time."""
        return self.policy in ("las", "2d-las", "srtf", "srsf")

    def key(self, job: Job) -> tuple[Seconds, ...]:
        """The order: first key, second key, then the order of submission."""
        match self.policy:
            case "sjf" | "srtf":
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

    def turn(self, job: Job) -> Seconds:
        """Rule 12: how long it keeps its GPUs once it runs."""
        if not job.preemptible:
            return INF
        return AUTO_TURN * (job.save + job.resume) if self.min_runtime is None else self.min_runtime

    def turn_over(self, job: Job) -> Seconds:
        """When the turn of a job that runs or starts is over."""
        began = job.began if job.state == RUNNING else job.due
        return began + self.turn(job)

    def bound(self, job: Job) -> Seconds:
        """The GPU-time at which a job leaves its queue."""
        return self.thresholds[job.level] if job.level < len(self.thresholds) else INF


class Exact:
    """The simulation. `log` has every (time, what, job, place) of End, Stop, Reserve and Start."""

    def __init__(self, rules: Rules, jobs: list[Job]) -> None:
        self.rules, self.jobs = rules, jobs
        self.now: Seconds = 0
        self.may_stop = False
        self.promises = 0
        self.moved_at: Seconds = -1
        self.look_at: Seconds = INF  # rule 29: when the first job that waits will have waited for long
        self.log: list[tuple[Seconds, str, int, tuple[tuple[int, int], ...]]] = []

    def run(self, decide: Any) -> None:
        """From the first arrival to the last end; `decide` makes one decision, performs it, and says whether to make another at once."""
        while any(job.state != OVER for job in self.jobs):
            at = self.next_instant()
            assert at < INF, "jobs wait, and nothing will ever happen"
            self.go_to(at)
            self.may_stop = False
            self.record_facts()
            self.tick()
            while decide(self) or self.record_facts():
                pass

    def those(self, *states: int) -> list[Job]:
        """Jobs in any of these states, by number."""
        return [job for job in self.jobs if job.state in states]

    def next_instant(self) -> Seconds:
        """Rule 1."""
        times = [INF]
        for job in self.jobs:
            if job.state == FUTURE:
                times.append(job.submit)
            elif job.state in (STARTING, STOPPING):
                times.append(job.due)
            elif job.state == RUNNING:
                times.append(self.now + job.left)
            if self.rules.quantum == INF:
                times.extend((self.timer(job), self.look_at))
        if self.rules.quantum < INF and self.those(WAITING):
            times.append((self.now // self.rules.quantum + 1) * self.rules.quantum)
        return min(times)

    def timer(self, job: Job) -> Seconds:
        """When the timer of a job rings: rules 12, 13 and 15."""
        if job.state == WAITING and job.level > 0 and self.rules.promote < INF:
            return self.now + max(0, self.rules.promote * job.ran_lately - job.waited_lately)
        at = INF
        if job.state == RUNNING:
            if self.rules.bound(job) < INF:
                at = self.now + max(0, Fraction(self.rules.bound(job) - job.served, job.gpus))
            if job.in_turn:
                at = min(at, self.rules.turn_over(job))
        return at

    def go_to(self, at: Seconds) -> None:
        """Time passes: those who run make headway, those who wait wait; saving and resuming are neither."""
        step = at - self.now
        self.now = at
        for job in self.those(RUNNING):
            job.left -= step
            job.ran += step
            job.ran_lately += step
            job.served += step * job.gpus
        for job in self.those(WAITING):
            job.waited_lately += step

    def record_facts(self) -> bool:
        """Rule 2: everything due by now but Ticked, in order. Whether there was anything."""
        facts = 0
        for job in self.those(RUNNING):
            if job.left == 0:
                job.state, job.place = OVER, {}
                self.note("End", job)
                self.may_stop = True
                facts += 1
        for job in self.those(STOPPING):
            if job.due <= self.now:
                job.state, job.place, job.queued = WAITING, {}, self.now
                facts += 1
        for job in self.those(STARTING):
            facts += self.has_started(job)
        for job in self.jobs:
            while self.timer(job) <= self.now:
                self.cross(job)
                self.may_stop = True
                facts += 1
        for job in self.those(FUTURE):
            if job.submit <= self.now:
                job.state, job.queued = WAITING, self.now
                self.may_stop = True
                facts += 1
        return facts > 0

    def has_started(self, job: Job) -> bool:
        """Whether a job that is starting runs by now."""
        if job.due > self.now:
            return False
        job.state, job.began = RUNNING, self.now
        job.in_turn = self.rings(job)
        return True

    def rings(self, job: Job) -> bool:
        """Whether the end of its turn is an instant of its own (rule 12)."""
        if not self.rules.preempts or (self.rules.quantum < INF and self.rules.moving):
            return False
        return 0 < self.rules.turn(job) < INF

    def cross(self, job: Job) -> None:
        """A timer rang: the job is promoted, or its turn is over, or it falls to the next queue."""
        if job.state == WAITING:
            job.level = job.served = job.ran_lately = job.waited_lately = 0
            return
        if job.in_turn and self.rules.turn_over(job) <= self.now:
            job.in_turn = False
        if job.served >= self.rules.bound(job):
            job.level += 1

    def tick(self) -> None:
        """The end of a quantum (rule 1), and when a job has waited for long (rule 29)."""
        if self.rules.quantum < INF and self.now % self.rules.quantum == 0 and self.those(WAITING):
            self.may_stop = True
        if self.look_at <= self.now:
            self.may_stop = True

    def start(self, job: Job, place: Place) -> None:
        """Rule 14: the first start is free. One that takes no time has Started with its Start: that is no new fact."""
        assert sum(place.values()) == job.gpus
        job.state, job.place, job.promise = STARTING, dict(place), {}
        job.attempts += 1
        job.start, job.first = self.now, min(job.first, self.now)
        job.due = self.now + (job.resume if job.attempts > 1 else 0)
        self.has_started(job)
        self.note("Start", job, place)

    def stop(self, job: Job, what: str = "Stop") -> None:
        """It holds its GPUs while it saves its state (rule 14)."""
        assert job.state == RUNNING
        job.state, job.due = STOPPING, self.now + job.save
        self.moved_at = self.now if what == "Move" else self.moved_at
        self.note(what, job)

    def reserve(self, job: Job, place: Place) -> None:
        """A promise (rule 9)."""
        self.promises += 1
        job.promise, job.promised = dict(place), self.promises
        self.note("Reserve", job, place)

    def withdraw(self, job: Job) -> None:
        """A promise that could not be kept (rule 9)."""
        job.promise = {}
        self.note("Reserve", job)

    def note(self, what: str, job: Job, place: Place | None = None) -> None:
        """Write down what happened."""
        self.log.append((self.now, what, job.number, tuple(sorted((place or {}).items()))))
