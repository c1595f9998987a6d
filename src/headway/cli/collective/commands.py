"""`headway collective`: plan and simulate collective communication, compare schedulers, explain the limit."""

import contextlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.collective import options
from headway.cli.collective.training import iteration, together
from headway.cli.manager_options import JsonOption, note, number_option, print_json
from headway.errors import BadInput
from headway.io.files import read_file
from headway.io.json_file import shown
from headway.io.numbers import Range, plain_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.collectives.schedulers import SchedulerOutcome
    from headway.collectives.topology.model import Topology

CONTRIBUTED = ("headway_wiring",)  # packages beside Headway that add a command, if they are installed
collective = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
# Against what a plan is shown in its report: each with the chunks that suit it, and as the papers have it.
USUAL = ("baseline", "themis-scf")
PAPERS = ("baseline@64", "themis-scf@64")
COMPARED = "baseline,themis-fifo,themis-scf,best,baseline@64,themis-fifo@64,themis-scf@64"
FRACTION = Range(1e-6, 1)
MOST_PLAN_BYTES = 64 << 20  # a plan of 65,536 chunks is some 10 MB


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    collective.command()(iteration)
    collective.command()(together)
    for package in CONTRIBUTED:
        with contextlib.suppress(ModuleNotFoundError):
            import_module(f"{package}.command").register(collective)
    app.add_typer(collective, name="collective")


@collective.callback()
def plan(
    context: typer.Context,
    topology: Annotated[str | None, typer.Option("--topology", help=options.TOPOLOGY_HELP)] = None,
    size: Annotated[str | None, typer.Option("--size", help="Bytes per NPU, with a unit: 1GB, 100MiB.")] = None,
    kind: options.KindOption = "all-reduce",
    chunks: options.ChunksOption = "64",
    scheduler: Annotated[str, typer.Option("--scheduler", help="baseline, themis or best.")] = "best",
    intra: Annotated[
        str | None, typer.Option("--intra", help="fifo, scf or scf-public; usual: fifo for baseline, scf for themis.")
    ] = None,
    in_flight: options.InFlightOption = 1,
    bandwidth_bound: options.BoundOption = False,
    degrade: Annotated[
        list[str] | None,
        typer.Option("--degrade", help="DIM:FRACTION, repeatable: the plan does not know (2:0.5 halves dim 2)."),
    ] = None,
    straggler: Annotated[
        float, number_option(Range(1, 1e6), "--straggler", help="One NPU is slower by this factor.")
    ] = 1.0,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Simulate this plan file instead of planning.")
    ] = None,
    plan_file: options.PlanOption = None,
    report: options.ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan one collective, simulate it, and say how close it comes to the limit.

    Example: headway collective --topology 3D-SW_SW_SW_hetero --size 1GB --scheduler best --plan plan.json
    """
    if context.invoked_subcommand is not None:
        return
    if topology is None or (size is None and replay is None):
        raise typer.BadParameter("give --topology and --size, such as --topology 2D-SW_SW --size 1GB")
    from headway.cli.tables.collectives import show_outcome
    from headway.collectives.plan import plan_to_json
    from headway.collectives.schedulers import schedule, schedule_named
    from headway.collectives.summary import outcome_json
    from headway.io.files import write_atomically
    from headway.io.units import size_bytes

    network = options.network_from(topology, bandwidth_bound)
    if replay is not None:
        outcome = _replayed(network, replay, in_flight)
    else:
        outcome = schedule(
            network,
            size_bytes(size or ""),
            scheduler=scheduler,
            collective=options.kind_from(kind),
            intra=intra,
            chunks=_chunks(chunks),
            in_flight=in_flight,
        )
    worse = degrade or [], straggler
    outcome = _impaired(outcome, *worse)
    if plan_file is not None:
        write_atomically(plan_file, plan_to_json(outcome.plan))
    if report is not None:
        most = None if replay else _chunks(chunks)

        def planned(name: str) -> "SchedulerOutcome":
            same = network, outcome.size_bytes, outcome.collective, most, in_flight
            return _impaired(schedule_named(name, *same), *worse)

        _report(report, [_among_rivals(outcome, planned)], outcome)
    if as_json:
        print_json(outcome_json(outcome))
    else:
        show_outcome(outcome)


@collective.command()
def compare(
    topologies: options.TopologiesOption = None,
    size: options.SizeOption = "1GB",
    kind: options.KindOption = "all-reduce",
    schedulers: Annotated[
        str, typer.Option("--schedulers", help="Comma-separated: baseline, themis-scf-public, best, themis-scf@64, ...")
    ] = COMPARED,
    chunks: options.MostChunksOption = "auto",
    in_flight: options.InFlightOption = 1,
    bandwidth_bound: options.BoundOption = False,
    report: options.ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every scheduler on every topology. Each chooses its number of chunks; `@64` fixes it, as the papers do.

    Example: headway collective compare --size 1GB --bandwidth-bound
    """
    from headway.cli.tables.collectives import show_comparison
    from headway.collectives.schedulers import schedule_named
    from headway.collectives.summary import means, outcome_json, rival
    from headway.io.units import size_bytes

    methods = [method.strip() for method in schedulers.split(",")]
    wanted = size_bytes(size), options.kind_from(kind), _chunks(chunks), in_flight
    networks = options.networks_from(topologies, bandwidth_bound, as_json)
    rows = [[schedule_named(method, network, *wanted) for method in methods] for network in networks]
    if report is not None:
        _report(report, rows, next((one for one in rows[0] if one.scheduler == "best"), rows[0][-1]))
    summary = means(rows, methods)
    if as_json:
        flat = [outcome_json(one) | {"speedup": rival(one, row).time_s / one.time_s} for row in rows for one in row]
        print_json({"size_bytes": rows[0][0].size_bytes, "rows": flat, "mean": summary})
    else:
        show_comparison(rows, summary)


@collective.command()
def limit(
    topology: options.TopologyOption,
    size: options.SizeOption = "1GB",
    kind: options.KindOption = "all-reduce",
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Total bandwidth per NPU to split, such as 3000Gbps; the present sum."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Which dimensions are under-provisioned, what would balance them, and the best split of a bandwidth budget.

    Example: headway collective limit --topology dgx-rail-spine --size 1GB --budget 4000Gbps
    """
    from headway.cli.tables.collectives import show_advice
    from headway.collectives.advice import advise
    from headway.io.units import gbps, size_bytes

    network = options.network_from(topology)
    total_gbps = gbps(budget) if budget is not None else sum(network.bandwidths_gbps)
    advice = advise(network, options.kind_from(kind), size_bytes(size), total_gbps)
    if as_json:
        print_json(advice.as_json())
    else:
        show_advice(advice)


def _chunks(text: str) -> int | None:
    if text == "auto":
        return None
    count = plain_whole(text)
    if not count:
        raise BadInput(f"--chunks {shown(text)}: give a whole number of 1 or more, or auto")
    return count


def _among_rivals(
    outcome: "SchedulerOutcome", planned: "Callable[[str], SchedulerOutcome]"
) -> "list[SchedulerOutcome]":
    """A plan and its rivals for a report: those that choose their chunks as it may, and those with a fixed number, baselines first."""
    from headway.collectives.schedulers import fixed_chunks

    _, number = fixed_chunks(outcome.method)
    names = dict.fromkeys([*PAPERS, *([f"baseline@{number}"] if number else [])])
    free, fixed = [planned(name) for name in USUAL], [planned(name) for name in names if name != outcome.method]
    (fixed if number else free).append(outcome)
    return [*free, *sorted(fixed, key=lambda one: one.scheduler != "baseline")]


def _replayed(network: "Topology", path: Path, in_flight: int) -> "SchedulerOutcome":
    from headway.collectives.draft import Task
    from headway.collectives.plan import plan_from_json
    from headway.collectives.schedulers import SchedulerOutcome, bounds
    from headway.collectives.simulate.play import play

    try:
        text = read_file(path, MOST_PLAN_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadInput(f"cannot read plan {path}: {reason}") from None
    read = plan_from_json(text, str(path))
    total = sum(chunk.bytes for chunk in read.chunks)
    line, bound = play(read, network, in_flight), bounds(Task(network, read.collective, total, in_flight))
    return SchedulerOutcome(
        network, read.collective, total, "replay", "lists", "file", "replay", in_flight, read, line, *bound
    )


def _impaired(outcome: "SchedulerOutcome", degrade: list[str], straggler: float) -> "SchedulerOutcome":
    """The same plan on a network that is worse than it was planned for, measured against the bounds of that network."""
    if not degrade and straggler == 1.0:
        return outcome
    from dataclasses import replace

    from headway.collectives.draft import Task
    from headway.collectives.schedulers import bounds
    from headway.collectives.simulate.play import impaired, play

    degraded: dict[int, float] = {}
    for text in degrade:
        dim, _, share = text.partition(":")
        number, fraction = plain_whole(dim), FRACTION.read(share)
        if number is None or fraction is None:
            right = f"write DIM:FRACTION, such as 2:0.5 for half the bandwidth of dim 2; FRACTION is {FRACTION}"
            raise BadInput(f"--degrade {text}: {right}")
        degraded[number - 1] = fraction
    network = impaired(outcome.topology, degraded, straggler)
    limit, latency_limit_s = bounds(Task(network, outcome.collective, outcome.size_bytes, outcome.in_flight))
    line = play(outcome.plan, network, outcome.in_flight)
    return replace(outcome, topology=network, timeline=line, limit=limit, latency_limit_s=latency_limit_s)


def _report(path: Path, rows: "list[list[SchedulerOutcome]]", chosen: "SchedulerOutcome") -> None:
    from headway.io.files import write_atomically
    from headway.report.collective import collective_report

    write_atomically(path, collective_report(rows, chosen))
    note(f"report written to {path}")
