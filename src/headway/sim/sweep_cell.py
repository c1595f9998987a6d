"""One cell of a sweep: what it runs, the name of its result, and running it.

A finished cell is one small file whose name is a hash of everything that its result follows from. Files are written aside and renamed, so
a cell is either whole or not there; and as the name is the cell, none can be there twice.
"""

import hashlib
import importlib.util
import json
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from headway import __version__
from headway.core import spec as specs
from headway.core.errors import HeadwayError
from headway.files import write_atomically

FOLDER = "cells"
# Traces that a worker keeps in memory: cells come in the order of traces.
KEPT_TRACES = 4


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid, in the words of the command line."""

    trace: str
    cluster: str
    policy: str
    placement: str
    load: float | None
    seed: int
    preemption_cost: str
    slowdown: str
    min_runtime: str
    start: str = "0"
    end: str | None = None
    sample: str | None = None
    time_scale: float = 1.0
    skip_impossible: bool = False
    network: str = "ideal"
    fabric: str | None = None

    @property
    def label(self) -> str:
        """For messages."""
        load = f", load {self.load:g}" if self.load is not None else ""
        network = f", network {self.network}" if self.network != "ideal" else ""
        return f"{self.policy} on {self.trace} ({self.cluster}, {self.placement}{network}{load}, seed {self.seed})"


def key(cell: Cell) -> str:
    """The name of a cell's result: changes with the cell, with the files it names, and with Headway."""
    files = [_digest(path) for path in (_file_of(cell.trace), cell.cluster, cell.fabric or "")]
    content = [__version__, asdict(cell), *files, _source(cell.policy)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _file_of(trace: str) -> str:
    return trace if Path(trace).is_file() else trace.partition("?")[0]


@lru_cache
def _digest(path: str) -> str | None:
    """A hash of a file's content; None where it is no file but a name."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


@lru_cache
def _source(policy: str) -> str | None:
    """A hash of the module of a policy from outside, so that an edited policy runs again."""
    module, colon, _ = specs.split(policy)[0].partition(":")
    try:
        found = importlib.util.find_spec(module) if colon else None
    except (ImportError, ValueError):
        return None
    return _digest(found.origin) if found is not None and found.origin else None


def check(cells: Iterable[Cell]) -> None:
    """Find misspelt names before the first cell runs."""
    from headway.placement.load import find_placement
    from headway.policies.load import find_policy
    from headway.sim.api import read_setting
    from headway.sim.clusters import cluster as find_cluster
    from headway.sim.fabrics import find_network
    from headway.sim.shape import read_shape

    every = list(cells)
    for policy in dict.fromkeys(cell.policy for cell in every):
        find_policy(policy)
    for network, fabric, cluster, placement in dict.fromkeys(
        (cell.network, cell.fabric, cell.cluster, cell.placement) for cell in every
    ):
        find_network(network, fabric, find_cluster(cluster), find_placement(placement))
    for cost, slowdown, runtime in dict.fromkeys((c.preemption_cost, c.slowdown, c.min_runtime) for c in every):
        read_setting(cost, slowdown, runtime, 0)
    for start, end in dict.fromkeys((cell.start, cell.end) for cell in every):
        read_shape(start, end)
    for trace in dict.fromkeys(cell.trace for cell in every):
        _load(trace)


def run_cell(cell: Cell) -> dict[str, Any]:
    """Simulate a cell: a flat row of what it is and what came out."""
    from headway.sim.api import simulate, with_seed
    from headway.sim.shape import read_shape

    result = simulate(
        _load(with_seed(cell.trace, cell.seed)),
        cell.cluster,
        cell.policy,
        placement=cell.placement,
        network=cell.network,
        fabric=cell.fabric,
        preemption_cost=cell.preemption_cost,
        slowdown=cell.slowdown,
        min_runtime=cell.min_runtime,
        seed=cell.seed,
        skip_impossible=cell.skip_impossible,
        shape=read_shape(cell.start, cell.end, cell.sample, cell.time_scale, cell.load),
    )
    found = result.summary
    row: dict[str, Any] = asdict(cell) | {"jobs": found["jobs"], "left_out": result.left_out}
    for name in ("jct", "queue"):
        row |= {f"{name}_{part}_s": value for part, value in found[f"{name}_s"].items()}
    # How long the run took is left out: the same sweep gives the same table.
    for name in ("makespan_s", "gpu_utilisation", "preemptions", "preemption_cost_s", "events"):
        row[name] = found[name]
    return row


@lru_cache(maxsize=KEPT_TRACES)
def _load(trace: str) -> Any:
    from headway.sim.traces.load import load

    return load(trace)


def finish(cell: Cell, folder: Path) -> None:
    """Run a cell and leave its row in the folder."""
    write_atomically(result_path(cell, folder), json.dumps(run_cell(cell)) + "\n")


def attempt(cell: Cell, folder: Path) -> str | None:
    """Finish a cell; the reason if it cannot be run."""
    try:
        finish(cell, folder)
    except HeadwayError as error:
        return str(error)
    except Exception as error:  # a policy from outside may do anything: the other cells are not its fault
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
    return None


def result_path(cell: Cell, folder: Path) -> Path:
    """Where the row of a cell is kept."""
    return folder / FOLDER / f"{key(cell)}.json"


def finished(cells: Iterable[Cell], folder: Path) -> set[Cell]:
    """The cells that need not run again."""
    there = {path.name for path in (folder / FOLDER).glob("*.json")}
    return {cell for cell in cells if f"{key(cell)}.json" in there}


def rows(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """The rows of the finished cells, in the order of the grid."""
    paths = (result_path(cell, folder) for cell in cells)
    return [json.loads(path.read_text("utf-8")) for path in paths if path.is_file()]
