"""The journal is the truth: a state rebuilt from it equals the state that wrote it, column by column, for every policy that runs live.

Time is virtual and processes are imagined; jobs arrive, fail, are lost, held, requeued and cancelled, and nodes are drained, at random.
"""

import contextlib
import heapq
import json
import math
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.quiet import Quiet
from tests.row_table import as_the_table_says

from headway.cluster.named import cluster
from headway.job_state import JobState
from headway.live import executors
from headway.live.executors import Launch, Report
from headway.live.jobfile.spec import job_spec
from headway.live.manager import lifecycle
from headway.live.manager.loop import recorder as live_recorder
from headway.live.manager.loop.inbox import ManagerRequest
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.outcome import Backoff
from headway.live.manager.steps import Note, Steps
from headway.live.rows import DRAINED, RESUMED
from headway.live.state import engine as live_engine
from headway.live.state.attempts import Attempts
from headway.live.state.cluster import ClusterState
from headway.live.state.learn import replay
from headway.live.state.records import Job, JobProgress, JournalRow
from headway.live.store.archive import archived
from headway.live.store.integrity.checksum import insertion, sealed
from headway.live.store.integrity.schema import prepare
from headway.live.store.snapshot import capture, load
from headway.placement.registry import find_placement
from headway.policies import MODULES
from headway.policies.registry import find_policy

POLICIES = (
    "fifo",
    "best-effort",
    "backfill",
    "backfill?limit=90",
    "las?quantum=20",
    "2d-las?quantum=20",
    "tiresias-l?threshold=200&promote=2",
    "tiresias-l?thresholds=100:400",
    "gittins?quantum=20",
    "tiresias-g?thresholds=100",
    "gandiva?quantum=20",
    "headway",
    "usual:Usual?trust=1",
)
sys.path.append(str(Path(__file__).parents[2] / "examples"))  # a policy that keeps numbers by group
CLUSTER, JOBS, TASKS = "3x4", 45, 6


class Memory:
    """A journal in memory; every row goes through JSON, as on disk."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.finished: dict[int, bytes] = {}
        self.accepted: dict[int, Job] = {}

    def read(self, ask: Any) -> Any:
        """The table of finished jobs, where a job is looked up that comes back."""
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            prepare(connection)
            for job, rest in self.finished.items():
                was = self.accepted[job]
                submitted = (job, was.user, was.submitted, job, was.array_id, was.array_index)
                spec = (job, was.spec.model_dump_json())
                row = (job, "me", "", "", "", 0.0, 0.0, 0.0, "[]", 1, 0.0, 0.0, 0, 0, rest)
                for table, values in (("jobs", submitted), ("specs", spec), ("finished", row)):
                    connection.execute(insertion(table), sealed(table, values))
            return ask(connection)

    def append(self, rows: list[JournalRow], finished: Any = (), made: Any = None) -> int:
        self.finished |= {row.job_id: rest for row, rest in finished}
        for row in rows:
            data = json.loads(json.dumps(row.data))
            self.rows.append(JournalRow(row.time, row.kind, row.job, row.attempt, data, len(self.rows) + 1))
        return len(self.rows)


class Imagined(Quiet):
    """Processes that take a while to start and to stop, and sometimes fail, vanish or cannot be started."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 0.0
        self.coming: list[tuple[float, int, Report]] = []
        self.alive: set[tuple[int, int]] = set()
        self.count = 0

    def _expect(self, after_s: float, report: Report) -> None:
        self.count += 1
        heapq.heappush(self.coming, (self.now + after_s, self.count, report))

    def start(self, launch: Launch) -> None:
        key = (launch.job, launch.attempt)
        if self.chance.random() < 0.05:
            self._expect(0.5, Report(executors.ENDED, *key, lost=True, never_ran=True, refused=True))
            return
        self.alive.add(key)
        begins_s, lasts_s = self.chance.choice([0.0, 1.0, 3.0]), self.chance.choice([2.0, 20.0, 60.0, 200.0])
        self._expect(begins_s, Report(executors.STARTED, *key))
        if launch.job % 3:  # these use the runtime: they say so, then report their steps
            self._expect(begins_s, Report(executors.PROGRESSED, *key, progress=JobProgress()))
            ready_s = begins_s + self.chance.choice([0.0, 4.0, 30.0])
            for i in range(1, 6):
                step = JobProgress((launch.attempt - 1) * self.chance.choice([0, 3]) + i, 40, 1 / i, None)
                self._expect(ready_s + 2.5 * i, Report(executors.PROGRESSED, *key, progress=step))
        lost, code = self.chance.random() < 0.05, self.chance.choice([0, 0, 0, 1])
        self._expect(begins_s + lasts_s, Report(executors.ENDED, *key, exit_code=None if lost else code, lost=lost))

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        if (job, attempt) in self.alive:
            delay_s = self.chance.choice([0.0, 1.0, 5.0])
            self._expect(delay_s, Report(executors.ENDED, job, attempt, exit_code=0, signalled=True))

    def reports(self) -> list[Report]:
        found = []
        while self.coming and self.coming[0][0] <= self.now:
            report = heapq.heappop(self.coming)[2]
            key = (report.job, report.attempt)
            if key not in self.alive and not report.refused:
                continue
            if report.what == executors.ENDED:
                self.alive.discard(key)
            found.append(report)
        return found


class Virtual(LiveWorld):
    """The live world, but for sleeping: it jumps to the next moment, where people do things at random."""

    def __init__(self, policy: str, chance: random.Random) -> None:
        self.policy, self.chance, self.time, self.acts_left = policy, chance, 0.0, 4 * JOBS
        self.memory, self.imagined, self.next_act = Memory(), Imagined(chance), 0.0
        self.attempts: dict[int, Attempts] = {}  # of all jobs, retired or not
        super().__init__(
            fresh(policy), self.memory, self.imagined, lambda: self.time, Backoff(2.0, 10.0), lambda j, a: {}
        )  # type: ignore[arg-type]

    def _sleep(self, until: float, always: bool = False) -> None:
        if self.chance.random() < 0.01:
            self.check()
        self.attempts |= {job.id: job.attempts for job in self.state.jobs.values()}
        coming = self.imagined.coming[0][0] if self.imagined.coming else math.inf
        acts = self.next_act if self.acts_left else math.inf
        self.time = self.imagined.now = max(self.time, min(until, coming, acts))
        if acts <= self.time:
            self.acts_left -= 1
            self.next_act = self.time + self.chance.choice([0.0, 1.0, 7.5, 30.0])
            self._someone_acts()
        self.inbox.closing = math.isinf(self.time) or self.time > 1e6 or not (self.acts_left or self.state.active)

    def check(self) -> None:
        """Rebuild the state from the journal, and compare."""
        loaded = fresh(self.policy)
        load(loaded, capture(self.state)())
        for again in (rebuilt(self.memory, self.policy), loaded):
            self._compare(again)

    def _compare(self, again: ClusterState) -> None:
        assert differences(self.state, again) == [], f"{self.policy}, at {self.time} s"
        assert (again.drained, again.active) == (self.state.drained, self.state.active)
        assert known(again) == known(self.state)
        assert list(again.finished) == list(self.state.finished)
        assert waiting(again) == waiting(self.state)
        for job in self.state.jobs.values():
            assert again.shown_state(again.jobs[job.id]) == self.state.shown_state(job)
            assert again.jobs[job.id].attempts == job.attempts

    def _someone_acts(self) -> None:
        jobs, states = self.state.jobs, self.state
        if len(self.memory.accepted) < JOBS and self.chance.random() < 0.6:
            self._submit()
            return
        active = [jobs[i] for i in sorted(states.active) if states.job_state(jobs[i]) != JobState.FUTURE]
        ended = sorted(set(self.memory.accepted) - states.active)
        what = self.chance.choice(["hold", "release", "requeue", "cancel", "again", "drain", "resume"])
        if what in ("drain", "resume"):  # one node stays open, so that all jobs but the largest go on
            kind, node = DRAINED if what == "drain" else RESUMED, self.chance.choice(states.cluster.nodes[1:])
            self.inbox.requests.append(ManagerRequest(lambda now: iter([Note(kind, data={"node": node})])))
        elif what == "again" and ended and self.chance.random() < 0.3:
            again = self.chance.choice(ended)
            self.inbox.requests.append(ManagerRequest(lambda now: self.run_again(again)))
        elif what == "requeue" and active:
            job = self.chance.choice(active)
            self.inbox.requests.append(ManagerRequest(lambda now: self.run_again(job.id)))
        elif active and (what in ("hold", "release") or (what == "cancel" and self.chance.random() < 0.3)):
            job = self.chance.choice([job for job in active if what != "release" or job.blocked_by == "held"] or active)
            self.inbox.requests.append(
                ManagerRequest(lambda now: iter(()) if job.final else getattr(lifecycle, what)(self.state, job))
            )

    def run_again(self, job_id: int) -> Steps:
        if job_id not in self.state.jobs:
            kept = self.memory.read(lambda connection: archived(connection, job_id))
            yield from lifecycle.recall(self.state, job_id, kept)
        if self.state.jobs[job_id].final:
            self.state.count_again(self.state.jobs[job_id])
        yield from lifecycle.requeue(self.state, self.state.jobs[job_id])

    def _submit(self) -> None:
        first, chance = len(self.memory.accepted) + 1, self.chance
        array = chance.random() < 0.1
        spec = job_spec(
            {
                "run": "true",
                "name": f"kind {first % 3}",
                "resources": {"accelerators": chance.choice([1, 1, 2, 4, 8])},
                "preemptible": chance.random() < 0.8,
                "preemption": {"min_runtime": chance.choice(["auto", "auto", None, 0, 15])},
                "retry": {"on": ["failure", "node_failure"], "max": 2},
                "after": [chance.randrange(1, first)] if first > 1 and chance.random() < 0.1 else [],
                "array": f"0-{TASKS - 1}%2" if array else None,
                "time_limit": chance.choice([None, 80]),
            }
        )
        for index in range(TASKS if array else 1):
            job = Job(first + index, "me", spec, self.time, first if array else None, index if array else None)
            self.memory.accepted[job.id] = submitted(job)
            self.state.add(job)
            self.inbox.arrivals.append(job.id)


def fresh(policy: str) -> ClusterState:
    return ClusterState(cluster(CLUSTER), find_policy(policy), find_placement("consolidated"))


def known(state: ClusterState) -> Any:
    """Records, arrays and retired jobs, but for what the journal need not know: reports between its rows, and where a search begins."""
    jobs = {number: replace(job, progress=job.noted) for number, job in state.jobs.items()}
    return jobs, {first: replace(array, next=0) for first, array in state.arrays.items()}, state.past


def waiting(state: ClusterState) -> dict[int, set[int]]:
    """Who waits for whom."""
    found = {job: {other for other in others if other in state.active} for job, others in state.dependants.items()}
    return {job: others for job, others in found.items() if others and job in state.active}


def submitted(job: Job) -> Job:
    """The job as it was when it was accepted."""
    return Job(job.id, job.user, job.spec, job.submitted, job.array_id, job.array_index)


def rebuilt(memory: Memory, policy: str) -> ClusterState:
    """What a manager would know that has only the submissions and the journal."""
    again, waiting = fresh(policy), [submitted(memory.accepted[number]) for number in sorted(memory.accepted)]

    def accept(up_to: float) -> None:
        while waiting and waiting[0].id <= up_to:
            again.add(waiting.pop(0))

    replay(again, as_the_table_says(again, memory.rows), accept)
    return again


def columns(name: str, table: Any) -> Iterator[tuple[str, str, np.ndarray[Any, Any]]]:
    """The columns of a table, of a named tuple of tables, or of a plain array: (table, column, values)."""
    if isinstance(table, tuple) and hasattr(table, "_fields"):
        for part in table._fields:
            yield from columns(f"{name}.{part}" if name else part, getattr(table, part))
    elif isinstance(table, np.ndarray) and table.dtype.names:
        yield from ((name, column, table[column]) for column in table.dtype.names)
    else:
        yield name, "", np.asarray(table)


def differences(one: ClusterState, other: ClusterState) -> list[str]:
    """The columns in which two states differ, but for how much room is left in their tables."""
    mine = [*columns("", one.tables), *columns("history", one.engine.options.history)]
    its = [*columns("", other.tables), *columns("history", other.engine.options.history)]
    found = []
    for (table, column, a), (_, _, b) in zip(mine, its, strict=True):
        if table == "receipts":
            a, b = a.T, b.T
        n = min(len(a), len(b)) if a.ndim and table in ("jobs", "receipts", "timers") else None
        if table == "timers":
            n = int(one.tables.counts["timers"][0])
        if not np.array_equal(a[:n] if a.ndim else a, b[:n] if b.ndim else b, equal_nan=a.dtype.kind == "f"):
            found.append(f"{table} {column}".strip())
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_rebuilt_from_the_journal_is_the_state_that_wrote_it(
    policy: str, rounds: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_engine, "FIRST_ROOM", 16)  # so that the tables grow
    monkeypatch.setattr(live_recorder, "KEPT_FINISHED", 3)  # so that jobs are retired
    for seed in range(rounds(1, 40)):
        world = Virtual(policy, random.Random(f"{policy} {seed}"))
        world.run()
        assert not world.trouble, world.trouble
        world.check()
        kinds = {row.kind for row in world.memory.rows}
        assert {"Submitted", "Start", "Started", "Ended", "Stopped", "Held", "Released", "Drained", "Retired"} <= kinds
        assert len(world.memory.accepted) >= JOBS
        assert len(world.state.jobs) < JOBS / 2
        if world.state.engine.options.preempts:
            attempts = world.attempts.values()
            assert any(each.save.count for each in attempts)
            assert any(each.resume.value > 3.0 for each in attempts)  # until a first step


def test_the_list_of_policies_is_complete() -> None:
    live = {name for name in MODULES if not (find_policy(name).oracle or find_policy(name).allot)}
    assert {policy.partition("?")[0] for policy in POLICIES} == live | {"usual:Usual"}
