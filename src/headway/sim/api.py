"""From names to results: what the command line, notebooks and sweeps call."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headway.core import spec as specs
from headway.core import units
from headway.core.cluster import Cluster
from headway.core.errors import BadInput, unknown
from headway.network.fabric import Fabric
from headway.placement.load import find_placement
from headway.policies.load import find_policy
from headway.sim import metrics
from headway.sim.clusters import cluster as find_cluster
from headway.sim.fabrics import find_network, only_isolable
from headway.sim.results import Comparison, Result
from headway.sim.run import Setting, impossible, simulate_run
from headway.sim.shape import Shape
from headway.sim.synthetic import PREFIX
from headway.sim.traces.load import load
from headway.sim.workload import Workload

__all__ = ["Comparison", "Result", "Watcher", "compare", "simulate"]

COLLECTIVES = ("none",)


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
    fabric: str | Fabric | None = None,
    collective: str = "none",
    preemption_cost: str = "none",
    slowdown: str = "none",
    min_runtime: str | float = 0,
    seed: int = 0,
    skip_impossible: bool = False,
    shape: Shape | None = None,
    keep_journal: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Simulate a trace on a cluster: ``headway.simulate("jobs.csv", "15x4", "tiresias-l").summary["jct_s"]["mean"]``."""
    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)
    found_policy, found_placement = find_policy(policy), find_placement(placement)
    setting = read_setting(preemption_cost, slowdown, min_runtime, seed)
    found_cluster = find_cluster(cluster) if isinstance(cluster, str) else cluster
    setting = replace(setting, network=find_network(network, fabric, found_cluster, found_placement))
    whole = load(trace) if isinstance(trace, str) else trace
    shaped = shape.apply(whole, found_cluster, seed) if shape else whole
    workload, left_out = fitting(shaped, found_cluster, skip_impossible)
    workload, never = only_isolable(workload, setting.network, found_placement, skip_impossible)
    run = simulate_run(
        workload,
        found_cluster,
        found_policy,
        found_placement,
        setting,
        keep_journal=keep_journal,
        progress=progress,
    )
    return Result(run, metrics.summary(run, network, collective), left_out + never)


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
    seeds: int | None = None,
    seed: int = 0,
    keep_journal: bool = False,
    progress: Watcher | None = None,
    **options: Any,
) -> Comparison:
    """Simulate the same trace under several policies, in their order; options as in `simulate`.

    With `seeds`, every policy runs with seeds 0 to `seeds` - 1: a synthetic trace is drawn anew with each; of a file, what is drawn at
    random (a sample, a placement) changes. The journal is kept for the first seed only.
    """
    if seeds is not None and seeds < 1:
        raise BadInput(f"seeds is {seeds}: at least one is needed")
    found = [find_policy(policy) for policy in policies]  # all names are checked before the first run
    by_seed: list[list[Result]] = []
    for number in range(seeds) if seeds is not None else (seed,):
        workload = trace if isinstance(trace, Workload) else load(trace if seeds is None else with_seed(trace, number))
        keep = keep_journal and not by_seed
        results = []
        for policy in found:
            update = progress.update if progress else None
            results.append(
                simulate(workload, cluster, policy, seed=number, keep_journal=keep, progress=update, **options)
            )
            if progress:
                progress.next_run(f"{policy.name} done")
        by_seed.append(results)
    return Comparison(tuple(zip(*by_seed, strict=True)))


def with_seed(trace: str, seed: int) -> str:
    """A synthetic trace with another seed; any other trace as it is."""
    return _with_option(trace, {"seed": str(seed)})


def without_seed(trace: str) -> str:
    """What several seeds of a synthetic trace have in common; any other trace as it is."""
    return _with_option(trace, {"seed": ""})


def _with_option(trace: str, changed: dict[str, str]) -> str:
    if not trace.startswith(PREFIX):
        return trace
    name, options = specs.split(trace)
    kept = [f"{key}={value}" for key, value in (options | changed).items() if value]
    return f"{name}?{'&'.join(kept)}" if kept else name
