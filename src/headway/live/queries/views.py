"""Views of jobs, nodes and totals for the API. Rows are copied at once, so that ten thousand jobs are quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.client.job import JobView
from headway.core.events import REASONS
from headway.core.receipts import MICROSECONDS
from headway.job_state import FINAL_STATES, JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.queries.explain.borrowed import notice_in
from headway.live.queries.receipt import receipt
from headway.live.queries.replay.replay import PastJob
from headway.live.state.attempts import given_turn
from headway.live.state.cluster import ClusterState, service_gpu_s, shown
from headway.live.state.records import BLOCKER_REASONS, Job
from headway.live.store.journal import Journal

if TYPE_CHECKING:
    from headway.live.manager.world import LiveWorld


STATES = tuple(JobState)  # by number


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as people see it."""

    name: str
    gpus: int
    free: int
    state: str  # open, draining (jobs are left on it) or drained
    jobs: tuple[int, ...]
    gpu_type: str = ""  # "": not known
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list: by user, states, a part of the name, queue, array and time of submission; at most `limit`.

    They come by number, beyond `after_id`: above it, or below it where the newest come first (0: from the end).
    """

    user: str | None = None
    states: frozenset[str] | None = None
    name: str | None = None
    after_id: int = 0
    limit: int = 100
    queue: str | None = None
    array_id: int | None = None
    since: float | None = None
    until: float | None = None
    newest: bool = False

    def passes(self, job: Job, code: int) -> bool:
        """Whether to list the job, by its record and its state in the engine's table."""
        return (
            (self.user is None or job.user == self.user)
            and (self.name is None or self.name in job.spec.name)
            and (self.queue is None or self.queue == job.spec.queue)
            and (self.array_id is None or self.array_id == job.array_id)
            and (self.since is None or job.submitted >= self.since)
            and (self.until is None or job.submitted <= self.until)
            and (self.states is None or (job.final or shown(STATES[code], job)).name in self.states)
        )


def job_views(state: ClusterState, ids: Sequence[int], now: float) -> list[JobView]:
    """Views of these jobs."""
    rows = np.array([state.jobs[job_id].row for job_id in ids], np.int64)
    rows_of_jobs = zip(ids, state.tables.jobs[rows], state.why(rows).tolist(), strict=True)
    return [view(state, state.jobs[job_id], now, cause, row) for job_id, row, cause in rows_of_jobs]


def view(state: ClusterState, job: Job, now: float, cause: int, row: Any) -> JobView:
    """One job, by its record and its row of the engine's table."""
    engine_state = JobState(int(row["state"]))
    waits_again = not job.final and not engine_state.has_processes
    notice = notice_in(state, row) if engine_state in (JobState.STARTING, JobState.RUNNING) else None
    command = job.spec.run or " ".join(job.spec.command)
    return JobView(
        job_id=job.id,
        name=job_name(job.spec),
        user=job.user,
        state=(job.final or shown(engine_state, job)).name,
        gpus=job.spec.gpus,
        attempt=int(row["attempt"]) + waits_again,
        exit_code=job.exit_code if job.final else None,
        submitted_at=job.submitted,
        started_at=job.started,
        ended_at=job.ended,
        service_gpu_s=service_gpu_s(row, now),
        reason=job.blocked_by or (REASONS[cause] if not job.final else ""),
        queue=job.spec.queue,
        level=int(row["level"]),
        command=command,
        nodes=tuple(state.cluster.nodes[node] for node, _ in job.places),
        progress=job.progress.as_dict(),
        preemptions=job.preemptions,
        array_id=job.array_id,
        array_index=job.array_index,
        message=job.message,
        first_started_at=job.first_started,
        notes=state.notes(job.spec),
        unsaved_s=_unsaved_s(job, now) if engine_state in (JobState.STARTING, JobState.RUNNING) else None,
        notice_until=notice.until if notice else None,
        notice_for=(notice.queue or None) if notice else None,
    )


def _unsaved_s(job: Job, now: float) -> float:
    """Seconds of its present attempt that would be lost if it were stopped now and saved nothing."""
    since = max(job.attempts.began, job.saved or 0.0)
    return max(0.0, now - since)


def job_name(spec: JobSpec) -> str:
    """Its name; that of a job that has none is its program."""
    command = spec.name or spec.run or " ".join(spec.command[:1])
    return spec.name or (command.split()[0].rpartition("/")[2][:40] if command.split() else "")


def find(state: ClusterState, now: float, wanted: JobFilter) -> list[JobView]:
    """Jobs by number that pass the filter."""
    only_active = wanted.states is not None and not wanted.states & FINAL_STATES
    first, every = wanted.after_id, iter(state.active if only_active else state.jobs)
    if wanted.array_id is not None:
        every = (task for task in state.tasks_of(wanted.array_id) if task in state.jobs)
    beyond = (i for i in every if (i < first or not first if wanted.newest else i > first))
    numbers = sorted(beyond, reverse=wanted.newest)
    codes = state.codes()
    passing = (number for number in numbers if wanted.passes(job := state.jobs[number], codes[job.row]))
    return job_views(state, list(islice(passing, wanted.limit)), now)


def node_views(state: ClusterState) -> list[NodeView]:
    """All nodes, in order."""
    on: dict[int, list[int]] = {}
    for job in state.active_jobs():
        for node, _ in job.places:
            on.setdefault(node, []).append(job.id)
    table, (types, features) = state.tables.nodes, state.cluster.kinds
    nodes = []
    for node, name in enumerate(state.cluster.nodes):
        here = tuple(on.get(node, ()))
        word = "open" if not table["closed"][node] else "draining" if here else "drained"
        gpus, free = int(table["gpus"][node]), int(table["free"][node])
        nodes.append(NodeView(name, gpus, free, word, here, types[node], features[node]))
    return nodes


def past_jobs(state: ClusterState, since: float, now: float) -> list[PastJob]:
    """Jobs submitted since then that ran at all."""
    return [
        past_job(state, job, state.run_s(job, now), receipt(state, job.row, now), state.attempt(job))
        for job in state.jobs.values()
        if job.submitted >= since and job.first_started is not None
    ]


def past_job(state: ClusterState, job: Job, run_s: float, receipt_us: Mapping[str, int], attempt: int) -> PastJob:
    """What a job did, so that it can be put through the simulator: its work without its starts, and what those and its stops took."""
    took, limit_s = job.attempts, state.limit_s(job.spec)
    final = job.final.name if job.final else state.shown_state(job).name
    reports = took.furthest >= 0  # then its run time holds what it took until the first step of each attempt
    work_s = run_s - attempt * (took.resume.value - took.launch.value) if reports else run_s
    causes = set(BLOCKER_REASONS.values())
    return PastJob(
        job.id,
        job.user,
        job.spec.gpus,
        job.submitted,
        job.ended,
        max(0.0, work_s) if run_s > 0 else 0.0,
        final,
        job.spec.may_preempt,
        sum(us for cause, us in receipt_us.items() if cause in causes) / MICROSECONDS,
        job.spec.name,
        job.spec.queue,
        took.save.value if took.save.count else None,
        took.resume.value,
        took.arrived_s,
        took.launch.value,
        took.spans,
        reports,
        given_turn(job.spec, state.min_runtimes),
        None if limit_s is None else limit_s + state.site.grace_s(job.spec),
        job.spec.resources.type,
        job.spec.constraints,
        job.spec.num_nodes or 0,
    )


def counts(state: ClusterState) -> dict[str, int]:
    """How many jobs are in each state, as people see it."""
    states = state.tables.jobs["state"][: len(state.jobs)]
    by_state = np.bincount(states, minlength=len(JobState)).tolist()
    # The engine holds whatever is blocked; people call only those HELD that a person holds.
    held = np.nonzero(states == JobState.HELD)[0]
    not_by_people = sum(shown(JobState.HELD, state.at(int(row))) == JobState.PENDING for row in held)
    by_state[JobState.PENDING] += by_state[JobState.FUTURE] + not_by_people
    by_state[JobState.HELD] -= not_by_people
    past = state.past.counts
    return {each.name: by_state[each] + past[each.name] for each in JobState if each != JobState.FUTURE}


def metrics(state: ClusterState, world: "LiveWorld", journal: Journal) -> dict[str, float]:
    """Numbers since the manager started, by the names that Prometheus gets."""
    nodes = state.tables.nodes
    return {
        "headway_gpus": float(state.cluster.total),
        "headway_gpus_free": float(nodes["free"].sum()),
        "headway_gpus_open": float(nodes["gpus"][nodes["closed"] == 0].sum()),
        "headway_preemptions_total": float(
            state.past.preemptions + sum(job.preemptions for job in state.jobs.values())
        ),
        "headway_journal_commits_total": float(journal.commits),
        "headway_journal_rows_total": float(world.last_seq),
        "headway_journal_writable": float(not (world.trouble or journal.displaced)),
        "headway_journal_behind_rows": float(world.unwritten),
        "headway_errors_total": float(world.measures.errors),
    }
