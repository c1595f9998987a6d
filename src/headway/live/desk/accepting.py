"""Submissions: checked, counted against what their user may have, written to disk, and only then acknowledged and handed to the engine."""

import sqlite3
import threading
from collections import Counter
from concurrent.futures import Future

from headway.errors import BadInput
from headway.io.units import counted
from headway.live.ask.forecast import DryRun, Forecast
from headway.live.desk.door import Door
from headway.live.errors import WrongState
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.records import Job
from headway.live.store.submissions import find_key, insert
from headway.live.world import LiveWorld

MOST_KEY = 200  # characters of a client's key


class Accepting(Door):
    """Takes jobs in."""

    def __init__(self, world: LiveWorld) -> None:
        super().__init__(world)
        self._users: set[str] = set()  # that were looked up
        self._accepting: Counter[str] = Counter()  # jobs that are being written, by user
        self._turns = threading.Lock()  # held while that is counted

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
        cluster = self._state.cluster
        if spec.gpus > cluster.total:
            has = f"the cluster {cluster.name} has {cluster.total}"
            raise BadInput(f"the job asks for {spec.gpus} GPUs, but {has}: it could never start")
        if why := self._state.engine.why_never(spec.gpus):
            raise BadInput(why)
        longest_s = self._state.longest_s
        if spec.time_limit is not None and spec.time_limit > longest_s:
            raise BadInput(
                f"time_limit: {spec.time_limit:g} s is more than the {longest_s:g} s that policy {self._state.policy} allows"
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

    def dry_run(self, spec: JobSpec, user: str) -> DryRun:
        """Where and roughly when it would start."""
        self._check(spec, user)
        with self._world.lock:
            forecast = Forecast(self._state, spec, self.clock(), user)
        return forecast.run()

    def notes_on(self, spec: JobSpec) -> tuple[str, ...]:
        """What of a job is accepted but not carried out as asked, one sentence each."""
        return self._state.notes(spec)
