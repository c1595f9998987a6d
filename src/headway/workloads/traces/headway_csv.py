"""CSV files with `submit_s`, `gpus` or `num_gpus`, and `duration_s`: Headway's format, and compact copies of published traces.

The compact copies are distinguished by columns that only they have; each comes with what biases a study of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.workloads.parsing.reader import Reader
from headway.workloads.parsing.rows import Names, Rows, checked_workload
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NO_QUEUEING = "it has no start times, so queueing in the real cluster cannot be compared"
HOLDS_CAPS = "duration_capped_48h"
SIDE_BY_SIDE = "several traces side by side, each from its first job on; pick one with ?trace=1"

COLUMNS = ("submit_s", "gpus", "duration_s")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of compact file: how it is recognised, what its columns are called, and what biases it."""

    name: str
    # Columns that only this kind has.
    marks: tuple[str, ...]
    # The number of columns, where other files may have the marks too (0: any).
    width: int = 0
    job_id: str = "job_id"
    queue: str = ""
    user: str = ""
    model: str = ""
    # A column that splits the file into several traces: it takes the place of the queue.
    part: str = ""
    caveats: tuple[str, ...] = ()


KINDS = (
    Kind(
        "Philly, all 15 virtual clusters",
        ("job_id", "num_gpus", "submit_time", "vc"),
        width=6,
        queue="vc",
        caveats=(
            "a selection of 82,247 of 117,325 jobs: 93.2 % need one GPU, 82.4 % in the whole trace",
            "it has no users, states or retries",
            NO_QUEUEING,
        ),
    ),
    Kind(
        "Philly, four virtual clusters with models",
        ("trace", "iteration_ms"),
        model="model",
        part="trace",
        caveats=("models and batch sizes were assigned by the authors of the copy, they are not real", NO_QUEUEING),
    ),
    Kind(
        "Helios, cluster Venus",
        (HOLDS_CAPS, "vc", "user"),
        queue="vc",
        user="user",
        caveats=("users, virtual clusters and states are known for 1,867 jobs only", NO_QUEUEING),
    ),
    Kind(
        "Alibaba PAI 2020, tasks",
        ("task_row", "task_role"),
        job_id="task_row",
        caveats=(
            "a row is a task, not a job, and a random sample of 8.2 %: other tasks of the same job are usually missing",
            "submit_s is the start of the task, so real queueing is already in the arrivals",
            "fractions of a GPU were rounded up to one GPU per instance",
        ),
    ),
    Kind(
        "AcmeTrace, cluster Kalos",
        ("mem_per_pod_gb", "type"),
        caveats=(
            "319 of 19,907 GPU jobs: only completed ones of three types, no evaluation or debugging",
            "durations probably contain the queueing time",
        ),
    ),
    Kind(
        "Rubick's language-model workload",
        ("exec_plan", "is_sla"),
        job_id="name",
        model="model",
        caveats=("made up by its authors: models and arrivals are not from a real cluster",),
    ),
    Kind("Headway", (), user="user", queue="queue", model="model"),
)


def _is_headway(source: Source, header: list[str]) -> bool:
    """By its columns; `num_gpus` may stand for `gpus`."""
    return set(COLUMNS) <= {*header, *(("gpus",) if "num_gpus" in header else ())}


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read a compact CSV; `options` may pick a part of it."""
    table = Table(source)
    kind = next(kind for kind in KINDS if set(kind.marks) <= set(table.header) and kind.width in (0, len(table.header)))
    if kind.queue == "queue" and "queue" not in table.header:
        kind = replace(kind, queue="vc")
    size = "gpus" if "gpus" in table.header else "num_gpus"
    numbers = ["submit_s", size, "duration_s"] + [HOLDS_CAPS] * (HOLDS_CAPS in table.header)
    wanted = (kind.job_id, kind.user, kind.queue, kind.model, kind.part)
    columns = table.read(numbers, texts=[name for name in wanted if name in table.header])
    table.refuse_negative(columns, "submit_s", size, "duration_s")
    parts = columns.get(kind.part)
    rows = Rows(
        source.name,
        table.where,
        Names("submit_s", size, "duration_s"),
        _ids(columns, kind, len(columns[size])),
        columns["submit_s"],
        columns[size],
        columns["duration_s"],
        columns.get(kind.user),
        columns.get(kind.queue) if parts is None else parts,
        columns.get(kind.model),
        kind.caveats + _caps(columns) + (() if parts is None or kind.part in options else (SIDE_BY_SIDE,)),
    )
    return checked_workload(rows, strict=strict, from_zero=False)


def _ids(columns: Mapping[str, NDArray[Any]], kind: Kind, count: int) -> NDArray[np.str_]:
    """The ids of the file, or row numbers; the ids of several traces in one file say which."""
    ids = columns[kind.job_id] if kind.job_id in columns else np.arange(count).astype(np.str_)
    if kind.part not in columns:
        return ids
    pairs = zip(columns[kind.part].tolist(), ids.tolist(), strict=True)
    return np.array([f"{part}-{job}" for part, job in pairs])


def _caps(columns: Mapping[str, NDArray[np.float64]]) -> tuple[str, ...]:
    capped = int((columns[HOLDS_CAPS] == 1).sum()) if HOLDS_CAPS in columns else 0
    return (f"{capped:,} durations are cut at 48 h: long jobs look shorter than they were",) if capped else ()


READER = Reader("CSV of Headway", read, COLUMNS, ("trace",), _is_headway)
