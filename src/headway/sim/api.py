"""From an experiment to its result: what the command line, notebooks and sweeps call."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headway.cluster.demands import Demand, check_possible, demand_of, demands_of
from headway.cluster.named import cluster as find_cluster
from headway.cluster.nodes import Cluster
from headway.cluster.queues import Queues
from headway.core.protocols import Placement, Policy
from headway.errors import BadInput, ImpossibleJobs, unknown
from headway.io import units
from headway.io.command_option import flag_of
from headway.iteration.plans import plan_number
from headway.network.fabric.model import Fabric
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.experiment import SEEDS, Experiment, options, turns
from headway.sim.models.network import find_network, only_isolable
from headway.sim.results import metrics
from headway.sim.results.result import Comparison, Result
from headway.sim.run import Setting, simulate_run
from headway.sim.stacks import WORDS, Stack, parse_stacks
from headway.sim.trace import Trace, has_seed, read_trace, text_of, with_seed
from headway.workloads.shaping import shaped
from headway.workloads.workload import SEPARATOR, Workload

Progress = Callable[[int, int], None]


def find(experiment: Experiment, policy: Policy | None = None) -> tuple[Policy, Placement, Cluster, Setting]:
    """Look up everything that an experiment names but its trace; `policy` is its policy where it was found before."""
    policy, placement = policy or find_policy(experiment.policy), find_placement(experiment.placement)
    given = experiment.cluster
    cluster = given if isinstance(given, Cluster) else find_cluster(text_of("cluster", given))
    fabric = experiment.fabric
    if not isinstance(fabric, Fabric | None):
        fabric = text_of("fabric", fabric)
    cost, by_queue = experiment.preemption_cost, turns(str(experiment.min_runtime))
    queues = experiment.queues
    if not isinstance(queues, Queues | None):
        from headway.cluster.queues_file import queues_from

        queues = queues_from(text_of("queues", queues))
    seconds = None if cost == "model" else 0.0 if cost == "none" else units.seconds(str(cost))
    setting = Setting(
        preemption_cost=seconds,
        slowdown=experiment.slowdown == "model",
        min_runtime=by_queue.pop(""),
        queue_min_runtime=by_queue,
        progress_reports=experiment.progress_reports,
        progress_error=experiment.progress_error,
        seed=experiment.seed,
        queues=queues,
        network=find_network(experiment.network, fabric, cluster, placement),
        plan=plan_number(experiment.collective),
    )
    return policy, placement, cluster, setting


def fitting(workload: Workload, cluster: Cluster, skip_impossible: bool) -> Workload:
    """The jobs that the cluster can run. Larger ones are refused by name, or left out."""
    too_large = workload.gpus > cluster.total
    count, jobs = int(too_large.sum()), len(workload)
    if count < jobs and (skip_impossible or not count):
        return workload.take(~too_large)
    which = np.flatnonzero(too_large)[:10]
    some = ", ".join(f"{workload.job_id[j]} ({units.counted(int(workload.gpus[j]), 'GPU')})" for j in which)
    more = f" and {count - 10:,} more" if count > 10 else ""
    who, advice = "every job is", ""
    if count < jobs:
        who, advice = f"{count} of {jobs} jobs {'is' if count == 1 else 'are'}", ", or leave them out"
    size = units.counted(cluster.total, "GPU")
    problem = f"{workload.name}: {who} larger than {cluster.name} ({size}): {some}{more}; take a larger cluster"
    raise ImpossibleJobs(problem, advice)


def constraints_of(workload: Workload) -> list[Demand]:
    """Return the constraint of each job; empty: no job has one."""
    if not (workload.nodes.any() or (workload.gpu_type != "").any() or (workload.features != "").any()):
        return []
    columns = (workload.gpu_type, workload.features, workload.gpus, workload.nodes)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    constraints = {}
    for gpu_type, text, gpus, nodes in dict.fromkeys(rows):
        features = filter(None, map(str.strip, text.split(SEPARATOR)))
        constraints[gpu_type, text, gpus, nodes] = demand_of(gpu_type, features, gpus, nodes)
    return [constraints[row] for row in rows]


def only_eligible(workload: Workload, cluster: Cluster, skip_impossible: bool) -> Workload:
    """Return the jobs whose constraints the nodes of the cluster meet. Others are refused by name, or left out."""
    cases = list(zip(constraints_of(workload), workload.gpus.tolist(), strict=False))
    reasons: dict[tuple[Demand, int], str] = {}
    for case in dict.fromkeys(cases):
        try:
            check_possible(cluster, *case)
        except BadInput as error:
            reasons[case] = str(error)
    if not reasons:
        return workload
    never = np.array([case in reasons for case in cases])
    if skip_impossible and not never.all():
        return workload.take(~never)
    j, count = int(never.argmax()), int(never.sum())
    why = reasons[cases[j]]
    who = f"{count} of {len(workload)} jobs can never start on {cluster.name}"
    advice = "; leave such jobs out" if count < len(workload) else ""
    raise ImpossibleJobs(f"{workload.name}: {who}; job {workload.job_id[j]}: {why}", advice)


def only_admissible(workload: Workload, cluster: Cluster, queues: Queues | None, skip_impossible: bool) -> Workload:
    """The jobs that their queues can ever run. Others are refused by name, or left out."""
    if queues is None:
        return workload
    names = dict.fromkeys(workload.queue.tolist())
    homes = {name: queues.find_for_trace(name, workload.name).name for name in names}
    kinds = [
        (homes[name], stops) for name, stops in zip(workload.queue.tolist(), workload.preemptible.tolist(), strict=True)
    ]
    most = {kind: queues.largest_job(*kind, cluster.total) for kind in dict.fromkeys(kinds)}
    too_large = workload.gpus > np.array([most[kind] for kind in kinds])
    if not too_large.any() or (skip_impossible and not too_large.all()):
        return workload.take(~too_large)
    j = int(too_large.argmax())
    why = f"asks for {units.counted(int(workload.gpus[j]), 'GPU')}, and queue {kinds[j][0]!r} gives at most {most[kinds[j]]}"
    never = "" if kinds[j][1] else " to a job that cannot be preempted"
    problem = f"{workload.name}: job {workload.job_id[j]} {why}{never} ({queues.name}); raise its limit or guarantee"
    raise ImpossibleJobs(problem, "" if too_large.all() else ", or leave such jobs out")


def run_experiment(
    experiment: Experiment,
    *,
    trace: Trace | None = None,
    policy: Policy | None = None,
    keep_journal: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run an experiment to its end. `trace` and `policy`, if given, spare reading and looking up what it names."""
    policy, placement, cluster, setting = find(experiment, policy)
    trace = trace or read_trace(experiment.trace, strict=experiment.strict)
    whole = shaped(trace.workload, cluster, experiment.seed, **experiment.shaping)
    workload = fitting(whole, cluster, experiment.skip_impossible)
    workload = only_eligible(workload, cluster, experiment.skip_impossible)
    workload = only_admissible(workload, cluster, setting.queues, experiment.skip_impossible)
    workload = only_isolable(workload, setting.network, placement, experiment.skip_impossible)
    setting = replace(setting, demands=demands_of(cluster, constraints_of(workload)))
    run = simulate_run(workload, cluster, policy, placement, setting, keep_journal=keep_journal, progress=progress)
    left_out = len(whole) - len(workload)
    return Result(run, metrics.summary(run, experiment, trace.sha256, left_out), experiment, left_out)


def _run_line(experiment: Experiment, stack: Stack | None, **how: Any) -> Result:
    """One line of a comparison, which knows its stack."""
    result = run_experiment(experiment, **how)
    return result if stack is None else replace(result, stack=stack, summary=result.summary | {"stack": stack.name})


def simulate(
    trace: str | os.PathLike[str] | Workload,
    cluster: str | os.PathLike[str] | Cluster,
    policy: Any = "headway",
    *,
    keep_journal: bool = False,
    progress: Progress | None = None,
    **given: Any,
) -> Result:
    """Simulate a trace on a cluster: ``headway.simulate("jobs.csv", "15x4", "tiresias-l").summary["jct_s"]["mean"]``.

    The options are those of `headway simulate`, as `help(headway.simulate)` lists them.
    """
    experiment = _experiment(trace, cluster, given | {"policy": policy})
    return run_experiment(experiment, keep_journal=keep_journal, progress=progress)


def _experiment(trace: Any, cluster: Any, given: dict[str, Any]) -> Experiment:
    for name in given:
        if name not in options():
            raise TypeError(str(unknown("option", name, options())))
    return Experiment(trace, cluster, **given)


class Watcher(Protocol):
    """Whoever follows a comparison: told of jobs that ended, and of each run that begins."""

    def update(self, ended: int, jobs: int) -> None:
        """So many jobs of this run have ended."""

    def next_run(self, what: str) -> None:
        """A run is over, and `what` begins."""


def compare(
    trace: str | os.PathLike[str] | Workload,
    cluster: str | os.PathLike[str] | Cluster,
    policies: Sequence[Any] | None = None,
    *,
    stacks: str | Sequence[Stack] | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    keep_journal: bool = False,
    progress: Watcher | None = None,
    **given: Any,
) -> Comparison:
    """Simulate the same trace under several policies, or under stacks (`headway stacks`), in their order; options as in `simulate`.

    With `seeds`, every policy runs with seeds 0 to `seeds` - 1: a synthetic trace is drawn anew with each; of a file, what is drawn at
    random (a sample, a placement) changes. The journal is kept for the first seed only.
    """
    _check_compared(trace, policies, stacks, seeds, seed)
    base = _experiment(trace, cluster, given | {"seed": seed or 0})
    lines = _lines(base, policies, stacks)
    policies_found = [find_policy(line.policy) for line, _ in lines]  # all names are checked before the first run
    watch = progress.update if progress else None
    by_seed: list[list[Result]] = []
    for number in range(seeds) if seeds is not None else (base.seed,):
        drawn = with_seed(base.trace, number) if seeds and isinstance(base.trace, str) else base.trace
        read = read_trace(drawn, strict=base.strict)
        results = []
        keep = keep_journal and not by_seed
        for (line, stack), policy in zip(lines, policies_found, strict=True):
            experiment = replace(line, trace=drawn, seed=number)
            results.append(_run_line(experiment, stack, trace=read, policy=policy, keep_journal=keep, progress=watch))
            if progress:
                progress.next_run(f"{stack.name if stack else policy.name} done")
        by_seed.append(results)
    return Comparison(tuple(zip(*by_seed, strict=True)))


def _lines(base: Experiment, policies: Any, stacks: Any) -> list[tuple[Experiment, Stack | None]]:
    """What is compared: the experiment with each policy, or as each stack has it."""
    if stacks is None:
        return [(replace(base, policy=policy), None) for policy in policies]
    listed = parse_stacks(stacks) if isinstance(stacks, str) else list(stacks)
    for word in WORDS:
        if getattr(base, word) != options()[word].default:
            raise BadInput(f"{flag_of(options()[word])} {getattr(base, word)}: with stacks, each says its own {word}")
    return [(replace(base, **stack.settings), stack) for stack in listed]


def _check_compared(trace: Any, policies: Any, stacks: Any, seeds: int | None, seed: int | None) -> None:
    if (policies is None) == (stacks is None):
        raise BadInput("compare either policies or stacks: --policies fifo,tiresias-l, or --stacks yarn,headway")
    if stacks is not None:
        policies = ["each says its own"]
    if isinstance(policies, str) or not isinstance(policies, Iterable):
        raise BadInput(f"policies is {policies!r}: give a list, such as ['fifo', 'tiresias-l']")
    if not list(policies):
        raise BadInput("policies is empty: name at least one, such as ['fifo', 'tiresias-l']")
    if seeds is None:
        return
    if seeds not in SEEDS:
        raise BadInput(f"seeds {seeds!r} is not {SEEDS}")
    if seed is not None:
        raise BadInput(f"--seeds {seeds} runs seeds 0 to {seeds - 1}: leave out --seed {seed}")
    if isinstance(trace, str) and has_seed(trace):
        raise BadInput(f"--seeds {seeds} draws the trace with seeds 0 to {seeds - 1}: leave out seed= in {trace}")


def _listed(function: Callable[..., Any]) -> None:
    """Let `help` and notebooks list the options of an experiment where a function takes them as `**given`."""
    own = inspect.signature(function)
    named = {one.name: one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD}
    for option in options().values():
        if option.name not in (*named, "policy"):
            named[option.name] = inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
    function.__signature__ = own.replace(parameters=list(named.values()))  # type: ignore[attr-defined]


_listed(simulate)
_listed(compare)
