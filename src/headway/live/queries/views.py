"""Views of jobs, nodes and totals for the API. Rows are copied at once, so that ten thousand jobs are quick."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headway.client.job import JobView
from headway.core.events import NOT_WAITING, REASONS
from headway.core.receipts import MICROSECONDS
from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.queries.borrowing import notice_in
from headway.live.queries.replay.replay import PastJob
from headway.live.rows import BLOCKER_REASONS
from headway.live.state.attempts import requested_min_runtime
from headway.live.state.cluster import ClusterState, charged_gpu_h, service_gpu_s, shown
from headway.live.state.records import Job

STATES: Final = tuple(JobState)  # by number: looking one up in a tuple is quicker than making a member of its number
WAITS: Final = frozenset({JobState.FUTURE, JobState.PENDING, JobState.HELD, JobState.STOPPING})
RUNS: Final = frozenset({JobState.STARTING, JobState.RUNNING})
COLUMNS: Final = ["state", "attempt", "level", "total", "since", "gpus", "until", "notice_for"]  # that views read


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


def job_views(
    state: ClusterState,
    jobs: Sequence[Job],
    now: float,
    positions: Iterable[int | None] | None = None,
    ended: bool = False,
) -> list[JobView]:
    """Return views of these jobs, with their places in the queue if given; `ended`: as the history has them."""
    rows = np.array([job.row for job in jobs], np.int64)
    values = [dict(zip(COLUMNS, row, strict=True)) for row in state.tables.jobs[COLUMNS][rows].tolist()]
    causes, not_waiting = state.why(rows).tolist(), state.tables.receipts[NOT_WAITING, rows].tolist()
    places = [None] * len(jobs) if positions is None else positions
    every = zip(jobs, values, causes, not_waiting, places, strict=True)
    return [view(state, job, now, row, cause, spent, place, ended) for job, row, cause, spent, place in every]


def view(
    state: ClusterState,
    job: Job,
    now: float,
    row: Any,
    cause: int,
    not_waiting: float,
    position: int | None = None,
    ended: bool = False,
) -> JobView:
    """Return one job, from its record, its row of the engine's table, why it waits, and its receipt of not waiting.

    In the history (`ended`) a job has its first start, and the nodes of its last attempt.
    """
    engine_state = STATES[row["state"]]
    runs = engine_state in RUNS
    waits_again = not job.final and not engine_state.has_processes
    notice = notice_in(state, row) if runs else None
    nodes = tuple(state.cluster.nodes[node] for node, _ in job.places)
    service = service_gpu_s(row, now)
    # The receipt of not waiting lacks the interval that the job is in (core/receipts.py).
    waits_until = now if engine_state in WAITS else 0.0
    return JobView(
        job_id=job.id,
        name=job_name(job.spec),
        user=job.user,
        state=(job.final or shown(engine_state, job)).name,
        gpus=job.spec.gpus,
        attempt=int(row["attempt"]) + waits_again,
        exit_code=job.exit_code if job.final else None,
        submitted_at=job.submitted,
        started_at=job.first_started if ended else job.started,
        ended_at=job.ended,
        service_gpu_s=service,
        reason=(job.blocked_by if job.blockers else "") or ("" if job.final else REASONS[cause]),
        queue=job.spec.queue,
        level=int(row["level"]),
        command=job.spec.run or " ".join(job.spec.command),
        nodes=nodes or job.ran_on if ended else nodes,
        progress=job.progress.as_dict(),
        preemptions=job.preemptions,
        array_id=job.array_id,
        array_index=job.array_index,
        message=job.message,
        first_started_at=job.first_started,
        wait_s=max(0.0, round(waits_until - job.submitted - not_waiting, 6)),
        gpu_hours=charged_gpu_h(service, job, now),
        position=position,
        notes=state.notes(job.spec),
        unsaved_s=_unsaved_s(job, now) if runs else None,
        notice_until=notice.until if notice else None,
        notice_for=(notice.queue or None) if notice else None,
    )


def _unsaved_s(job: Job, now: float) -> float:
    """Return the seconds since the job's last checkpoint or start, which a stop without a checkpoint loses."""
    since = max(job.attempts.began, job.saved or 0.0)
    return max(0.0, now - since)


def job_name(spec: JobSpec) -> str:
    """Return the name of a job, or its program if it has none."""
    command = spec.name or spec.run or " ".join(spec.command[:1])
    return spec.name or (command.split()[0].rpartition("/")[2][:40] if command.split() else "")


def node_views(state: ClusterState) -> list[NodeView]:
    """Return all nodes, in order."""
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
    """Return the jobs in memory that were submitted since a time and ran."""
    return [
        past_job(state, job, state.run_s(job, now), state.receipt_us(job, now), state.attempt(job))
        for job in state.jobs.values()
        if job.submitted >= since and job.first_started is not None
    ]


def past_job(state: ClusterState, job: Job, run_s: float, receipt_us: Mapping[str, int], attempt: int) -> PastJob:
    """Return a job for the simulator: its work without starts, and what its starts and stops took."""
    took, limit_s = job.attempts, state.limit_with_grace_s(job.spec) + job.ran_before
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
        requested_min_runtime(job.spec, state.min_runtimes),
        limit_s if limit_s < np.inf else None,
        job.spec.resources.type,
        job.spec.constraints,
        job.spec.num_nodes or 0,
    )


def counts(state: ClusterState) -> dict[str, int]:
    """Return the number of jobs in each state that users see."""
    states = state.tables.jobs["state"][: len(state.jobs)]
    by_state = np.bincount(states, minlength=len(JobState)).tolist()
    # The engine holds whatever is blocked; people call only those HELD that a person holds.
    held_rows = np.nonzero(states == JobState.HELD)[0]
    not_by_people = sum(shown(JobState.HELD, state.at(int(row))) == JobState.PENDING for row in held_rows)
    by_state[JobState.PENDING] += by_state[JobState.FUTURE] + not_by_people
    by_state[JobState.HELD] -= not_by_people
    past = state.past.counts
    return {
        job_state.name: by_state[job_state] + past[job_state.name]
        for job_state in JobState
        if job_state != JobState.FUTURE
    }


def metrics(state: ClusterState) -> dict[str, float]:
    """Return numbers about GPUs and jobs since the manager started, by the names that Prometheus gets."""
    nodes = state.tables.nodes
    return {
        "headway_gpus": float(state.cluster.total),
        "headway_gpus_free": float(nodes["free"].sum()),
        "headway_gpus_open": float(nodes["gpus"][nodes["closed"] == 0].sum()),
        "headway_preemptions_total": float(
            state.past.preemptions + sum(job.preemptions for job in state.jobs.values())
        ),
    }
