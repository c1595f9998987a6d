"""The deterministic twin: a whole manager (journal, world, recovery, clock) in one thread, on a machine that exists in virtual time.

A seed decides what people ask for and what goes wrong: the manager dies between any two writes of the journal or before and after any call
of the executor, the disk is slow or full, calls of shims are lost or come twice, processes vanish, the machine reboots, the wall clock
jumps. What is acknowledged must hold, nothing may run twice, and jobs are charged for what they ran. A failing seed prints its story.
"""

import contextlib
import math
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.machine import Crash, Machine
from tests.faults.machine_executor import SimulatedExecutor
from tests.faults.one_thread import MOST_DEMANDS, OneThread, in_one_thread
from tests.faults.people import People
from tests.faults.setting import POLICIES, Setting, drawn
from tests.row_table import as_the_table_says

from headway.cluster.demands import ANY
from headway.job_state import JobState
from headway.live.manager import recovery
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff
from headway.live.state.cluster import ClusterState
from headway.live.store import journal as journals
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy


class Twin(People):
    """One seeded round. A `plain` one draws nothing but what the first rounds drew: their seeds tell the same story."""

    def __init__(self, seed: int, data: Path, plain: bool = False) -> None:
        machine = Machine(seed)
        policy = machine.chance.choice(POLICIES)
        super().__init__(machine, Setting(policy, random.Random(0)) if plain else drawn(seed, policy))
        self.seed, self.data = seed, data

    # ---- lives of managers

    def run(self) -> None:
        """Live and die until everything has ended; then look at what is left."""
        with in_one_thread(self):
            while not self._live():
                if self.machine.chance.random() < 0.2:
                    self.machine.reboot()
                elif self.machine.chance.random() < 0.5:
                    self.machine.pass_time(
                        self.machine.time + self.machine.chance.choice([0.0, 5.0, 50.0]) * self.setting.scale
                    )
            self._check()

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
            self.manager = self._opened(self._started_on_disk)
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

    def _opened(self, on_disk: Callable[[int, int], bool]) -> Manager:
        executor: Any = SimulatedExecutor(self.machine, self.setting, on_disk)
        given: Any = {"executor": executor, "backoff": Backoff(1.0, 4.0)}
        return Manager(self.data, self.setting.cluster, self.setting.policy, **given)

    def _started_on_disk(self, job: int, attempt: int) -> bool:
        assert self.manager is not None
        sql = "SELECT 1 FROM events WHERE kind IN ('Start', 'Pack') AND job = ? AND attempt = ?"
        return bool(self.manager._journal.query(sql, job, attempt))

    # ---- what must be true at the end

    def _check(self) -> None:
        machine = self.machine
        machine.calm = True
        if self.unanswered:
            self.acts_left = 1
            self._live()
        served = self._manager
        assert not machine.alive(), f"left running: {machine.alive()}"
        after = self._opened(lambda job, attempt: True)
        state = after._state
        try:
            names = dict(after._journal.query("SELECT finished.job, name FROM finished"))
            for job, name in self.acknowledged.items():
                assert state.knows(job), f"job {job} is lost"
                assert state.final_of(job), f"job {job} has not ended"
                assert names[job] == name
            for name in {f"s{number}" for number in range(1, self.number + 1)}:
                count, right = list(names.values()).count(name), (0,) if name in self.refused else (1, 4)
                assert count in right, f"{name} was accepted {count} times"
            for job, final in self.must.items():
                found = state.final_of(job)
                assert found is not None
                assert found.name == final or self._ended_before(after, job), f"job {job} is {found.name}, not {final}"
            self._check_charges(after)
            assert state.tables.nodes["free"].sum() == self.setting.gpus
            assert int(state.tables.counts["free_gpus"][0]) == self.setting.gpus
            for each in (state, served._state):
                _check_demands(each)
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
        fresh: list[ClusterState] = []
        each = journal.each

        def remember(before: Any) -> ClusterState:
            fresh.append(self._fresh(before))
            return fresh[-1]

        journal.each = lambda seq: as_the_table_says(fresh[-1], each(seq))  # type: ignore[method-assign]
        again = recovery.restore(remember, journal)[0]
        assert again.jobs == after._state.jobs
        assert (again.past, again.dependants) == (after._state.past, after._state.dependants)
        assert _told(again) == _told(after._state)
        assert again.tables.counts.tobytes() == after._state.tables.counts.tobytes()

    def _fresh(self, before: Any) -> ClusterState:
        """A new state of the round's cluster."""
        policy, placement = find_policy(self.setting.policy), find_placement("consolidated")
        return ClusterState(before or self.setting.cluster, policy, placement)


def _check_demands(state: ClusterState) -> None:
    """No constraint counts that neither a job in memory nor an active job has."""
    kept, asked = state.demands, {job.spec.demand for job in state.jobs.values()}
    assert kept._active == {}
    assert set(kept._stored) == asked - {ANY}
    # Of jobs that have not ended, of those that ended in this round, and of those that ended in the round before.
    assert len(kept.rows) <= 3 * MOST_DEMANDS + 1
    assert not any(state.active_of.values())


def _told(state: ClusterState) -> dict[str, Any]:
    """The columns of the jobs; what each asks for in words, with the nodes that have it: which row that has depends on who came when."""
    rows, suits = state.tables.jobs[: len(state.jobs)], state.tables.suits
    asked = [(state.demands.label(row), suits[row].tolist()) for row in rows["demand"].tolist()]
    return {name: rows[name].tobytes() for name in rows.dtype.names if name != "demand"} | {"demand": asked}
