"""Check the journal of any run against docs/semantics.md: what is held, who is in which state, when jobs are stopped, and whom that spares.

    tests.journal_victims.check_journal(simulate(..., keep_journal=True).run)

It walks the journal entry by entry and keeps its own account of GPUs, states and promises; nothing is taken from the engine but the journal
and what each job costs. Entries of one decision are looked at together: who was stopped for whom is worked out again where the keys of the
policy can be had from the journal (tests/journal_victims.py).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.core.events import (
    CROSSED,
    DEFERRED,
    ENDED,
    EXPLAINED,
    MIGRATE,
    NAMES,
    PACK,
    PROMISE,
    RATED,
    REFITTED,
    RESIZE,
    START,
    STARTED,
    STOP,
    STOPPED,
    SUBMITTED,
    TICKED,
)
from headway.core.keys import INSTANT_S
from headway.job_state import JobState

FUTURE, PENDING, STARTING = JobState.FUTURE, JobState.PENDING, JobState.STARTING
RUNNING, STOPPING, COMPLETED = JobState.RUNNING, JobState.STOPPING, JobState.COMPLETED
# The states in which something may happen to a job, and the state after it (None: the same).
LEGAL: dict[int, tuple[tuple[JobState, ...], JobState | None]] = {
    SUBMITTED: ((FUTURE,), PENDING),
    START: ((PENDING,), STARTING),
    PACK: ((PENDING,), STARTING),
    STARTED: ((STARTING,), RUNNING),
    STOP: ((RUNNING,), STOPPING),
    STOPPED: ((STOPPING,), PENDING),
    ENDED: ((RUNNING,), COMPLETED),
    CROSSED: ((PENDING, RUNNING), None),
    RATED: ((RUNNING,), None),
    PROMISE: ((PENDING,), None),
    MIGRATE: ((RUNNING,), STOPPING),
}
ACTIONS = (STOP, RESIZE, PROMISE, START, PACK, MIGRATE)
FINDINGS = (EXPLAINED, DEFERRED)  # of a decision, about no job
NO_MOMENT = (STOPPED, STARTED, RATED, REFITTED, *FINDINGS)  # facts that are no preemption points
Place = dict[int, int]


@dataclass
class Account:
    """What the journal has said about a job so far. The sums are made as the engine makes them, so that floats agree."""

    gpus: int
    left: float
    turn: float
    state: JobState = JobState.FUTURE
    service: float = 0.0
    ran: float = 0.0
    rate: float = 1.0
    since: float = 0.0
    level: int = 0
    first: float = np.inf
    started: float = -np.inf
    migrating: bool = False  # from Migrate to the next Start or Promise
    seats: list[int] = field(default_factory=list)
    promise: Place = field(default_factory=dict)

    def settle(self, now: float) -> None:
        """Up to now."""
        if self.state == RUNNING:
            elapsed = now - self.since
            self.service += elapsed * self.gpus
            self.ran += elapsed
            self.left -= elapsed * self.rate
        self.since = now


@dataclass(frozen=True)
class Entry:
    """One entry of the journal."""

    time: float
    kind: int
    job: int
    gpus: int
    level: int
    rate: float
    seats: list[int]
    places: list[tuple[int, int]]

    def __str__(self) -> str:
        return f"{self.time:g} {NAMES[self.kind]} {self.job} {self.places or ''}"


class Walk:
    """Goes through a journal. `tally` counts what was checked."""

    def __init__(self, run: Any) -> None:
        self.run, self.policy = run, run.policy
        self.total, self.slots = run.cluster.total, 2 if run.policy.packs else 1
        self.node = np.repeat(np.arange(len(run.cluster.gpus)), run.cluster.gpus).tolist()
        self.holders: list[set[int]] = [set() for _ in range(self.total)]  # by GPU
        self.moment = -np.inf  # the last instant at which jobs may be stopped
        self.tally: Counter[str] = Counter()
        jobs, turn = run.jobs, run.policy.min_runtime
        self.jobs = [
            Account(int(asked), float(length), max(turn, float(row["min_runtime"]), _by_cost(row)))
            for asked, length, row in zip(run.workload.gpus, run.workload.duration_s, jobs, strict=True)
        ]

    def entries(self) -> list[Entry]:
        """The journal."""
        rows, journal = self.run.entries, self.run.journal
        ends = np.append(rows["place_at"][1:], len(journal.places))
        found = []
        for row, end in zip(rows, ends, strict=True):
            kind, gpus, at = int(row["kind"]), int(row["gpus"]), int(row["seat_at"])
            seats = journal.seats[at : at + gpus].tolist() if kind in (START, PACK) else []
            places = [(int(place["node"]), int(place["gpus"])) for place in journal.places[row["place_at"] : end]]
            found.append(
                Entry(
                    float(row["time"]),
                    kind,
                    int(row["job"]),
                    gpus,
                    int(row["level"]),
                    float(row["rate"]),
                    seats,
                    places,
                )
            )
        return found

    def check(self) -> Counter[str]:
        """The whole journal; raises AssertionError with the entry that is wrong."""
        decision: list[Entry] = []
        last = -np.inf
        for entry in self.entries():
            assert entry.time >= last, f"{entry}: the journal goes back in time"
            follows = entry.kind in (*ACTIONS, *FINDINGS, STARTED, RATED)
            if decision and (entry.time > last or not follows):
                self.decided(decision)
                decision = []
            last = entry.time
            if decision or entry.kind in ACTIONS:
                decision.append(entry)
            else:
                self.apply(entry)
        self.decided(decision)
        for j, job in enumerate(self.jobs):
            assert job.state == COMPLETED, f"job {j} never ended"
        assert not any(self.holders), "GPUs are held after the last job ended"
        return self.tally

    def decided(self, decision: list[Entry]) -> None:
        """All entries of one decision, with the facts that followed at once."""
        if not decision:
            return
        self.look_at(decision)
        for entry in decision:
            self.apply(entry)
        self.check_promises(decision[0])
        self.tally["decisions"] += 1

    def look_at(self, decision: list[Entry]) -> None:
        """For those who know the policy's keys: before the actions take effect."""

    def apply(self, entry: Entry) -> None:
        """One entry: is it legal, and what follows from it."""
        if entry.kind not in NO_MOMENT and entry.kind not in ACTIONS:
            self.moment = entry.time
        if entry.kind in (TICKED, REFITTED, *FINDINGS):
            return
        job = self.jobs[entry.job]
        if entry.kind == RESIZE:
            self.resize(job, entry)
            return
        states, after = LEGAL[entry.kind]
        assert job.state in states, f"{entry}: it is {job.state.name}"
        job.settle(entry.time)
        if entry.kind in (START, PACK):
            self.start(job, entry)
        elif entry.kind == STOP:
            self.stop(job, entry)
        elif entry.kind == MIGRATE:
            self.migrate(job, entry)
        elif entry.kind in (STOPPED, ENDED):
            self.give_back(job, entry)
        elif entry.kind == STARTED:
            job.started = entry.time
        elif entry.kind == CROSSED:
            self.cross(job, entry)
        elif entry.kind == PROMISE:
            self.promise(job, entry)
        job.rate, job.level = entry.rate, entry.level
        job.state = after if after is not None else job.state
        self.tally[NAMES[entry.kind]] += 1

    def resize(self, job: Account, entry: Entry) -> None:
        """Check another size (elastic policies): a waiting job just changes, a running one stops."""
        assert self.policy.allot, f"{entry}: the policy does not resize jobs"
        assert job.state in (PENDING, RUNNING), f"{entry}: it is {job.state.name}"
        ((_, size),) = entry.places
        job.settle(entry.time)
        if job.state == RUNNING:
            self.stop(job, entry)
            job.state = STOPPING
            self.tally["Resized"] += 1
        if size != job.gpus:
            job.gpus, job.promise = size, {}

    def migrate(self, job: Account, entry: Entry) -> None:
        """Check a migration: the job stops, and is promised another place. Only jobs that part (gandiva) may have no place yet."""
        may_migrate = self.policy.migrates or self.policy.defragment_after < np.inf
        assert may_migrate, f"{entry}: the policy does not migrate jobs"
        self.stop(job, entry)
        self.promise(job, entry)
        job.migrating = bool(job.promise)
        assert job.promise or self.policy.migrates, f"{entry}: it is migrated, and has no other place"

    def start(self, job: Account, entry: Entry) -> None:
        """The GPUs asked for, each once, all of them nobody's; or all those of a partner of the same size."""
        gpus = [seat % self.total for seat in entry.seats]
        assert len(set(gpus)) == len(gpus) == job.gpus, f"{entry}: {len(set(gpus))} GPUs for {job.gpus}"
        if entry.kind == START:
            by_node = Counter(self.node[gpu] for gpu in gpus)
            assert by_node == dict(entry.places), f"{entry}: its GPUs lie elsewhere"
            assert not any(self.holders[gpu] for gpu in gpus), f"{entry}: some of its GPUs are held"
        else:
            partner = entry.places[0][0]
            assert self.slots == 2, f"{entry}: the policy does not pack"
            assert self.jobs[partner].gpus == job.gpus, f"{entry}: the partner has another size"
            assert all(self.holders[gpu] == {partner} for gpu in gpus), f"{entry}: not the GPUs of one partner alone"
        for gpu in gpus:
            self.holders[gpu].add(entry.job)
        job.seats, job.promise, job.first = gpus, {}, min(job.first, entry.time)
        job.migrating = False

    def stop(self, job: Account, entry: Entry) -> None:
        """At an allowed moment, after its turn, and never in the instant in which it began."""
        assert self.policy.preempts, f"{entry}: the policy never stops a job"
        assert self.moment == entry.time, f"{entry}: nothing happened for which a job may be stopped"
        assert job.started < entry.time, f"{entry}: it began to run at this instant"
        # The end is a sum of floats: times within a nanosecond are one instant.
        assert entry.time + INSTANT_S >= job.started + job.turn, (
            f"{entry}: its minimum run time lasts until {job.started + job.turn:g}"
        )

    def give_back(self, job: Account, entry: Entry) -> None:
        """Its GPUs are free again."""
        assert entry.kind == STOPPED or entry.time > job.started, f"{entry}: an attempt of no length"
        for gpu in job.seats:
            self.holders[gpu].remove(entry.job)
        job.seats = []

    def cross(self, job: Account, entry: Entry) -> None:
        """A job falls to the next queue, is promoted, or its turn is over."""
        if job.state == PENDING:
            assert job.level > entry.level == 0, f"{entry}: a waiting job is promoted to the first queue"
            job.service = job.ran = 0.0
        else:
            assert job.level <= entry.level <= job.level + 1, f"{entry}: from queue {job.level} to {entry.level}"

    def promise(self, job: Account, entry: Entry) -> None:
        """Check that a promise names all GPUs of the job; or none, and is withdrawn."""
        job.promise, job.migrating = dict(entry.places), False
        given = sum(job.promise.values())
        assert given in (0, job.gpus), f"{entry}: {given} GPUs promised to a job of {job.gpus}"
        assert len(job.promise) == len(entry.places), f"{entry}: a node is named twice"

    def soon(self) -> Counter[int]:
        """By node: GPUs that are free or whose holders all stop."""
        stopping = (all(self.jobs[j].state == STOPPING for j in holders) for holders in self.holders)
        return Counter(self.node[gpu] for gpu, free in enumerate(stopping) if free)

    def check_promises(self, entry: Entry) -> None:
        """Check that promised GPUs are free or being freed, and that no two promises are for the same GPUs.

        Under policies that gather jobs (gandiva), others may take what a migrating job was promised while it saves.
        """
        promised: Counter[int] = Counter()
        for job in self.jobs:
            if job.state != STOPPING or not self.policy.migrates:
                promised.update(job.promise)
        missing = promised - self.soon()
        assert not missing, (
            f"after the decision at {entry.time:g}: promised beyond what is being freed: {dict(missing)}"
        )


def _by_cost(row: Any) -> float:
    """The turn of a job as a multiple of what stopping it costs."""
    return float(row["turns"] * (row["save"] + row["resume"]))
