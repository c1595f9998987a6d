"""Replay: simulate the jobs that a live manager ran under other policies.

The simulator knows how long each job really ran, because it did. Two kinds of jobs are simulated, because they took GPUs, but not averaged:
those that still run, and those that were cancelled. For both the run time is cut off, and whether a user would have cancelled under
another policy nobody knows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.demands import Demand, demand_of, demands_of, gpus_of
from headway.cluster.nodes import Cluster, cluster_of
from headway.cluster.queues import Queues
from headway.core.compiler.mistakes import explained
from headway.core.engine import drive
from headway.core.keys import AUTO_MULTIPLE
from headway.core.operations import admit
from headway.errors import BadInput
from headway.io.units import counted
from headway.job_state import FINAL_STATES, JobState
from headway.live.state.attempts import Span

# A job that ended at once still took its GPUs for a moment.
SHORTEST_S = 1e-3
# A job that was blocked for a decision or two is not worth a word.
BLOCKED_S = 0.1
CUT = frozenset({JobState.CANCELLED.name, JobState.TIMEOUT.name})  # jobs that were stopped for good
AVERAGED = FINAL_STATES - {JobState.CANCELLED.name}


@dataclass(frozen=True, slots=True)
class PastJob:
    """One job of the live journal: what it asked for, how long it really worked in all attempts together, and what stopping it took."""

    job_id: int
    user: str
    gpus: int
    submitted_at: float
    ended_at: float | None
    run_s: float
    state: str
    preemptible: bool
    blocked_s: float = 0.0  # waited for a hold, a dependency, an array's limit or a back-off: the same under any policy
    name: str = ""
    queue: str = ""
    save_s: float | None = None  # from the signal until its GPUs were free, on average; None: it was never stopped
    start_s: float = 0.0  # from the start of an attempt until its first step, on average; not in `run_s`
    arrived_s: float = 0.0  # until the engine had it, from its submission
    launch_s: float = 0.0  # of these, until its processes ran
    spans: tuple[Span, ...] = ()  # what its first attempts took, one by one
    reports: bool = False  # it reports its steps
    min_runtime_s: float | None = (
        None  # that it runs before it may be preempted; None: by what stopping and starting cost
    )
    limit_s: float | None = None  # it would have been ended after this time
    gpu_type: str = ""  # that it asked for
    constraints: tuple[str, ...] = ()
    num_nodes: int = 0  # that it asked for; 0: any

    @property
    def averaged(self) -> bool:
        """Return whether the job's completion time is known, and not cut short by a cancel."""
        return self.state in AVERAGED and self.ended_at is not None

    @property
    def arrives_at(self) -> float:
        """Return the time from which only the engine kept the job waiting."""
        return self.submitted_at + max(self.blocked_s, self.arrived_s)

    @property
    def demand(self) -> Demand:
        """Return the job's constraints."""
        return demand_of(self.gpu_type, self.constraints, self.gpus, self.num_nodes)

    def fits(self, cluster: Cluster) -> bool:
        """Return whether the job could ever start on a cluster."""
        return self.gpus <= gpus_of(cluster, self.demand)


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
    percentiles_s: tuple[float, ...] = ()  # of the completion times, from 0 to 100 in steps of 1


@dataclass(frozen=True, slots=True)
class Replay:
    """The measured outcome, the simulated ones, and what to know before believing them."""

    jobs: int
    averaged: int
    measured: Outcome
    simulated: tuple[Outcome, ...]
    caveats: tuple[str, ...]


def ran_jobs(rows: Sequence[Mapping[str, Any]]) -> list[PastJob]:
    """Return the jobs of a workload of the API that held GPUs."""
    names = PastJob.__dataclass_fields__
    jobs = [PastJob(**{name: row[name] for name in names if name in row}) for row in rows]
    ran = [job for job in jobs if job.run_s > 0 or job.averaged]
    return sorted(ran, key=lambda job: (job.submitted_at, job.job_id))


def replay_workload(
    workload: Mapping[str, Any], policies: Sequence[str], placement: str | None = None, queues: Queues | None = None
) -> Replay:
    """Replay a workload as the API gives it. The manager's policy comes first, to show how far the simulator can be trusted."""
    tried = list(dict.fromkeys((workload["policy"], *policies)))
    cluster = cluster_of(workload["cluster"])
    placement = placement or workload["placement"]
    return replay(ran_jobs(workload["jobs"]), cluster, tried, placement, queues, workload["late"])


def replay(
    jobs: Sequence[PastJob],
    cluster: Cluster,
    policies: Sequence[str],
    placement: str = "consolidated",
    queues: Queues | None = None,
    late: Sequence[Sequence[float]] = (),
) -> Replay:
    """Simulate the jobs under each policy, on the same cluster; with queues of teams, but for reservations of nodes.

    `late` are times (from, to) in which nothing was decided: the machine was busy, or no manager ran.
    """
    fitting = [job for job in jobs if job.fits(cluster)]
    averaged = sum(job.averaged for job in fitting)
    if not averaged:
        raise BadInput("no job has ended in that time: there is nothing to replay")
    away = _merged(sorted((float(begin), float(end)) for begin, end in late))
    simulated = tuple(_simulate(fitting, cluster, policy, placement, queues, away) for policy in policies)
    measured = _outcome("measured", fitting, np.array([job.ended_at or np.nan for job in fitting]), None)
    return Replay(len(fitting), averaged, measured, simulated, _caveats(jobs, cluster))


def _simulate(
    jobs: Sequence[PastJob],
    cluster: Cluster,
    policy: str,
    placement: str,
    queues: Queues | None,
    late: list[tuple[float, float]],
) -> Outcome:
    """Run the simulator to the end. Jobs that could not be preempted live cannot be preempted here."""
    from headway.live.queries.replay.relived import Habits, Relived
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy
    from headway.sim.run import Setting, prepare
    from headway.sim.world_tables import cost_table
    from headway.workloads.workload import workload

    # A blocked job arrives when nothing blocks it any more; the time before that is added again below.
    jobs = sorted(jobs, key=lambda job: job.arrives_at)
    rules = find_policy(policy)
    load = workload(
        "live journal",
        [job.arrives_at for job in jobs],  # the manager's own times, so that quanta fall where they did
        [job.gpus for job in jobs],
        [max(SHORTEST_S, job.run_s) for job in jobs],
        job_id=[str(job.job_id) for job in jobs],
        user=[job.user for job in jobs],
        queue=[job.queue for job in jobs],
        title=[job.name for job in jobs],
        preemptible=[job.preemptible for job in jobs],
        limit_s=[np.inf if job.limit_s is None else job.limit_s for job in jobs],
    )
    demands = demands_of(cluster, [job.demand for job in jobs])
    setting = Setting(queues=queues and replace(queues, bookings=()), demands=demands)
    engine, world = prepare(load, cluster, rules, find_placement(placement), setting)
    saves = _saves(jobs)
    world = world._replace(costs=cost_table(len(jobs), save=saves, resume=0.0, moved=0.0))
    turns = np.array([AUTO_MULTIPLE if job.min_runtime_s is None else 0.0 for job in jobs])
    admit(engine.state, slice(None), submit=load.submit_s, gpus=load.gpus, turns=turns)
    habits = [
        Habits(job.start_s, job.reports, job.preemptible, job.min_runtime_s, job.state in CUT, _spans(job, save_s))
        for job, save_s in zip(jobs, saves.tolist(), strict=True)
    ]
    relived = Relived(engine, world, habits, late)
    with explained():
        drive(engine, relived)
    if int(world.clock["done"][0]) < len(jobs):
        raise BadInput(f"under {policy} some of these jobs can never start: nothing runs, and nothing will end")
    table = engine.state.jobs
    preemptions = int(table["preemptions"].sum()) - len(relived.cut)
    heard_s = np.array([relived.span(j)[3] for j in range(len(jobs))])  # an end is heard a little after it
    return _outcome(policy, jobs, table["end"] - heard_s - np.array(relived.missed_s), preemptions)


def _merged(times: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return sorted times (from, to) with overlapping ones merged."""
    merged: list[tuple[float, float]] = []
    for begin, end in times:
        if merged and begin <= merged[-1][1]:
            begin, end = merged[-1][0], max(end, merged.pop()[1])
        merged.append((begin, end))
    return merged


def _spans(job: PastJob, save_s: float) -> tuple[Span, ...]:
    """Return what the attempts of a job take: as measured, then their mean; `save_s` for attempts that were not stopped."""
    spans = [span if span[2] >= 0.0 else (*span[:2], save_s, span[3]) for span in map(_as_span, job.spans)]
    means = [float(np.mean(column)) for column in zip(*spans, strict=True)] or [job.launch_s, 0.0, save_s, 0.0]
    return (*spans, (means[0], means[1], save_s, means[3]))


def _as_span(values: Sequence[float]) -> Span:
    launch_s, heard_s, save_s, gone_s = values
    return launch_s, heard_s, save_s, gone_s


def _saves(jobs: Sequence[PastJob]) -> NDArray[np.float64]:
    """Return the seconds to stop each job: measured, or the mean of jobs of its size, or of all jobs."""
    saved: dict[int, list[float]] = {}
    for job in jobs:
        if job.save_s is not None:
            for size in (job.gpus, 0):
                saved.setdefault(size, []).append(job.save_s)
    mean = {size: float(np.mean(times)) for size, times in saved.items()}
    return np.array([mean.get(job.gpus, mean.get(0, 0.0)) if job.save_s is None else job.save_s for job in jobs])


def _outcome(name: str, jobs: Sequence[PastJob], ended: NDArray[np.float64], preemptions: int | None) -> Outcome:
    """Return the times of the averaged jobs, by the times at which they ended."""
    averaged = np.array([job.averaged for job in jobs])
    submitted = np.array([job.submitted_at for job in jobs])[averaged]
    users = np.array([job.user for job in jobs])[averaged]
    jct_s = ended[averaged] - submitted
    median_s, p95_s = float(np.median(jct_s)), float(np.percentile(jct_s, 95))
    makespan_s = float(ended[averaged].max() - submitted.min())
    by_user = {str(user): float(jct_s[users == user].mean()) for user in np.unique(users)}
    percentiles_s = tuple(np.percentile(jct_s, np.arange(101)).round(3).tolist())
    return Outcome(name, float(jct_s.mean()), median_s, p95_s, makespan_s, preemptions, by_user, percentiles_s)


def _caveats(jobs: Sequence[PastJob], cluster: Cluster) -> tuple[str, ...]:
    """Return what biases the comparison, one sentence each."""
    counts = Counter(job.state for job in jobs)
    biases = (
        (
            counts[JobState.CANCELLED.name],
            "cancelled: such jobs take the GPU time they took, but are not averaged; under another policy they might have ended before,"
            " or never have been cancelled",
        ),
        (
            sum(count for state, count in counts.items() if state not in FINAL_STATES),
            "not ended yet: such jobs count with the time they ran so far, and are not averaged",
        ),
        (sum(not job.fits(cluster) for job in jobs), "larger than this cluster, or without nodes that suit: left out"),
        (
            sum(job.blocked_s > BLOCKED_S for job in jobs),
            "kept waiting by a hold, a dependency, an array's limit or a retry: that time is kept as it was",
        ),
    )
    costs = (
        "stops and starts take what they took live, or what they took other jobs of the size; work done twice counts as work:"
        " another policy may cause less of it, or more"
    )
    return (*(f"{counted(count, 'job')} {caveat}" for count, caveat in biases if count), costs)
