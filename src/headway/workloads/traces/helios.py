"""Helios `cluster_log.csv` (Hu et al., SC'21): one row a Slurm job, times as local dates, all end states."""

from collections.abc import Mapping

from headway.workloads.parsing.rows import Rows, finished
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAME = "Helios cluster_log.csv"
COLUMNS = ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time", "duration")
OPTIONS: tuple[str, ...] = ()


def recognises(source: Source, header: list[str]) -> bool:
    """By its columns; the virtual cluster tells it from AcmeTrace."""
    return set(COLUMNS) <= set(header)


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it; a cancelled or failed job held its GPUs as long as any other and is kept."""
    table = Table(source)
    columns = table.read(("gpu_num", "duration"), times=("submit_time",), texts=("job_id", "user", "vc", "state"))
    table.refuse_negative(columns, "gpu_num")
    ended_badly = columns["state"] != "COMPLETED"
    rows = Rows(
        source.name,
        table.where,
        ("submit_time", "gpu_num", "duration"),
        columns["job_id"],
        columns["submit_time"],
        columns["gpu_num"],
        columns["duration"],
        user=columns["user"],
        queue=columns["vc"],
        caveats=(f"{ended_badly.mean():.0%} of the rows were cancelled or failed: they are kept, they held GPUs",),
    )
    return finished(rows, strict=strict, from_zero=True)
