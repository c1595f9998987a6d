"""What would have been: the jobs that a live manager ran, put through the simulator under other policies.

The simulator knows how long each job really ran, because it did. Two kinds of jobs are simulated, because they took GPUs, but not averaged:
those that still run, and those that were cancelled. For both the run time is cut off, and whether a user would have cancelled under
another policy nobody knows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.errors import BadInput

# A job that ended at once still took its GPUs for a moment.
SHORTEST_S = 1e-3
# Gates that open within a decision or two are not worth a word.
GATED_S = 0.1
AVERAGED = frozenset({"COMPLETED", "FAILED", "TIMEOUT"})


@dataclass(frozen=True, slots=True)
class Ran:
    """One job of the live journal: what it asked for and how long it really ran, in all attempts together."""

    job_id: int
    user: str
    gpus: int
    submitted_at: float
    ended_at: float | None
    run_s: float
    state: str
    preemptible: bool
    gated_s: float = (
        0.0  # waited behind a hold, a dependency, an array's limit or a back-off: the same under any policy
    )

    @property
    def averaged(self) -> bool:
        """Whether its completion time is known and its own."""
        return self.state in AVERAGED and self.ended_at is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Completion times under one policy (or as measured): over all averaged jobs, and by user."""

    name: str
    mean_s: float
    median_s: float
    p95_s: float
    makespan_s: float
    preemptions: int | None
    users: dict[str, float]


@dataclass(frozen=True, slots=True)
class Replay:
    """The measured outcome, the simulated ones, and what to know before believing them."""

    jobs: int
    averaged: int
    measured: Outcome
    simulated: tuple[Outcome, ...]
    caveats: tuple[str, ...]


def ran_jobs(rows: Sequence[Mapping[str, Any]]) -> list[Ran]:
    """The jobs of a workload as the API gives it; those that never took a GPU are left out."""
    names = Ran.__dataclass_fields__
    jobs = [Ran(**{name: row[name] for name in names}) for row in rows]
    return sorted(
        (job for job in jobs if job.run_s > 0 or job.averaged), key=lambda job: (job.submitted_at, job.job_id)
    )


def replay(jobs: Sequence[Ran], cluster: Cluster, policies: Sequence[str], placement: str = "consolidated") -> Replay:
    """Simulate the jobs under each policy, on the same cluster."""
    fitting = [job for job in jobs if job.gpus <= cluster.total]
    averaged = np.array([job.averaged for job in fitting], np.bool_)
    if not averaged.any():
        raise BadInput("no job has ended in that time: there is nothing to replay")
    simulated = tuple(_simulate(fitting, averaged, cluster, policy, placement) for policy in policies)
    submitted = np.array([job.submitted_at for job in fitting])
    ended = np.array([job.ended_at or np.nan for job in fitting])
    measured = _outcome("measured", fitting, averaged, submitted, ended, None)
    return Replay(len(fitting), int(averaged.sum()), measured, simulated, _caveats(jobs, cluster))


def _simulate(
    jobs: Sequence[Ran], averaged: NDArray[np.bool_], cluster: Cluster, policy: str, placement: str
) -> Outcome:
    """Run the simulator to the end. Jobs that could not be preempted live cannot be preempted here."""
    from headway.core.tables.journal import ROWS, SEATS, journal
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy
    from headway.sim.loop import FINISHED, JOURNAL_FULL, drive_compiled
    from headway.sim.run import JOURNAL_ROWS, Setting, prepare
    from headway.workloads.workload import workload

    began = jobs[0].submitted_at
    # A gated job arrives when its gate opens; the time before that is added again below.
    arrived = np.array([job.submitted_at - began + job.gated_s for job in jobs])
    order = np.argsort(arrived, kind="stable")
    jobs, averaged, arrived = [jobs[i] for i in order], averaged[order], arrived[order]
    load = workload(
        "live journal",
        arrived,
        [job.gpus for job in jobs],
        [max(SHORTEST_S, job.run_s) for job in jobs],
        job_id=[str(job.job_id) for job in jobs],
        user=[job.user for job in jobs],
        preemptible=[job.preemptible for job in jobs],
    )
    engine, world = prepare(load, cluster, find_policy(policy), find_placement(placement), Setting())
    book = journal(engine.state, JOURNAL_ROWS, False)
    compiled = (engine.key, engine.change, engine.place, engine.allot)
    while True:
        ended = drive_compiled(engine.state, engine.options, *compiled, 0, world, book, engine._out)
        book.tally[ROWS] = book.tally[SEATS] = 0
        if ended != JOURNAL_FULL:
            break
    if ended != FINISHED:
        raise BadInput(f"under {policy} with placement {placement} some of these jobs never start")
    rows = engine.state.jobs
    submitted = np.array([job.submitted_at - began for job in jobs])
    return _outcome(policy, jobs, averaged, submitted, rows["end"], int(rows["preemptions"].sum()))


def _outcome(
    name: str,
    jobs: Sequence[Ran],
    averaged: NDArray[np.bool_],
    submitted: NDArray[np.float64],
    ended: NDArray[np.float64],
    preemptions: int | None,
) -> Outcome:
    jct_s = (ended - submitted)[averaged]
    users = np.array([job.user for job in jobs])[averaged]
    return Outcome(
        name,
        float(jct_s.mean()),
        float(np.median(jct_s)),
        float(np.percentile(jct_s, 95)),
        float(ended[averaged].max() - submitted[averaged].min()),
        preemptions,
        {str(user): float(jct_s[users == user].mean()) for user in np.unique(users)},
    )


def _caveats(jobs: Sequence[Ran], cluster: Cluster) -> tuple[str, ...]:
    """What biases the comparison, one sentence each."""
    told = []
    counts = Counter(job.state for job in jobs)
    cancelled = counts["CANCELLED"]
    running = sum(count for state, count in counts.items() if state not in AVERAGED and state != "CANCELLED")
    if cancelled:
        told.append(
            f"{cancelled} jobs were cancelled: they take the GPU time they took, but are not averaged; under another policy they might"
            " have ended before, or never have been cancelled"
        )
    if running:
        told.append(f"{running} jobs have not ended: they count with the time they ran so far, and are not averaged")
    larger = sum(job.gpus > cluster.total for job in jobs)
    if larger:
        told.append(f"{larger} jobs are larger than this cluster and are left out")
    gated = sum(job.gated_s > GATED_S for job in jobs)
    if gated:
        told.append(
            f"{gated} jobs waited for a hold, a dependency, an array's limit or a retry: that time is kept as it was"
        )
    told.append(
        "run times hold what preemptions cost live (restarts, work done twice); the simulator adds none of its own"
    )
    return tuple(told)
