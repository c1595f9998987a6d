"""`headway collective`: plan and simulate collective communication, compare schedulers, explain the limit."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.core.errors import BadInput

if TYPE_CHECKING:
    from headway.collectives.cost import Collective
    from headway.collectives.schedulers import Outcome
    from headway.collectives.topology import Topology

collective = typer.Typer(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plan, simulate and compare collectives on networks of several dimensions.",
)

TOPOLOGY_HELP = "A preset (2D-SW_SW, ...), a YAML file, or switch:16:1200Gbps:700ns,ring:8:800Gbps:0ns."
SizeOption = Annotated[str, typer.Option("--size", help="Bytes per NPU, with a unit: 1GB, 100MiB.")]
KindOption = Annotated[
    str, typer.Option("--collective", help="all-reduce, reduce-scatter, all-gather or all-to-all.", metavar="KIND")
]
ChunksOption = Annotated[
    str, typer.Option("--chunks", help="Exact for baseline and themis, a maximum for best; auto: best uses up to 256.")
]
InFlightOption = Annotated[int, typer.Option("--in-flight", help="Chunks in flight on a dimension.")]
BoundOption = Annotated[bool, typer.Option("--bandwidth-bound", help="Leave out all latencies.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="Also write an HTML report to this file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    app.add_typer(collective, name="collective")


@collective.callback()
def plan(
    context: typer.Context,
    topology: Annotated[str | None, typer.Option("--topology", help=TOPOLOGY_HELP)] = None,
    size: Annotated[str | None, typer.Option("--size", help="Bytes per NPU, with a unit: 1GB, 100MiB.")] = None,
    kind: KindOption = "all-reduce",
    chunks: ChunksOption = "64",
    scheduler: Annotated[str, typer.Option("--scheduler", help="baseline, themis or best.")] = "best",
    intra: Annotated[
        str | None, typer.Option("--intra", help="fifo, scf or scf-public; usual: fifo for baseline, scf for themis.")
    ] = None,
    in_flight: InFlightOption = 1,
    bandwidth_bound: BoundOption = False,
    degrade: Annotated[
        list[str] | None,
        typer.Option("--degrade", help="DIM:FRACTION, repeatable: the plan does not know (2:0.5 halves dim 2)."),
    ] = None,
    straggler: Annotated[float, typer.Option("--straggler", help="One NPU is slower by this factor.")] = 1.0,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Simulate this plan file instead of planning.")
    ] = None,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="Write the plan to this file, as JSON.")] = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan one collective, simulate it, and say how close it comes to the limit.

    Example: headway collective --topology 3D-SW_SW_SW_hetero --size 1GB --scheduler best --plan plan.json
    """
    if context.invoked_subcommand is not None:
        return
    if topology is None or (size is None and replay is None):
        raise typer.BadParameter("give --topology and --size, such as --topology 2D-SW_SW --size 1GB")
    network = _topology(topology, bandwidth_bound)
    if replay is not None:
        outcome = _replayed(network, replay, in_flight)
    else:
        outcome = _outcome(network, size or "", scheduler, kind, intra, chunks, in_flight)
    if degrade or straggler != 1.0:
        outcome = _impaired(outcome, degrade or [], straggler)
    if plan_file is not None:
        from headway.collectives.plan import plan_to_json
        from headway.files import write_atomically

        write_atomically(plan_file, plan_to_json(outcome.plan))
    if report is not None:
        others = [_outcome(network, f"{outcome.size_bytes}B", name, kind, None, "64", in_flight) for name in USUAL]
        _report(report, [[*others, outcome]], outcome)
    if as_json:
        _print_json(_row(outcome))
        return
    from headway.cli.collective_tables import show_outcome

    show_outcome(outcome)


# Against what a plan is shown in its report.
USUAL = ("baseline", "themis")


@collective.command()
def compare(
    topologies: Annotated[
        list[str] | None, typer.Option("--topology", help=TOPOLOGY_HELP + " Repeatable; the paper's six if left out.")
    ] = None,
    size: SizeOption = "1GB",
    kind: KindOption = "all-reduce",
    schedulers: Annotated[
        str, typer.Option("--schedulers", help="Comma-separated: baseline, themis-fifo, themis-scf-public, best, ...")
    ] = "baseline,themis-fifo,themis-scf,best",
    chunks: ChunksOption = "64",
    in_flight: InFlightOption = 1,
    bandwidth_bound: BoundOption = False,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every scheduler on every topology, as the paper compares them.

    Example: headway collective compare --size 1GB --bandwidth-bound
    """
    from headway.collectives.presets import PAPER

    names = topologies or [topology.name for topology in PAPER]
    rows: list[list[Outcome]] = []
    networks = [_topology(name, bandwidth_bound) for name in names]
    for network in _progress(networks, as_json):
        rows.append(
            [_named(network, size, method.strip(), kind, chunks, in_flight) for method in schedulers.split(",")]
        )
    if report is not None:
        _report(report, rows, rows[0][-1])
    summary = _summary(rows, schedulers.split(","))
    if as_json:
        flat = [
            _row(outcome) | {"speedup": rows[i][0].time_s / outcome.time_s}
            for i, row in enumerate(rows)
            for outcome in row
        ]
        _print_json({"size_bytes": rows[0][0].size_bytes, "rows": flat, "mean": summary})
        return
    from headway.cli.collective_tables import show_comparison

    show_comparison(rows, summary)


@collective.command()
def limit(
    topology: Annotated[str, typer.Option("--topology", help=TOPOLOGY_HELP)],
    size: SizeOption = "1GB",
    kind: KindOption = "all-reduce",
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Total bandwidth per NPU to split, such as 3000Gbps; the present sum."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Which dimensions are under-provisioned, what would balance them, and the best split of a bandwidth budget.

    Example: headway collective limit --topology dgx-rail-spine --size 1GB --budget 4000Gbps
    """
    from headway.collectives.advice import advise
    from headway.core.units import gbps, size_bytes

    network = _topology(topology, False)
    total_gbps = gbps(budget) if budget is not None else sum(network.bandwidths_gbps)
    advice = advise(network, _kind(kind), size_bytes(size), total_gbps)
    if as_json:
        _print_json(advice.as_json())
        return
    from headway.cli.collective_tables import show_advice

    show_advice(advice)


@collective.command()
def iteration(
    workload: Annotated[
        str, typer.Argument(help="resnet-50, resnet-152, gnmt, dlrm, transformer-1t, llm-405b, llm-8b.")
    ],
    topologies: Annotated[
        list[str] | None, typer.Option("--topology", help=TOPOLOGY_HELP + " Repeatable; the paper's six if left out.")
    ] = None,
    tflops: Annotated[float, typer.Option("--compute-tflops", help="Sustained speed of one NPU.")] = 120.0,
    bucket: Annotated[str, typer.Option("--bucket", help="Gradients are sent in buckets of at least this.")] = "25MiB",
    chunks: Annotated[int, typer.Option("--chunks", help="Chunks per bucket; a maximum for best.")] = 64,
    in_flight: InFlightOption = 1,
    bandwidth_bound: BoundOption = False,
    as_json: JsonOption = False,
) -> None:
    """One training iteration end to end: compute, exposed communication and speed-up of each scheduler.

    Example: headway collective iteration resnet-152 --topology 2D-SW_SW
    """
    from headway.collectives.iteration import Settings, iterate, mean_speedups
    from headway.collectives.presets import PAPER
    from headway.core.units import size_bytes

    names = topologies or [topology.name for topology in PAPER]
    settings = Settings(chunks, tflops, size_bytes(bucket), in_flight)
    networks = [_topology(name, bandwidth_bound) for name in names]
    results = [iterate(workload, network, settings) for network in _progress(networks, as_json)]
    if as_json:
        rows = [row.as_json() for result in results for row in result]
        _print_json({"workload": workload, "rows": rows, "mean": mean_speedups(results)})
        return
    from headway.cli.collective_tables import show_iterations

    show_iterations(workload, results, mean_speedups(results))


def _topology(text: str, bandwidth_bound: bool) -> "Topology":
    from headway.collectives.topology_text import topology_from

    network = topology_from(text)
    return network.without_latency() if bandwidth_bound else network


def _kind(text: str) -> "Collective":
    from headway.collectives.cost import Collective
    from headway.core.errors import unknown

    known = [kind.value for kind in Collective]
    if text.lower() not in known:
        raise unknown("collective", text, known)
    return Collective(text.lower())


def _chunks(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise BadInput(f"--chunks {text}: give a whole number of 1 or more, or auto")
    return int(text)


def _outcome(
    network: "Topology", size: str, scheduler: str, kind: str, intra: str | None, chunks: str, in_flight: int
) -> "Outcome":
    from headway.collectives.schedulers import schedule
    from headway.core.units import size_bytes

    return schedule(
        network,
        size_bytes(size),
        scheduler=scheduler,
        collective=_kind(kind),
        intra=intra,
        chunks=_chunks(chunks),
        in_flight=in_flight,
    )


def _named(network: "Topology", size: str, method: str, kind: str, chunks: str, in_flight: int) -> "Outcome":
    """`themis-scf` is the scheduler themis with scf inside a dimension."""
    scheduler, _, intra = method.partition("-")
    return _outcome(network, size, scheduler, kind, intra or None, chunks, in_flight)


def _replayed(network: "Topology", path: Path, in_flight: int) -> "Outcome":
    from headway.collectives.limit import limit as limit_of
    from headway.collectives.plan import plan_from_json
    from headway.collectives.schedulers import Outcome
    from headway.collectives.simulate import play

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"cannot read plan {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
    read = plan_from_json(text, str(path))
    total = sum(chunk.bytes for chunk in read.chunks)
    line, bound = play(read, network, in_flight), limit_of(network, read.collective, total)
    return Outcome(network, read.collective, total, "replay", "lists", "file", in_flight, read, line, bound)


def _impaired(outcome: "Outcome", degrade: list[str], straggler: float) -> "Outcome":
    """The same plan on a network that is worse than it was planned for."""
    from dataclasses import replace

    from headway.collectives.simulate import impaired, play

    degraded: dict[int, float] = {}
    for text in degrade:
        dim, _, fraction = text.partition(":")
        try:
            degraded[int(dim) - 1] = float(fraction)
        except ValueError:
            raise BadInput(
                f"--degrade {text}: write DIM:FRACTION, such as 2:0.5 for half the bandwidth of dim 2"
            ) from None
    network = impaired(outcome.topology, degraded, straggler)
    return replace(outcome, topology=network, timeline=play(outcome.plan, network, outcome.in_flight))


def _row(outcome: "Outcome") -> dict[str, Any]:
    from headway.collectives.summary import outcome_json

    return outcome_json(outcome)


def _summary(rows: "list[list[Outcome]]", methods: list[str]) -> list[dict[str, Any]]:
    from headway.collectives.summary import means

    return means(rows, [method.strip() for method in methods])


def _report(path: Path, rows: "list[list[Outcome]]", chosen: "Outcome") -> None:
    from headway.files import write_atomically
    from headway.report.collective import collective_report

    write_atomically(path, collective_report(rows, chosen))
    print(f"report written to {path}", file=sys.stderr)


def _progress(networks: "list[Topology]", as_json: bool) -> "Iterable[Topology]":
    """A bar on the terminal while there is something to wait for (the first run also compiles for some seconds)."""
    from rich.console import Console
    from rich.progress import track

    hidden = as_json or not sys.stderr.isatty()
    return track(networks, "simulating", console=Console(stderr=True), transient=True, disable=hidden)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
