"""AcmeTrace `trace_seren.csv` and `trace_kalos.csv` (Hu et al., NSDI'24): jobs of language-model development."""

import numpy as np

from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows

NAMES = Names("submit_time", "gpu_num", "duration", user="user", queue="type")


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; the run time is end minus start, since the column `duration` of Kalos is end minus submission."""
    table = Columns(source)
    dates = ("submit_time", "start_time", "end_time")
    columns = table.read(("gpu_num", "duration"), times=dates, texts=("job_id", "user", "type"))
    table.refuse_negative(columns, "gpu_num")
    ran_s = columns["end_time"] - columns["start_time"]
    dateless = int(np.isnan(ran_s).sum())
    caveat = (f"{dateless:,} rows have no start or end: their duration column is used, it may contain queueing",)
    caveats = ("the queue of a job is its workload type", *(caveat if dateless else ()))
    columns["duration"] = np.where(np.isnan(ran_s), columns["duration"], ran_s)
    return checked_workload(table_rows(table, columns, NAMES, caveats), strict=strict, from_zero=True)


READER = Reader(
    "AcmeTrace CSV",
    read,
    (
        *("job_id", "user", "gpu_num", "type", "state"),
        *("submit_time", "start_time", "end_time", "duration", "gpu_time"),
    ),
)
