"""The live world without delays is the simulated one: the same starts, stops and ends at the same times, for many jobs and policies.

Time is virtual and processes are imagined; journal, state, life cycle of jobs and the loop are the real ones.
"""

import heapq
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.quiet import Quiet

from headway.cluster.named import cluster
from headway.core.events import ENDED, NAMES, START, STOP
from headway.live import executors
from headway.live.executors import Launch, Report
from headway.live.jobfile.spec import job_spec
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.outcome import Backoff
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job
from headway.live.store.journal import Journal
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, simulate_run
from headway.workloads.load import load
from headway.workloads.workload import Workload

POLICIES = ("fifo", "best-effort", "tiresias-l?threshold=1000&promote=2", "2d-las", "tiresias-g")


class Imagined(Quiet):
    """An executor whose processes exist in virtual time only."""

    def __init__(self, left_s: list[float]) -> None:
        self.left_s, self.now, self.running = left_s, 0.0, {}  # type: ignore[var-annotated]
        self.ends: list[tuple[float, int, int]] = []
        self.heard: list[Report] = []

    def start(self, launch: Launch) -> None:
        self.running[launch.job] = (launch.attempt, self.now)
        heapq.heappush(self.ends, (self.now + self.left_s[launch.job - 1], launch.job, launch.attempt))
        self.heard.append(Report(executors.STARTED, launch.job, launch.attempt))

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        _, began = self.running.pop(job)
        self.left_s[job - 1] -= self.now - began
        self.heard.append(Report(executors.ENDED, job, attempt, exit_code=0, signalled=True))

    def reports(self) -> list[Report]:
        while self.ends and self.ends[0][0] <= self.now:
            _, job, attempt = heapq.heappop(self.ends)
            if self.running.get(job, (0, 0))[0] == attempt:
                del self.running[job]
                self.heard.append(Report(executors.ENDED, job, attempt, exit_code=0))
        found, self.heard = self.heard, []
        return found

    def next(self) -> float:
        while self.ends and self.running.get(self.ends[0][1], (0, 0))[0] != self.ends[0][2]:
            heapq.heappop(self.ends)
        return self.now if self.heard else self.ends[0][0] if self.ends else np.inf


class Virtual(LiveWorld):
    """The live world, but for sleeping: it jumps to the next moment, and lets jobs arrive."""

    def __init__(self, state: ClusterState, journal: Journal, work: Workload) -> None:
        self.work, self.time, self.arrived = work, 0.0, 0
        self.imagined = Imagined(work.duration_s.tolist())
        super().__init__(state, journal, self.imagined, lambda: self.time, Backoff(), lambda job, attempt: {})  # type: ignore[arg-type]

    def _sleep(self, until: float, always: bool = False) -> None:
        coming = self.work.submit_s[self.arrived] if self.arrived < len(self.work) else np.inf
        self.time = self.imagined.now = max(self.time, min(until, self.imagined.next(), coming))
        while self.arrived < len(self.work) and self.work.submit_s[self.arrived] <= self.time:
            self.arrived += 1
            gpus = int(self.work.gpus[self.arrived - 1])
            spec = job_spec({"run": "true", "resources": {"accelerators": gpus}, "preemptible": True})
            self.state.add(Job(self.arrived, "me", spec, self.time))
            self.inbox.arrivals.append(self.arrived)
        if self.arrived == len(self.work) and not self.state.active:
            self.inbox.closing = True


def rows(times: Callable[[], list[tuple[float, str, int]]]) -> list[tuple[float, str, int]]:
    """Sorted, because what happens at one instant has no order between the worlds."""
    return sorted((round(time, 4), kind, job) for time, kind, job in times())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_live_world_without_delays_is_the_simulated_one(policy: str, tmp_path: Path) -> None:
    work, where = load("synthetic:tiresias-480?jobs=40&seed=7"), cluster("6x4")
    work = work.take(work.gpus <= 16)
    run = simulate_run(work, where, find_policy(policy), find_placement("consolidated"), Setting(), keep_journal=True)
    entries = run.entries[np.isin(run.entries["kind"], [START, STOP, ENDED])]
    expected = [(float(row["time"]), NAMES[row["kind"]], int(row["job"])) for row in entries]

    state = ClusterState(where, find_policy(policy), find_placement("consolidated"), {"": 0.0})
    journal = Journal(tmp_path)
    world = Virtual(state, journal, work)
    world.run()
    found = [(row.time, row.kind, row.job - 1) for row in journal.rows() if row.kind in ("Start", "Stop", "Ended")]
    journal.close()
    assert not world.trouble
    assert rows(lambda: found) == rows(lambda: expected)
    assert len(found) >= 2 * len(work)
