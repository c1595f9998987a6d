"""The state of a live cluster: the engine's tables and the records of jobs.

Three functions change it: the engine's `record`, `learn` (state/learn.py), and `ClusterState.add` for an accepted job.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.cluster.queues import Queues, refuse_teams
from headway.core.keys import AUTO_MULTIPLE
from headway.core.operations import Known, admit
from headway.core.protocols import Placement, Policy
from headway.core.receipts import by_reason, receipt_us, why_waiting
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.errors import LimitReached, NotFound, WrongState
from headway.live.jobfile.after import NOTOK
from headway.live.jobfile.notes import notes_on
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.rows import Blocker
from headway.live.state.attempts import AUTO, Attempts, MinRuntimes, requested_min_runtime
from headway.live.state.demands import LiveDemands
from headway.live.state.engine import LiveEngine
from headway.live.state.groups import LiveGroups
from headway.live.state.records import Job
from headway.live.state.retired import Past
from headway.live.state.site import KILL, PLAIN, Site
from headway.live.state.teams import LiveTeams, first_teams

# Read once: looking up a member of an enumeration takes longer than the comparison.
RUNNING: Final = JobState.RUNNING
NOT_OFFERED: Final = frozenset({JobState.FUTURE, JobState.HELD})


@dataclass(slots=True)
class Array:
    """The tasks of an array, and the limit on active tasks (None: no limit)."""

    limit: int | None
    tasks: range  # their numbers
    active: int = 0
    next: int = 0  # tasks before this one do not wait for the limit
    kept: int = 0  # tasks that are not retired


class ClusterState:
    """Jobs, nodes and the engine with its tables."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        placement: Placement,
        min_runtimes: MinRuntimes = AUTO,
        site: Site = PLAIN,
        queues: Queues | None = None,
    ) -> None:
        if queues:
            refuse_teams(policy)
        self.site = site
        self.cluster, self.placement, self.policy = cluster, placement.name, policy.name
        self.min_runtimes, self.longest_s, self.auto_min_runtime_s = min_runtimes, policy.limit, policy.auto_min_runtime
        self.engine = LiveEngine(cluster, policy, placement, first_teams(queues), queues.options if queues else {})
        self.teams = LiveTeams(queues, self.engine)
        self.teams.book(cluster.nodes, -np.inf)
        self.demands = LiveDemands(cluster, self.engine)
        self.groups = LiveGroups(policy.group, self.engine)
        self.jobs: dict[int, Job] = {}  # jobs in memory by number, in the order of their rows
        self.by_row: list[Job] = []
        self.finished: dict[int, None] = {}  # ended jobs that are not retired, in the order of their ends
        self.past = Past()  # retired jobs
        self.arrays: dict[int, Array] = {}
        self.dependants: dict[int, set[int]] = {}
        self.active: set[int] = set()  # jobs that have not ended
        self.active_of: Counter[str] = Counter()  # active jobs by user, with jobs about to be accepted
        # Held from a check to the count: the journal's thread and the engine's thread do both.
        self.counting = threading.RLock()
        self.drained: set[str] = set()  # nodes that an operator drained, until an operator resumes them
        self.away: set[str] = set()  # nodes that the executor reported away
        self.low_disk = ""  # why no job is started, if the disk is nearly full
        self.closing = False  # the manager is stopping its jobs, and starts no job
        self.enforced: frozenset[str] = frozenset()  # limits of a job file that the executor enforces

    @property
    def tables(self) -> State:
        """Return the engine's tables; only core's operations write them."""
        return self.engine.state

    # ---- jobs as they are accepted

    def add(self, job: Job) -> None:
        """Add a job that was accepted; the engine has not recorded it yet."""
        job.row = len(self.by_row)
        self.by_row.append(job)
        self.jobs[job.id] = job
        self.count(job, True)
        if job.array_id is not None:
            self._array(job).kept += 1
        self.engine.make_room(len(self.by_row))
        known = self.known(job.spec, self.teams.row_of(job.spec, job.user, make=True))
        known["demand"] = self.demands.row_of(job.spec)
        known["group"] = self.groups.row_of(job.spec, job.user)
        admit(self.tables, job.row, submit=job.submitted, gpus=job.spec.gpus, **known)

    def _array(self, job: Job) -> Array:
        """Return the array of a task, with at least the tasks up to this one."""
        first = job.array_id or job.id
        if first not in self.arrays:
            tasks = range(first, first + self.past.arrays.pop(first, 0))
            self.arrays[first] = Array(array_tasks(job.spec.array or "0")[1], tasks, next=len(tasks))
        array = self.arrays[first]
        array.tasks = range(first, max(array.tasks.stop, job.id + 1))
        return array

    def count(self, job: Job, active: bool) -> None:
        """Count a job among the active jobs, or remove it from them."""
        if (job.id in self.active) != active:
            (self.active.add if active else self.active.discard)(job.id)
            self.count_of(job.spec, job.user, 1 if active else -1)

    def count_of(self, spec: JobSpec, user: str, change: int) -> None:
        """Change by `change` the number of a user's jobs that are about to be accepted or have not ended."""
        with self.counting:
            self.active_of[user] += change
            self.teams.count(spec, user, change)
            self.demands.count(spec, change)

    def count_again(self, job: Job) -> None:
        """Count a job that is to be run again, unless that is refused."""
        with self.counting:
            self.check_more(job.spec, job.user, 1)
            self.count(job, True)

    def check_more(self, spec: JobSpec, user: str, more: int) -> None:
        """Refuse jobs that are more than their user may have, or than may wait in their queue."""
        self.demands.check_count(spec)
        self.teams.check_waiting(spec, user, more)
        most, have = self.site.jobs_per_user, self.active_of[user]
        if most is not None and have + more > most:
            what = f"{more} more" if more > 1 else "another"
            has = f"{counted(have, 'job')} that {'has' if have == 1 else 'have'} not ended"
            raise LimitReached(f"user {user} has {has}, and may have {most}: {what} cannot be accepted")

    def known(self, spec: JobSpec, team: int = CLUSTER) -> Known:
        """Return what is known of a job as columns of the engine's table. The limit includes the grace of a stop."""
        requested = requested_min_runtime(spec, self.min_runtimes)
        return {
            "team": team,
            "min_runtime": Attempts().min_runtime(spec, requested, self.auto_min_runtime_s),
            "turns": AUTO_MULTIPLE if requested is None else 0.0,
            "limit": self.limit_with_grace_s(spec),
            # A job that accepts shared links does not wait for links of its own. Every job waits for the fewest nodes.
            "slice_wait": np.inf if spec.network.isolation != "none" else 0.0,
            "whole_wait": np.inf,
        }

    def limit_s(self, spec: JobSpec) -> float | None:
        """Return the seconds that a job may run until it ends, by its own time limit and the policy's; None: no limit."""
        limit_s = min(self.longest_s, np.inf if spec.time_limit is None else spec.time_limit)
        return limit_s if limit_s < np.inf else None

    def limit_with_grace_s(self, spec: JobSpec) -> float:
        """Return the seconds after which a job has been stopped at its limit; infinity: no limit."""
        limit_s = self.limit_s(spec)
        return np.inf if limit_s is None else limit_s + self.site.grace_s(spec)

    def notes(self, spec: JobSpec) -> tuple[str, ...]:
        """Return one sentence for each field of the job that is accepted but not enforced."""
        return (*notes_on(spec, self.enforced, bool(self.teams)), *self.site.notes(spec, self.enforced))

    def how_to_stop(self, job: Job) -> tuple[str, float]:
        """Return the signal of a stop, and the seconds until the job is killed."""
        return (KILL, 0.0) if job.kill else (job.spec.preemption.signal, self.site.grace_s(job.spec))

    def active_jobs(self) -> list[Job]:
        """Return the jobs that have not ended, by number."""
        return [self.jobs[job_id] for job_id in sorted(self.active)]

    def needs(self, job: Job) -> set[int]:
        """Return the unfinished jobs that a job waits for; an array's number stands for all its tasks."""
        named = {task for need in job.spec.needs for task in self.tasks_of(need.job)}
        needed = {task for task in named if self.knows(task) and self.final_of(task) is None}
        if job.spec.singleton:
            needed |= {other.id for other in self.active_jobs() if other.id < job.id and same_name(other, job)}
        return needed

    def unmet(self, job: Job, ended: Job | None = None) -> str:
        """Return why a dependency of a job can no longer be met, or "". With `ended`, check only that job, which has just ended."""
        after = job.spec.after  # a number stands for a job that must complete
        if ended is not None:
            must_complete = [ended.id] if ended.id in after or ended.array_id in after else []
            numbers = (ended.id, ended.array_id)
            must_fail = [number for number in numbers if number is not None and f"{NOTOK}:{number}" in after]
        else:
            must_complete = [task for number in after if isinstance(number, int) for task in self.tasks_of(number)]
            must_fail = [need.job for need in job.spec.needs if need.kind == NOTOK]
        for task in must_complete:
            final = self.final_of(task)
            if final not in (None, JobState.COMPLETED):
                return f"job {task}, which it was to follow, ended as {final.name}"
        for other in must_fail:  # the last task of an array most likely runs still: look at that first
            if all(
                self.final_of(task) == JobState.COMPLETED for task in reversed(self.tasks_of(other)) if self.knows(task)
            ):
                return f"job {other} completed, and it was to run only if that did not"
        return ""

    def tasks_of(self, job_id: int) -> Sequence[int]:
        """Return the jobs that a number stands for: all tasks of an array, or one job."""
        if job_id in self.arrays:
            return self.arrays[job_id].tasks
        return range(job_id, job_id + self.past.arrays.get(job_id, 1))

    def job_named(self, job_id: int) -> Job:
        """Return the job with this number; NotFound if there is none, WrongState if it has left the memory."""
        if final := self.past.final_of(job_id):
            raise WrongState(f"job {job_id} has ended: it is {final.name}")
        if job_id not in self.jobs:
            raise NotFound(f"there is no job {job_id}")
        return self.jobs[job_id]

    def unfinished(self, job_id: int) -> Job:
        """Return an active job by its number; NotFound if there is none, WrongState if it has ended."""
        job = self.job_named(job_id)
        if job.final:
            raise WrongState(f"job {job_id} has ended: it is {job.final.name}")
        return job

    def job_of_attempt(self, job_id: int, attempt: int) -> Job | None:
        """Return a job while this attempt holds GPUs: it starts, runs or stops. None at any other time."""
        job = self.jobs.get(job_id)
        present = job is not None and attempt == self.attempt(job) and self.job_state(job).has_processes
        return job if present else None

    def at(self, row: int) -> Job:
        """Return the job with this row in the engine's tables."""
        return self.by_row[row]

    def knows(self, job_id: int) -> bool:
        """Return whether there is or was a job of this number."""
        return job_id in self.jobs or self.past.final_of(job_id) is not None

    def final_of(self, job_id: int) -> JobState | None:
        """Return the final state of a job, retired or not; None if it has not ended."""
        job = self.jobs.get(job_id)
        return job.final if job else self.past.final_of(job_id)

    def job_state(self, job: Job) -> JobState:
        """Return the engine's state of a job, which is HELD for every blocked job."""
        return JobState(int(self.tables.jobs["state"][job.row]))

    def codes(self) -> list[int]:
        """Return the engine's states of all jobs, by row. Calling `job_state` for each takes much longer."""
        states: list[int] = self.tables.jobs["state"][: len(self.by_row)].tolist()
        return states

    def shown_state(self, job: Job) -> JobState:
        """Return the state that people see: HELD only if a person holds the job."""
        return job.final or shown(self.job_state(job), job)

    def why(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the reason for which each of these jobs waits now, as the engine sees it."""
        return why_waiting(self.tables, self.engine.options, np.asarray(rows))

    def receipt_us(self, job: Job, now: float) -> dict[str, int]:
        """Return the microseconds of a job's wait so far by reason: all of its time in which it did not run and had not ended."""
        return by_reason(receipt_us(self.tables, self.engine.options, job.row, now))

    def waiting_rows(self) -> NDArray[np.int64]:
        """Return the rows of the jobs that wait, in the order of the policy."""
        jobs = self.tables.jobs[: len(self.by_row)]
        waiting = np.nonzero(jobs["state"] == JobState.PENDING)[0]
        order: NDArray[np.int64] = waiting[np.lexsort((waiting, jobs["k2"][waiting], jobs["k1"][waiting]))]
        return order

    def attempt(self, job: Job) -> int:
        """Return the number of the present or last attempt."""
        return int(self.tables.jobs["attempt"][job.row])

    # ---- numbers

    def run_s(self, job: Job, now: float) -> float:
        """Return the seconds run in all attempts."""
        return self.service_gpu_s(job, now) / job.spec.gpus

    def service_gpu_s(self, job: Job, now: float) -> float:
        """Return the GPU-seconds attained in all attempts."""
        return service_gpu_s(self.tables.jobs[job.row], now)


def charged_gpu_h(service: float, job: Job, now: float) -> float:
    """Return the GPU-hours that a job is charged for: its attained service, and the time that it took to stop."""
    return (service + job.attempts.stopping_s(now) * job.spec.gpus) / 3600.0


def same_name(a: Job, b: Job) -> bool:
    """Return whether two jobs have the same user and name, as in Slurm's singleton dependencies."""
    return a.user == b.user and a.spec.name == b.spec.name


def service_gpu_s(row: Any, now: float) -> float:
    """Return the GPU-seconds attained in all attempts, from the job's row of the engine's table."""
    running = (now - float(row["since"])) * int(row["gpus"]) if row["state"] == RUNNING else 0.0
    return float(row["total"]) + max(0.0, running)


def shown(state: JobState, job: Job) -> JobState:
    """Return the state of an active job that people see: HELD only if a person holds it."""
    if state in NOT_OFFERED:
        return JobState.HELD if job.blockers & Blocker.HELD else JobState.PENDING
    return state
