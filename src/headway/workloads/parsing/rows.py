"""From the columns of a trace to a workload: what is refused, what is left out and counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.workloads.parsing.limits import MOST_S, wrong_gpus
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload, workload


@dataclass(frozen=True, slots=True)
class Names:
    """What a file calls the columns of a workload; "" where it has none."""

    submit_s: str
    gpus: str
    duration_s: str
    job_id: str = "job_id"
    user: str = ""
    queue: str = ""
    model: str = ""


@dataclass(slots=True)
class Rows:
    """The jobs of a file before they are checked. `where(row)` says where a row is in messages: "line 12"."""

    name: str
    where: Callable[[int], str]
    names: Names
    job_id: NDArray[np.str_]
    submit_s: NDArray[np.float64]
    gpus: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    user: NDArray[np.str_] | None = None
    queue: NDArray[np.str_] | None = None
    model: NDArray[np.str_] | None = None
    caveats: tuple[str, ...] = ()
    # What a column is called in messages: a JSON file has keys.
    column: str = "column"

    def place(self, row: int, column: str) -> str:
        """File, line and column in messages."""
        return f"{self.name}, {self.where(row)}, {self.column} {column!r}"


def table_rows(table: Table, columns: Mapping[str, NDArray[Any]], names: Names, caveats: tuple[str, ...] = ()) -> Rows:
    """The rows of a table whose columns are used as they are."""
    return Rows(
        table.source.name,
        table.where,
        names,
        columns[names.job_id],
        columns[names.submit_s],
        columns[names.gpus],
        columns[names.duration_s],
        columns.get(names.user),
        columns.get(names.queue),
        columns.get(names.model),
        caveats,
    )


def checked_workload(rows: Rows, *, strict: bool, from_zero: bool) -> Workload:
    """Check the rows, leave out and count those that cannot run (`strict`: refuse them), and build the workload.

    `from_zero` moves the first submission to 0, for formats that give dates.
    """
    _refuse_duplicates(rows)
    _refuse_absurd(rows)
    keep, skipped = _kept(rows, strict)
    if not keep.any():
        reasons = ", ".join(f"{count:,} with {reason}" for reason, count in skipped.items())
        raise BadInput(f"{rows.name}: no job is left to run ({reasons})")
    submit_s = rows.submit_s[keep]

    def chosen(column: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if column is None else column[keep]

    return workload(
        rows.name,
        submit_s - submit_s.min() if from_zero else submit_s,
        rows.gpus[keep].astype(np.int32),
        rows.duration_s[keep],
        job_id=rows.job_id[keep],
        user=chosen(rows.user),
        queue=chosen(rows.queue),
        model=chosen(rows.model),
        caveats=rows.caveats,
        skipped=skipped,
    )


def _refuse_absurd(rows: Rows) -> None:
    """Refuse a fraction of a GPU, more GPUs than any cluster has, and times beyond every clock."""
    found = wrong_gpus(rows.gpus)
    if found is not None:
        row, words = found
        raise BadInput(f"{rows.place(row, rows.names.gpus)}: {words}")
    for column, values in ((rows.names.submit_s, rows.submit_s), (rows.names.duration_s, rows.duration_s)):
        beyond = np.abs(values) > MOST_S
        if beyond.any():
            row = int(np.argmax(beyond))
            raise BadInput(f"{rows.place(row, column)}: {values[row]:g} s is more than {MOST_S:g} seconds")


def _kept(rows: Rows, strict: bool) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows can run, and how many of the others are left out for which reason."""
    reasons = (
        ("no submit time", rows.names.submit_s, np.isnan(rows.submit_s)),
        ("no GPUs", rows.names.gpus, ~(rows.gpus > 0)),
        ("no duration", rows.names.duration_s, ~(rows.duration_s > 0)),
    )
    keep = np.ones(len(rows.submit_s), np.bool_)
    skipped: dict[str, int] = {}
    for reason, column, mask in reasons:
        out = mask & keep
        if strict and out.any():
            row = int(np.argmax(out))
            raise BadInput(f"{rows.place(row, column)}: job {rows.job_id[row]} has {reason} (strict reading)")
        if out.any():
            skipped[reason] = int(out.sum())
        keep &= ~out
    return keep, skipped


def _refuse_duplicates(rows: Rows) -> None:
    ids = rows.job_id.tolist()
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for row, job in enumerate(ids):
        if job in first:
            raise BadInput(f"{rows.name}: job {job!r} is there twice: {rows.where(first[job])} and {rows.where(row)}")
        first[job] = row
