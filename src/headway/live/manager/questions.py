"""Queries about jobs, nodes and the manager, answered from memory, or from the journal's file for jobs no longer in memory."""

import sqlite3
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from headway.client.job import JobView
from headway.job_state import FINAL_STATES
from headway.live.executors import Shared
from headway.live.fabric.slices import slice_of
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.door import Door
from headway.live.measures import NO_QUEUE, Histogram
from headway.live.queries import archive, views
from headway.live.queries.explain.explain import Explanation, explain, sees_all
from headway.live.queries.explain.reserved import Sees
from headway.live.queries.health import ManagerHealth, depth, health
from headway.live.queries.replay.replay import PastJob
from headway.live.queries.views import JobFilter, NodeView
from headway.live.state.cluster import ClusterState
from headway.live.store.archive import Archived, archived
from headway.live.store.history import HistoryRow, Wanted, late_rounds
from headway.live.store.journal import JournalRow

T = TypeVar("T")
MOST_EVENTS = 10_000  # rows in one answer
EVERY_JOB = JobFilter()


class Questions(Door):
    """Answers them."""

    def job(self, job_id: int) -> JobView | None:
        """One job, or None."""
        with self._world.lock:
            if job_id in self._state.jobs:
                return views.job_views(self._state, [job_id], self.clock())[0]
        archived = self._archived(job_id)
        return archive.archived_view(self._state, archived) if archived else None

    def attempt_runs(self, job_id: int, attempt: int) -> bool:
        """Return whether this attempt of a job holds GPUs now: it starts, runs or stops."""
        with self._world.lock:
            job = self._state.jobs.get(job_id)
            if job is None or attempt != self._state.attempt(job):
                return False
            return self._state.job_state(job).has_processes

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
            by_id = dict(zip(here, views.job_views(self._state, here, self.clock()), strict=True))
        missing = {job_id: self.job(job_id) for job_id in job_ids if job_id not in by_id}
        by_id |= {job_id: view for job_id, view in missing.items() if view}
        return [by_id[job_id] for job_id in job_ids if job_id in by_id]

    def spec(self, job_id: int) -> JobSpec | None:
        """What the job's file says."""
        job = self._state.jobs.get(job_id)
        archived = None if job else self._archived(job_id)
        return job.spec if job else archived.job.spec if archived else None

    @property
    def restricts_queues(self) -> bool:
        """Return whether some queue admits only some users."""
        return self._state.teams.restricted

    def check_access(self, spec: JobSpec, user: str, token_queues: Sequence[str] = ()) -> None:
        """Refuse (NotAdmitted) a job in a queue that its user, or a token bound to queues, may not submit to."""
        self._state.teams.check_access(spec, user, token_queues)

    def slice(self, job_id: int) -> dict[str, Any] | None:
        """What a job holds of the fabric while it has GPUs: links, signed certificate, collective plan."""
        with self._world.lock:
            job, fabric = self._state.jobs.get(job_id), self._state.site.fabric
            if job is None or fabric is None or not job.seats or self._state.engine.uplinks == 0:
                return None
            held = job.spec, job.seats, job.links
        return slice_of(fabric, *held).view()

    def jobs(self, wanted: JobFilter = EVERY_JOB) -> list[JobView]:
        """Jobs by number, with filters; page with `after_id`."""
        with self._world.lock:
            in_memory, ids = views.find(self._state, self.clock(), wanted), frozenset(self._state.jobs)
        return self._journal.read(lambda file: archive.with_retired(self._state, in_memory, file, wanted, ids))

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
            explanation = explain(self._state, self._state.job_named(job_id), self.clock(), sees)
        return explanation if explanation.state in FINAL_STATES else self._remarked(explanation)

    def _remarked(self, explanation: Explanation) -> Explanation:
        """Return the explanation with what only the executor knows (Slurm is out of reach), or with the loss of the journal."""
        remarks = self._executor.remarks() if isinstance(self._executor, Shared) else ""
        remarks = self._journal.displaced or remarks
        return replace(explanation, message=f"{explanation.message}. {remarks}") if remarks else explanation

    def nodes(self) -> list[NodeView]:
        """The nodes, what is free on them, and who is there."""
        with self._world.lock:
            return views.node_views(self._state)

    def workload(self, since: float) -> list[PastJob]:
        """Jobs submitted since then that ran, for replay."""
        with self._world.lock:
            in_memory, ids = views.past_jobs(self._state, since, self.clock()), frozenset(self._state.jobs)
        return self._journal.read(lambda file: archive.retired_jobs(self._state, file, since, ids)) + in_memory

    def late_rounds(self, since: float) -> list[tuple[float, float]]:
        """When the engine was to decide since then, and when it did, where that was later; for replay too."""
        return self._journal.read(lambda file: late_rounds(file, since))

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

    @property
    def queue_names(self) -> frozenset[str]:
        """Names of queues that everybody may know: those of the queues file, and what jobs are counted under that name none."""
        queues = self._state.teams.queues
        return frozenset({NO_QUEUE, *(queue.name for queue in queues.queues)} if queues else {NO_QUEUE})

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
            return health(self._state, self._world, now)

    def events(self, after: int) -> list[JournalRow]:
        """Rows of the journal after number `after`, up to a bound."""
        return self._journal.rows(after, MOST_EVENTS)

    @property
    def last_event(self) -> int:
        """The number of the journal's last row."""
        return self._world.last_seq

    def next_events(self, after: int, timeout_s: float) -> list[JournalRow]:
        """The same, once there are any; none after a while."""
        with self._world.committed:
            new = self._world.committed.wait_for(lambda: self._world.last_seq > after, timeout_s)
        return self.events(after) if new else []
