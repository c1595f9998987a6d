"""Helios `cluster_log.csv` (Hu et al., SC'21): one row per Slurm job, times as local dates, all end states."""

from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows

NAMES = Names("submit_time", "gpu_num", "duration", user="user", queue="vc")


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; a cancelled or failed job held its GPUs as long as any other and is kept."""
    table = Columns(source)
    columns = table.read(("gpu_num", "duration"), times=("submit_time",), texts=("job_id", "user", "vc", "state"))
    table.refuse_negative(columns, "gpu_num")
    ended_badly = columns["state"] != "COMPLETED"
    caveat = f"{ended_badly.mean():.0%} of the rows were cancelled or failed: they are kept, they held GPUs"
    return checked_workload(table_rows(table, columns, NAMES, (caveat,)), strict=strict, from_zero=True)


READER = Reader(
    "Helios cluster_log.csv",
    read,
    # The virtual cluster distinguishes it from AcmeTrace.
    ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time", "duration"),
)
