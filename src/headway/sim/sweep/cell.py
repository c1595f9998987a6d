"""One cell of a sweep: what it runs, the name of its result, and running it.

A finished cell is one small file whose name is a hash of everything that its result follows from. Files are written aside and renamed, so
a cell is either whole or not there; and as the name is the cell, none can be there twice.
"""

import hashlib
import json
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from headway import __version__
from headway.errors import HeadwayError
from headway.io.files import write_atomically
from headway.sim.sweep import inputs as sweep_inputs

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
    files = sweep_inputs.digests(cell.trace, cell.policy, cell.cluster, cell.fabric or "", cell.placement)
    content = [__version__, asdict(cell), files]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def check(cells: Iterable[Cell]) -> None:
    """Find misspelt names before the first cell runs."""
    from headway.cluster.named import cluster as find_cluster
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy
    from headway.sim.api import read_setting
    from headway.sim.models.network import find_network
    from headway.workloads.shape import read_shape

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
    from headway.workloads.shape import read_shape

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
    from headway.workloads.load import load

    return load(trace)


def finish(cell: Cell, folder: Path) -> None:
    """Run a cell and leave its row in the folder."""
    write_atomically(result_path(cell, folder), json.dumps(run_cell(cell)) + "\n")


def attempt(cell: Cell, folder: Path) -> str | None:
    """Finish a cell; the reason if it cannot be run."""
    try:
        finish(cell, folder)
    except HeadwayError as error:
        # The engine's advice names the option of `simulate`; a sweep has a key.
        return str(error).replace("--skip-impossible", "skip_impossible: yes")
    except Exception as error:  # a policy from outside may do anything: the other cells are not its fault
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
    return None


def result_path(cell: Cell, folder: Path) -> Path:
    """Where the row of a cell is kept."""
    return folder / FOLDER / f"{key(cell)}.json"


def finished(cells: Iterable[Cell], folder: Path) -> set[Cell]:
    """The cells that need not run again."""
    return {cell for cell in cells if _row(result_path(cell, folder)) is not None}


def rows(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """The rows of the finished cells, in the order of the grid."""
    found = (_row(result_path(cell, folder)) for cell in cells)
    return [row for row in found if row is not None]


def _row(path: Path) -> dict[str, Any] | None:
    """The row in a file; None where it is not there, or was damaged after it was written."""
    try:
        row = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return row if isinstance(row, dict) else None
