"""`headway simulate`, `compare`, `policies` and `stacks`: one run, several side by side, and what there is to choose from."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.declared_options import takes
from headway.cli.manager_options import number_option
from headway.cli.tables.progress import following, kernels_ready
from headway.io.numbers import PORT
from headway.sim.experiment import SEEDS, Experiment, options

if TYPE_CHECKING:
    from headway.sim.results.result import Comparison, Result

JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for jobs.csv, receipts.csv, journal.jsonl, summary.json and report.html."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (simulate, compare, policies, stacks):
        app.command()(command)


MANY_STOPS = 1000  # preemptions that cost nothing: from here on the result says so


@takes(options())
def simulate(
    *,
    out: OutOption = None,
    web: Annotated[
        bool, typer.Option("--web", help="Watch the run in a browser afterwards, with a time slider.")
    ] = False,
    port: Annotated[int, number_option(PORT, "--port", help="Of --web; 0: any free.")] = 0,
    as_json: JsonOption = False,
    **given: Any,
) -> None:
    """Run a trace through one policy on one cluster.

    Example: headway simulate synthetic:tiresias-480 --cluster 15x4 --policy tiresias-l --out out/
    """
    _check_names(Experiment(**given), [given["policy"]])
    if out is not None:
        from headway.sim.results.output import check_folder

        check_folder(out)
    with following(f"simulating {given['policy']}", quiet=as_json) as progress:
        kernels_ready(progress)
        from headway.sim.api import simulate as run

        result = run(**given, keep_journal=out is not None or web, progress=progress.update)
    note_unused(result)
    if out is not None:
        from headway.sim.results.output import write_result

        write_result(result, out)
    if as_json:
        print(json.dumps(result.summary, indent=2), flush=True)
    else:
        from headway.cli.tables.runs import show_runs

        show_runs([result])
        if out is not None:
            print(f"wrote {out}/jobs.csv, receipts.csv, journal.jsonl, summary.json and report.html")
    if web:
        from headway.player.serve import play

        play(result, port)


def note_unused(result: "Result") -> None:
    """Say on stderr which settings change nothing, and what is assumed where nothing is known."""
    for line in (*_unused(result), *_assumed(result)):
        print(f"note: {line}", file=sys.stderr)


def _unused(result: "Result") -> Iterator[str]:
    """A fabric that no job uses, a queue that no job is in, limits that no job has."""
    experiment, run = result.experiment, result.run
    uses = run.placement.needs_fabric or run.placement.knows_leaves or experiment.collective != "none"
    if experiment.fabric is not None and run.setting.network.name == "ideal" and not uses:
        yield "--fabric changes nothing: the network is ideal and the placement reserves no links"
    for queue in run.setting.queue_min_runtime:
        if not (run.workload.queue == queue).any():
            yield f"--min-runtime: no job of the trace is in queue {queue!r}"
    if (
        run.policy.name.startswith("backfill")
        and min(run.policy.limit, run.policy.requested, run.workload.limit_s.min()) == inf
    ):
        yield (
            "no job has a time limit, so backfill cannot tell when the first in line will start, and lets nobody onto its nodes: "
            'give the trace a column limit_s, or a limit for all with "backfill?limit=12h"'
        )


def _assumed(result: "Result") -> Iterator[str]:
    """Stops that cost nothing, and models that are not known."""
    experiment, stops = result.experiment, result.summary["preemptions"]
    if experiment.preemption_cost == "none" and stops >= MANY_STOPS:
        yield f"{stops:,} preemptions cost nothing here, as --preemption-cost none says; model is the default"
    if experiment.slowdown != "model" and not (experiment.preemption_cost == "model" and stops):
        return
    from headway.io.units import counted
    from headway.sim.models.profiles import UNKNOWN_COST_S, rows_of

    cost = [f"a preemption costs {UNKNOWN_COST_S:g} s"] if experiment.preemption_cost == "model" else []
    speed = ["spreading does not slow them"] if experiment.slowdown == "model" else []
    models = result.run.workload.model
    unknown = int((rows_of(models) == 0).sum())
    if unknown:
        have = f"{unknown:,} of {counted(len(models), 'job')} {'has' if unknown == 1 else 'have'}"
        yield f"{have} no known model: {' and '.join(cost + speed)}"


@takes(options(), own={"policy": "policies"}, seed=None)
def compare(
    *,
    policies: Annotated[
        str | None, typer.Option("--policies", help="Names with commas between, the first is the measure; or all.")
    ] = None,
    stacks: Annotated[
        str | None,
        typer.Option(
            "--stacks", help="Instead: policy, placement, network and collective at once; see `headway stacks`."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        number_option(SEEDS, "--seeds", help="Run seeds 0 to N-1, synthetic traces too, with confidence intervals."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report to this HTML file.")] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the figures into this folder, or into one .png file.")
    ] = None,
    as_json: JsonOption = False,
    **given: Any,
) -> None:
    """Run a trace through several policies, or stacks, and put them side by side.

    Example: headway compare synthetic:tiresias-480 --cluster 15x4 --policies fifo,srtf,tiresias-l --report report.html
    Example: headway compare synthetic:tiresias-480 --cluster tiresias-testbed --stacks yarn,tiresias,headway
    """
    names, lines = _compared(policies, stacks, given)
    _check_targets(report, png)
    for line in lines:
        _check_names(line, [line.policy])
    with following("comparing", quiet=as_json, runs=len(lines) * (seeds or 1)) as progress:
        kernels_ready(progress)
        from headway.sim.api import compare as run

        keep = report is not None or png is not None
        results = run(policies=names, stacks=stacks, seeds=seeds, keep_journal=keep, progress=progress, **given)
        progress.say("drawing")
        if report is not None:
            results.report(report)
        if png is not None:
            results.png(png)
    note_unused(results[0])
    if as_json:
        print(json.dumps(_listed(results), indent=2))
        return
    from headway.cli.tables.runs import show_comparison

    show_comparison(results)
    for path in (report, png):
        if path is not None:
            print(f"wrote {path}")


def _compared(
    policies: str | None, stacks: str | None, given: dict[str, Any]
) -> tuple[list[str] | None, list[Experiment]]:
    """The policies where they are compared, and the experiment of every line."""
    from headway.errors import BadInput
    from headway.sim.stacks import parse_stacks

    base = Experiment(**given | {"seed": given["seed"] or 0})
    if (policies is None) == (stacks is None):
        both = "" if policies is None else ", not both: a stack names its policy"
        raise BadInput(f"name what to compare: --policies fifo,tiresias-l, or --stacks yarn,headway{both}")
    if policies is None:
        return None, [replace(base, **stack.settings) for stack in parse_stacks(stacks or "")]
    names = split_policies(policies)
    return names, [replace(base, policy=name) for name in names]


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


def _listed(results: "Comparison") -> list[dict[str, Any]]:
    """The summaries in the order of the policies; with several seeds, of the first, and what all of them give."""
    summaries = [result.summary for result in results]
    if results.seeds == 1:
        return summaries
    return [a | {"over_seeds": b} for a, b in zip(summaries, results.over_seeds(), strict=True)]


def _check_names(experiment: Experiment, policies: list[str]) -> None:
    """Find mistakes before the engine is compiled: nobody waits a minute to read of a typing error."""
    from headway.cluster.named import cluster as cluster_named
    from headway.io.outside import is_outside
    from headway.io.specs import check_named
    from headway.placement import TABLE as PLACEMENTS
    from headway.policies.registry import check_policy

    for policy in policies:
        if not is_outside(policy):
            check_policy(policy)
    if not is_outside(experiment.placement):
        check_named("placement", experiment.placement, PLACEMENTS)
    cluster_named(str(experiment.cluster))
    trace = str(experiment.trace)
    if not trace.startswith("synthetic:") and not Path(trace.partition("?")[0]).exists():
        from headway.workloads.load import load

        load(trace)  # says what is wrong with the name


def split_policies(names: str) -> list[str]:
    """`fifo,srtf` as a list; `all` is every built-in policy."""
    from headway.errors import BadInput
    from headway.policies import MODULES

    policies = list(MODULES) if names.strip() == "all" else [name.strip() for name in names.split(",") if name.strip()]
    if not policies:
        raise BadInput("--policies is empty: name at least one, such as fifo,tiresias-l")
    twice = next((name for name in policies if policies.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"--policies names {twice} twice")
    return policies


def policies(as_json: JsonOption = False) -> None:
    """List the policies and placements, with their options.

    Example: headway policies --json
    """
    from headway.placement import OPTIONS as OF_PLACEMENTS
    from headway.placement import TABLE as PLACEMENTS
    from headway.policies.registry import listed, meanings

    policies = {name: (each.summary, each.defaults) for name, each in listed().items()}
    placements = {name: (summary, defaults) for name, (_, summary, defaults) in PLACEMENTS.items()}
    if as_json:
        shown: dict[str, Any] = {
            kind: [
                {"name": name, "summary": summary, "options": list(defaults), "defaults": defaults}
                for name, (summary, defaults) in choices.items()
            ]
            for kind, choices in (("policies", policies), ("placements", placements))
        }
        for row in shown["policies"]:
            row["oracle"] = listed()[row["name"]].oracle
        shown["options"] = meanings() | OF_PLACEMENTS
        print(json.dumps(shown, indent=2))
        return
    from headway.cli.tables.choices import show_choices, show_meanings

    show_choices("policy", policies)
    show_meanings(meanings())
    show_choices("placement", placements)
    show_meanings(OF_PLACEMENTS)


def stacks(
    written: Annotated[
        str | None, typer.Argument(metavar="[STACKS]", help="Stacks as compare takes them; default: the built-in ones.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the stacks in full: who decides when, where, on which links and how collectives run.

    Example: headway stacks "yarn,mine=headway,placement:leaf-aware"
    """
    from headway.sim.stacks import STACKS, parse_stacks

    listed_stacks = list(STACKS.values()) if written is None else parse_stacks(written)
    if as_json:
        print(
            json.dumps(
                [{"name": one.name, "summary": one.summary, **one.full, "written": str(one)} for one in listed_stacks],
                indent=2,
            )
        )
        return
    from headway.cli.tables.runs import show_stacks

    show_stacks(listed_stacks)
