"""The state of a live cluster: the engine's tables and the records of jobs. Only the engine's `record` and `learn` change it.

The live loop and the replay after a restart go through the same two calls for every row of the journal, record then learn, so the state
after a restart equals the state that wrote the journal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.core import events
from headway.core.engine import Action, Cause, Event
from headway.core.events import NO_JOB
from headway.core.keys import TURNS
from headway.core.operations import (
    Known,
    admit,
    close_node,
    credit,
    open_node,
    set_costs,
    set_displaced,
    set_hold,
    set_left,
    set_min_runtime,
    set_outcome,
)
from headway.core.protocols import Placement, Policy
from headway.core.receipts import why_waiting
from headway.core.tables.state import State
from headway.job_state import JobState
from headway.live import nodes
from headway.live.engine import LiveEngine
from headway.live.jobfile.after import NOTOK
from headway.live.jobfile.notes import notes_on
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.operation.site import KILL, PLAIN, Site
from headway.live.records import NOTHING, PREEMPT, Blocker, Job, Progress
from headway.live.store import turnover
from headway.live.store.archive import from_text
from headway.live.store.journal import JournalRow
from headway.live.store.past import Past
from headway.live.turns import AUTO, Attempts, MinRuntimes, given_turn

KINDS = {name: kind for kind, name in enumerate(events.NAMES)}

# Facts that the engine does not know. Closing: the manager stops its jobs and starts no more until one opens again.
ASKED, BLOCKED, PROGRESSED, DRAINED, RESUMED = "Asked", "Blocked", "Progressed", "Drained", "Resumed"
OPENED, CLOSING = "Opened", "Closing"
# Retired: all but the last few jobs that are over leave the tables. Recalled: one of them comes back, to be run again.
RETIRED, RECALLED = "Retired", "Recalled"
# What journals of version 0.1 call a Blocked row and the blockers in it.
OLD_BLOCKED, OLD_BLOCKERS = "Gated", "gates"


@dataclass(slots=True)
class Array:
    """The tasks of an array, how many may be active at once, and how many are."""

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
    ) -> None:
        self.site = site
        self.cluster, self.placement, self.policy = cluster, placement.name, policy.name
        self.min_runtimes, self.longest_s, self.least_turn_s = min_runtimes, policy.limit, policy.least_turn
        self.engine = LiveEngine(cluster, policy, placement)
        self.jobs: dict[int, Job] = {}  # in the order of their rows; of those that are over only the last
        self.by_row: list[Job] = []
        self.finished: dict[int, None] = {}  # jobs that are over but not retired, in the order of their ends
        self.past = Past()  # the retired ones
        self.arrays: dict[int, Array] = {}
        self.dependants: dict[int, set[int]] = {}
        self.active: set[int] = set()  # jobs that have not ended
        self.active_of: Counter[str] = Counter()  # how many of them each user has
        self.strange: set[int] = set()  # waiting jobs that ask for something that this version does not know
        self.drained: set[int] = set()  # nodes that a person has drained
        self.enforced: frozenset[str] = frozenset()  # bounds of a job file that the executor holds jobs to

    @property
    def tables(self) -> State:
        """The engine's tables; only core's operations write them."""
        return self.engine.state

    # ---- jobs as they are accepted

    def add(self, job: Job) -> None:
        """Take in a job that was accepted; the engine does not know it yet."""
        job.row = len(self.by_row)
        self.by_row.append(job)
        self.jobs[job.id] = job
        self.count(job, True)
        if job.array_id is not None:
            self._array(job).kept += 1
        self.engine.make_room(len(self.by_row))
        admit(self.tables, job.row, submit=job.submitted, gpus=job.spec.gpus, **self.known(job.spec))

    def _array(self, job: Job) -> Array:
        """The array of a task, which has at least the tasks up to this one."""
        first = job.array_id or job.id
        if first not in self.arrays:
            tasks = range(first, first + self.past.arrays.pop(first, 0))
            self.arrays[first] = Array(array_tasks(job.spec.array or "0")[1], tasks, next=len(tasks))
        array = self.arrays[first]
        array.tasks = range(first, max(array.tasks.stop, job.id + 1))
        return array

    def count(self, job: Job, active: bool) -> None:
        """Count a job among those that have not ended, or no more."""
        if (job.id in self.active) != active:
            (self.active.add if active else self.active.discard)(job.id)
            self.active_of[job.user] += 1 if active else -1

    def known(self, spec: JobSpec) -> Known:
        """What a job file says of turns and limits, as columns of the engine's table. A job whose time is up has its grace to go."""
        given, limit_s = given_turn(spec, self.min_runtimes), self.limit_s(spec)
        return {
            "min_runtime": Attempts().min_runtime(spec, given, self.least_turn_s),
            "turns": TURNS if given is None else 0.0,
            "limit": np.inf if limit_s is None else limit_s + self.site.grace_s(spec),
        }

    def limit_s(self, spec: JobSpec) -> float | None:
        """Seconds that a job may run in all: its own time limit, at most the one of the policy; None: for ever."""
        limit_s = min(self.longest_s, np.inf if spec.time_limit is None else spec.time_limit)
        return limit_s if limit_s < np.inf else None

    def notes(self, spec: JobSpec) -> tuple[str, ...]:
        """What of a job is accepted but not carried out as asked, one sentence each."""
        return (*notes_on(spec, self.enforced), *self.site.notes(spec))

    def how_to_stop(self, job: Job) -> tuple[str, float]:
        """The signal that a job gets, and the seconds until it is killed."""
        return (KILL, 0.0) if job.kill else (job.spec.preemption.signal, self.site.grace_s(job.spec))

    def active_jobs(self) -> list[Job]:
        """The jobs that have not ended, by number."""
        return [self.jobs[job_id] for job_id in sorted(self.active)]

    def needs(self, job: Job) -> set[int]:
        """The jobs that it waits for, which have not ended; an array's number stands for all its tasks."""
        named = {task for need in job.spec.needs for task in self.tasks_of(need.job)}
        found = {task for task in named if self.knows(task) and self.final_of(task) is None}
        if job.spec.singleton:
            found |= {each.id for each in self.active_jobs() if each.id < job.id and same_line(each, job)}
        return found

    def unmet(self, job: Job, ended: Job | None = None) -> str:
        """Why what a job waits for can no longer come true, if so; `ended` is the job that has just ended, else all are looked at."""
        after = job.spec.after  # a number stands for a job that must complete
        if ended is not None:
            follows = [ended.id] if ended.id in after or ended.array_id in after else []
        else:
            follows = [task for kept in after if isinstance(kept, int) for task in self.tasks_of(kept)]
        for task in follows:
            final = self.final_of(task)
            if final not in (None, JobState.COMPLETED):
                return f"job {task}, which it was to follow, ended as {final.name}"
        for need in job.spec.needs if not job.waits_for else ():
            ends = [self.final_of(task) for task in self.tasks_of(need.job) if self.knows(task)]
            if need.kind == NOTOK and all(end == JobState.COMPLETED for end in ends):
                return f"job {need.job} completed, and it was to run only if that did not"
        return ""

    def tasks_of(self, job_id: int) -> Sequence[int]:
        """The jobs that a number stands for: all tasks of an array, or one job."""
        if job_id in self.arrays:
            return self.arrays[job_id].tasks
        return range(job_id, job_id + self.past.arrays.get(job_id, 1))

    def at(self, row: int) -> Job:
        """The job with this row in the engine's tables."""
        return self.by_row[row]

    def knows(self, job_id: int) -> bool:
        """Whether there is or was such a job."""
        return job_id in self.jobs or self.past.final_of(job_id) is not None

    def final_of(self, job_id: int) -> JobState | None:
        """How a job ended, be it retired or not; None: it has not."""
        job = self.jobs.get(job_id)
        return job.final if job else self.past.final_of(job_id)

    def job_state(self, job: Job) -> JobState:
        """Its state for the engine, which holds every blocked job."""
        return JobState(int(self.tables.jobs["state"][job.row]))

    def shown_state(self, job: Job) -> JobState:
        """Its state as people see it."""
        return job.final or shown(self.job_state(job), job)

    def why(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The reason for which each of these jobs waits now, as the engine sees it."""
        return why_waiting(self.tables, self.engine.options, np.asarray(rows))

    def attempt(self, job: Job) -> int:
        """The attempt that runs, or ran last."""
        return int(self.tables.jobs["attempt"][job.row])

    # ---- rows of the journal

    def replay(self, rows: Iterable[JournalRow], accept: Callable[[float], None] = lambda job_id: None) -> None:
        """Record and learn every row of the journal again; `accept` adds the jobs up to a number that were accepted."""
        for row in rows:
            accept(row.data.get("accepted", row.job))
            if "at" in row.data:
                self.charge(self.jobs[row.job], KINDS[row.kind], row.data["at"], row.time)
            if row.kind in KINDS:
                self.engine.record(self._fact(row), row.time)
            self.learn(row)
        accept(np.inf)

    def charge(self, job: Job, kind: int, at: float, now: float) -> None:
        """A start or an end that is recorded now was at another time: to be called before, so that the job is charged for what it ran."""
        late_s, state = now - at, self.job_state(job)
        if kind == events.STARTED:
            credit(self.tables, job.row, late_s)
        elif state == JobState.RUNNING:
            credit(self.tables, job.row, -late_s)
        elif state == JobState.STOPPING and job.attempts.stop_asked is not None:  # charged until it was asked to stop
            credit(self.tables, job.row, -max(0.0, job.attempts.stop_asked - at))

    def _fact(self, row: JournalRow) -> Event | Action | Cause:
        """What the engine recorded; a fact about no job has job 0 in the journal and -1 in the engine."""
        kind, j = KINDS[row.kind], self.jobs[row.job].row if row.job else NO_JOB
        if kind == events.EXPLAINED:
            return Cause(int(row.data["class"]), events.REASONS.index(row.data["why"]))
        if "places" not in row.data:
            return Event(kind, j)
        pairs = {name: tuple((int(a), int(b)) for a, b in row.data.get(name, ())) for name in ("places", "links")}
        return Action(kind, j, pairs["places"], pairs["links"])

    def learn(self, row: JournalRow) -> None:
        """Take in what a row means for the job or the nodes it is about."""
        job = self.jobs.get(row.job)
        if job is None:
            self._learn_nodes(row)
            return
        counted, preempted = job.active_task, job.stop_reason == PREEMPT
        self._learn_job(job, row)
        self._measure(job, row, preempted)
        if job.array_id is not None:
            array = self.arrays[job.array_id]
            array.active += job.active_task - counted
            if job.blockers & Blocker.ARRAY_LIMIT:
                array.next = min(array.next, job.id - array.tasks[0])

    def _learn_job(self, job: Job, row: JournalRow) -> None:
        kind, data = KINDS.get(row.kind, -1), row.data
        at = float(data.get("at", row.time))
        if kind == events.SUBMITTED:
            job.known, job.final, job.ended, job.exit_code = True, None, None, None
            job.stop_reason = job.message = ""
            self.count(job, True)
            self.finished.pop(job.id, None)
            job.waits_for = self.needs(job)
            for other in job.waits_for:
                self.dependants.setdefault(other, set()).add(job.id)
        elif kind == events.HELD or row.kind in (BLOCKED, OLD_BLOCKED):
            self._block(job, Blocker(int(data["blockers"] if "blockers" in data else data[OLD_BLOCKERS])), row.time)
            job.not_before = float(data.get("not_before", job.not_before))
        elif kind == events.RELEASED:
            self._block(job, NOTHING, row.time)
        elif kind in (events.START, events.PACK):
            self._seat(job, row)
        elif kind == events.STARTED:
            job.started = at
            if job.first_started is None:
                job.first_started = at
        elif kind in (events.STOP, events.RESIZE):
            job.stop_reason = data.get("why") or job.stop_reason or PREEMPT
            job.preemptions += job.stop_reason == PREEMPT
            job.kill = bool(data.get("now"))
            set_displaced(self.tables, job.row, job.stop_reason == PREEMPT)
        elif row.kind == ASKED:
            job.stop_reason, job.kill = data["why"], bool(data.get("now"))
            set_displaced(self.tables, job.row, False)
        elif kind in (events.STOPPED, events.ENDED):
            self._unseat(job, row, ended=kind == events.ENDED)
        elif row.kind == PROGRESSED:
            if data.get("checkpointed") not in (None, job.noted.checkpointed):
                job.saved = row.time
            job.progress = job.noted = Progress(**data)

    def _measure(self, job: Job, row: JournalRow, preempted: bool) -> None:
        """Take in what a row says about the costs and the turns of the job."""
        kind, attempts, at = KINDS.get(row.kind, -1), job.attempts, float(row.data.get("at", row.time))
        if kind in (events.START, events.PACK):
            attempts.start(row.time)
        elif kind == events.STARTED:
            attempts.started(at)
        elif row.kind == PROGRESSED:
            attempts.progressed(job.noted.step, job.noted.total, row.time)
        elif kind in (events.STOP, events.RESIZE):
            attempts.stop(row.time)
        elif kind in (events.STOPPED, events.ENDED) and attempts.runs:
            attempts.over(at, preempted)
        else:
            return
        set_costs(self.tables, job.row, attempts.save.value, attempts.resume.value)
        given = given_turn(job.spec, self.min_runtimes)
        set_min_runtime(self.tables, job.row, attempts.min_runtime(job.spec, given, self.least_turn_s))
        if self.engine.policy.reports and row.kind == PROGRESSED:
            set_left(self.tables, job.row, _or_nan(attempts.believed_s), row.time)

    def _block(self, job: Job, blockers: Blocker, now: float) -> None:
        job.blockers = blockers
        if job.blocked_by:
            set_hold(self.tables, job.row, events.REASONS.index(job.blocked_by), now)

    def _seat(self, job: Job, row: JournalRow) -> None:
        """Note which GPUs the job holds, in the order that the placement decided."""
        seats, seat = self.tables.seats, int(self.tables.jobs["seat"][job.row])
        held: dict[int, list[int]] = {}
        while seat >= 0:
            held.setdefault(int(seats["node"][seat]), []).append(seat % self.cluster.total)
            seat = int(seats["next"][seat])
        order = [node for node, _ in row.data["places"] if node in held] if row.kind == "Start" else sorted(held)
        job.places = tuple((node, len(held[node])) for node in dict.fromkeys(order))
        job.seats = tuple(gpu for node, _ in job.places for gpu in sorted(held[node]))
        job.progress = job.noted = Progress()
        job.stop_reason, job.kill, job.saved, job.exit_code = "", False, None, None

    def _unseat(self, job: Job, row: JournalRow, ended: bool) -> None:
        data = row.data
        job.failures = int(data.get("failures", job.failures))
        job.exit_code, job.message = data.get("exit_code"), data.get("message", "")
        job.ran_on = tuple(self.cluster.nodes[node] for node, _ in job.places) or job.ran_on
        job.stop_reason, job.places, job.seats = "", (), ()
        if not ended:
            return
        job.final, job.ended = JobState[data["state"]], float(data.get("at", row.time))
        self._block(job, NOTHING, row.time)
        set_outcome(self.tables, job.row, job.final)
        self.count(job, False)
        self.finished[job.id] = None
        for other in map(self.jobs.get, self.dependants.get(job.id, ())):
            if other:
                other.waits_for.discard(job.id)

    def _learn_nodes(self, row: JournalRow) -> None:
        """Which nodes take jobs: all but the drained ones, and none from Closing until the next manager has opened."""
        if row.kind in (DRAINED, RESUMED):
            node = self.cluster.nodes.index(row.data["node"])
            (self.drained.add if row.kind == DRAINED else self.drained.discard)(node)
            (close_node if row.kind == DRAINED else open_node)(self.tables, node, row.time)
        elif row.kind in (CLOSING, OPENED):
            if row.kind == OPENED:
                turnover.move(self, turnover.cluster_in(row.data), bool(row.data.get("numbered")), row.time)
            for node in range(len(self.cluster.nodes)):
                if row.kind == CLOSING:
                    close_node(self.tables, node, row.time)
                elif node not in self.drained and self.tables.nodes["closed"][node]:
                    open_node(self.tables, node, row.time)
        elif row.kind in nodes.KINDS:
            nodes.learn(self.tables, self.cluster.nodes, row)
        elif row.kind == RETIRED:
            turnover.retire(self, int(row.data["keep"]))
        elif row.kind == RECALLED:
            turnover.recall(self, from_text(row.data["text"]))

    # ---- numbers

    def run_s(self, job: Job, now: float) -> float:
        """Seconds run in all attempts."""
        return self.service_gpu_s(job, now) / job.spec.gpus

    def service_gpu_s(self, job: Job, now: float) -> float:
        """GPU-seconds attained in all attempts."""
        return service_gpu_s(self.tables.jobs[job.row], now)


def same_line(a: Job, b: Job) -> bool:
    """Whether two jobs have one user and one name, as Slurm's singletons understand it."""
    return a.user == b.user and a.spec.name == b.spec.name


def service_gpu_s(row: Any, now: float) -> float:
    """GPU-seconds attained, by the job's row of the engine's table."""
    running = (now - float(row["since"])) * int(row["gpus"]) if row["state"] == JobState.RUNNING else 0.0
    return float(row["total"]) + max(0.0, running)


def shown(state: JobState, job: Job) -> JobState:
    """What people call the engine's state of an active job: HELD is only what a person holds."""
    if state in (JobState.FUTURE, JobState.HELD):
        return JobState.HELD if job.blockers & Blocker.HELD else JobState.PENDING
    return state


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
