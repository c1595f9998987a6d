"""Alibaba 2023 `openb_pod_list*.csv` (Weng et al., ATC'23): pods that may ask for a part of a GPU."""

from collections.abc import Mapping

from headway.workloads.parsing.rows import Rows, finished
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAME = "Alibaba 2023 openb pods"
COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time", "qos")
OPTIONS: tuple[str, ...] = ()
WHOLE_GPU_MILLI = 1000


def recognises(source: Source, header: list[str]) -> bool:
    """By its columns."""
    return set(COLUMNS) <= set(header)


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it; a pod lasts from creation to deletion, as in the published statistics."""
    table = Table(source)
    numbers = ("num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
    columns = table.read(numbers, texts=("name", "qos"))
    table.refuse_negative(columns, "num_gpu", "gpu_milli")
    shared = int(((columns["gpu_milli"] < WHOLE_GPU_MILLI) & (columns["num_gpu"] > 0)).sum())
    waiting = int((columns["scheduled_time"] != columns["scheduled_time"]).sum())
    rows = Rows(
        source.name,
        table.where,
        ("creation_time", "num_gpu", "deletion_time"),
        columns["name"],
        columns["creation_time"],
        columns["num_gpu"],
        columns["deletion_time"] - columns["creation_time"],
        queue=columns["qos"],
        caveats=(
            f"{shared:,} pods ask for a part of a GPU: they count as a whole one",
            f"durations are deletion minus creation, with the (short) queueing; {waiting:,} pods were never scheduled",
            "the load is very light: useful for sharing GPUs, not for distributed training",
        ),
    )
    return finished(rows, strict=strict, from_zero=True)
