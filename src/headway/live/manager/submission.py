"""Submissions: check them, count them against the limits of their users, write them to disk, acknowledge them, hand them to the engine.

The journal writes all submissions that have arrived in one transaction: a few statements and one flush to disk for many clients.
"""

import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from headway.errors import BadInput, wrong_field
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.world_access import WorldAccess
from headway.live.queries.forecast import DryRun, Forecast
from headway.live.state.records import Job
from headway.live.store.submissions import Submission, insert_all

MOST_KEY = 200  # characters of a client's key
NO_ARRAY = (None,)


class Intake(WorldAccess):
    """The part of the manager that accepts submissions."""

    def __init__(self, world: LiveWorld) -> None:
        super().__init__(world)
        self._checked_users: set[str] = set()  # accepted by the executor
        self._arriving: deque[Submission] = deque()  # checked, and not in the journal yet
        self._write_queued = False  # the journal's thread will write `_arriving`

    def submit(self, spec: JobSpec, user: str, key: str | None = None) -> list[int]:
        """Accept a job or an array, and return the numbers of its jobs once they are on disk; the same key gives the same numbers."""
        answer: Future[list[int]] = Future()

        def on_done(done: Submission) -> None:
            if done.error is not None:
                answer.set_exception(done.error)
            else:
                answer.set_result(list(done.numbers))

        self.submit_later(spec, user, key, on_done)
        return answer.result()

    def submit_later(self, spec: JobSpec, user: str, key: str | None, on_done: Callable[[Submission], None]) -> None:
        """Accept a job without waiting for the disk; the journal's thread calls `on_done` with the numbers of the jobs or an error."""
        self._check(spec, user)
        if key is not None and not 0 < len(key) <= MOST_KEY:
            raise wrong_field("Idempotency-Key", f"write 1 to {MOST_KEY} characters")
        tasks = NO_ARRAY if spec.array is None else array_tasks(spec.array)[0]
        text = spec.model_dump_json(exclude_defaults=True)
        self._arriving.append(Submission(spec, text, user, key, self.clock(), tasks, on_done))
        if not self._write_queued:
            self._write_queued = True
            self._write_arriving()

    def _write_arriving(self) -> None:
        """Let the journal's thread write all submissions that have arrived by then in one transaction."""
        batch: list[Submission] = []

        def take() -> None:
            self._write_queued = False  # first: a later submission begins another batch
            while self._arriving:
                batch.append(self._arriving.popleft())

        def write(connection: sqlite3.Connection) -> None:
            take()
            insert_all(connection, batch, self._count)

        def answer(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not batch:
                take()  # the transaction did not begin
            for submission in batch:
                self._uncount(submission)
                submission.error = submission.error or error  # type: ignore[assignment]
                submission.on_done(submission)

        self._journal.commit_later(write, lambda _: self.hand_over(batch)).add_done_callback(answer)

    def hand_over(self, batch: list[Submission]) -> None:
        """Give jobs that are on disk to the engine (in the journal's thread, in the order of commits)."""
        with self._world.lock:
            accepted = [submission for submission in batch if submission.new]
            for submission in accepted:
                first, user, spec = submission.numbers[0], submission.user, submission.spec
                for number, index in zip(submission.numbers, submission.tasks, strict=True):
                    array_id = None if index is None else first
                    self._state.add(Job(number, user, spec, submission.submitted, array_id, index))
                    self._world.inbox.arrivals.append(number)
                self._uncount(submission)  # now they count as jobs that have not ended
            self._world.mark(job=max((submission.numbers[-1] for submission in accepted), default=0))
        self._world.wake()

    def _check(self, spec: JobSpec, user: str) -> None:
        """Refuse a job that can never run, or whose job file cannot be obeyed here."""
        cluster = self._state.cluster
        if spec.gpus > cluster.total:
            has = f"the cluster {cluster.name} has {cluster.total}"
            raise BadInput(f"the job asks for {spec.gpus} GPUs, but {has}: it could never start")
        self._state.teams.check(spec, cluster.total)
        needs_links = spec.network.isolation != "none" or not self._state.engine.shares
        self._state.demands.check(spec)
        eligible, per_node = self._state.demands.suits(spec), spec.demand.gpus_per_node
        if needs_links and (why := self._state.engine.why_never(spec.gpus, eligible, per_node)):
            raise BadInput(why)
        longest_s = self._state.longest_s
        if spec.time_limit is not None and spec.time_limit > longest_s:
            most = f"the {longest_s:g} s that policy {self._state.policy} allows"
            raise wrong_field("time_limit", f"{spec.time_limit:g} s is more than {most}: ask for less")
        refuse_unsupported(spec, self._state.site.fabric is not None, self._state.engine.uplinks > 0)
        if user not in self._checked_users:  # looking up an account takes a millisecond
            self._executor.check_user(user)
            self._checked_users.add(user)
        if spec.output is not None and not self._executor.capabilities.copies_output:
            why = "this executor does not copy logs to other files: leave it out, and use headway logs"
            raise wrong_field("output", why)
        for need in spec.needs:
            with self._world.lock:  # a job may be leaving the memory
                exists = self._state.knows(need.job)
            if not exists:
                raise wrong_field("after", f"there is no job {need.job}")

    def _count(self, new: Submission) -> None:
        """Count jobs that are about to be accepted against the limits of their user; raise BadInput beyond a limit."""
        with self._state.counting:
            self._state.check_more(new.spec, new.user, len(new.tasks))
            new.counted = len(new.tasks)
            self._state.count_of(new.spec, new.user, new.counted)

    def _uncount(self, submission: Submission) -> None:
        """Undo `_count`: the jobs were accepted or refused."""
        count, submission.counted = submission.counted, 0
        self._state.count_of(submission.spec, submission.user, -count)

    def dry_run(self, spec: JobSpec, user: str) -> DryRun:
        """Return where and roughly when a job would start."""
        self._check(spec, user)
        self._state.demands.check_count(spec)
        with self._world.lock:
            forecast = Forecast(self._state, spec, self.clock(), user)
        return forecast.run()

    def notes_on(self, spec: JobSpec) -> tuple[str, ...]:
        """Return one sentence for each field of the job that is accepted but not enforced."""
        return self._state.notes(spec)
