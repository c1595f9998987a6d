"""From names to results: what the command line, notebooks and sweeps call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.core import units
from headway.core.cluster import Cluster
from headway.core.errors import BadInput, unknown
from headway.placement.load import find_placement
from headway.policies.load import find_policy
from headway.sim import metrics
from headway.sim.clusters import cluster as find_cluster
from headway.sim.run import Run, Setting, impossible, simulate_run
from headway.sim.traces.load import load
from headway.sim.workload import Workload

NETWORKS = ("ideal",)
COLLECTIVES = ("none",)


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated run: its summary, its jobs, and everything a report is drawn from."""

    run: Run
    summary: dict[str, Any]
    left_out: int = 0  # jobs larger than the cluster, left out because the caller said so

    @property
    def jobs(self) -> dict[str, NDArray[Any]]:
        """The jobs, column by column, as in `jobs.csv`."""
        return metrics.job_columns(self.run)


def read_setting(preemption_cost: str, slowdown: str, min_runtime: str | float, seed: int) -> Setting:
    """The setting for what a person wrote: `none`, a time, or `model`."""
    if slowdown not in ("none", "model"):
        raise unknown("slowdown", slowdown, ("none", "model"))
    cost: float | None = None
    if preemption_cost != "model":
        try:
            cost = 0.0 if preemption_cost == "none" else units.seconds(preemption_cost)
        except BadInput:
            raise BadInput(f"preemption cost {preemption_cost!r} is not none, model or a time such as 30s") from None
    return Setting(cost, slowdown == "model", units.seconds(str(min_runtime)), seed)


def fitting(workload: Workload, cluster: Cluster, skip_impossible: bool) -> tuple[Workload, int]:
    """The jobs that the cluster can run. Larger ones are refused by name, or left out and counted."""
    too_large = impossible(workload, cluster)
    count = int(too_large.sum())
    if not count:
        return workload, 0
    if count == len(workload):
        raise BadInput(f"{workload.name}: every job is larger than {cluster.name} ({cluster.total} GPUs)")
    if not skip_impossible:
        which = np.flatnonzero(too_large)
        some = ", ".join(f"{workload.job_id[j]} ({workload.gpus[j]} GPUs)" for j in which[:10])
        more = f" and {count - 10} more" if count > 10 else ""
        raise BadInput(
            f"{workload.name}: {count} of {len(workload)} jobs are larger than {cluster.name} ({cluster.total} GPUs): "
            f"{some}{more}; take a larger cluster, or leave them out with --skip-impossible"
        )
    return workload.take(~too_large), count


def simulate(
    trace: str | Workload,
    cluster: str | Cluster,
    policy: Any = "tiresias-l",
    *,
    placement: Any = "consolidated",
    network: str = "ideal",
    collective: str = "none",
    preemption_cost: str = "none",
    slowdown: str = "none",
    min_runtime: str | float = 0,
    seed: int = 0,
    skip_impossible: bool = False,
    keep_journal: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Simulate a trace on a cluster: ``headway.simulate("jobs.csv", "15x4", "tiresias-l").summary["jct_s"]["mean"]``."""
    if network not in NETWORKS:
        raise unknown("network", network, NETWORKS)
    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)
    found_policy, found_placement = find_policy(policy), find_placement(placement)
    setting = read_setting(preemption_cost, slowdown, min_runtime, seed)
    found_cluster = find_cluster(cluster) if isinstance(cluster, str) else cluster
    workload, left_out = fitting(load(trace) if isinstance(trace, str) else trace, found_cluster, skip_impossible)
    run = simulate_run(
        workload,
        found_cluster,
        found_policy,
        found_placement,
        setting,
        keep_journal=keep_journal,
        progress=progress,
    )
    return Result(run, metrics.summary(run, network, collective), left_out)


class Watcher(Protocol):
    """Whoever follows a comparison: told of jobs that ended, and of each run that begins."""

    def update(self, ended: int, jobs: int) -> None:
        """So many jobs of this run have ended."""

    def next_run(self, what: str) -> None:
        """A run is over, and `what` begins."""


def compare(
    trace: str | Workload,
    cluster: str | Cluster,
    policies: Sequence[Any],
    *,
    progress: Watcher | None = None,
    **options: Any,
) -> list[Result]:
    """Simulate the same trace under several policies, in their order; options as in `simulate`."""
    found = [find_policy(policy) for policy in policies]  # all names are checked before the first run
    workload = load(trace) if isinstance(trace, str) else trace
    results = []
    for policy in found:
        results.append(simulate(workload, cluster, policy, progress=progress.update if progress else None, **options))
        if progress:
            progress.next_run(f"{policy.name} done")
    return results
