"""`headway simulate`, `compare` and `policies`: one run, several side by side, and what there is to choose from."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import sweep
from headway.cli.shape_options import FromOption, LoadOption, SampleOption, TimeScaleOption, ToOption
from headway.cli.tables.progress import following, kernels_ready

if TYPE_CHECKING:
    from headway.sim.results.results import Comparison, Result

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file, or synthetic:NAME?jobs=480&seed=1.")]
ClusterOption = Annotated[
    str, typer.Option("--cluster", help="Nodes x GPUs such as 15x4, a preset such as philly, or a YAML file.")
]
PlacementOption = Annotated[str, typer.Option("--placement", help="Where jobs run; see `headway policies`.")]
NetworkOption = Annotated[
    str, typer.Option("--network", help="ideal, ecmp, balanced, source, or isolated (with a vclos placement).")
]
FabricOption = Annotated[
    str | None,
    typer.Option(
        "--fabric", help="The cluster's network: a preset such as vclos-512 or YAML; default: by the cluster's name."
    ),
]
CollectiveOption = Annotated[
    str, typer.Option("--collective", help="Only none: see `headway collective` for schedules.")
]
CostOption = Annotated[str, typer.Option("--preemption-cost", help="none, a time such as 30s, or model.")]
SlowdownOption = Annotated[str, typer.Option("--slowdown", help="none or model: spreading skewed models slows them.")]
MinRuntimeOption = Annotated[str, typer.Option("--min-runtime", help="Time a job runs before it may be preempted.")]
SEED_HELP = "Seed of samples, placements, networks and loss curves; a synthetic trace has its own, ?seed=."
MOST_SEED = 2**63 - 1  # what compiled code can hold
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help=SEED_HELP)]
SkipOption = Annotated[
    bool, typer.Option("--skip-impossible", help="Leave out jobs larger than the cluster, and say how many.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Refuse a trace with rows that are otherwise left out and counted.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder for jobs.csv, journal.jsonl, summary.json and report.html.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(simulate)
    app.command()(compare)
    sweep.register(app)
    app.command()(policies)


def simulate(
    trace: TraceArgument,
    cluster: ClusterOption,
    policy: Annotated[str, typer.Option("--policy", help="When jobs run; see `headway policies`.")] = "tiresias-l",
    placement: PlacementOption = "consolidated",
    network: NetworkOption = "ideal",
    fabric: FabricOption = None,
    collective: CollectiveOption = "none",
    preemption_cost: CostOption = "none",
    slowdown: SlowdownOption = "none",
    min_runtime: MinRuntimeOption = "0",
    seed: SeedOption = 0,
    skip_impossible: SkipOption = False,
    strict: StrictOption = False,
    start: FromOption = "0",
    end: ToOption = None,
    sample: SampleOption = None,
    time_scale: TimeScaleOption = 1.0,
    load: LoadOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a trace through one policy on one cluster.

    Example: headway simulate synthetic:tiresias-480 --cluster 15x4 --policy tiresias-l --out out/
    """
    reach_own_modules()
    _check_names(trace, cluster, [policy], placement)
    if out is not None:
        from headway.sim.results.output import check_folder

        check_folder(out)
    with following(f"simulating {policy}", quiet=as_json) as progress:
        kernels_ready(progress)
        from headway.sim.api import simulate as run
        from headway.workloads.shape import read_shape

        result = run(
            trace,
            cluster,
            policy,
            placement=placement,
            network=network,
            fabric=fabric,
            collective=collective,
            preemption_cost=preemption_cost,
            slowdown=slowdown,
            min_runtime=min_runtime,
            seed=seed,
            skip_impossible=skip_impossible,
            strict=strict,
            shape=read_shape(start, end, sample, time_scale, load),
            keep_journal=out is not None,
            progress=progress.update,
        )
    note_unknown_models(result, preemption_cost, slowdown)
    if out is not None:
        _write(result, out)
    if as_json:
        print(json.dumps(result.summary, indent=2))
        return
    from headway.cli.tables.runs import show_runs

    show_runs([result])
    if out is not None:
        print(f"wrote {out}/jobs.csv, journal.jsonl, summary.json and report.html")


def note_unknown_models(result: "Result", preemption_cost: str, slowdown: str) -> None:
    """Say on stderr for how many jobs `model` knows nothing."""
    if "model" not in (preemption_cost, slowdown):
        return
    from headway.io.units import counted
    from headway.sim.models.profiles import UNKNOWN_COST_S, rows_of

    cost = [f"a preemption costs {UNKNOWN_COST_S:g} s"] if preemption_cost == "model" else []
    speed = ["spreading does not slow them"] if slowdown == "model" else []
    models = result.run.workload.model
    unknown = int((rows_of(models) == 0).sum())
    if unknown:
        have = f"{unknown:,} of {counted(len(models), 'job')} {'has' if unknown == 1 else 'have'}"
        print(f"note: {have} no known model: {' and '.join(cost + speed)}", file=sys.stderr)


def _write(result: "Result", out: Path) -> None:
    from headway.sim.results.output import write_result

    write_result(result, out)


def compare(
    trace: TraceArgument,
    cluster: ClusterOption,
    policies: Annotated[
        str, typer.Option("--policies", help="Names with commas between, the first is the measure; or all.")
    ],
    placement: PlacementOption = "consolidated",
    network: NetworkOption = "ideal",
    fabric: FabricOption = None,
    collective: CollectiveOption = "none",
    preemption_cost: CostOption = "none",
    slowdown: SlowdownOption = "none",
    min_runtime: MinRuntimeOption = "0",
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=MOST_SEED, help=SEED_HELP)] = None,
    skip_impossible: SkipOption = False,
    strict: StrictOption = False,
    start: FromOption = "0",
    end: ToOption = None,
    sample: SampleOption = None,
    time_scale: TimeScaleOption = 1.0,
    load: LoadOption = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Run seeds 0 to N-1, synthetic traces too, with confidence intervals."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report to this HTML file.")] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the figures into this folder, or into one .png file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a trace through several policies and put them side by side.

    Example: headway compare synthetic:tiresias-480 --cluster 15x4 --policies fifo,srtf,tiresias-l --report report.html
    """
    names = split_policies(policies)
    reach_own_modules()
    _check_targets(report, png)
    _check_names(trace, cluster, names, placement)
    with following("comparing", quiet=as_json, runs=len(names) * (seeds or 1)) as progress:
        kernels_ready(progress)
        from headway.sim.api import compare as run
        from headway.workloads.shape import read_shape

        results = run(
            trace,
            cluster,
            names,
            placement=placement,
            network=network,
            fabric=fabric,
            collective=collective,
            preemption_cost=preemption_cost,
            slowdown=slowdown,
            min_runtime=min_runtime,
            seed=seed,
            seeds=seeds,
            skip_impossible=skip_impossible,
            strict=strict,
            shape=read_shape(start, end, sample, time_scale, load),
            keep_journal=report is not None or png is not None,
            progress=progress,
        )
        progress.say("drawing")
        _draw(results, report, png)
    note_unknown_models(results[0], preemption_cost, slowdown)
    if as_json:
        print(json.dumps(_listed(results), indent=2))
        return
    from headway.cli.tables.runs import show_comparison

    show_comparison(results)
    for path in (report, png):
        if path is not None:
            print(f"wrote {path}")


def _check_targets(report: Path | None, png: Path | None) -> None:
    """Say what cannot be written before the runs, not after them."""
    from headway.errors import BadInput
    from headway.io.files import writable

    if report is not None and report.is_dir():
        raise BadInput(f"--report {report} is a folder: give the path of a file to write, such as {report}/report.html")
    if report is not None:
        writable(report)
    if png is not None:
        writable(png if png.suffix == ".png" else png / "figure.png")
        from headway.report.png import browser

        browser()


def _draw(results: "Comparison", report: Path | None, png: Path | None) -> None:
    if report is not None:
        results.report(report)
    if png is not None:
        results.png(png)


def _listed(results: "Comparison") -> list[dict[str, Any]]:
    """The summaries in the order of the policies; with several seeds, of the first, and what all of them give."""
    summaries = [result.summary for result in results]
    if results.seeds == 1:
        return summaries
    return [a | {"over_seeds": b} for a, b in zip(summaries, results.over_seeds(), strict=True)]


def reach_own_modules() -> None:
    """A policy of one's own, `module:Class`, may lie in the folder that the command is started from."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _check_names(trace: str, cluster: str, policies: list[str], placement: str) -> None:
    """Find mistakes before the engine is compiled: nobody waits a minute to be told of a typing error."""
    from headway.cluster.named import cluster as cluster_named
    from headway.io.specs import check_named
    from headway.placement import TABLE as PLACEMENTS
    from headway.policies import TABLE as POLICIES

    for policy in policies:
        if ":" not in policy.partition("?")[0]:  # not one of the user's own
            check_named("policy", policy, POLICIES)
    check_named("placement", placement, PLACEMENTS)
    cluster_named(cluster)
    if not trace.startswith("synthetic:") and not Path(trace.partition("?")[0]).exists():
        from headway.workloads.load import load

        load(trace)  # says what is wrong with the name


def split_policies(names: str) -> list[str]:
    """`fifo,srtf` as a list; `all` is every built-in policy."""
    from headway.errors import BadInput
    from headway.policies import TABLE

    found = list(TABLE) if names.strip() == "all" else [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise BadInput("--policies is empty: name at least one, such as fifo,tiresias-l")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"--policies names {twice} twice")
    return found


def policies(as_json: JsonOption = False) -> None:
    """List the policies and placements, with their options.

    Example: headway policies --json
    """
    from headway.placement import TABLE as PLACEMENTS
    from headway.policies import ORACLES
    from headway.policies import TABLE as POLICIES

    if as_json:

        def rows(table: dict[str, tuple[str, str, dict[str, str]]]) -> list[dict[str, Any]]:
            return [
                {"name": name, "summary": what, "options": list(given), "defaults": given}
                for name, (_, what, given) in table.items()
            ]

        listed = [row | {"oracle": row["name"] in ORACLES} for row in rows(POLICIES)]
        print(json.dumps({"policies": listed, "placements": rows(PLACEMENTS)}, indent=2))
        return
    from headway.cli.tables.runs import show_choices

    show_choices("policy", POLICIES)
    show_choices("placement", PLACEMENTS)
