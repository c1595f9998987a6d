"""Queries about jobs, nodes and the manager, answered from memory, or from the journal's file for jobs no longer in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from headway.client.job import JobQuery, JobView
from headway.live.errors import NotFound
from headway.live.fabric.slices import slice_of
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.world_access import WorldAccess
from headway.live.measures import NO_QUEUE, Histogram
from headway.live.queries import archive, views
from headway.live.queries.answers import Story, Trend
from headway.live.queries.explain.explain import Explanation, explain, sees_all
from headway.live.queries.health import Lag, ManagerHealth, depth, health
from headway.live.queries.lists.listed import accounts, find
from headway.live.queries.replay.replay import PastJob, Replay
from headway.live.queries.replay.what_if import check_policies, what_if
from headway.live.queries.reservations import Sees
from headway.live.queries.story import read_rows, story
from headway.live.queries.trend import Active, Watch, active_now
from headway.live.queries.views import NodeView
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job, JournalRow
from headway.live.state.retired import Archived
from headway.live.store.archive import archived
from headway.live.store.history import late_rounds

T = TypeVar("T")
MOST_EVENTS = 10_000  # rows in one answer
EVERY_JOB, NEWEST = JobQuery(), JobQuery(descending=True)


class Questions(WorldAccess):
    """The part of the manager that answers queries."""

    def __init__(self, world: LiveWorld) -> None:
        super().__init__(world)
        self._watch = Watch(self._journal, self._active_now)

    def job(self, job_id: int) -> JobView | None:
        """Return one job, or None if there is no such job."""
        return self._about(
            job_id,
            lambda job: views.job_views(self._state, [job], self.clock())[0],
            lambda past: archive.archived_view(self._state, past),
        )

    def _about(self, job_id: int, of_job: Callable[[Job], T], of_archived: Callable[[Archived], T]) -> T | None:
        """Return `of_job` of a job in memory, or `of_archived` of a retired job; None if there is no such job, or it was pruned."""
        with self._world.lock:
            if job := self._state.jobs.get(job_id):
                return of_job(job)
            if self._state.past.final_of(job_id) is None:
                return None
        past = self._journal.read(lambda connection: archived(connection, job_id))
        return of_archived(past) if past else None

    def attempt_runs(self, job_id: int, attempt: int) -> bool:
        """Return whether this attempt of a job holds GPUs now: it starts, runs or stops."""
        with self._world.lock:
            return self._state.job_of_attempt(job_id, attempt) is not None

    def visible(self, job_ids: Sequence[int], sees: Sees) -> set[int]:
        """Return the jobs among these that exist and that the caller may see."""
        with self._world.lock:
            users = {job_id: self._state.jobs[job_id].user for job_id in job_ids if job_id in self._state.jobs}
            retired = [job_id for job_id in job_ids if job_id not in users and self._state.past.final_of(job_id)]
        users |= archive.users_of(self._journal, retired)
        return {job_id for job_id in job_ids if job_id in users and sees(job_id, users[job_id])}

    def views(self, job_ids: Sequence[int]) -> list[JobView]:
        """Return the jobs of these numbers that exist, in this order."""
        with self._world.lock:
            here = [self._state.jobs[job_id] for job_id in job_ids if job_id in self._state.jobs]
            by_id = {view.job_id: view for view in views.job_views(self._state, here, self.clock())}
        missing = {job_id: self.job(job_id) for job_id in job_ids if job_id not in by_id}
        by_id |= {job_id: view for job_id, view in missing.items() if view}
        return [by_id[job_id] for job_id in job_ids if job_id in by_id]

    def spec(self, job_id: int) -> JobSpec | None:
        """Return the job file of a job."""
        return self._about(job_id, lambda job: job.spec, lambda past: past.job.spec)

    @property
    def restricts_queues(self) -> bool:
        """Return whether some queue admits only some users."""
        return self._state.teams.restricted

    def check_access(self, spec: JobSpec, user: str, token_queues: Sequence[str] = ()) -> None:
        """Refuse (NotAdmitted) a job in a queue that its user, or a token bound to queues, may not submit to."""
        self._state.teams.check_access(spec, user, token_queues)

    def slice(self, job_id: int) -> dict[str, Any] | None:
        """Return a job's links, signed certificate and collective plan while it has GPUs."""
        with self._world.lock:
            job, fabric = self._state.jobs.get(job_id), self._state.site.fabric
            if job is None or fabric is None or not job.seats or self._state.engine.uplinks == 0:
                return None
            spec, gpus, links = job.spec, job.seats, job.links
        return slice_of(fabric, spec, gpus, links).view()

    def jobs(self, query: JobQuery = EVERY_JOB) -> list[JobView]:
        """Return the jobs that a query chooses, by number; page with `after_id`."""
        with self._world.lock:
            views, here = find(self._state, self.clock(), query), frozenset(self._state.jobs)
        if not self._state.past.counts.total():
            return views
        return self._journal.read(
            lambda file: archive.with_stored(views, archive.retired(self._state, file, query, here), query)
        )

    def history(self, query: JobQuery = NEWEST) -> list[JobView]:
        """Return the jobs that a query chooses, with the final figures of jobs that have ended."""
        with self._world.lock:
            here = self._state.active | {view.job_id for view in self._world.just_ended}
            views = accounts(self._state, self.clock(), query, here)
        return self._journal.read(lambda file: archive.with_stored(views, archive.accounted(file, query, here), query))

    def look(self, ask: Callable[[ClusterState, float], T]) -> T:
        """Return `ask(state, now)`, called while the state does not change."""
        with self._world.lock:
            return ask(self._state, self.clock())

    def story(self, job: JobView) -> Story:
        """Return the timeline of a job: when it waited, started, ran and stopped, and on which nodes."""
        rows = self._journal.read(lambda file: read_rows(file, job))
        return self.look(lambda state, now: story(state, now, job, rows))

    def trend(self, last_s: float, steps: int) -> Trend:
        """Return GPUs in use, and running, waiting and ended jobs, over the last seconds."""
        return self._watch.trend(self.clock(), last_s, steps, self._state.cluster.total)

    def _active_now(self) -> tuple[Active, bool]:
        """Return the active jobs, and whether the journal has every row about them."""
        with self._world.lock:
            return active_now(self._state), not self._world.unwritten

    def explain(self, job_id: int, sees: Sees = sees_all) -> Explanation:
        """Return why a job waits, the jobs ahead, what would help, and its receipt. Name only jobs that the caller may see."""
        remark = self._journal.displaced or "; ".join(self._executor.remarks())
        explanation = self._about(
            job_id, lambda job: explain(self._state, job, self.clock(), sees, remark), archive.archived_explanation
        )
        if explanation is None:
            with self._world.lock:
                self._state.job_named(job_id)  # raises NotFound, or WrongState for a job that was pruned
            raise NotFound(f"there is no job {job_id}")
        return explanation

    def nodes(self) -> list[NodeView]:
        """Return the nodes, with their free GPUs and their jobs."""
        with self._world.lock:
            return views.node_views(self._state)

    def workload(self, since: float) -> list[PastJob]:
        """Return the jobs submitted since then that ran, for replay."""
        with self._world.lock:
            in_memory, ids = views.past_jobs(self._state, since, self.clock()), frozenset(self._state.jobs)
        return self._journal.read(lambda file: archive.retired_jobs(self._state, file, since, ids)) + in_memory

    def late_rounds(self, since: float) -> list[tuple[float, float]]:
        """Return the rounds that were late since then, for replay: when each was due, and when it began."""
        return self._journal.read(lambda file: late_rounds(file, since))

    def what_if(self, policies: Sequence[str], last_s: float) -> Replay:
        """Return the completion times that recent jobs would have had under other policies. `last_s`: submitted since then."""
        check_policies(policies)
        state, since = self._state, self.clock() - last_s
        jobs, late = self.workload(since), self.late_rounds(since)
        return what_if(jobs, state.cluster, state.policy, state.placement, late, policies)

    def log_files(self, job_id: int, attempt: int) -> list[Path]:
        """Return the logs of an attempt, in the order of ranks."""
        return self._executor.logs(job_id, attempt)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state."""
        with self._world.lock:
            return views.counts(self._state)

    def metrics(self) -> dict[str, float]:
        """Return the gauges and counters of `/metrics`."""
        with self._world.lock:
            lag = self._lag(self.clock())
            return {
                **views.metrics(self._state),
                "headway_journal_commits_total": float(self._journal.commits),
                "headway_journal_rows_total": float(lag.rows),
                "headway_journal_writable": float(lag.writable),
                "headway_journal_behind_rows": float(lag.rows_behind),
                "headway_errors_total": float(self._world.measures.errors),
            }

    def _lag(self, now: float) -> Lag:
        """Return how far the journal is behind."""
        world, behind = self._world, self._world.measures.behind_since
        behind_s = max(0.0, now - behind) if world.unwritten and behind else 0.0
        return Lag(not (world.trouble or self._journal.displaced), world.last_seq, world.unwritten, behind_s)

    @property
    def trouble(self) -> str:
        """Return why no job is started: the journal cannot be written, or its disk is nearly full. Empty if all is well."""
        return self._world.trouble or self._journal.displaced or self._state.low_disk

    @property
    def queue_names(self) -> frozenset[str]:
        """Return the names of queues that every caller may see: those of the queues file, and `NO_QUEUE` for jobs without a queue."""
        queues = self._state.teams.queues
        return frozenset({NO_QUEUE, *(queue.name for queue in queues.queues)} if queues else {NO_QUEUE})

    def measured(self) -> tuple[dict[str, Histogram], dict[str, Histogram], dict[str, int]]:
        """Return the histograms of `/metrics`: times of the manager's work, and waits by queue; and the waiting jobs by queue."""
        with self._world.lock:
            measures, now = self._world.measures, self.clock()
            work = {"decision": self._state.engine.spent, "round": measures.rounds, "journal_commit": measures.commits}
            work, waits = (
                {name: histogram.copied() for name, histogram in histograms.items()}
                for histograms in (work, measures.waits)
            )
            return work, waits, depth(self._state, now).waiting_by_queue

    def health(self) -> ManagerHealth:
        """Return the measurements that `headway health` shows."""
        with self._world.lock:
            now, world = self.clock(), self._world
            return health(self._state, world.measures, self._lag(now), self.trouble, now - world.opened, now)

    def events(self, after: int) -> list[JournalRow]:
        """Return rows of the journal after number `after`, at most MOST_EVENTS."""
        return self._journal.rows(after, MOST_EVENTS)

    @property
    def last_event(self) -> int:
        """Return the number of the journal's last row."""
        return self._world.last_seq

    def next_events(self, after: int, timeout_s: float) -> list[JournalRow]:
        """Wait for rows of the journal after number `after` and return them; none after the timeout."""
        with self._world.writer.committed:
            new = self._world.writer.committed.wait_for(lambda: self._world.last_seq > after, timeout_s)
        return self.events(after) if new else []
