"""`headway trace`: describe a workload, make one up, or convert any known format to Headway's CSV."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.declared_options import as_typer, takes
from headway.cli.manager_options import JsonOption, print_json
from headway.errors import BadInput
from headway.io.units import counted
from headway.sim.experiment import check, options

if TYPE_CHECKING:
    from headway.cluster.nodes import Cluster
    from headway.workloads.workload import Workload

trace = typer.Typer(no_args_is_help=True, help="Describe, make up and convert workloads.")

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file, or synthetic:NAME?jobs=480&seed=1.")]
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
    from headway.workloads.describe import describe

    where = _cluster(cluster)
    with _reading(name):
        jobs = _load(name, strict=strict)
        description = describe(jobs, where)
    if plot is not None:
        from headway.io.files import write_atomically
        from headway.report.trace import page

        write_atomically(plot, page(jobs, where.total if where is not None else None))
    if as_json:
        print_json(description)
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
    """Write a made-up workload as a CSV file.

    tiresias-480 is the testbed mix of Tiresias; philly and helios follow the published statistics of those clusters. vclos has the sizes
    of Helios (mean 3.7 GPUs, at most 160) with log-uniform durations; vclos-large is ours, up to 512 GPUs (mean 21); vclos-tpu is what
    the authors of vClos generate for 8,192 GPUs (TPU v4 slices, mean 206 GPUs; the jobs that run all-to-all are the large models).

    Example: headway trace generate "synthetic:philly?jobs=10000&seed=1" --out philly.csv.gz
    """
    from headway.workloads.synthetic import synthetic

    with _reading(name):
        jobs = synthetic(name)
    _write(jobs, out, as_json=as_json)


@trace.command()
@takes({name: option for name, option in options().items() if option.beside == "trace"})
def convert(
    name: TraceArgument,
    out: OutOption,
    *,
    cluster: ClusterOption = None,
    seed: int = as_typer(options()["seed"], help="Seed of --sample."),
    strict: StrictOption = False,
    as_json: JsonOption = False,
    **shaping: Any,
) -> None:
    """Write any workload as Headway's CSV, after shaping it: window, then sample, time scale and load.

    Example: headway trace convert cluster_log.csv --from 7d --to 14d --load 0.9 --cluster 64x8 --out week.csv.gz
    """
    from headway.workloads.shaping import shaped

    if (shaping["load"] is None) != (cluster is None):
        raise BadInput("--load is a load on a cluster: give --load and --cluster together")
    where = _cluster(cluster)
    shape = {field: check(field, value) for field, value in shaping.items()}  # before a long file is read
    with _reading(name):
        jobs = shaped(_load(name, strict=strict), where, seed, **shape)
    _write(jobs, out, as_json=as_json)


def _cluster(spec: str | None) -> "Cluster | None":
    from headway.cluster.named import cluster

    return cluster(spec) if spec is not None else None


def _load(name: str, *, strict: bool) -> "Workload":
    from headway.workloads.load import load

    return load(name, strict=strict)


def _write(jobs: "Workload", out: Path, *, as_json: bool) -> None:
    from headway.workloads.describe import left_out
    from headway.workloads.write import write_csv

    write_csv(jobs, out)
    if as_json:
        facts = {"trace": jobs.name, "out": str(out), "jobs": len(jobs), "skipped": jobs.skipped}
        print_json({**facts, "caveats": jobs.caveats})
        return
    without = f" (left out: {left_out(jobs)})" if jobs.skipped else ""
    typer.echo(f"{out}: {counted(len(jobs), 'job')}{without}")


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Show on a terminal that a large trace is being read."""
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(f"reading {escape(name)}"):
        yield
