"""The job files of the public Tiresias simulator (SymbioticLab): made-up jobs with models, times in seconds."""

from collections.abc import Mapping

from headway.workloads.parsing.reader import Reader
from headway.workloads.parsing.rows import Names, checked_workload, table_rows
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.table import Table
from headway.workloads.workload import Workload

NAMES = Names("submit_time", "num_gpu", "duration", model="model_name")
CAVEATS = ("made up: iterations and durations come from a model of the testbed, not from a log",)


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it: times are already seconds."""
    table = Table(source)
    columns = table.read(("num_gpu", "submit_time", "duration"), texts=("job_id", "model_name"))
    table.refuse_negative(columns, "num_gpu", "submit_time", "duration")
    return checked_workload(table_rows(table, columns, NAMES, CAVEATS), strict=strict, from_zero=False)


READER = Reader("Tiresias simulator CSV", read, ("num_gpu", "submit_time", "iterations", "model_name", "duration"))
