"""The manager: a journal, the engine and an executor behind one thread-safe door.

`drive()` runs in a thread of its own, exactly the loop of the simulator. Submissions go to disk before they are acknowledged and then to
the engine; what people ask for is done in the engine's thread and answered when it is on disk; questions are answered from memory.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.client.job import JobView
from headway.cluster.nodes import Cluster
from headway.core.engine import Event
from headway.errors import BadInput
from headway.job_state import FINAL_STATES
from headway.live.ask import views
from headway.live.ask.explain import Explanation, explain, sees_all
from headway.live.ask.forecast import DryRun, Forecast
from headway.live.ask.replay import PastJob
from headway.live.ask.reserved import Sees
from headway.live.ask.views import JobFilter, NodeView
from headway.live.clock import resume_clock
from headway.live.errors import NotFound, WrongState
from headway.live.executors import Executor, Shared
from headway.live.executors.registry import DEFAULT, find_executor
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.outcome import Backoff
from headway.live.records import REQUEUE, Job
from headway.live.state import CLOSING, DRAINED, OPENED, RESUMED, ClusterState
from headway.live.store import recovery
from headway.live.store.journal import Journal, JournalRow
from headway.live.store.submissions import insert
from headway.live.turns import AUTO, MinRuntimes
from headway.live.world import LiveWorld
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

MOST_KEY = 200  # characters of a client's key
MOST_EVENTS = 10_000  # rows in one answer
EVERY_JOB, DEFAULT_BACKOFF = JobFilter(), Backoff()


def no_environment(job: Job, attempt: int) -> dict[str, str]:
    """Variables that a job gets beside those of every job: none."""
    return {}


class Manager:
    """One cluster, one data folder."""

    def __init__(
        self,
        data: Path,
        cluster: Cluster,
        policy: str = "tiresias-l",
        placement: str = "consolidated",
        *,
        min_runtimes: MinRuntimes = AUTO,
        executor: Executor | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        environment: Callable[[Job, int], dict[str, str]] = no_environment,
    ) -> None:
        self.data, self.cluster, self.policy, self.placement = Path(data), cluster, policy, placement
        self._journal = Journal(self.data)
        try:
            last = self._journal.query("SELECT max(time) FROM events")[0][0] or 0.0
            self.clock = resume_clock(self._journal.meta("clock"), last)
            self._state = ClusterState(cluster, find_policy(policy), find_placement(placement), min_runtimes)
            self._executor: Executor = executor or find_executor(DEFAULT, self.data)
            self._world = LiveWorld(self._state, self._journal, self._executor, self.clock, backoff, environment)
            recovery.restore(self._state, self._journal, self._world)
        except BaseException:
            self._journal.close()
            raise
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._users: set[str] = set()

    # ---- life

    def start(self) -> None:
        """Adopt what runs, then schedule until stopped."""
        self._journal.remember("clock", self.clock.saved())
        now = self.clock()
        opened = {"cluster": list(self.cluster.gpus), "nodes": list(self.cluster.nodes)}
        row = JournalRow(now, OPENED, 0, 0, {**opened, "policy": self.policy, "placement": self.placement})
        self._journal.append([row])
        self._state.learn(row)
        self._executor.open(self._world.wake)
        recovery.adopt(self._state, self._executor, self._world, now)
        self._thread = threading.Thread(target=self._world.run, name="engine", daemon=True)
        self._thread.start()

    def stop(self, drain: bool = False) -> None:
        """End. Running jobs go on and are adopted by the next manager; with `drain` they are stopped first and will be run again."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread:
            if drain and self._thread.is_alive():
                self._stop_jobs()
            self._world.close()
            self._thread.join()
            self._executor.close()
        self._journal.close()

    def _stop_jobs(self) -> None:
        """Start nothing more until the next manager opens, and put back what runs."""

        def act(now: float) -> Iterator[Event]:
            yield from self._world.note_about_nodes(CLOSING, now, {})
            for job in self._with_processes():
                yield from self._world.stop(job, REQUEUE)

        self._world.ask(act)
        self._world.wait_until(lambda: not self._with_processes())

    def _with_processes(self) -> list[Job]:
        return [job for job in self._state.active_jobs() if self._state.job_state(job).has_processes]

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
            raise BadInput(f"Idempotency-Key: 1 to {MOST_KEY} characters")
        text, submitted = spec.model_dump_json(exclude_defaults=True), self.clock()
        tasks: list[int | None] = [None] if spec.array is None else list(array_tasks(spec.array)[0])

        def arrived(result: tuple[list[int], bool]) -> None:
            """Hand jobs that are on disk to the engine (in the journal's thread, in the order of commits)."""
            ids, new = result
            if not new:
                return
            with self._world.lock:
                for job_id, index in zip(ids, tasks, strict=True):
                    self._state.add(Job(job_id, user, spec, submitted, None if index is None else ids[0], index))
                    self._world.arrivals.append(job_id)
            self._world.wake()

        ids, _ = self._journal.commit(lambda connection: insert(connection, user, key, text, submitted, tasks), arrived)
        return list(ids)

    def _check(self, spec: JobSpec, user: str) -> None:
        """Refuse at once what can never run, and what would not be run as asked."""
        if spec.gpus > self.cluster.total:
            raise BadInput(
                f"the job asks for {spec.gpus} GPUs, but the cluster {self.cluster.name} has {self.cluster.total}: it could never start"
            )
        if why := self._state.engine.why_never(spec.gpus):
            raise BadInput(why)
        longest_s = self._state.longest_s
        if spec.time_limit is not None and spec.time_limit > longest_s:
            raise BadInput(
                f"time_limit: {spec.time_limit:g} s is more than the {longest_s:g} s that policy {self.policy} allows"
            )
        refuse_unsupported(spec)
        if user not in self._users:  # looking an account up costs a millisecond
            self._executor.check_user(user)
            self._users.add(user)
        for other in spec.after:
            if other not in self._state.jobs:
                raise BadInput(f"after: there is no job {other}")

    # ---- asking

    def job(self, job_id: int) -> JobView | None:
        """One job, or None."""
        with self._world.lock:
            found = views.job_views(self._state, [job_id] if job_id in self._state.jobs else [], self.clock())
        return found[0] if found else None

    def jobs(self, wanted: JobFilter = EVERY_JOB) -> list[JobView]:
        """Jobs by ascending number, with filters; page with `after_id`."""
        with self._world.lock:
            return views.find(self._state, self.clock(), wanted)

    def explain(self, job_id: int, sees: Sees = sees_all) -> Explanation:
        """Why it waits, what is ahead, what would change that, and where its wait went. Only jobs that the caller sees are named."""
        with self._world.lock:
            found = explain(self._state, self._job(job_id), self.clock(), sees)
        return found if found.state in FINAL_STATES else self._remarked(found)

    def _remarked(self, found: Explanation) -> Explanation:
        """The same with what the executor has to say: that it cannot be reached, or that others use its nodes."""
        remarks = self._executor.remarks() if isinstance(self._executor, Shared) else ""
        return replace(found, message=f"{found.message}. {remarks}") if remarks else found

    def dry_run(self, spec: JobSpec, user: str) -> DryRun:
        """Where and roughly when it would start."""
        self._check(spec, user)
        with self._world.lock:
            forecast = Forecast(self._state, spec, self.clock())
        return forecast.run()

    def nodes(self) -> list[NodeView]:
        """The nodes, what is free on them, and who is there."""
        with self._world.lock:
            return views.node_views(self._state)

    def workload(self, since: float) -> list[PastJob]:
        """Jobs submitted since then that ran, for replay."""
        with self._world.lock:
            return views.past_jobs(self._state, since, self.clock())

    def log_files(self, job_id: int, attempt: int) -> list[Path]:
        """The logs of an attempt, in the order of ranks."""
        return self._executor.logs(job_id, attempt)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self._world.lock:
            return views.counts(self._state)

    def metrics(self) -> dict[str, float]:
        """Numbers for a dashboard."""
        with self._world.lock:
            return views.metrics(self._state, self._world, self._journal)

    def events(self, after: int) -> list[JournalRow]:
        """Rows of the journal after number `after`, up to a bound."""
        return self._journal.rows(after, MOST_EVENTS)

    # ---- doing

    def cancel(self, job_id: int) -> None:
        """End a job; its processes get the signal and the grace of its own preemption."""
        self._world.ask(lambda now: self._world.cancel(self._unfinished(job_id)))

    def hold(self, job_id: int) -> None:
        """Keep a job from running until it is released; one that runs is stopped."""
        self._world.ask(lambda now: self._world.hold(self._unfinished(job_id)))

    def release(self, job_id: int) -> None:
        """Let a held job run."""
        self._world.ask(lambda now: self._world.release(self._unfinished(job_id)))

    def requeue(self, job_id: int) -> None:
        """Run it again: a running job is stopped first, a finished one waits anew."""
        self._world.ask(lambda now: self._world.requeue(self._job(job_id), now))

    def drain(self, node: str) -> None:
        """Start nothing more on a node; what runs there goes on."""
        self._change_node(node, DRAINED)

    def resume(self, node: str) -> None:
        """Use a drained node again."""
        self._change_node(node, RESUMED)

    def _change_node(self, node: str, kind: str) -> None:
        if node not in self.cluster.nodes:
            raise NotFound(f"there is no node {node!r}: `headway nodes` lists them")
        self._world.ask(lambda now: self._world.note_about_nodes(kind, now, {"node": node}))

    def report(self, job_id: int, attempt: int, **given: float | None) -> None:
        """What a job says about itself (the fields of Progress); reports of another attempt than the present one are dropped."""
        new: Any = {name: value for name, value in given.items() if value is not None}

        def act(now: float) -> Iterator[Event]:
            job = self._job(job_id)
            if attempt == self._state.attempt(job) and not job.final:
                yield from self._world.progressed(job, replace(job.progress, **new), now)

        self._world.ask(act)

    def _job(self, job_id: int) -> Job:
        if job_id not in self._state.jobs:
            raise NotFound(f"there is no job {job_id}")
        return self._state.jobs[job_id]

    def _unfinished(self, job_id: int) -> Job:
        job = self._job(job_id)
        if job.final:
            raise WrongState(f"job {job_id} has ended: it is {job.final.name}")
        return job
