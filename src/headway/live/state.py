"""The book: the engine's state and the records of jobs, as the journal tells them. Besides the engine's `record`, only `learn` changes it.

The live loop and the replay after a restart go through the same two calls for every row, record then learn, so the state after a restart
equals the replayed journal by construction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.cluster.nodes import Cluster
from headway.core.engine import Action, Event
from headway.core.events import (
    CROSSED,
    ENDED,
    HELD,
    NAMES,
    PACK,
    RELEASED,
    RESERVE,
    RESIZE,
    START,
    STARTED,
    STOP,
    STOPPED,
    SUBMITTED,
)
from headway.core.operations import admit, close_node, open_node, ring, set_outcome
from headway.core.protocols import Placement, Policy
from headway.core.tables.actions import ROWS
from headway.core.tables.jobs import FUTURE, PENDING, RUNNING, STATES
from headway.live.ask.receipt import Receipts
from headway.live.engine import FIRST_ROOM, LiveEngine
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.records import ARRAY_LIMIT, PREEMPT, Job, Progress
from headway.live.store.journal import JournalRow

KINDS = {name: kind for kind, name in enumerate(NAMES)}

# Facts that the engine does not know.
ASKED, GATED, PROGRESSED, DRAINED, RESUMED, OPENED = "Asked", "Gated", "Progressed", "Drained", "Resumed", "Opened"


@dataclass(slots=True)
class Array:
    """The tasks of an array, how many may be active at once, and how many are."""

    limit: int | None
    tasks: list[int] = field(default_factory=list)
    active: int = 0
    next: int = 0  # tasks before this one do not wait for the limit


class Book:
    """Jobs, nodes and the engine's state."""

    def __init__(self, cluster: Cluster, policy: Policy, placement: Placement, seed: int = 0) -> None:
        self.cluster = cluster
        self.engine = LiveEngine(cluster, policy, placement, seed)
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, Array] = {}
        self.dependants: dict[int, set[int]] = {}
        self.active: set[int] = set()  # jobs that have not ended
        self.receipts = Receipts(FIRST_ROOM)

    # ---- jobs as they are accepted

    def add(
        self, job_id: int, user: str, submitted: float, spec: JobSpec, array_id: int | None, array_index: int | None
    ) -> Job:
        """A job that was accepted; the engine does not know it yet."""
        job = Job(job_id, user, spec, submitted, array_id, array_index)
        self.jobs[job_id] = job
        self.active.add(job_id)
        if array_id is not None:
            if array_id not in self.arrays:
                self.arrays[array_id] = Array(array_tasks(spec.array or "0")[1])
            self.arrays[array_id].tasks.append(job_id)
        self.engine.make_room(job_id)
        self.receipts.make_room(job_id)
        admit(self.engine.state, job.row, submit=submitted, gpus=spec.gpus, min_runtime=min_runtime(spec))
        self.receipts.begin(job.row, submitted)
        return job

    def needs(self, job: Job) -> set[int]:
        """The jobs it waits for; an array's number stands for all its tasks."""
        every = (task for named in job.spec.after for task in self.tasks_of(named))
        return {task for task in every if task in self.jobs and self.jobs[task].final != "COMPLETED"}

    def tasks_of(self, job_id: int) -> list[int]:
        """The jobs that a number stands for: all tasks of an array, or one job."""
        return self.arrays[job_id].tasks if job_id in self.arrays else [job_id]

    def engine_state(self, job: Job) -> int:
        """The state of its row."""
        return int(self.engine.state.jobs["state"][job.row])

    def attempt(self, job: Job) -> int:
        """The attempt that runs, or ran last."""
        return int(self.engine.state.jobs["attempt"][job.row])

    def state_name(self, job: Job) -> str:
        """One of the states that people see."""
        if job.final:
            return job.final
        state = self.engine_state(job)
        if state == FUTURE or STATES[state] == "HELD":
            return "HELD" if job.gate == "held" else "PENDING"
        return STATES[state]

    # ---- rows of the journal

    def row(self, kind: int | str, job: Job | None, now: float, data: dict[str, Any]) -> JournalRow:
        """What is written about something just recorded: with places where it has some."""
        name = kind if isinstance(kind, str) else NAMES[kind]
        last = self.engine.last
        if kind in (START, RESERVE, RESIZE, PACK) and isinstance(last, Action):
            data = {**data, "places": last.places, **({"links": last.links} if last.links else {})}
        return JournalRow(now, name, job.id if job else 0, self.attempt(job) if job else 0, data)

    def replay(self, rows: Iterable[JournalRow]) -> int:
        """Go through the journal again; the number of the last row."""
        seq, now = 0, -np.inf
        for row in rows:
            if row.time != now and now > -np.inf:
                self.receipts.settle(self, now)
            seq, now = row.seq, row.time
            if row.kind in KINDS:
                self.engine.record(self._fact(row), row.time)
            self.learn(row)
        if now > -np.inf:
            self.receipts.settle(self, now)
        return seq

    def _fact(self, row: JournalRow) -> Event | Action:
        kind, j = KINDS[row.kind], row.job - 1
        if kind == CROSSED:
            ring(self.engine.state, j)
        if kind < STOP or "places" not in row.data:
            return Event(kind, j)
        pairs = {name: tuple((int(a), int(b)) for a, b in row.data.get(name, ())) for name in ("places", "links")}
        return Action(kind, j, pairs["places"], pairs["links"])

    def learn(self, row: JournalRow) -> None:
        """What a row means for the job it is about."""
        job = self.jobs.get(row.job)
        if job is None:
            self._learn_node(row)
            return
        counted = job.active_task
        self._learn_job(job, row)
        if job.array_id is not None:
            array = self.arrays[job.array_id]
            array.active += job.active_task - counted
            if job.gates & ARRAY_LIMIT:
                array.next = min(array.next, job.id - array.tasks[0])

    def _learn_job(self, job: Job, row: JournalRow) -> None:
        kind, data = KINDS.get(row.kind, -1), row.data
        if kind == SUBMITTED:
            job.known, job.final, job.asked, job.ended, job.exit_code, job.message = True, "", "", None, None, ""
            self.active.add(job.id)
            job.waits_for = self.needs(job)
            for other in job.waits_for:
                self.dependants.setdefault(other, set()).add(job.id)
        elif kind == HELD or row.kind == GATED:
            self._gate(job, int(data["gates"]))
            job.not_before = float(data.get("not_before", job.not_before))
        elif kind == RELEASED:
            self._gate(job, 0)
        elif kind in (START, PACK):
            self._seat(job, row)
        elif kind == STARTED:
            job.started = row.time
            if job.first_started is None:
                job.first_started = row.time
        elif kind in (STOP, RESIZE):
            job.asked = data.get("why") or job.asked or PREEMPT
            job.preemptions += job.asked == PREEMPT
        elif row.kind == ASKED:
            job.asked = data["why"]
        elif kind in (STOPPED, ENDED):
            self._unseat(job, row, ended=kind == ENDED)
        elif row.kind == PROGRESSED:
            job.progress = Progress(**data)

    def _gate(self, job: Job, gates: int) -> None:
        job.gates = gates
        self.receipts.close_gates(job.row, gates)

    def _seat(self, job: Job, row: JournalRow) -> None:
        """Who sits where: GPUs in the order that the placement decided."""
        state, gpus, seat = self.engine.state, self.cluster.total, int(self.engine.state.jobs["seat"][job.row])
        held: dict[int, list[int]] = {}
        while seat >= 0:
            held.setdefault(int(state.seats["node"][seat]), []).append(seat % gpus)
            seat = int(state.seats["next"][seat])
        order = [node for node, _ in row.data["places"] if node in held] if row.kind == "Start" else sorted(held)
        job.places = tuple((node, len(held[node])) for node in dict.fromkeys(order))
        job.seats = tuple(gpu for node, _ in job.places for gpu in sorted(held[node]))
        job.progress = Progress()
        job.asked, job.exit_code = "", None

    def _unseat(self, job: Job, row: JournalRow, ended: bool) -> None:
        data = row.data
        job.failures = int(data.get("failures", job.failures))
        job.exit_code, job.message = data.get("exit_code"), data.get("message", "")
        self.receipts.preempted[job.row] = job.asked == PREEMPT
        job.asked, job.places, job.seats = "", (), ()
        if not ended:
            return
        job.final, job.ended = data["state"], row.time
        self._gate(job, 0)
        set_outcome(self.engine.state, job.row, STATES.index(job.final))
        self.active.discard(job.id)
        for other in self.dependants.get(job.id, ()):
            if job.final == "COMPLETED":
                self.jobs[other].waits_for.discard(job.id)

    def _learn_node(self, row: JournalRow) -> None:
        if row.kind in (DRAINED, RESUMED):
            node = self.cluster.nodes.index(row.data["node"])
            change = close_node if row.kind == DRAINED else open_node
            change(self.engine.state, node)

    # ---- numbers

    def run_s(self, job: Job, now: float) -> float:
        """Seconds run in all attempts."""
        return self.service_gpu_s(job, now) / job.spec.gpus

    def service_gpu_s(self, job: Job, now: float) -> float:
        """GPU-seconds attained in all attempts."""
        row = self.engine.state.jobs[job.row]
        running = (now - float(row["since"])) * int(row["gpus"]) if row["state"] == RUNNING else 0.0
        return float(row["total"]) + max(0.0, running)

    def promises(self) -> int:
        """How many waiting jobs have GPUs being freed for them."""
        return int(self.engine.state.promises.tally[ROWS])

    def waiting(self) -> list[Job]:
        """Jobs that the engine could start, unordered."""
        states = self.engine.state.jobs["state"]
        return [self.jobs[i] for i in self.active if states[i - 1] == PENDING]


def min_runtime(spec: JobSpec) -> float:
    """Seconds that an attempt runs before it may be preempted; infinity: it never is."""
    return spec.preemption.min_runtime if spec.may_preempt else np.inf
