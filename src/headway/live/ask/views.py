"""What people see: jobs, nodes, numbers. Rows are copied in one go, so that ten thousand jobs are quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.client.job import JobView
from headway.core.events import REASONS
from headway.core.receipts import MICROSECONDS
from headway.job_state import FINAL_STATES, JobState
from headway.live.ask.receipt import receipt
from headway.live.ask.replay import PastJob
from headway.live.jobfile.notes import notes_on
from headway.live.records import BLOCKER_REASONS, Job
from headway.live.state import ClusterState, service_gpu_s, shown
from headway.live.store.journal import Journal

if TYPE_CHECKING:
    from headway.live.world import LiveWorld


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as people see it."""

    name: str
    gpus: int
    free: int
    state: str  # open, draining (jobs are left on it) or drained
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list: by user, by the names of states, by a part of the name, numbered above `after_id`; at most `limit`."""

    user: str | None = None
    states: frozenset[str] | None = None
    name: str | None = None
    after_id: int = 0
    limit: int = 100

    def passes(self, state: ClusterState, job: Job) -> bool:
        """Whether to list the job."""
        return (
            (self.user is None or job.user == self.user)
            and (self.name is None or self.name in job.spec.name)
            and (self.states is None or state.shown_state(job).name in self.states)
        )


def job_views(state: ClusterState, ids: Sequence[int], now: float) -> list[JobView]:
    """Views of these jobs."""
    rows = np.array(ids, np.int64) - 1
    found = zip(ids, state.tables.jobs[rows], state.why(rows).tolist(), strict=True)
    return [_view(state, state.jobs[job_id], now, cause, row) for job_id, row, cause in found]


def _view(state: ClusterState, job: Job, now: float, cause: int, row: Any) -> JobView:
    engine_state = JobState(int(row["state"]))
    waits_again = not job.final and not engine_state.has_processes
    command = job.spec.run or " ".join(job.spec.command)
    return JobView(
        job_id=job.id,
        name=job.spec.name or _name(command),
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
        notes=notes_on(job.spec, state.enforced),
    )


def _name(command: str) -> str:
    """The name of a job that has none: its program."""
    return command.split()[0].rpartition("/")[2][:40] if command.split() else ""


def find(state: ClusterState, now: float, wanted: JobFilter) -> list[JobView]:
    """Jobs by ascending number that pass the filter."""
    numbers: Sequence[int] = range(max(0, wanted.after_id) + 1, len(state.jobs) + 1)
    if wanted.states is not None and not wanted.states & FINAL_STATES:
        numbers = sorted(i for i in state.active if i > wanted.after_id)
    passing = (number for number in numbers if wanted.passes(state, state.jobs[number]))
    return job_views(state, list(islice(passing, wanted.limit)), now)


def node_views(state: ClusterState) -> list[NodeView]:
    """All nodes, in order."""
    on: dict[int, list[int]] = {}
    for job in state.active_jobs():
        for node, _ in job.places:
            on.setdefault(node, []).append(job.id)
    table = state.tables.nodes
    found = []
    for node, name in enumerate(state.cluster.nodes):
        here = tuple(on.get(node, ()))
        word = "open" if not table["closed"][node] else "draining" if here else "drained"
        found.append(NodeView(name, int(table["gpus"][node]), int(table["free"][node]), word, here))
    return found


def past_jobs(state: ClusterState, since: float, now: float) -> list[PastJob]:
    """Jobs submitted since then that ran at all."""
    causes = set(BLOCKER_REASONS.values())
    return [
        PastJob(
            job.id,
            job.user,
            job.spec.gpus,
            job.submitted,
            job.ended,
            state.run_s(job, now),
            state.shown_state(job).name,
            job.spec.may_preempt,
            sum(us for cause, us in receipt(state, job.row, now).items() if cause in causes) / MICROSECONDS,
            job.spec.name,
            job.spec.queue,
        )
        for job in state.jobs.values()
        if job.submitted >= since and job.first_started is not None
    ]


def counts(state: ClusterState) -> dict[str, int]:
    """How many jobs are in each state, as people see it."""
    states = state.tables.jobs["state"][: len(state.jobs)]
    found = np.bincount(states, minlength=len(JobState)).tolist()
    # The engine holds whatever is blocked; people call only those HELD that a person holds.
    held = np.nonzero(states == JobState.HELD)[0]
    not_by_people = sum(shown(JobState.HELD, state.jobs[int(row) + 1]) == JobState.PENDING for row in held)
    found[JobState.PENDING] += found[JobState.FUTURE] + not_by_people
    found[JobState.HELD] -= not_by_people
    return {each.name: found[each] for each in JobState if each != JobState.FUTURE}


def metrics(state: ClusterState, world: "LiveWorld", journal: Journal) -> dict[str, float]:
    """Numbers since the manager started, by the names that Prometheus gets."""
    nodes = state.tables.nodes
    return {
        "headway_gpus_total": float(state.cluster.total),
        "headway_gpus_free": float(nodes["free"].sum()),
        "headway_gpus_open": float(nodes["gpus"][nodes["closed"] == 0].sum()),
        "headway_preemptions_total": float(sum(job.preemptions for job in state.jobs.values())),
        "headway_decisions_total": float(state.engine.decisions),
        "headway_decision_seconds_total": state.engine.decide_s,
        "headway_decision_seconds_max": state.engine.longest_decide_s,
        "headway_rounds_total": float(world.rounds),  # facts recorded, decided and noted
        "headway_round_seconds_total": world.busy_s,
        "headway_round_seconds_max": world.longest_s,
        "headway_journal_commits_total": float(journal.commits),
        "headway_journal_rows_total": float(world.last_seq),
        "headway_journal_writable": float(not world.trouble),
    }
