"""Run the cells of a sweep that are not finished yet: on all cores of this machine, or as jobs of a Slurm cluster (slurm.py).

The compiled engine is loaded once, and workers stay alive over many cells. Every finished cell is a file at once (cell.py): whoever
is killed loses the cells that were under way and no other, and the same command goes on from there.
"""

import csv
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from headway.errors import BadInput, HeadwayError
from headway.io.files import writing
from headway.sim.experiment import Experiment, options
from headway.sim.sweep import cell as sweep_cell
from headway.sim.sweep import inputs as sweep_inputs
from headway.sim.sweep.cell import CellOutcome

TABLE = "results"
# The first loads the compiled engine, more than a second of work; the second draws the durations of synthetic traces.
ENGINE = ["headway.sim.sweep.engine", "scipy.special"]


def run_sweep(
    cells: Sequence[Experiment],
    folder: Path,
    *,
    workers: int | None = None,
    on: str = "local",
    slurm: dict[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[CellOutcome]:
    """Run what is not finished, write the table, and say what failed. `progress(cells)` hears how many more are done."""
    if slurm and on != "slurm":
        raise BadInput(f"--slurm {next(iter(slurm))}=... is a setting of Slurm jobs: add --on slurm, or leave it out")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: give a folder for the results of the sweep")
    sweep_inputs.forget()  # a notebook may run a sweep again after an edit
    done = sweep_cell.finished(cells, folder)
    unfinished = [cell for cell in cells if cell not in done]
    if progress:
        progress(len(done))
    outcomes: Iterable[CellOutcome] = ()
    if unfinished and on == "slurm":
        from headway.sim.sweep.slurm import on_slurm

        outcomes = on_slurm(unfinished, folder, slurm or {}, workers)
    elif unfinished:
        outcomes = _locally(unfinished, folder, workers)
    failures = []
    for outcome in outcomes:
        if outcome.reason is not None:
            failures.append(outcome)
        if progress:
            progress(1)
    write_table(sweep_cell.rows(cells, folder), folder)
    return failures


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _locally(cells: list[Experiment], folder: Path, workers: int | None) -> Iterator[CellOutcome]:
    """Run cells in a pool; each outcome as soon as it is there."""
    count = min(workers or cores(), len(cells))
    pool = ProcessPoolExecutor(count, _context(), initializer=_begin, initargs=(list(sys.path),))
    try:
        futures = {pool.submit(sweep_cell.attempt, cell, folder): cell for cell in cells}
        for future in as_completed(futures):
            yield CellOutcome(futures[future], future.result())
    except BrokenProcessPool:
        raise HeadwayError(
            f"a worker died, perhaps for want of memory; finished cells are kept in {folder}: start the sweep again, "
            "with fewer --workers if need be"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def warm() -> None:
    """Begin to load the engine for the workers, beside whatever the caller does next."""
    if "forkserver" in get_all_start_methods():
        from multiprocessing.forkserver import ensure_running

        _context()
        ensure_running()


def _context() -> BaseContext:
    """How workers start: forked from a server that has loaded the engine, once for all of them and for later sweeps.

    They are not forked from the caller itself, whose threads and locks they would copy.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(ENGINE)
    return context


def _begin(path: list[str]) -> None:
    """In a worker: find the user's modules, and end with the parent, however that ends."""
    import threading
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    sys.path[:] = path
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def write_table(rows: list[dict[str, Any]], folder: Path) -> None:
    """All rows as CSV, and as Parquet where pyarrow is installed."""
    if not rows:  # then a table of before is of other inputs
        for kind in ("csv", "parquet"):
            (folder / f"{TABLE}.{kind}").unlink(missing_ok=True)
        return
    with writing(folder / f"{TABLE}.csv") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return
    # Columns that may be empty from top to bottom need a type.
    types = {str: pyarrow.string(), float: pyarrow.float64()}
    kinds = {option.name: types[option.kind] for option in options().values() if option.default is None}
    columns = {name: pyarrow.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]}
    with writing(folder / f"{TABLE}.parquet", "wb") as file:
        parquet.write_table(pyarrow.table(columns), file)
