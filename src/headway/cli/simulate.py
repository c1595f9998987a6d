"""`headway simulate`, `compare` and `policies`: one run, several side by side, and what there is to choose from."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.progress import following, kernels_ready

if TYPE_CHECKING:
    from headway.sim.api import Result

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file, or synthetic:NAME?jobs=480&seed=1.")]
ClusterOption = Annotated[
    str, typer.Option("--cluster", help="Nodes x GPUs such as 15x4, a preset such as philly, or a YAML file.")
]
PlacementOption = Annotated[str, typer.Option("--placement", help="Where jobs run; see `headway policies`.")]
NetworkOption = Annotated[str, typer.Option("--network", help="ideal, ecmp, balanced, source or isolated.")]
CollectiveOption = Annotated[str, typer.Option("--collective", help="none, baseline, themis or best.")]
CostOption = Annotated[str, typer.Option("--preemption-cost", help="none, a time such as 30s, or model.")]
SlowdownOption = Annotated[str, typer.Option("--slowdown", help="none or model: spreading skewed models slows them.")]
MinRuntimeOption = Annotated[str, typer.Option("--min-runtime", help="Time a job runs before it may be preempted.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything drawn at random.")]
SkipOption = Annotated[
    bool, typer.Option("--skip-impossible", help="Leave out jobs larger than the cluster, and say how many.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder for jobs.csv, journal.jsonl, summary.json and report.html.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(simulate)
    app.command()(compare)
    app.command()(policies)


def simulate(
    trace: TraceArgument,
    cluster: ClusterOption,
    policy: Annotated[str, typer.Option("--policy", help="When jobs run; see `headway policies`.")] = "tiresias-l",
    placement: PlacementOption = "consolidated",
    network: NetworkOption = "ideal",
    collective: CollectiveOption = "none",
    preemption_cost: CostOption = "none",
    slowdown: SlowdownOption = "none",
    min_runtime: MinRuntimeOption = "0",
    seed: SeedOption = 0,
    skip_impossible: SkipOption = False,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a trace through one policy on one cluster.

    Example: headway simulate synthetic:tiresias-480 --cluster 15x4 --policy tiresias-l --out out/
    """
    with following(f"simulating {policy}", quiet=as_json) as progress:
        kernels_ready(progress)
        from headway.sim.api import simulate as run

        result = run(
            trace,
            cluster,
            policy,
            placement=placement,
            network=network,
            collective=collective,
            preemption_cost=preemption_cost,
            slowdown=slowdown,
            min_runtime=min_runtime,
            seed=seed,
            skip_impossible=skip_impossible,
            keep_journal=out is not None,
            progress=progress.update,
        )
    if out is not None:
        _write(result, out)
    if as_json:
        print(json.dumps(result.summary, indent=2))
        return
    from headway.cli.tables import show_runs

    show_runs([result])
    if out is not None:
        print(f"wrote {out}/jobs.csv, journal.jsonl, summary.json and report.html")


def _write(result: "Result", out: Path) -> None:
    from headway.sim.output import write_result

    write_result(result, out)


def compare(
    trace: TraceArgument,
    cluster: ClusterOption,
    policies: Annotated[str, typer.Option("--policies", help="Names with commas between, the first is the measure.")],
    placement: PlacementOption = "consolidated",
    network: NetworkOption = "ideal",
    collective: CollectiveOption = "none",
    preemption_cost: CostOption = "none",
    slowdown: SlowdownOption = "none",
    min_runtime: MinRuntimeOption = "0",
    seed: SeedOption = 0,
    skip_impossible: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a trace through several policies and put them side by side.

    Example: headway compare synthetic:tiresias-480 --cluster 15x4 --policies fifo,srtf,tiresias-l
    """
    names = split_policies(policies)
    results = []
    with following("comparing", quiet=as_json, runs=len(names)) as progress:
        kernels_ready(progress)
        from headway.sim.api import compare as run

        results = run(
            trace,
            cluster,
            names,
            placement=placement,
            network=network,
            collective=collective,
            preemption_cost=preemption_cost,
            slowdown=slowdown,
            min_runtime=min_runtime,
            seed=seed,
            skip_impossible=skip_impossible,
            progress=progress,
        )
    if as_json:
        print(json.dumps([result.summary for result in results], indent=2))
        return
    from headway.cli.tables import show_runs

    show_runs(results)


def split_policies(names: str) -> list[str]:
    """`fifo,srtf` as a list."""
    from headway.core.errors import BadInput

    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise BadInput("--policies is empty: name at least one, such as fifo,tiresias-l")
    return found


def policies(as_json: JsonOption = False) -> None:
    """List the policies and placements, with their options.

    Example: headway policies --json
    """
    from headway.placement import TABLE as PLACEMENTS
    from headway.policies import ORACLES
    from headway.policies import TABLE as POLICIES

    if as_json:

        def rows(table: dict[str, tuple[str, str, tuple[str, ...]]]) -> list[dict[str, Any]]:
            return [{"name": name, "summary": what, "options": given} for name, (_, what, given) in table.items()]

        listed = [row | {"oracle": row["name"] in ORACLES} for row in rows(POLICIES)]
        print(json.dumps({"policies": listed, "placements": rows(PLACEMENTS)}, indent=2))
        return
    from headway.cli.tables import show_choices

    show_choices("policy", POLICIES)
    show_choices("placement", PLACEMENTS)
