"""The job files of the public Tiresias simulator (SymbioticLab): made-up jobs with models, times in seconds."""

from collections.abc import Mapping

from headway.workloads.parsing.rows import Rows, finished
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAME = "Tiresias simulator CSV"
COLUMNS = ("num_gpu", "submit_time", "iterations", "model_name", "duration")
OPTIONS: tuple[str, ...] = ()


def recognises(source: Source, header: list[str]) -> bool:
    """By its columns."""
    return set(COLUMNS) <= set(header)


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it: times are already seconds."""
    table = Table(source)
    columns = table.read(("num_gpu", "submit_time", "duration"), texts=("job_id", "model_name"))
    table.refuse_negative(columns, "num_gpu", "submit_time", "duration")
    rows = Rows(
        source.name,
        table.where,
        ("submit_time", "num_gpu", "duration"),
        columns["job_id"],
        columns["submit_time"],
        columns["num_gpu"],
        columns["duration"],
        model=columns["model_name"],
        caveats=("made up: iterations and durations come from a model of the testbed, not from a log",),
    )
    return finished(rows, strict=strict, from_zero=False)
