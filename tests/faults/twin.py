"""The deterministic twin: a whole manager (journal, world, recovery, clock) in one thread, on a machine that exists in virtual time.

A seed decides what people ask for and what goes wrong: the manager dies between any two writes of the journal or before and after any call
of the executor, the disk is slow or full, calls of shims are lost or come twice, processes vanish, the machine reboots, the wall clock
jumps. What is acknowledged must hold, nothing may run twice, and jobs are charged for what they ran. A failing seed prints its story.
"""

import contextlib
import heapq
import math
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headway.cluster.named import cluster
from headway.core.engine import Event
from headway.job_state import JobState
from headway.live import clock, executors, manager, world
from headway.live import engine as live_engine
from headway.live.executors import Launch, Report, Stamp
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.live.outcome import Backoff
from headway.live.records import Progress
from headway.live.store import journal as journals
from headway.live.store import recovery
from headway.live.world import LiveWorld, Request

POLICIES = ("fifo", "backfill", "tiresias-l?threshold=20", "las?quantum=10", "gittins?quantum=10")
CLUSTER, GPUS = "2x2", 4
POLL_S = 0.5
ACTS, MOST_CRASHES = 20, 5


class Crash(BaseException):
    """The manager is gone, at this very point."""


@dataclass(slots=True)
class Process:
    """An attempt on the machine."""

    gpus: tuple[int, ...]
    began: float
    ends: float
    code: int
    boot: str
    over: float | None = None
    lost: bool = False
    signalled: bool = False


class Machine:
    """Where processes run and time passes; it outlives managers."""

    def __init__(self, seed: int) -> None:
        self.chance, self.time, self.booted, self.boot, self.wall_jump = random.Random(seed), 1000.0, 0.0, "boot-0", 1e9
        self.processes: dict[tuple[int, int], Process] = {}
        self.story: list[str] = []
        self.disk_full_until = -1.0
        self.crashes = 0
        self.odds = self.chance.choice([0.0, 0.002, 0.01])  # of a crash at a point where one may be
        self.calm = False  # at the end nothing goes wrong any more

    def tell(self, what: str) -> None:
        """One more line of the story."""
        self.story.append(f"{self.time:10.3f}  {what}")

    def monotonic(self) -> float:
        return self.time - self.booted

    def stamp(self, at: float, boot: str) -> Stamp:
        booted = self.booted if boot == self.boot else self.booted_before[boot]
        return Stamp(boot, at - booted, at + self.wall_jump)

    booted_before: dict[str, float] = {}  # noqa: RUF012

    def perhaps_crash(self, where: str) -> None:
        """A point at which a manager may die."""
        if not self.calm and self.crashes < MOST_CRASHES and self.chance.random() < self.odds:
            self.crash(where)

    def crash(self, where: str) -> None:
        self.crashes += 1
        self.tell(f"CRASH {where}")
        raise Crash(where)

    def alive(self) -> dict[tuple[int, int], Process]:
        return {key: process for key, process in self.processes.items() if process.over is None}

    def pass_time(self, until: float) -> None:
        """Let time pass; processes end on the way."""
        self.time = max(self.time, until)
        for key, process in self.alive().items():
            if process.ends <= self.time:
                process.over = process.ends
                self.tell(f"{key} ended: {'lost' if process.lost else process.code}")

    def reboot(self) -> None:
        """Everything dies; the monotonic clock begins anew."""
        for process in self.alive().values():
            process.over, process.lost = self.time, True
        self.booted_before = {**self.booted_before, self.boot: self.booted}
        self.booted, self.boot = self.time - 1.0, f"boot-{len(self.booted_before)}"
        self.tell("REBOOT")


class SimulatedExecutor:
    """Fills the Executor protocol on the machine; a new one for every manager."""

    def __init__(self, machine: Machine, on_disk: Callable[[int, int], bool]) -> None:
        self.machine, self.on_disk, self.count = machine, on_disk, 0
        self.watched: dict[tuple[int, int], bool] = {}  # whether Started was told
        self.calls: list[tuple[float, int, tuple[int, int]]] = []  # when an attempt is looked at
        self.ready: list[Report] = []

    def open(self, wake: Callable[[], None]) -> None: ...

    def check_user(self, user: str) -> None: ...

    def close(self) -> None: ...

    def logs(self, job: int, attempt: int) -> list[Path]:
        return []

    def _call(self, key: tuple[int, int], at: float) -> None:
        """Its shim calls at a moment; a lost call is made good by the next look at all."""
        chance = self.machine.chance
        if chance.random() < 0.2 and not self.machine.calm:
            at += POLL_S * chance.random()
        self.count += 1
        heapq.heappush(self.calls, (at, self.count, key))

    def start(self, launch: Launch) -> None:
        machine, key = self.machine, (launch.job, launch.attempt)
        machine.perhaps_crash(f"before start {key}")
        assert self.on_disk(*key), f"{key} is started before the journal has it"
        if key not in machine.processes:
            for other, process in machine.alive().items():
                assert other[0] != launch.job, f"{key} is started while {other} runs"
                assert not set(process.gpus) & set(launch.gpus), f"{key} and {other} on one GPU"
            if machine.chance.random() < 0.03 and not machine.calm:
                machine.tell(f"start {key} refused")
                self.ready.append(Report(executors.ENDED, *key, lost=True, never_ran=True, refused=True))
                return
            lasts, code = machine.chance.choice([0.0, 0.05, 3.0, 10.0, 40.0]), machine.chance.choice([0, 0, 0, 0, 1])
            process = Process(launch.gpus, machine.time, machine.time + lasts, code, machine.boot)
            process.lost = machine.chance.random() < 0.03 and not machine.calm
            machine.processes[key] = process
            machine.tell(f"start {key} on {launch.gpus}, for {lasts} s")
        self.adopt(*key)
        machine.perhaps_crash(f"after start {key}")

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        self.machine.perhaps_crash(f"before stop {(job, attempt)}")
        process = self.machine.processes.get((job, attempt))
        if process and process.over is None and not process.signalled:
            process.signalled, process.lost = True, False
            process.ends = min(
                process.ends, self.machine.time + min(grace_s, self.machine.chance.choice([0.0, 0.5, 3.0]))
            )
            self.machine.tell(f"stop {(job, attempt)}, which ends at {process.ends:.3f}")
            self._call((job, attempt), process.ends)

    def adopt(self, job: int, attempt: int) -> None:
        key = (job, attempt)
        process = self.machine.processes.get(key)
        self.watched.setdefault(key, False)
        self._call(key, self.machine.time)
        if process:
            self._call(key, process.ends)

    def reports(self) -> list[Report]:
        while self.calls and self.calls[0][0] <= self.machine.time:
            self._look(heapq.heappop(self.calls)[2])
        found, self.ready = self.ready, []
        if found and not self.machine.calm and self.machine.chance.random() < 0.1:
            found.append(self.machine.chance.choice(found))  # told twice
        return found

    def _look(self, key: tuple[int, int]) -> None:
        if key not in self.watched:
            return
        machine, process = self.machine, self.machine.processes.get(key)
        if process is None:
            del self.watched[key]
            self.ready.append(Report(executors.ENDED, *key, lost=True, never_ran=True))
            return
        if not self.watched[key]:
            self.watched[key] = True
            self.ready.append(Report(executors.STARTED, *key, at=machine.stamp(process.began, process.boot)))
        if process.over is None:
            if process.ends <= machine.time:
                machine.pass_time(machine.time)
            else:
                if machine.chance.random() < 0.3:
                    self.ready.append(Report(executors.PROGRESSED, *key, progress=Progress(int(machine.time), 10**6)))
                return
        del self.watched[key]
        how: dict[str, Any] = (
            {"lost": True} if process.lost else {"exit_code": 0 if process.signalled else process.code}
        )
        at = machine.stamp(process.over or process.ends, process.boot)
        self.ready.append(Report(executors.ENDED, *key, signalled=process.signalled, at=at, **how))

    def next_call(self) -> float:
        return self.machine.time if self.ready else self.calls[0][0] if self.calls else math.inf


class OneThread(journals.Journal):
    """The journal without a thread of its own, on a disk that may be slow or full, of a manager that may die before and after a write."""

    machine: Machine

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.execute("PRAGMA synchronous=OFF")  # the machine does not lose power, only the manager dies
        return connection

    def _begin(self) -> None: ...

    def _end(self) -> None: ...

    def commit_later(
        self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None
    ) -> Future[Any]:
        machine, done = self.machine, Future[Any]()
        machine.perhaps_crash("before a write")
        if not machine.calm and machine.chance.random() < 0.02:
            machine.pass_time(machine.time + machine.chance.choice([0.01, 0.2, 2.0]))  # a slow disk
        if machine.time < machine.disk_full_until and not machine.calm:
            done.set_exception(journals.failed(sqlite3.OperationalError("database or disk is full")))
            return done
        if not machine.calm and machine.crashes < MOST_CRASHES and machine.chance.random() < machine.odds:
            self._commit([journals._Work(write, None, done)])
            machine.crash("after a write, before anybody was told")
        self._commit([journals._Work(write, after, done)])
        return done

    def abandon(self) -> None:
        """What remains of a manager that died: nothing."""
        for connection in (self._connection, self._reader):
            connection.close()
        self._room.close()
        os.close(self._lock_file)


class TwinWorld(LiveWorld):
    """The live world, but for sleeping: it jumps to the next moment, and lets people act then."""

    twin: "Twin"

    def ask(self, act: Callable[[float], Iterator[Event]]) -> None:
        """People do not wait for an answer: they look for it later."""
        request = Request(act)
        self.requests.append(request)
        self.twin.asked.append((self.twin.asking, request.done))

    def _sleep(self, until: float, always: bool = False) -> None:
        machine, twin = self.twin.machine, self.twin
        executor: Any = self.executor
        wait_s = max(0.0, until - self.clock()) if until < math.inf else math.inf
        acts = twin.next_act if twin.acts_left else math.inf
        if always:  # the journal is to be tried again
            machine.pass_time(machine.time + wait_s)
            return
        moment = min(machine.time + wait_s, executor.next_call(), acts)
        if math.isinf(moment):
            self._closing = True
            return
        machine.pass_time(moment)
        if twin.acts_left and twin.next_act <= machine.time:
            twin.act(self)
        self._closing = self._closing or (not twin.acts_left and not self.state.active and not self.requests)


class Twin:
    """One seeded round."""

    def __init__(self, seed: int, data: Path) -> None:
        self.seed, self.data, self.machine = seed, data, Machine(seed)
        self.policy = self.machine.chance.choice(POLICIES)
        self.acts_left, self.next_act = ACTS, self.machine.time
        self.asked: list[tuple[tuple[str, int], Future[None]]] = []
        self.asking = ("", 0)
        self.acknowledged: dict[int, str] = {}  # jobs by the name of what was submitted
        self.unanswered: list[tuple[str, dict[str, Any]]] = []
        self.must: dict[int, str] = {}  # what an acknowledged verb promises
        self.number = 0
        self.manager: Manager | None = None

    # ---- lives of managers

    def run(self) -> None:
        """Live and die until everything has ended; then look at what is left."""
        with self._patched():
            while not self._live():
                if self.machine.chance.random() < 0.2:
                    self.machine.reboot()
                elif self.machine.chance.random() < 0.5:
                    self.machine.pass_time(self.machine.time + self.machine.chance.choice([0.0, 5.0, 50.0]))
            self._check()

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """Put the clock, the journal and the world of the twin in the place of the real ones."""
        machine = self.machine
        OneThread.machine, TwinWorld.twin = machine, self
        fake_time = SimpleNamespace(monotonic=machine.monotonic, time=lambda: machine.time + machine.wall_jump)
        no_thread = SimpleNamespace(
            Lock=threading.Lock,
            Thread=lambda **given: SimpleNamespace(start=lambda: None, join=lambda: None, is_alive=lambda: True),
        )
        changes: list[tuple[Any, str, Any]] = [
            (clock, "time", fake_time),
            (clock, "boot_id", lambda: machine.boot),
            (manager, "LiveWorld", TwinWorld),
            (manager, "threading", no_thread),
            (recovery, "Journal", OneThread),
            (world, "KEPT_FINISHED", 3),
            (world, "ROWS_PER_SNAPSHOT", 40),
            (live_engine, "FIRST_ROOM", 16),
        ]
        before = [(where, name, getattr(where, name)) for where, name, _ in changes]
        try:
            for where, name, value in changes:
                setattr(where, name, value)
            yield
        finally:
            for where, name, value in before:
                setattr(where, name, value)

    def _live(self) -> bool:
        """One life of a manager; whether it ended by itself."""
        self.machine.tell("a manager starts")
        self.asked, opened = [], list[OneThread]()
        first = OneThread.__init__

        def remember(journal: OneThread, data: Path) -> None:
            opened.append(journal)
            first(journal, data)

        OneThread.__init__ = remember  # type: ignore[method-assign]
        try:
            executor: Any = SimulatedExecutor(self.machine, self._started_on_disk)
            self.manager = Manager(
                self.data, cluster(CLUSTER), self.policy, executor=executor, backoff=Backoff(1.0, 4.0)
            )
            assert not [line for line in self.manager.warnings if "damaged" not in line], self.manager.warnings
            self.manager.start()
            self._try_again()
            self.manager._world.run()
            self._hear()
            assert not self.manager._world.failure, self.manager._world.failure
            self.manager.stop()
            return True
        except (Crash, journals.JournalFailed) as error:
            if not isinstance(error, Crash):
                self.machine.tell(f"it cannot start: {error}")
                self.machine.pass_time(self.machine.time + 1.0)
            self._hear()
            for journal in opened:
                with contextlib.suppress(sqlite3.ProgrammingError, OSError, AttributeError):
                    journal.abandon()
            return False
        finally:
            OneThread.__init__ = first  # type: ignore[method-assign]

    def _started_on_disk(self, job: int, attempt: int) -> bool:
        assert self.manager is not None
        sql = "SELECT 1 FROM events WHERE kind IN ('Start', 'Pack') AND job = ? AND attempt = ?"
        return bool(self.manager._journal.query(sql, job, attempt))

    # ---- what people do

    def act(self, at: "TwinWorld") -> None:
        """Something happens: people, or the world around the machine."""
        chance, machine = self.machine.chance, self.machine
        self.acts_left -= 1
        self.next_act = machine.time + chance.choice([0.0, 0.3, 2.0, 15.0])
        machine.calm = not self.acts_left
        what = chance.choices(
            ["submit", "cancel", "hold", "release", "requeue", "drain", "resume", "full", "jump", "crash"],
            [10, 2, 2, 3, 2, 1, 2, 1, 1, 1],
        )[0]
        self._hear()
        if machine.calm:
            for node in at.state.cluster.nodes:
                self._verb(("resume", 0), lambda node=node: self._manager.resume(node))
            for job in at.state.active_jobs():
                if job.spec.gpus <= GPUS:
                    self._verb(("release", job.id), lambda job=job: self._manager.release(job.id))
        elif what == "submit":
            self._submit()
        elif what == "full":
            machine.disk_full_until = machine.time + chance.choice([0.2, 3.0])
            machine.tell(f"the disk is full until {machine.disk_full_until:.3f}")
        elif what == "jump":
            machine.wall_jump += chance.choice([-86_400.0, 3600.0])
            machine.tell("the wall clock jumps")
        elif what == "crash":
            if machine.odds:
                machine.crash("while it waits")
        elif what in ("drain", "resume"):
            node = chance.choice(at.state.cluster.nodes[1:])
            self._verb((what, 0), lambda: getattr(self._manager, what)(node))
        elif self.acknowledged:
            job_id = chance.choice(sorted(self.acknowledged))
            self._verb((what, job_id), lambda: getattr(self._manager, what)(job_id))

    @property
    def _manager(self) -> Manager:
        assert self.manager is not None
        return self.manager

    def _verb(self, name: tuple[str, int], ask: Callable[[], None]) -> None:
        self.asking = name
        self.machine.tell(f"someone asks: {name}")
        ask()

    def _submit(self) -> None:
        chance, self.number = self.machine.chance, self.number + 1
        array = chance.random() < 0.15
        spec = {
            "name": f"s{self.number}",
            "run": "true",
            "num_nodes": chance.choice([1, 1, 1, 2]),
            "resources": {"accelerators": chance.choice([1, 1, 2])},
            "preemptible": chance.random() < 0.7,
            "preemption": {"grace": chance.choice([0, 2])},
            "retry": {"on": ["failure", "node_failure"], "max": 1},
            "after": [chance.choice(sorted(self.acknowledged))] if self.acknowledged and chance.random() < 0.15 else [],
            "array": "0-3%2" if array else None,
            "time_limit": chance.choice([None, None, 8]),
        }
        self._send(f"s{self.number}", spec)

    def _send(self, name: str, spec: dict[str, Any]) -> None:
        """Submit with a key; whoever gets no answer tries again."""
        self.unanswered.append((name, spec))
        self.machine.tell(f"submit {name}")
        with contextlib.suppress(journals.JournalFailed):
            ids = self._manager.submit(job_spec(spec), "me", name)
            self.unanswered.pop()
            self.acknowledged |= dict.fromkeys(ids, name)
            self.machine.tell(f"{name} is accepted as {ids}")

    def _try_again(self) -> None:
        for each in list(self.unanswered):
            self.unanswered.remove(each)
            self._send(*each)

    def _hear(self) -> None:
        """Which requests were answered with yes: those hold."""
        for (what, job), done in self.asked:
            if done.done() and done.exception() is None:
                self.machine.tell(f"done: {what} {job}")
                if what == "cancel":
                    self.must[job] = "CANCELLED"
                elif what in ("requeue", "release", "hold"):
                    self.must.pop(job, None)
        self.asked = [(name, done) for name, done in self.asked if not done.done()]

    # ---- what must be true at the end

    def _check(self) -> None:
        machine = self.machine
        machine.calm = True
        if self.unanswered:
            self.acts_left = 1
            self._live()
        served = self._manager
        assert not machine.alive(), f"left running: {machine.alive()}"
        executor: Any = SimulatedExecutor(machine, lambda job, attempt: True)
        after = Manager(self.data, cluster(CLUSTER), self.policy, executor=executor)
        state = after._state
        try:
            names = dict(after._journal.query("SELECT finished.job, name FROM finished"))
            for job, name in self.acknowledged.items():
                assert state.knows(job), f"job {job} is lost"
                assert state.final_of(job), f"job {job} has not ended"
                assert names[job] == name
            for name in {f"s{number}" for number in range(1, self.number + 1)}:
                assert len([1 for job in names if names[job] == name]) in (1, 4), (
                    f"{name} was accepted twice, or not at all"
                )
            for job, final in self.must.items():
                found = state.final_of(job)
                assert found is not None
                assert found.name == final or self._ended_before(after, job), f"job {job} is {found.name}, not {final}"
            self._check_charges(after)
            assert state.tables.nodes["free"].sum() == GPUS
            assert int(state.tables.counts["free_gpus"][0]) == GPUS
            if self.seed % 5 == 0:
                self._check_replay(after, served)
        finally:
            after.stop()

    def _ended_before(self, after: Manager, job: int) -> bool:
        """Whether a job that was cancelled had come to its end by itself meanwhile."""
        final = after._state.final_of(job)
        return final in (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)

    def _check_charges(self, after: Manager) -> None:
        """GPU time is what the processes took, but for attempts of which nobody knows when they ended."""
        charged = dict(after._journal.query("SELECT job, gpu_hours FROM finished"))
        sql = """SELECT job FROM events AS stop WHERE kind IN ('Stop', 'Resize') AND NOT EXISTS (SELECT 1 FROM events AS started
            WHERE started.kind = 'Started' AND (started.job, started.attempt) = (stop.job, stop.attempt))"""
        asked = {job for (job,) in after._journal.query(sql)}
        ran: dict[int, float] = {}
        for (job, _), process in self.machine.processes.items():
            assert process.over is not None
            known = not process.lost and job not in asked  # nobody had seen it run when it was asked to stop
            ran[job] = ran.get(job, 0.0) + len(process.gpus) * (process.over - process.began) if known else math.nan
        for job, gpu_s in ran.items():
            if not math.isnan(gpu_s):
                assert abs(charged[job] * 3600.0 - gpu_s) < 1e-3, (
                    f"job {job} ran {gpu_s} GPU-s and was charged {charged[job] * 3600}"
                )

    def _check_replay(self, after: Manager, served: Manager) -> None:
        """The journal without snapshots tells the same."""
        journal = after._journal
        journal.commit(lambda connection: connection.execute("DELETE FROM snapshots"))
        again = recovery.restore(after_fresh(self.policy), journal)[0]
        n = len(again.jobs)
        assert again.jobs == after._state.jobs
        assert again.past == after._state.past
        assert again.tables.jobs[:n].tobytes() == after._state.tables.jobs[:n].tobytes()
        assert again.tables.counts.tobytes() == after._state.tables.counts.tobytes()


def after_fresh(policy: str) -> Callable[[Any], Any]:
    """A new state of the twin's cluster."""
    from headway.live.state import ClusterState
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy

    return lambda before: ClusterState(before or cluster(CLUSTER), find_policy(policy), find_placement("consolidated"))
