"""CSV files with `submit_s`, `gpus` or `num_gpus`, and `duration_s`: Headway's format, and compact copies of published traces.

The compact copies are distinguished by columns that only they have; each comes with what biases a study of it.
"""

from dataclasses import dataclass

import numpy as np

from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows

NO_QUEUEING = "it has no start times, so queueing in the real cluster cannot be compared"
HOLDS_CAPS = "duration_capped_48h"
SIDE_BY_SIDE = "several traces side by side, each from its first job on; pick one with ?trace=1"

COLUMNS = ("submit_s", "gpus", "duration_s")


@dataclass(frozen=True, slots=True)
class CompactFormat:
    """One kind of compact file: how it is recognised, what its columns are called, and what biases it."""

    # Columns that only this kind has.
    marks: tuple[str, ...]
    names: Names
    caveats: tuple[str, ...] = ()
    # The number of columns, where other files may have the marks too (0: any).
    width: int = 0
    # A column that splits the file into several traces: it takes the place of the queue.
    part: str = ""


KINDS = (
    # Philly, all 15 virtual clusters.
    CompactFormat(
        ("job_id", "num_gpus", "submit_time", "vc"),
        Names(queue="vc"),
        (
            "a selection of 82,247 of 117,325 jobs: 93.2 % need one GPU, 82.4 % in the whole trace",
            "it has no users, states or retries",
            NO_QUEUEING,
        ),
        width=6,
    ),
    # Philly, four virtual clusters with models.
    CompactFormat(
        ("trace", "iteration_ms"),
        Names(model="model"),
        ("models and batch sizes were assigned by the authors of the copy, they are not real", NO_QUEUEING),
        part="trace",
    ),
    # Helios, cluster Venus.
    CompactFormat(
        (HOLDS_CAPS, "vc", "user"),
        Names(queue="vc", user="user"),
        ("users, virtual clusters and states are known for 1,867 jobs only", NO_QUEUEING),
    ),
    # Alibaba PAI 2020, tasks.
    CompactFormat(
        ("task_row", "task_role"),
        Names(job_id="task_row"),
        (
            "a row is a task, not a job, and a random sample of 8.2 %: other tasks of the same job are usually missing",
            "submit_s is the start of the task, so real queueing is already in the arrivals",
            "fractions of a GPU were rounded up to one GPU per instance",
        ),
    ),
    # AcmeTrace, cluster Kalos.
    CompactFormat(
        ("mem_per_pod_gb", "type"),
        Names(),
        (
            "319 of 19,907 GPU jobs: only completed ones of three types, no evaluation or debugging",
            "durations probably contain the queueing time",
        ),
    ),
    # Rubick's language-model workload.
    CompactFormat(
        ("exec_plan", "is_sla"),
        Names(job_id="name", model="model"),
        ("made up by its authors: models and arrivals are not from a real cluster",),
    ),
    # Headway's own format.
    CompactFormat(
        (),
        Names(
            user="user",
            queue="queue",
            model="model",
            limit_s="limit_s",
            nodes="nodes",
            gpu_type="gpu_type",
            features="features",
        ),
    ),
)


def _is_headway(source: Source, header: list[str]) -> bool:
    """By its columns; `num_gpus` may stand for `gpus`."""
    return set(COLUMNS) <= {*header, *(("gpus",) if "num_gpus" in header else ())}


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read a compact CSV; `options` may pick a part of it."""
    table = Columns(source)
    kind = next(kind for kind in KINDS if set(kind.marks) <= set(table.header) and kind.width in (0, len(table.header)))
    names = kind.names
    if names.queue == "queue" and "queue" not in table.header:
        names = names._replace(queue="vc")
    if "gpus" not in table.header:
        names = names._replace(gpus="num_gpus")
    if names.nodes and "nodes" not in table.header:
        names = names._replace(nodes="num_nodes")
    numbers = [*names.numbers, *({HOLDS_CAPS, names.limit_s, names.nodes} & set(table.header))]
    texts = {names.job_id, names.user, names.queue, names.model, names.gpu_type, names.features, kind.part}
    texts &= set(table.header)
    columns = table.read(numbers, texts=texts)
    table.refuse_negative(columns, *names.numbers)
    caveats = kind.caveats
    capped = int((columns[HOLDS_CAPS] == 1).sum()) if HOLDS_CAPS in columns else 0
    if capped:
        caveats += (f"{capped:,} durations are cut at 48 h: long jobs look shorter than they were",)
    if kind.part:
        # The ids of several traces in one file say which.
        ids = columns.get("job_id", np.arange(len(columns[kind.part])).astype(np.str_))
        columns["job_id"] = np.char.add(np.char.add(columns[kind.part], "-"), ids)
        names = names._replace(queue=kind.part)
        caveats += () if kind.part in options else (SIDE_BY_SIDE,)
    return checked_workload(table_rows(table, columns, names, caveats), strict=strict)


READER = Reader("CSV of Headway", read, COLUMNS, ("trace",), _is_headway)
