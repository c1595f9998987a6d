"""Submissions: checked, counted against what their user may have, written to disk, and only then acknowledged and handed to the engine.

Whatever has arrived when the journal becomes free is written together: a few statements and one flush to disk for many clients.
"""

import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from headway.errors import BadInput
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import JobSpec, array_tasks
from headway.live.manager.door import Door
from headway.live.manager.world import LiveWorld
from headway.live.queries.forecast import DryRun, Forecast
from headway.live.state.demands import asked_by
from headway.live.state.records import Job
from headway.live.store.submissions import Submission, insert_all

MOST_KEY = 200  # characters of a client's key
NO_ARRAY = (None,)


class Accepting(Door):
    """Takes jobs in."""

    def __init__(self, world: LiveWorld) -> None:
        super().__init__(world)
        self._users: set[str] = set()  # that were looked up
        self._arriving: deque[Submission] = deque()  # checked, and not with the journal yet
        self._expected = False  # the journal has been asked to take them

    def submit(self, spec: JobSpec, user: str, key: str | None = None) -> list[int]:
        """Accept a job (or the tasks of an array); on disk before this returns. The same user and key again give the same jobs."""
        answer: Future[list[int]] = Future()

        def told(done: Submission) -> None:
            if done.error is not None:
                answer.set_exception(done.error)
            else:
                answer.set_result(list(done.numbers))

        self.submission(spec, user, key, told)
        return answer.result()

    def submission(self, spec: JobSpec, user: str, key: str | None, told: Callable[[Submission], None]) -> None:
        """The same without waiting: `told` is called with the numbers of the jobs when they are on disk, in the journal's thread."""
        self._check(spec, user)
        if key is not None and not 0 < len(key) <= MOST_KEY:
            raise BadInput(f"Idempotency-Key: 1 to {MOST_KEY} characters")
        tasks = NO_ARRAY if spec.array is None else array_tasks(spec.array)[0]
        text = spec.model_dump_json(exclude_defaults=True)
        self._arriving.append(Submission(spec, text, user, key, self.clock(), tasks, told))
        if not self._expected:  # otherwise the journal is yet to take what has arrived
            self._expected = True
            self._write_arriving()

    def _write_arriving(self) -> None:
        """Let the journal write what has arrived when it gets to it, all together."""
        batch: list[Submission] = []

        def take() -> None:
            self._expected = False  # before they are taken: whoever comes later makes a batch of its own
            while self._arriving:
                batch.append(self._arriving.popleft())

        def write(connection: sqlite3.Connection) -> None:
            take()
            insert_all(connection, batch, self._count)

        def over(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not batch:
                take()  # the journal could not even begin
            for each in batch:
                self._uncount(each)
                each.error = each.error or error  # type: ignore[assignment]
                each.told(each)

        self._journal.commit_later(write, lambda _: self._hand_over(batch)).add_done_callback(over)

    def _hand_over(self, batch: list[Submission]) -> None:
        """Give jobs that are on disk to the engine (in the journal's thread, in the order of commits)."""
        with self._world.lock:
            for each in batch:
                if each.new:
                    first = each.numbers[0]
                    for number, index in zip(each.numbers, each.tasks, strict=True):
                        array_id = None if index is None else first
                        self._state.add(Job(number, each.user, each.spec, each.submitted, array_id, index))
                        self._world.arrivals.append(number)
                    self._uncount(each)  # now they count as jobs that have not ended
            self._world.mark(job=max((each.numbers[-1] for each in batch if each.new), default=0))
        self._world.wake()

    def _check(self, spec: JobSpec, user: str) -> None:
        """Refuse at once what can never run, and what would not be run as asked."""
        cluster = self._state.cluster
        if spec.gpus > cluster.total:
            has = f"the cluster {cluster.name} has {cluster.total}"
            raise BadInput(f"the job asks for {spec.gpus} GPUs, but {has}: it could never start")
        self._state.teams.check(spec, cluster.total)
        needs_links = spec.network.isolation != "none" or not self._state.engine.shares
        self._state.demands.check(spec)
        suits, per_node = self._state.demands.suits(spec), asked_by(spec).gpus_per_node
        if needs_links and (why := self._state.engine.why_never(spec.gpus, suits, per_node)):
            raise BadInput(why)
        longest_s = self._state.longest_s
        if spec.time_limit is not None and spec.time_limit > longest_s:
            raise BadInput(
                f"time_limit: {spec.time_limit:g} s is more than the {longest_s:g} s that policy {self._state.policy} allows"
            )
        refuse_unsupported(spec, self._state.site.fabric is not None, self._state.engine.uplinks > 0)
        if user not in self._users:  # looking an account up costs a millisecond
            self._executor.check_user(user)
            self._users.add(user)
        if spec.output is not None and not getattr(self._executor, "copies_output", False):
            raise BadInput(
                "output: this executor does not copy logs to other files: leave it out, and use headway logs"
            )
        for need in spec.needs:
            if not self._state.knows(need.job):
                raise BadInput(f"after: there is no job {need.job}")

    def _count(self, new: Submission) -> None:
        """Count jobs that are about to be accepted against what their user may have; refuse them if that is too many."""
        with self._state.counting:
            self._state.check_more(new.spec, new.user, len(new.tasks))
            new.counted = len(new.tasks)
            self._state.count_of(new.spec, new.user, new.counted)

    def _uncount(self, each: Submission) -> None:
        """They are no longer about to be accepted."""
        count, each.counted = each.counted, 0
        self._state.count_of(each.spec, each.user, -count)

    def dry_run(self, spec: JobSpec, user: str) -> DryRun:
        """Where and roughly when it would start."""
        self._check(spec, user)
        self._state.demands.check_share(spec, user)
        with self._world.lock:
            forecast = Forecast(self._state, spec, self.clock(), user)
        return forecast.run()

    def notes_on(self, spec: JobSpec) -> tuple[str, ...]:
        """What of a job is accepted but not carried out as asked, one sentence each."""
        return self._state.notes(spec)
