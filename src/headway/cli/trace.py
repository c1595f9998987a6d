"""`headway trace`: describe a workload, make one up, or convert any known format to Headway's CSV."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.experiment_options import option
from headway.errors import BadInput
from headway.io.units import counted

if TYPE_CHECKING:
    from headway.workloads.workload import Workload

trace = typer.Typer(no_args_is_help=True, help="Describe, make up and convert workloads.")

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file, or synthetic:NAME?jobs=480&seed=1.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse rows that are otherwise left out and counted.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Nodes x GPUs such as 15x4, a preset such as philly, or a YAML file.")
]
OutOption = Annotated[Path, typer.Option("--out", help="The file to write: .csv, .csv.gz or .csv.zst.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    app.add_typer(trace, name="trace")


@trace.command()
def info(
    name: TraceArgument,
    cluster: ClusterOption = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also write the plots to this HTML file.")] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Sizes, durations, arrivals and load of a workload, and what biases a study of it.

    Example: headway trace info synthetic:tiresias-480 --cluster 15x4
    """
    from headway.cluster.named import cluster as cluster_named
    from headway.workloads.describe import describe

    where = cluster_named(cluster) if cluster is not None else None
    with _reading(name):
        jobs = _load(name, strict=strict)
        description = describe(jobs, where)
    if plot is not None:
        _plot(jobs, where.total if where is not None else None, plot)
    if as_json:
        histograms = {
            "sizes": _histogram_json(description.sizes),
            "durations": _histogram_json(description.durations),
            "arrivals": list(description.arrivals),
        }
        _print_json({**description.numbers, **histograms, "warnings": list(description.warnings)})
        return
    from headway.cli.tables.traces import show

    show(description)


@trace.command()
def generate(
    name: Annotated[
        str, typer.Argument(metavar="SYNTHETIC", help="synthetic:NAME?jobs=480&seed=1&load=0.9&cluster=15x4")
    ],
    out: OutOption,
    as_json: JsonOption = False,
) -> None:
    """Write a made-up workload (tiresias-480, philly, helios, vclos or vclos-large) as a CSV file.

    Example: headway trace generate "synthetic:philly?jobs=10000&seed=1" --out philly.csv.gz
    """
    from headway.workloads.synthetic import synthetic

    with _reading(name):
        jobs = synthetic(name)
    _write(jobs, out, as_json=as_json)


@trace.command()
def convert(
    name: TraceArgument,
    out: OutOption,
    start: str = option("start"),
    end: str | None = option("end"),
    sample: str | None = option("sample"),
    time_scale: float = option("time_scale"),
    load: float | None = option("load"),
    cluster: ClusterOption = None,
    seed: int = option("seed", help="Seed of --sample."),
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write any workload as Headway's CSV, after shaping it: window, then sample, time scale and load.

    Example: headway trace convert cluster_log.csv --from 7d --to 14d --load 0.9 --cluster 64x8 --out week.csv.gz
    """
    from headway.cluster.named import cluster as cluster_named
    from headway.sim.experiment import check
    from headway.workloads.shaping import shaped

    if (load is None) != (cluster is None):
        raise BadInput("--load is a load on a cluster: give --load and --cluster together")
    where = cluster_named(cluster) if cluster is not None else None
    given = {"start": start, "end": end, "sample": sample, "time_scale": time_scale, "load": load}
    shape = {field: check(field, value) for field, value in given.items()}  # before a long file is read
    with _reading(name):
        jobs = shaped(_load(name, strict=strict), where, seed, **shape)
    _write(jobs, out, as_json=as_json)


def _load(name: str, *, strict: bool) -> "Workload":
    from headway.workloads.load import load

    return load(name, strict=strict)


def _write(jobs: "Workload", out: Path, *, as_json: bool) -> None:
    from headway.workloads.write import write_csv

    write_csv(jobs, out)
    if as_json:
        facts = {"trace": jobs.name, "out": str(out), "jobs": len(jobs)}
        _print_json({**facts, "skipped": jobs.skipped, "caveats": list(jobs.caveats)})
        return
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in jobs.skipped.items())
    typer.echo(f"{out}: {counted(len(jobs), 'job')}" + (f" (left out: {left_out})" if left_out else ""))


def _plot(jobs: "Workload", cluster_gpus: int | None, path: Path) -> None:
    from headway.io.files import write_atomically
    from headway.report.trace import page
    from headway.workloads.describe import demand

    times_s, wanted = demand(jobs)
    write_atomically(path, page(jobs.name, jobs.submit_s, jobs.gpus, jobs.duration_s, times_s, wanted, cluster_gpus))


def _histogram_json(histogram: Any) -> list[dict[str, Any]]:
    rows = zip(histogram.bins, histogram.jobs, histogram.work_gpu_s, strict=True)
    return [{"bin": name, "jobs": jobs, "work_gpu_s": work} for name, jobs, work in rows]


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Show on a terminal that a large trace is being read."""
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(f"reading {escape(name)}"):
        yield
