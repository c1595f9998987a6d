"""AcmeTrace `trace_seren.csv` and `trace_kalos.csv` (Hu et al., NSDI'24): jobs of language-model development."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headway.workloads.parsing.reader import Reader
from headway.workloads.parsing.rows import Names, checked_workload, table_rows
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAMES = Names("submit_time", "gpu_num", "duration", user="user", queue="type")


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it; the run time is end minus start, since the column `duration` of Kalos is end minus submission."""
    table = Table(source)
    dates = ("submit_time", "start_time", "end_time")
    columns = table.read(("gpu_num", "duration"), times=dates, texts=("job_id", "user", "type"))
    table.refuse_negative(columns, "gpu_num")
    ran_s = columns["end_time"] - columns["start_time"]
    dateless = int(np.isnan(ran_s).sum())
    caveat = (f"{dateless:,} rows have no start or end: their duration column is used, it may contain queueing",)
    caveats = ("the queue of a job is its workload type", *(caveat if dateless else ()))
    duration_s = np.where(np.isnan(ran_s), columns["duration"], ran_s)
    rows = replace(table_rows(table, columns, NAMES, caveats), duration_s=duration_s)
    return checked_workload(rows, strict=strict, from_zero=True)


READER = Reader(
    "AcmeTrace CSV",
    read,
    (
        *("job_id", "user", "gpu_num", "type", "state"),
        *("submit_time", "start_time", "end_time", "duration", "gpu_time"),
    ),
)
