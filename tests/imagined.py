"""A live manager's world in virtual time: journal, state, life cycle and loop are the real ones, processes are imagined.

Each job is given its work, the time until its first step, whether it reports steps, and what saving takes it. Killed before its first
step it has done nothing; otherwise a stop keeps what was done.
"""

import heapq
import math
from dataclasses import dataclass
from typing import Any

from tests.quiet import Quiet

from headway.cluster.named import cluster
from headway.live import executors
from headway.live.executors import Launch, Report
from headway.live.jobfile.spec import job_spec
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.outcome import Backoff
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job, JobProgress, JournalRow
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy


@dataclass(slots=True)
class Work:
    """A job to come: when, what its job file says, and what is true of it."""

    at: float
    spec: dict[str, Any]
    work_s: float
    start_s: float = 0.0  # from Started until its first step
    save_s: float = 0.0
    reports: bool = False
    step_s: float = 1.0
    done_s: float = 0.0


class Rows:
    """A journal in memory."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []

    def append(self, rows: list[JournalRow], finished: object = (), made: object = None) -> int:
        """Keep the rows."""
        self.rows += rows
        return len(self.rows)


class Processes(Quiet):
    """An executor whose processes exist in virtual time only."""

    def __init__(self, works: list[Work]) -> None:
        self.works, self.now, self.count = works, 0.0, 0
        self.coming: list[tuple[float, int, Report]] = []
        self.began: dict[tuple[int, int], float] = {}

    def expect(self, at: float, report: Report) -> None:
        """A report to come."""
        self.count += 1
        heapq.heappush(self.coming, (at, self.count, report))

    def start(self, launch: Launch) -> None:
        """Start at once; report as many steps as there will be."""
        key, work = (launch.job, launch.attempt), self.works[launch.job - 1]
        self.began[key] = self.now
        self.expect(self.now, Report(executors.STARTED, *key))
        first = self.now + work.start_s
        if work.reports:
            self.expect(self.now, Report(executors.PROGRESSED, *key, progress=JobProgress()))  # it uses the runtime
            total = math.ceil(work.work_s / work.step_s)
            for step in range(int(work.done_s / work.step_s) + 1, total + 1):
                at = first + step * work.step_s - work.done_s
                self.expect(at, Report(executors.PROGRESSED, *key, progress=JobProgress(step, total)))
        self.expect(first + work.work_s - work.done_s, Report(executors.ENDED, *key, exit_code=0))

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Save what was done, which takes a while; before the first step there is nothing to save."""
        work, began = self.works[job - 1], self.began.pop((job, attempt))
        ran = self.now - began - work.start_s
        work.done_s += max(0.0, ran)
        after = min(grace_s, work.save_s) if ran > 0 else 0.0
        self.began[job, -attempt] = 0.0  # of this attempt only its end will be heard
        self.expect(self.now + after, Report(executors.ENDED, job, attempt, exit_code=0, signalled=True))

    def reports(self) -> list[Report]:
        """What is due by now."""
        found = []
        while self.coming and self.coming[0][0] <= self.now:
            report = heapq.heappop(self.coming)[2]
            key = (report.job, report.attempt)
            stopped = (report.job, -report.attempt)
            if report.what == executors.ENDED and (key in self.began or (report.signalled and stopped in self.began)):
                self.began.pop(stopped if report.signalled else key)
                found.append(report)
            elif key in self.began and report.what != executors.ENDED:
                found.append(report)
        return found


class Virtual(LiveWorld):
    """The live world, but for sleeping: it jumps to the next moment, lets jobs arrive, and calls `look` between rounds."""

    def __init__(self, works: list[Work], where: str, policy: str, min_runtimes: Any = None, **given: Any) -> None:
        self.works, self.time, self.arrived = works, 0.0, 0
        self.processes, self.kept = Processes(works), Rows()
        turns = () if min_runtimes is None else (min_runtimes,)
        state = ClusterState(cluster(where), find_policy(policy), find_placement("consolidated"), *turns, **given)
        super().__init__(state, self.kept, self.processes, lambda: self.time, Backoff(), lambda job, attempt: {})  # type: ignore[arg-type]

    def look(self) -> None:
        """What a test does between two rounds."""

    def _sleep(self, until: float, always: bool = False) -> None:
        self.look()
        coming = self.processes.coming[0][0] if self.processes.coming else math.inf
        arrives = self.works[self.arrived].at if self.arrived < len(self.works) else math.inf
        self.time = self.processes.now = max(self.time, min(until, coming, arrives))
        while self.arrived < len(self.works) and self.works[self.arrived].at <= self.time:
            self.arrived += 1
            spec = {"run": "true", **self.works[self.arrived - 1].spec}
            self.state.add(Job(self.arrived, spec.pop("user", "me"), job_spec(spec), self.time))
            self.inbox.arrivals.append(self.arrived)
        self.inbox.closing = math.isinf(self.time) or (self.arrived == len(self.works) and not self.state.active)

    def times(self, kind: str, job: int) -> list[float]:
        """When the journal has this of a job."""
        return [row.time for row in self.kept.rows if (row.kind, row.job) == (kind, job)]
