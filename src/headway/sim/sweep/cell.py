"""One cell of a sweep: an experiment, the name of its result, and running it.

A finished cell is one small file whose name is a hash of everything that its result follows from. Files are written aside and renamed, so
a cell is either whole or not there; and as the name is the cell, none can be there twice.
"""

import hashlib
import json
import traceback
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from headway import __version__
from headway.errors import HeadwayError, ImpossibleJobs
from headway.io.files import write_atomically
from headway.sim.experiment import Experiment
from headway.sim.sweep import inputs as sweep_inputs
from headway.sim.trace import Trace, read_trace, with_seed

FOLDER = "cells"
# Traces that a worker keeps in memory: cells come in the order of traces.
KEPT_TRACES = 4
# Columns of a row that follow the settings. How long the run took is left out: the same sweep gives the same table.
FIGURES = (
    "makespan_s",
    "gpu_utilisation",
    "goodput",
    "preemptions",
    "preemption_cost_s",
    "events",
    "trace_sha256",
    "version",
    "command",
)


class CellOutcome(NamedTuple):
    """A cell, and why it could not be run: None if it was."""

    cell: Experiment
    reason: str | None


def label(cell: Experiment) -> str:
    """A cell in messages."""
    load = f", load {cell.load:g}" if cell.load is not None else ""
    network = f", network {cell.network}" if cell.network != "ideal" else ""
    return f"{cell.policy} on {cell.trace} ({cell.cluster}, {cell.placement}{network}{load}, seed {cell.seed})"


def key(cell: Experiment) -> str:
    """The name of a cell's result: changes with the cell, with the files it names, and with Headway."""
    content = [__version__, cell.settings, sweep_inputs.digests(cell)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def check(cells: Iterable[Experiment]) -> None:
    """Find misspelt names before the first cell runs."""
    from headway.policies.registry import find_policy
    from headway.sim.api import find

    every = list(cells)
    policies = {policy: find_policy(policy) for policy in dict.fromkeys(cell.policy for cell in every)}
    for cell in {(one.network, one.fabric, one.cluster, one.placement): one for one in every}.values():
        find(cell, policies[cell.policy])
    for trace, strict in dict.fromkeys((str(cell.trace), cell.strict) for cell in every):
        _read(trace, strict)


def run_cell(cell: Experiment) -> dict[str, Any]:
    """Simulate a cell: a flat row of what it is and what came out."""
    from headway.sim.api import run_experiment

    drawn = with_seed(str(cell.trace), cell.seed)
    summary = run_experiment(replace(cell, trace=drawn), trace=_read(drawn, cell.strict)).summary
    figures = {name: summary[name] for name in FIGURES}
    spreads = {f"{name}_{part}_s": value for name in ("jct", "queue") for part, value in summary[f"{name}_s"].items()}
    return cell.settings | {"jobs": summary["jobs"], "left_out": summary["left_out"]} | spreads | figures


@lru_cache(maxsize=KEPT_TRACES)
def _read(trace: str, strict: bool) -> Trace:
    return read_trace(trace, strict=strict)


def attempt(cell: Experiment, folder: Path) -> str | None:
    """Run a cell and leave its row in the folder; the reason if it cannot be run."""
    try:
        write_atomically(result_path(cell, folder), json.dumps(run_cell(cell)) + "\n")
    except ImpossibleJobs as error:
        return error.with_option("skip_impossible: yes")
    except HeadwayError as error:
        return str(error)
    except Exception as error:  # a policy from outside may do anything: the other cells are not its fault
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
    return None


def result_path(cell: Experiment, folder: Path) -> Path:
    """Where the row of a cell is kept."""
    return folder / FOLDER / f"{key(cell)}.json"


def finished(cells: Iterable[Experiment], folder: Path) -> set[Experiment]:
    """The cells that need not run again."""
    return {cell for cell in cells if _row(result_path(cell, folder)) is not None}


def rows(cells: Iterable[Experiment], folder: Path) -> list[dict[str, Any]]:
    """The rows of the finished cells, in the order of the grid."""
    stored = (_row(result_path(cell, folder)) for cell in cells)
    return [row for row in stored if row is not None]


def _row(path: Path) -> dict[str, Any] | None:
    """The row in a file; None where it is not there, or was damaged after it was written."""
    try:
        row = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return row if isinstance(row, dict) else None
