"""The Standard Workload Format 2.2 (Parallel Workloads Archive): 18 fields per line, `;` comments, -1 for unknown."""

import itertools

import numpy as np

from headway.io.numbers import plain_number
from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows
from headway.workloads.parsing.table import COMMENT

FIELDS = (
    *("job", "submit", "wait", "run", "allocated", "cpu", "memory", "requested", "requested_time", "requested_memory"),
    *("status", "user", "group", "executable", "queue", "partition", "preceding_job", "think_time"),
)
NAMES = Names("submit", "allocated", "run", job_id="job", user="user", queue="queue", limit_s="requested_time")
CAVEATS = ("processors are read as GPUs: the jobs are not training jobs",)


def _is_swf(source: Source, header: list[str]) -> bool:
    """By a first line of 18 numbers after the comments."""
    lines = (line for line in source.text[:100_000].splitlines() if line.strip())
    first = next(itertools.dropwhile(lambda line: line.lstrip().startswith(COMMENT), lines), "").split()
    return len(first) == len(FIELDS) and all(plain_number(value) is not None for value in first[:5])


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; a processor counts as a GPU (allocated ones, or the requested ones where that is unknown)."""
    table = Columns(source, FIELDS, delimiter=" ")
    columns = table.read(("submit", "run", "allocated", "requested", "requested_time"), texts=("job", "user", "queue"))
    columns["submit"] = np.where(columns["submit"] < 0, np.nan, columns["submit"])
    columns["allocated"] = np.where(columns["allocated"] > 0, columns["allocated"], columns["requested"])
    for name in ("user", "queue"):
        columns[name] = np.where(columns[name] == "-1", "", columns[name])
    return checked_workload(table_rows(table, columns, NAMES, CAVEATS), strict=strict)


READER = Reader("Standard Workload Format", read, test=_is_swf)
