"""The manager: a journal, the engine and an executor behind one thread-safe door.

`drive()` runs in a thread of its own, exactly the loop of the simulator. Submissions go to disk before they are acknowledged and then to
the engine; what people ask for is done in the engine's thread and answered when it is on disk; questions are answered from memory.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.cluster.nodes import Cluster
from headway.core.engine import Event
from headway.core.operations import close_node
from headway.core.tables.jobs import RUNNING, STARTING, STOPPING
from headway.errors import BadInput
from headway.live.ask import views
from headway.live.ask.explain import Explanation, explain
from headway.live.ask.forecast import DryRun, Forecast
from headway.live.ask.views import NodeView, PastJob
from headway.live.clock import resume_clock
from headway.live.errors import NotFound, WrongState
from headway.live.executors import Executor
from headway.live.executors.process.executor import ProcessExecutor, account
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.outcome import Backoff
from headway.live.records import CANCEL, HELD, HOLD, REQUEUE, Job, JobView, Progress
from headway.live.state import DRAINED, OPENED, RESUMED, Book
from headway.live.store import recovery
from headway.live.store.journal import Journal, JournalRow
from headway.live.store.submissions import insert
from headway.live.world import LiveWorld, Request
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

MOST_KEY = 200  # characters of a client's key
MOST_EVENTS = 10_000  # rows in one answer
WITH_PROCESSES = (STARTING, RUNNING, STOPPING)


class Manager:
    """One cluster, one data folder."""

    def __init__(
        self,
        data: Path,
        cluster: Cluster,
        policy: str = "tiresias-l",
        placement: str = "consolidated",
        executor: Executor | None = None,
        clock: Callable[[], float] | None = None,
        *,
        backoff: Backoff | None = None,
        environment: Callable[[Job, int], dict[str, str]] | None = None,
        seed: int = 0,
    ) -> None:
        self.data, self.cluster, self.policy, self.placement = Path(data), cluster, policy, placement
        self._journal = Journal(self.data)
        try:
            last = self._journal.query("SELECT max(time) FROM events")[0][0] or 0.0
            self._own_clock = resume_clock(self._journal.meta("clock"), last) if clock is None else None
            self.clock: Callable[[], float] = clock or self._own_clock or (lambda: 0.0)
            self._book = Book(cluster, find_policy(policy), find_placement(placement), seed)
            self._executor: Executor = executor or ProcessExecutor(self.data)
            self._world = LiveWorld(
                self._book,
                self._journal,
                self._executor,
                self.clock,
                backoff or Backoff(),
                environment or (lambda job, attempt: {}),
            )
            recovery.restore(self._book, self._journal, self._world)
        except BaseException:
            self._journal.close()
            raise
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._users: set[str] = set()

    # ---- life

    def start(self) -> None:
        """Adopt what runs, then schedule until stopped."""
        if self._own_clock:
            self._journal.remember("clock", self._own_clock.saved())
        now = self.clock()
        opened = {
            "cluster": list(self.cluster.gpus),
            "nodes": list(self.cluster.nodes),
            "policy": self.policy,
            "placement": self.placement,
        }
        self._journal.append([JournalRow(now, OPENED, 0, 0, opened)])
        self._executor.open(self._world.wake)
        recovery.adopt(self._book, self._executor, self._world, now)
        self._thread = threading.Thread(target=self._world.run, name="engine", daemon=True)
        self._thread.start()

    def stop(self, drain: bool = False) -> None:
        """End. Running jobs go on and are adopted by the next manager; with `drain` they are stopped first and will be run again."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread:
            if drain and self._thread.is_alive():
                self._drain_jobs()
            self._world.close()
            self._thread.join()
            self._executor.close()
        self._journal.close()

    def _drain_jobs(self) -> None:
        def act(now: float) -> Iterator[Event]:
            for node in range(len(self.cluster.nodes)):  # until the end of this manager only: not in the journal
                close_node(self._book.engine.state, node)
            for job_id in sorted(self._book.active):
                if self._book.engine_state(self._book.jobs[job_id]) in WITH_PROCESSES:
                    yield from self._world.stop(self._book.jobs[job_id], REQUEUE)

        self._world.ask(Request(act))
        self._world.wait_until(
            lambda: not any(self._book.engine_state(self._book.jobs[i]) in WITH_PROCESSES for i in self._book.active)
        )

    @property
    def trouble(self) -> str:
        """Why nothing is being started, if so (the journal cannot be written); empty when all is well."""
        return self._world.trouble

    def wait_for_failure(self) -> str:
        """Wait until the engine has stopped: why, or nothing if it was asked to."""
        self._world.engine_gone.wait()
        return self._world.failure

    # ---- submitting

    def submit(self, spec: JobSpec, user: str, key: str | None = None) -> list[int]:
        """Accept a job (or the tasks of an array); on disk before this returns. The same user and key again give the same jobs."""
        self._check(spec, user)
        if key is not None and not 0 < len(key) <= MOST_KEY:
            raise BadInput(f"a client's key has 1 to {MOST_KEY} characters")
        text, submitted = spec.model_dump_json(exclude_defaults=True), self.clock()
        tasks: list[int | None] = [None] if spec.array is None else list(array_tasks(spec.array)[0])

        def write(connection: sqlite3.Connection) -> tuple[list[int], bool]:
            return insert(connection, user, key, text, submitted, tasks)

        ids, _ = self._journal.commit(write, lambda result: self._arrived(result, spec, user, submitted, tasks))
        return list(ids)

    def _check(self, spec: JobSpec, user: str) -> None:
        """Refuse at once what can never run."""
        if spec.gpus > self.cluster.total:
            raise BadInput(
                f"the job asks for {spec.gpus} GPUs, but the cluster {self.cluster.name} has {self.cluster.total}: it could never start"
            )
        if spec.network.isolation != "none":
            raise BadInput(
                "network isolation needs a fabric that Headway controls; the nodes of this machine have none: write isolation: none"
            )
        if user not in self._users:  # looking an account up costs a millisecond
            account(user)
            self._users.add(user)
        for other in spec.after:
            if other not in self._book.jobs:
                raise BadInput(f"after: there is no job {other}")

    def _arrived(
        self, result: tuple[list[int], bool], spec: JobSpec, user: str, submitted: float, tasks: list[int | None]
    ) -> None:
        """On disk: make it known (in the journal's thread, in the order of commits)."""
        ids, new = result
        if not new:
            return
        with self._world.lock:
            for job_id, index in zip(ids, tasks, strict=True):
                self._book.add(job_id, user, submitted, spec, None if index is None else ids[0], index)
                self._world.arrivals.append(job_id)
        self._world.wake()

    # ---- asking

    def job(self, job_id: int) -> JobView | None:
        """One job, or None."""
        with self._world.lock:
            found = views.job_views(self._book, [job_id] if job_id in self._book.jobs else [], self.clock())
        return found[0] if found else None

    def jobs(
        self,
        *,
        user: str | None = None,
        state: str | Sequence[str] | None = None,
        name: str | None = None,
        after_id: int = 0,
        limit: int = 100,
    ) -> list[JobView]:
        """Jobs by ascending number, with filters; page with `after_id`."""
        with self._world.lock:
            return views.find(self._book, self.clock(), user, state, name, after_id, limit)

    def explain(self, job_id: int) -> Explanation:
        """Why it waits, what is ahead, what would change that, and where its wait went."""
        with self._world.lock:
            return explain(self._book, self._job(job_id), self.clock())

    def dry_run(self, spec: JobSpec, user: str) -> DryRun:
        """Where and roughly when it would start."""
        self._check(spec, user)
        with self._world.lock:
            forecast = Forecast(self._book, spec, self.clock())
        return forecast.run()

    def nodes(self) -> list[NodeView]:
        """The nodes, what is free on them, and who is there."""
        with self._world.lock:
            return views.node_views(self._book)

    def workload(self, since: float) -> list[PastJob]:
        """Jobs submitted since then that ran, for replay."""
        with self._world.lock:
            return views.past(self._book, since, self.clock())

    def log_files(self, job_id: int, attempt: int | None = None) -> list[Path]:
        """The logs of an attempt (by default the last), in the order of ranks."""
        with self._world.lock:
            job = self._job(job_id)
            number = self._book.attempt(job) if attempt is None else attempt
        return self._executor.logs(job.id, number)

    def metrics(self) -> dict[str, float]:
        """Numbers for a dashboard."""
        with self._world.lock:
            return views.metrics(self._book, self._world, self._journal)

    def events(self, after: int, wait_s: float = 0.0, limit: int = MOST_EVENTS) -> list[JournalRow]:
        """Rows of the journal after number `after`; waits up to `wait_s` seconds for the first."""
        if self._world.last_seq <= after and wait_s > 0:
            with self._world.committed:
                self._world.committed.wait_for(lambda: self._world.last_seq > after, wait_s)
        return self._journal.rows(after, limit)

    # ---- doing

    def cancel(self, job_id: int) -> None:
        """End a job; its processes get the signal and the grace of its own preemption."""

        def act(now: float) -> Iterator[Event]:
            job = self._unfinished(job_id)
            if self._book.engine_state(job) in WITH_PROCESSES:
                yield from self._world.stop(job, CANCEL)
            else:
                yield from self._world.ended(job, "CANCELLED", {"message": "cancelled"})

        self._world.ask(Request(act))

    def hold(self, job_id: int) -> None:
        """Keep a job from running until it is released; one that runs is stopped."""

        def act(now: float) -> Iterator[Event]:
            job = self._unfinished(job_id)
            if self._book.engine_state(job) in WITH_PROCESSES:
                yield from self._world.stop(job, HOLD)
            else:
                yield from self._world.close_gates(job, HELD)

        self._world.ask(Request(act))

    def release(self, job_id: int) -> None:
        """Let a held job run."""

        def act(now: float) -> Iterator[Event]:
            job = self._unfinished(job_id)
            if not job.gates & HELD:
                raise WrongState(f"job {job_id} is {self._book.state_name(job)}: only a HELD job can be released")
            yield from self._world.open_gates(job, HELD)

        self._world.ask(Request(act))

    def requeue(self, job_id: int) -> None:
        """Run it again: a running job is stopped first, a finished one waits anew."""

        def act(now: float) -> Iterator[Event]:
            job = self._job(job_id)
            if self._book.engine_state(job) in WITH_PROCESSES:
                yield from self._world.stop(job, REQUEUE)
            elif job.final:
                yield from self._world.submitted(job, now)
            else:
                raise WrongState(f"job {job_id} is {self._book.state_name(job)}: it waits already")

        self._world.ask(Request(act))

    def drain(self, node: str) -> None:
        """Start nothing more on a node; what runs there goes on."""
        self._node(node, DRAINED)

    def resume(self, node: str) -> None:
        """Use a drained node again."""
        self._node(node, RESUMED)

    def _node(self, node: str, kind: str) -> None:
        if node not in self.cluster.nodes:
            raise NotFound(f"there is no node {node!r}: `headway nodes` lists them")

        def act(now: float) -> Iterator[Event]:
            self._world.tell(kind, now, {"node": node})
            yield from ()

        self._world.ask(Request(act))

    def report(
        self,
        job_id: int,
        attempt: int,
        step: int | None = None,
        total: int | None = None,
        loss: float | None = None,
        checkpointed: int | None = None,
    ) -> None:
        """What a job says about itself; reports of another attempt than the present one are dropped."""

        def act(now: float) -> Iterator[Event]:
            job = self._job(job_id)
            if attempt == self._book.attempt(job) and not job.final:
                given = {"step": step, "total": total, "loss": loss, "checkpointed": checkpointed}
                new = {name: value for name, value in given.items() if value is not None}
                merged: Progress = replace(job.progress, **new)  # type: ignore[arg-type]
                yield from self._world.progressed(job, merged, now)

        self._world.ask(Request(act))

    def _job(self, job_id: int) -> Job:
        if job_id not in self._book.jobs:
            raise NotFound(f"there is no job {job_id}")
        return self._book.jobs[job_id]

    def _unfinished(self, job_id: int) -> Job:
        job = self._job(job_id)
        if job.final:
            raise WrongState(f"job {job_id} has ended: it is {job.final}")
        return job
