"""Convert the columns of a trace to a workload; invalid rows are refused, or left out and counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io.units import MOST_S
from headway.workloads.parsing.table import Columns, plain, wrong_gpus
from headway.workloads.workload import Workload, workload

NO_LIMIT = -1  # as SWF writes a time limit that is not known


class Names(NamedTuple):
    """What a file calls the columns of a workload; "" where it has none."""

    submit_s: str = "submit_s"
    gpus: str = "gpus"
    duration_s: str = "duration_s"
    job_id: str = "job_id"
    user: str = ""
    queue: str = ""
    model: str = ""
    limit_s: str = ""
    nodes: str = ""
    gpu_type: str = ""
    features: str = ""

    @property
    def numbers(self) -> tuple[str, str, str]:
        """The columns that every file must have."""
        return self.submit_s, self.gpus, self.duration_s


@dataclass(frozen=True, slots=True)
class Rows:
    """The jobs of a file before they are checked. `where(row)` says where a row is in messages: "line 12"."""

    name: str
    where: Callable[[int], str]
    names: Names
    # By the names of a workload's columns.
    columns: Mapping[str, NDArray[Any]]
    caveats: tuple[str, ...] = ()
    # What a column is called in messages: a JSON file has keys.
    column: str = "column"

    def bad(self, row: int, column: str, problem: str) -> BadInput:
        """The error for one column of one row."""
        called = getattr(self.names, column)
        return BadInput(f"{self.name}, {self.where(row)}, {self.column} {called!r}: {problem}")


def table_rows(
    table: Columns, columns: Mapping[str, NDArray[Any]], names: Names, caveats: tuple[str, ...] = ()
) -> Rows:
    """The rows of a table; jobs without ids are numbered."""
    known = {name: columns[called] for name, called in names._asdict().items() if called in columns}
    if "job_id" not in known:
        known["job_id"] = np.arange(len(known["gpus"])).astype(np.str_)
    return Rows(table.source.name, table.where, names, known, caveats)


def checked_workload(rows: Rows, *, strict: bool, from_zero: bool = False) -> Workload:
    """Check the rows, leave out and count those that cannot run (`strict`: refuse them), and build the workload.

    `from_zero` moves the first submission to 0, for formats that give dates.
    """
    _refuse_duplicates(rows)
    _refuse_absurd(rows)
    keep, skipped = _kept(rows, strict)
    if not keep.any():
        reasons = ", ".join(f"{count:,} with {reason}" for reason, count in skipped.items())
        raise BadInput(f"{rows.name}: no job is left to run ({reasons})")
    _refuse_uneven(rows, keep)
    columns = {name: column[keep] for name, column in rows.columns.items()}
    if "nodes" in columns:
        columns["nodes"] = np.nan_to_num(columns["nodes"])  # nothing written: the placement chooses
    if "limit_s" in columns:
        asked = columns["limit_s"]
        columns["limit_s"] = np.where(asked > 0, asked, np.inf)
    if from_zero:
        columns["submit_s"] -= columns["submit_s"].min()
    return workload(rows.name, **columns, caveats=rows.caveats, skipped=skipped)


def _refuse_absurd(rows: Rows) -> None:
    """Refuse a fraction of a GPU, more GPUs than any cluster has, and times beyond every clock."""
    found = wrong_gpus(rows.columns["gpus"])
    if found is not None:
        raise rows.bad(found[0], "gpus", found[1])
    for column in ("submit_s", "duration_s"):
        values = rows.columns[column]
        beyond = np.abs(values) > MOST_S
        if beyond.any():
            row = int(np.argmax(beyond))
            raise rows.bad(row, column, f"{values[row]:g} s is more than {MOST_S:g} seconds")
    limits = rows.columns.get("limit_s", np.zeros(0))
    wrong = (limits < 0) & (limits != NO_LIMIT)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise rows.bad(row, "limit_s", f"{limits[row]:g} is no time: write seconds, or nothing where there is no limit")


def _refuse_uneven(rows: Rows, keep: NDArray[np.bool_]) -> None:
    """Refuse numbers of nodes that are not whole or that do not divide the GPUs of the job."""
    if "nodes" not in rows.columns:
        return
    nodes, gpus = np.nan_to_num(rows.columns["nodes"]), rows.columns["gpus"]
    wrong = keep & ((nodes % 1 != 0) | (nodes < 0))
    if wrong.any():
        row = int(wrong.argmax())
        fix = "write 1 or more, or nothing if the placement chooses"
        raise rows.bad(row, "nodes", f"{plain(nodes[row])!r} is not a number of nodes: {fix}")
    uneven = keep & (gpus % np.where(nodes > 0, nodes, 1) != 0)
    if uneven.any():
        row = int(uneven.argmax())
        why = f"{plain(nodes[row])} nodes do not divide {plain(gpus[row])} GPUs"
        raise rows.bad(row, "nodes", f"{why}: write the GPUs of all nodes together as {rows.names.gpus!r}")


def _kept(rows: Rows, strict: bool) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows can run, and how many of the others are left out for which reason."""
    reasons = (
        ("no submit time", "submit_s", np.isnan(rows.columns["submit_s"])),
        ("no GPUs", "gpus", ~(rows.columns["gpus"] > 0)),
        ("no duration", "duration_s", ~(rows.columns["duration_s"] > 0)),
    )
    keep = np.ones(len(rows.columns["gpus"]), np.bool_)
    skipped: dict[str, int] = {}
    for reason, column, mask in reasons:
        out = mask & keep
        if strict and out.any():
            row = int(np.argmax(out))
            raise rows.bad(row, column, f"job {rows.columns['job_id'][row]} has {reason} (strict reading)")
        if out.any():
            skipped[reason] = int(out.sum())
        keep &= ~out
    return keep, skipped


def _refuse_duplicates(rows: Rows) -> None:
    ids = rows.columns["job_id"].tolist()
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for row, job in enumerate(ids):
        if job in first:
            raise BadInput(f"{rows.name}: job {job!r} is there twice: {rows.where(first[job])} and {rows.where(row)}")
        first[job] = row
