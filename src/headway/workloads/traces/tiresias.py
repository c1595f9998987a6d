"""The job files of the public Tiresias simulator (SymbioticLab): made-up jobs with models, times in seconds."""

from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows

NAMES = Names("submit_time", "num_gpu", "duration", model="model_name")
CAVEATS = ("made up: iterations and durations come from a model of the testbed, not from a log",)


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it: times are already seconds."""
    table = Columns(source)
    columns = table.read(NAMES.numbers, texts=("job_id", "model_name"))
    table.refuse_negative(columns, *NAMES.numbers)
    return checked_workload(table_rows(table, columns, NAMES, CAVEATS), strict=strict)


READER = Reader("Tiresias simulator CSV", read, ("num_gpu", "submit_time", "iterations", "model_name", "duration"))
