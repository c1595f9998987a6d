"""The manager: a journal, the engine and an executor behind one thread-safe door.

`drive()` runs in a thread of its own, exactly the loop of the simulator. Submissions go to disk before they are acknowledged and then to
the engine; what people ask for is done in the engine's thread and answered when it is on disk; questions are answered from memory.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from headway.client.job import JobView
from headway.cluster.nodes import Cluster
from headway.core.engine import Event
from headway.errors import BadInput, HeadwayError
from headway.io.units import counted
from headway.job_state import FINAL_STATES
from headway.live.ask import archive, views
from headway.live.ask.explain import Explanation, explain, sees_all
from headway.live.ask.forecast import DryRun, Forecast
from headway.live.ask.health import ManagerHealth, depth, health
from headway.live.ask.replay import PastJob
from headway.live.ask.reserved import Sees
from headway.live.ask.views import JobFilter, NodeView
from headway.live.clock import resume_clock
from headway.live.errors import NotFound, WrongState
from headway.live.executors import Executor, Shared
from headway.live.executors.registry import DEFAULT, find_executor
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.operation.measures import Histogram
from headway.live.operation.site import PLAIN, Site
from headway.live.outcome import Backoff
from headway.live.records import REQUEUE, Job
from headway.live.state import CLOSING, DRAINED, RESUMED, ClusterState
from headway.live.store import recovery
from headway.live.store.archive import Archived, archived
from headway.live.store.history import HistoryRow, Wanted
from headway.live.store.identity import Mark
from headway.live.store.journal import JournalRow
from headway.live.store.submissions import find_key, insert
from headway.live.turns import AUTO, MinRuntimes
from headway.live.world import LiveWorld
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

MOST_KEY = 200  # characters of a client's key
MOST_EVENTS = 10_000  # rows in one answer
T = TypeVar("T")
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
        policy: str = "headway",
        placement: str = "consolidated",
        *,
        min_runtimes: MinRuntimes = AUTO,
        executor: Executor | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        environment: Callable[[Job, int], dict[str, str]] = no_environment,
        site: Site = PLAIN,
    ) -> None:
        self.data, self.cluster, self.policy, self.placement = Path(data), cluster, policy, placement
        rules = find_policy(policy), find_placement(placement)
        past = recovery.open_journal(
            self.data, lambda before: ClusterState(before or cluster, *rules, min_runtimes, site)
        )
        self._journal, self._state, self.warnings = past.journal, past.state, list(past.warnings)
        self._renewed = bool(past.identity.warnings)
        self._mark = Mark(self.data, past.identity.present)
        try:
            last_seq, last = self._journal.last
            self.clock = resume_clock(self._journal.meta("clock"), last)
            self._executor: Executor = executor or find_executor(DEFAULT, self.data)
            if hasattr(self._executor, "journals"):
                self._executor.journals = past.identity.known
            self._world = LiveWorld(self._state, self._journal, self._executor, self.clock, backoff, environment)
            self._world.last_seq, self._world.snapshot_seq = last_seq, past.snapshot_seq
            self._world.identity, self._world.mark = past.identity.present, self._mark.set
        except BaseException:
            self._close()
            raise
        self._thread: threading.Thread | None = None
        self._stopped, self._opened = False, self.clock()
        self._users: set[str] = set()
        self._accepting: Counter[str] = Counter()  # jobs that are being written, by user
        self._turns = threading.Lock()  # held while that is counted

    # ---- life

    def start(self) -> None:
        """Adopt what runs, then schedule until stopped."""
        self._journal.remember("clock", self.clock.saved())
        now = self._opened = self.clock()
        rules = {"policy": self.policy, "placement": self.placement}
        self._world.open(self.cluster, rules, bool(getattr(self._executor, "numbers_gpus", False)))
        self._executor.open(self._world.wake)
        self._state.enforced = getattr(self._executor, "enforced", frozenset())
        recovery.adopt(self._state, self._executor, self._world, now)
        if self._renewed and hasattr(self._executor, "strays"):
            self.warnings += self._executor.strays()
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
            self._world.save()
        self._close()

    def _close(self) -> None:
        self._journal.close()
        self._mark.close()

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

    @property
    def enforced(self) -> frozenset[str]:
        """Bounds of a job file that jobs are held to here."""
        return self._state.enforced

    def try_journal(self) -> None:
        """Write something small to the journal; JournalFailed if it cannot be written."""
        self._journal.remember("tried", str(self.clock()))

    def wait_for_failure(self) -> str:
        """Wait until the engine has stopped: why, or nothing if it was asked to."""
        self._world.engine_gone.wait()
        return self._world.failure

    # ---- submitting

    def submit(self, spec: JobSpec, user: str, key: str | None = None) -> list[int]:
        """Accept a job (or the tasks of an array); on disk before this returns. The same user and key again give the same jobs."""
        return self.submission(spec, user, key).result()

    def submission(self, spec: JobSpec, user: str, key: str | None = None) -> Future[list[int]]:
        """The same without waiting: the numbers of the jobs come when they are on disk."""
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

        answer: Future[list[int]] = Future()
        answer.set_running_or_notify_cancel()  # whoever goes away does not take the job back
        taken: list[int] = []

        def write(connection: sqlite3.Connection) -> tuple[list[int], bool]:
            """In the journal's thread; a key that was used before counts against no limit."""
            found = find_key(connection, user, key, text)
            if found is None:
                taken.append(self._take_turn(user, len(tasks)))
                found = insert(connection, user, key, text, submitted, tasks)
            return found

        def told(done: Future[tuple[list[int], bool]]) -> None:
            """It is on disk, or refused."""
            with self._turns:
                self._accepting[user] -= sum(taken)
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result()[0])

        self._journal.commit_later(write, arrived).add_done_callback(told)
        return answer

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
        self._state.site.check(spec)
        if spec.output is not None and not getattr(self._executor, "copies_output", False):
            raise BadInput(
                "output: this executor does not copy logs to other files: leave it out, and use headway logs"
            )
        for need in spec.needs:
            if not self._state.knows(need.job):
                raise BadInput(f"after: there is no job {need.job}")

    def _take_turn(self, user: str, count: int) -> int:
        """Count jobs that are about to be accepted against what their user may have; refuse them if that is too many."""
        most = self._state.site.jobs_per_user
        if most is None:
            return 0
        with self._turns:
            have = self._state.active_of[user] + self._accepting[user]
            if have + count > most:
                what = f"{count} more" if count > 1 else "another"
                has = f"{counted(have, 'job')} that {'has' if have == 1 else 'have'} not ended"
                raise WrongState(f"user {user} has {has}, and may have {most}: {what} cannot be accepted")
            self._accepting[user] += count
        return count

    # ---- asking

    def job(self, job_id: int) -> JobView | None:
        """One job, or None."""
        with self._world.lock:
            if job_id in self._state.jobs:
                return views.job_views(self._state, [job_id], self.clock())[0]
        found = self._archived(job_id)
        return archive.archived_view(self._state, found) if found else None

    def _archived(self, job_id: int) -> Archived | None:
        """A job that has left the memory."""
        if self._state.past.final_of(job_id) is None:
            return None
        return self._journal.read(lambda connection: archived(connection, job_id))

    def visible(self, job_ids: Sequence[int], sees: Sees) -> set[int]:
        """Those of these jobs that exist for whoever asks."""
        with self._world.lock:
            users = {job_id: self._state.jobs[job_id].user for job_id in job_ids if job_id in self._state.jobs}
        retired = [job_id for job_id in job_ids if job_id not in users and self._state.past.final_of(job_id)]
        users |= archive.users_of(self._journal, retired)
        return {job_id for job_id in job_ids if job_id in users and sees(job_id, users[job_id])}

    def views(self, job_ids: Sequence[int]) -> list[JobView]:
        """These jobs, in this order."""
        with self._world.lock:
            here = [job_id for job_id in job_ids if job_id in self._state.jobs]
            found = dict(zip(here, views.job_views(self._state, here, self.clock()), strict=True))
        missing = {job_id: self.job(job_id) for job_id in job_ids if job_id not in found}
        found |= {job_id: view for job_id, view in missing.items() if view}
        return [found[job_id] for job_id in job_ids if job_id in found]

    def spec(self, job_id: int) -> JobSpec | None:
        """What the job's file says."""
        job = self._state.jobs.get(job_id)
        found = None if job else self._archived(job_id)
        return job.spec if job else found.job.spec if found else None

    def jobs(self, wanted: JobFilter = EVERY_JOB) -> list[JobView]:
        """Jobs by number, with filters; page with `after_id`."""
        with self._world.lock:
            found, kept = views.find(self._state, self.clock(), wanted), frozenset(self._state.jobs)
        return self._journal.read(lambda file: archive.with_retired(self._state, found, file, wanted, kept))

    def history(self, wanted: Wanted) -> list[HistoryRow]:
        """What became of jobs, newest first (see `headway.live.store.history`)."""
        with self._world.lock:
            rows = archive.active_rows(self._state, self.clock(), wanted, self._world.just_ended)
            active = frozenset(self._state.active)
        return self._journal.read(lambda file: archive.with_finished(rows, active, file, wanted))

    def look(self, ask: Callable[[ClusterState, float], T]) -> T:
        """Ask something of the state as it is now; it does not change meanwhile."""
        with self._world.lock:
            return ask(self._state, self.clock())

    def read_journal(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Ask something of the journal on disk, with a connection of its own."""
        return self._journal.read(ask)

    @property
    def written(self) -> bool:
        """Whether the journal has everything that can be seen now."""
        return not self._world.unwritten

    def explain(self, job_id: int, sees: Sees = sees_all) -> Explanation:
        """Why it waits, what is ahead, what would change that, and where its wait went. Only jobs that the caller sees are named."""
        past = self._archived(job_id)
        if past:
            return archive.archived_explanation(past)
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
            forecast = Forecast(self._state, spec, self.clock(), user)
        return forecast.run()

    def notes_on(self, spec: JobSpec) -> tuple[str, ...]:
        """What of a job is accepted but not carried out as asked, one sentence each."""
        return self._state.notes(spec)

    def nodes(self) -> list[NodeView]:
        """The nodes, what is free on them, and who is there."""
        with self._world.lock:
            return views.node_views(self._state)

    def workload(self, since: float) -> list[PastJob]:
        """Jobs submitted since then that ran, for replay."""
        with self._world.lock:
            found, kept = views.past_jobs(self._state, since, self.clock()), frozenset(self._state.jobs)
        return self._journal.read(lambda file: archive.retired_jobs(self._state, file, since, kept)) + found

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

    def measured(self) -> tuple[dict[str, Histogram], dict[str, Histogram], dict[str, int]]:
        """For a dashboard too: times of the manager's own work, waits of jobs by queue, and jobs that wait by queue."""
        with self._world.lock:
            measures, now = self._world.measures, self.clock()
            work = {"decision": self._state.engine.spent, "round": measures.rounds, "journal_commit": measures.commits}
            return deepcopy((work, measures.waits, depth(self._state, now).waiting_by_queue))

    def health(self) -> ManagerHealth:
        """How the manager is doing."""
        with self._world.lock:
            now = self.clock()
            return health(self._state, self._world, self.policy, now - self._opened, now)

    def events(self, after: int) -> list[JournalRow]:
        """Rows of the journal after number `after`, up to a bound."""
        return self._journal.rows(after, MOST_EVENTS)

    @property
    def last_event(self) -> int:
        """The number of the journal's last row."""
        return self._world.last_seq

    def settle(self) -> None:
        """Wait until the journal has everything that can be seen now."""
        self._world.ask(lambda _: iter(()))

    def next_events(self, after: int, timeout_s: float) -> list[JournalRow]:
        """The same, once there are any; none after a while."""
        with self._world.committed:
            new = self._world.committed.wait_for(lambda: self._world.last_seq > after, timeout_s)
        return self.events(after) if new else []

    def remember(self, name: str, value: str) -> None:
        """Keep something small in the journal for the next manager."""
        self._journal.remember(name, value)

    def recall(self, name: str) -> str | None:
        """What was kept, if anything."""
        return self._journal.meta(name)

    def complain(self, words: str) -> None:
        """Note something that went wrong, for `headway health`."""
        with self._world.lock:
            self._world.measures.error(self.clock(), words)

    # ---- doing

    def cancel(self, job_id: int, at_once: bool = False) -> None:
        """End a job; its processes get the signal and the grace of its own preemption, or are killed at once."""
        self._world.ask(lambda now: self._verb("cancel", job_id, now, at_once))

    def hold(self, job_id: int) -> None:
        """Keep a waiting job from running until it is released."""
        self._world.ask(lambda now: self._verb("hold", job_id, now))

    def release(self, job_id: int) -> None:
        """Let a held job run."""
        self._world.ask(lambda now: self._verb("release", job_id, now))

    def requeue(self, job_id: int, hold: bool = False) -> None:
        """Run it again: a running job is stopped first, a finished one waits anew; with `hold` once it is released."""
        self._world.ask(lambda now: self._verb("requeue", job_id, now, hold))

    def act(self, verb: str, job_ids: Sequence[int], option: bool = False) -> dict[int, HeadwayError]:
        """Do one of these verbs to many jobs in one go (`option`: at once, or hold); those that refuse it, each with the reason."""
        refused: dict[int, HeadwayError] = {}

        def every(now: float) -> Iterator[Event]:
            for job_id in job_ids:
                try:
                    yield from self._verb(verb, job_id, now, option)
                except (NotFound, WrongState) as error:
                    refused[job_id] = error

        self._world.ask(every)
        return refused

    def _verb(self, verb: str, job_id: int, now: float, option: bool = False) -> Iterator[Event]:
        """The facts of a verb, in the engine's thread."""
        if verb == "requeue":
            if self._state.past.final_of(job_id):
                self._world.recall(job_id, now)
            return self._world.requeue(self._job(job_id), now, option)
        job = self._unfinished(job_id)
        return self._world.cancel(job, option) if verb == "cancel" else getattr(self._world, verb)(job)

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
            job = self._state.jobs.get(job_id)
            if job and attempt == self._state.attempt(job) and not job.final:
                yield from self._world.progressed(job, replace(job.progress, **new), now)

        self._world.ask(act)

    def _job(self, job_id: int) -> Job:
        if final := self._state.past.final_of(job_id):
            raise WrongState(f"job {job_id} has ended: it is {final.name}")
        if job_id not in self._state.jobs:
            raise NotFound(f"there is no job {job_id}")
        return self._state.jobs[job_id]

    def _unfinished(self, job_id: int) -> Job:
        job = self._job(job_id)
        if job.final:
            raise WrongState(f"job {job_id} has ended: it is {job.final.name}")
        return job
