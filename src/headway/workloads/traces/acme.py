"""AcmeTrace `trace_seren.csv` and `trace_kalos.csv` (Hu et al., NSDI'24): jobs of language-model development."""

from collections.abc import Mapping

import numpy as np

from headway.workloads.parsing.rows import Rows, finished
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAME = "AcmeTrace CSV"
COLUMNS = (
    "job_id",
    "user",
    "gpu_num",
    "type",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration",
    "gpu_time",
)
OPTIONS: tuple[str, ...] = ()


def recognises(source: Source, header: list[str]) -> bool:
    """By its columns."""
    return set(COLUMNS) <= set(header)


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it; run time is end minus start, since Kalos's own `duration` is end minus submission."""
    table = Table(source)
    dates = ("submit_time", "start_time", "end_time")
    columns = table.read(("gpu_num", "duration"), times=dates, texts=("job_id", "user", "type"))
    table.refuse_negative(columns, "gpu_num")
    ran_s = columns["end_time"] - columns["start_time"]
    dateless = int(np.isnan(ran_s).sum())
    caveat = (f"{dateless:,} rows have no start or end: their duration column is used, it may contain queueing",)
    rows = Rows(
        source.name,
        table.where,
        ("submit_time", "gpu_num", "duration"),
        columns["job_id"],
        columns["submit_time"],
        columns["gpu_num"],
        np.where(np.isnan(ran_s), columns["duration"], ran_s),
        user=columns["user"],
        queue=columns["type"],
        caveats=("the queue of a job is its workload type", *(caveat if dateless else ())),
    )
    return finished(rows, strict=strict, from_zero=True)
