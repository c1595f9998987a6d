"""`headway sweep`: run a grid of simulations from a YAML file, go on after an interruption, and draw the results."""

import csv
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headway.cli.manager_options import number_option
from headway.cli.tables.progress import following, kernels_ready
from headway.errors import BadInput, HeadwayError, unknown
from headway.io.numbers import Range, plain_whole
from headway.io.units import counted
from headway.sim.experiment import options


class RunByDefault(TyperGroup):
    """`headway sweep FILE` means `headway sweep run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in where only a file is named."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


sweep = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Run a grid of simulations: `headway sweep FILE.yaml`, then `headway sweep report FILE.yaml`.",
)

OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of the results; by default FILE with .sweep in place of .yaml.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
YAML = (".yaml", ".yml")


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    app.add_typer(sweep, name="sweep")


@sweep.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep, a YAML file.")],
    out: OutOption = None,
    workers: Annotated[
        int | None,
        number_option(
            Range(1, 4096, whole=True),
            "--workers",
            help="Processes, by default one per core; on Slurm, jobs of the array.",
        ),
    ] = None,
    on: Annotated[str, typer.Option("--on", help="local, or slurm: as an array of Slurm jobs.")] = "local",
    slurm: Annotated[
        list[str] | None, typer.Option("--slurm", help="A setting of the Slurm jobs, such as partition=gpu or time=60.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run all cells that are not finished yet, and write results.csv and results.parquet.

    Example: headway sweep loads.yaml
    """
    from headway.core.compiler.jit import compiled_before
    from headway.sim.sweep.file import cells as cells_of
    from headway.sim.sweep.file import read_sweep

    if on not in ("local", "slurm"):
        raise unknown("place to run on", on, ("local", "slurm"))
    content = read_sweep(file)
    with _named(file):
        cells = cells_of(content)
    folder = out or file.with_suffix(".sweep")
    with following(f"{len(cells):,} cells", quiet=as_json, runs=len(cells)) as progress:
        from headway.sim.sweep.cell import check, label
        from headway.sim.sweep.run import run_sweep, warm

        if on == "local" and compiled_before():
            warm()  # while we load the engine ourselves, to check names and traces
        kernels_ready(progress)

        with _named(file):
            check(cells)
        done = 0

        def more(count: int) -> None:
            nonlocal done
            done += count
            progress.update(done, 1)

        failures = run_sweep(cells, folder, workers=workers, on=on, slurm=_settings(slurm), progress=more)
    facts = {"cells": len(cells), "finished": len(cells) - len(failures), "failed": len(failures), "out": str(folder)}
    if as_json:
        listed = [{"cell": label(cell), "reason": reason} for cell, reason in failures]
        print(json.dumps(facts | {"failures": listed}, indent=2))
    else:
        where = f"in {folder}/results.csv" if facts["finished"] else "finished"
        print(f"{facts['finished']:,} of {len(cells):,} cells {where}")
    if failures:
        cell, reason = failures[0]
        raise HeadwayError(f"{counted(len(failures), 'cell')} failed, the first is {label(cell)}: {reason}")


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Mistakes in what a sweep names are mistakes of its file."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None


def _settings(texts: list[str] | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for setting in texts or []:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--slurm {setting}: write NAME=VALUE, such as partition=gpu")
        number = plain_whole(value)
        settings[name] = value if number is None else number
    return settings


@sweep.command()
def report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The sweep file, its folder of results, or results.csv.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The HTML file to write; by default beside the results.")
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="The column to draw.")] = "jct_mean_s",
    png: Annotated[
        Path | None, typer.Option("--png", help="Also draw the figures into this folder, or one .png file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a sweep: lines with bands over what was varied in numbers, heat maps over pairs.

    Example: headway sweep report loads.yaml --metric jct_p95_s
    """
    from headway.io.files import write_atomically
    from headway.report.sweep import figures, grid, sweep_report

    results = _results(file)
    target = out or results.parent / "report.html"
    if target.is_dir():
        raise BadInput(f"--out {target} is a folder: give the path of a file to write, such as {target}/report.html")
    rows = read_rows(results)
    found = grid(rows, metric, list(options()))
    command = shlex.join(["headway", "sweep", str(file)]) if file.suffix in YAML else None
    write_atomically(target, sweep_report(results.parent.stem, found, command))
    if png is not None:
        from headway.report.png import draw

        draw(figures(found), png)
    print(json.dumps({"rows": len(rows), "report": str(target)}, indent=2) if as_json else f"wrote {target}")


def _results(file: Path) -> Path:
    """The table for whatever was named."""
    if file.suffix in YAML:
        file = file.with_suffix(".sweep")
    results = file / "results.csv" if file.suffix != ".csv" else file
    if not results.is_file():
        raise BadInput(f"{results} is not there: run `headway sweep FILE.yaml` first")
    return results


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The table of a sweep, with numbers as numbers; settings that are words stay words where they look like numbers."""
    words = {option.name for option in options().values() if option.kind is str} | {"trace_sha256", "version"}
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(text, name in words) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str, is_word: bool) -> Any:
    if text == "" or is_word:
        return text or None
    try:
        number = plain_whole(text)
        return float(text) if number is None else number
    except ValueError:
        return text
