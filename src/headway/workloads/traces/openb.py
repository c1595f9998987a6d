"""Alibaba 2023 `openb_pod_list*.csv` (Weng et al., ATC'23): pods that may ask for a fraction of a GPU."""

from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows

NAMES = Names("creation_time", "num_gpu", "deletion_time", job_id="name", queue="qos")
WHOLE_GPU_MILLI = 1000


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; a pod lasts from creation to deletion, as in the published statistics."""
    table = Columns(source)
    numbers = ("num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
    columns = table.read(numbers, texts=("name", "qos"))
    table.refuse_negative(columns, "num_gpu", "gpu_milli")
    shared = int(((columns["gpu_milli"] < WHOLE_GPU_MILLI) & (columns["num_gpu"] > 0)).sum())
    waiting = int((columns["scheduled_time"] != columns["scheduled_time"]).sum())
    caveats = (
        f"{shared:,} pods ask for a fraction of a GPU: they count as a whole one",
        f"durations are deletion minus creation, with the (short) queueing; {waiting:,} pods were never scheduled",
        "the load is very light: useful for sharing GPUs, not for distributed training",
    )
    columns["deletion_time"] -= columns["creation_time"]
    return checked_workload(table_rows(table, columns, NAMES, caveats), strict=strict, from_zero=True)


READER = Reader(
    "Alibaba 2023 openb pods",
    read,
    ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time", "qos"),
)
