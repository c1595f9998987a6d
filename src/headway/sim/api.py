"""From names to results: what the command line, notebooks and sweeps call."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headway.cluster.named import cluster as find_cluster
from headway.cluster.nodes import Cluster
from headway.errors import BadInput, unknown
from headway.io import specs as specs
from headway.io import units
from headway.network.fabric.model import Fabric
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.models.network import NETWORKS, find_network, only_isolable
from headway.sim.results import metrics
from headway.sim.results.results import Comparison, Result
from headway.sim.run import Setting, impossible, simulate_run
from headway.workloads.load import load
from headway.workloads.shape import Shape
from headway.workloads.synthetic import PREFIX
from headway.workloads.workload import Workload

__all__ = ["Comparison", "Result", "Watcher", "compare", "simulate"]

COLLECTIVES = ("none",)


MOST_SEED = 2**63 - 1  # what compiled code can hold


def read_setting(preemption_cost: str | float, slowdown: str, min_runtime: str | float, seed: int) -> Setting:
    """The setting for what a person wrote: `none`, a time, or `model`."""
    _one_of("slowdown", slowdown, ("none", "model"))
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not 0 <= seed <= MOST_SEED:
        raise BadInput(f"seed {seed!r} is not a whole number from 0 to 2^63 - 1")
    cost: float | None = None
    if preemption_cost != "model":
        try:
            cost = 0.0 if preemption_cost == "none" else units.seconds(str(preemption_cost))
        except BadInput:
            raise BadInput(f"preemption cost {preemption_cost!r} is not none, model or a time such as 30s") from None
    return Setting(cost, slowdown == "model", units.seconds(str(min_runtime), "--min-runtime"), int(seed))


def _one_of(what: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise unknown(what, given if isinstance(given, str) else repr(given), known)


def _text(what: str, given: Any) -> str:
    """A name or a path as text."""
    if not isinstance(given, str | os.PathLike):
        raise BadInput(f"{what} {given!r} is neither a name nor a path")
    return os.fsdecode(given)


def fitting(workload: Workload, cluster: Cluster, skip_impossible: bool) -> tuple[Workload, int]:
    """The jobs that the cluster can run. Larger ones are refused by name, or left out and counted."""
    too_large = impossible(workload, cluster)
    count = int(too_large.sum())
    if not count:
        return workload, 0
    if count == len(workload) or not skip_impossible:
        which = np.flatnonzero(too_large)
        some = ", ".join(f"{workload.job_id[j]} ({units.counted(int(workload.gpus[j]), 'GPU')})" for j in which[:10])
        more = f" and {count - 10:,} more" if count > 10 else ""
        whole = count == len(workload)
        who = "every job is" if whole else f"{count} of {len(workload)} jobs {'is' if count == 1 else 'are'}"
        fix = "take a larger cluster" + ("" if whole else ", or leave them out with --skip-impossible")
        raise BadInput(
            f"{workload.name}: {who} larger than {cluster.name} ({units.counted(cluster.total, 'GPU')}): {some}{more}; {fix}"
        )
    return workload.take(~too_large), count


def simulate(
    trace: str | os.PathLike[str] | Workload,
    cluster: str | os.PathLike[str] | Cluster,
    policy: Any = "tiresias-l",
    *,
    placement: Any = "consolidated",
    network: str = "ideal",
    fabric: str | os.PathLike[str] | Fabric | None = None,
    collective: str = "none",
    preemption_cost: str | float = "none",
    slowdown: str = "none",
    min_runtime: str | float = 0,
    seed: int = 0,
    skip_impossible: bool = False,
    strict: bool = False,
    shape: Shape | None = None,
    keep_journal: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Simulate a trace on a cluster: ``headway.simulate("jobs.csv", "15x4", "tiresias-l").summary["jct_s"]["mean"]``."""
    _one_of("collective", collective, COLLECTIVES)
    _one_of("network", network, NETWORKS)
    found_policy, found_placement = find_policy(policy), find_placement(placement)
    setting = read_setting(preemption_cost, slowdown, min_runtime, seed)
    found_cluster = cluster if isinstance(cluster, Cluster) else find_cluster(_text("cluster", cluster))
    fabric = fabric if fabric is None or isinstance(fabric, Fabric) else _text("fabric", fabric)
    setting = replace(setting, network=find_network(network, fabric, found_cluster, found_placement))
    whole = trace if isinstance(trace, Workload) else load(_text("trace", trace), strict=strict)
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
    told = {"left_out": left_out + never, "skipped": dict(workload.skipped)}
    return Result(run, metrics.summary(run, network, collective) | told, left_out + never)


class Watcher(Protocol):
    """Whoever follows a comparison: told of jobs that ended, and of each run that begins."""

    def update(self, ended: int, jobs: int) -> None:
        """So many jobs of this run have ended."""

    def next_run(self, what: str) -> None:
        """A run is over, and `what` begins."""


def compare(
    trace: str | os.PathLike[str] | Workload,
    cluster: str | os.PathLike[str] | Cluster,
    policies: Sequence[Any],
    *,
    seeds: int | None = None,
    seed: int | None = None,
    keep_journal: bool = False,
    progress: Watcher | None = None,
    **options: Any,
) -> Comparison:
    """Simulate the same trace under several policies, in their order; options as in `simulate`.

    With `seeds`, every policy runs with seeds 0 to `seeds` - 1: a synthetic trace is drawn anew with each; of a file, what is drawn at
    random (a sample, a placement) changes. The journal is kept for the first seed only.
    """
    name = trace if isinstance(trace, Workload) else _text("trace", trace)
    _check_compared(name, policies, seeds, seed)
    found = [find_policy(policy) for policy in policies]  # all names are checked before the first run
    by_seed: list[list[Result]] = []
    for number in range(seeds) if seeds is not None else (seed or 0,):
        named = name if seeds is None or isinstance(name, Workload) else with_seed(name, number)
        workload = load(named, strict=bool(options.get("strict"))) if isinstance(named, str) else named
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


def _check_compared(trace: str | Workload, policies: Any, seeds: int | None, seed: int | None) -> None:
    if isinstance(policies, str) or not isinstance(policies, Iterable):
        raise BadInput(f"policies is {policies!r}: give a list, such as ['fifo', 'tiresias-l']")
    if not list(policies):
        raise BadInput("policies is empty: name at least one, such as ['fifo', 'tiresias-l']")
    if seeds is None:
        return
    if not isinstance(seeds, int) or seeds < 1:
        raise BadInput(f"seeds is {seeds!r}: at least one is needed")
    if seed is not None:
        raise BadInput(f"--seeds {seeds} runs seeds 0 to {seeds - 1}: leave out --seed {seed}")
    if isinstance(trace, str) and trace.startswith(PREFIX) and "seed" in specs.split(trace)[1]:
        raise BadInput(f"--seeds {seeds} draws the trace with seeds 0 to {seeds - 1}: leave out seed= in {trace}")


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
