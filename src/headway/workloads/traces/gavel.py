"""Gavel's traces (Narayanan et al., OSDI'20): `.trace` files, and the compact CSV of its Philly traces.

They give training steps instead of durations. In the Philly traces, steps over Philly's duration is one rate per
job type whatever its GPUs, from a table older than the published one. `PHILLY_RATES` are these rates, recovered
by matching the jobs with Philly's own durations (decision 0012). Other traces need the table that made them.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io.json_file import parse_json
from headway.workloads.parsing import Columns, Names, Options, Reader, Source, Workload, checked_workload, table_rows
from headway.workloads.parsing.source import read_source

COLUMNS = ("vc", "idx", "submit_s", "num_gpus", "model", "batch_size", "total_steps")
COMPACT = Names("submit_s", "num_gpus", "total_steps", queue="vc", model="model")
LINES = Names("arrival_s", "gpus", "total_steps", model="job_type")
WORKER = "v100"
# Fields of a line, in the three versions of the format.
FIELDS = {
    7: ("job_type", "command", "steps_argument", "needs_data", "total_steps", "arrival_s", "gpus"),
    9: ("job_type", "command", "steps_argument", "needs_data", "total_steps", "gpus", "weight", "slo", "arrival_s"),
    10: (
        *("job_type", "command", "folder", "steps_argument", "needs_data"),
        *("total_steps", "gpus", "weight", "slo", "arrival_s"),
    ),
}
CAVEATS = (
    "models were assigned at random by the authors of the trace, they are not real",
    "durations are training steps over steps per second on V100 GPUs",
)
SIDE_BY_SIDE = "virtual clusters side by side, each from its first job on; pick one with ?vc=NAME"
TABLES_BESIDE = ("simulation_throughputs.json", "gavel_isolated_throughputs.csv")

# Steps per second by model and batch size.
PHILLY_RATES = {
    "A3C": {"": 8.233},
    "CycleGAN": {"": 4.9185},
    "LM": {"5": 167.1228, "10": 143.3605, "20": 107.9509, "40": 71.723, "80": 43.9036},
    "Recommendation": {"512": 0.3315, "1024": 0.48, "2048": 0.5675, "4096": 0.6244, "8192": 0.6023},
    "ResNet-18": {"16": 77.3174, "32": 65.8054, "64": 48.8842, "128": 30.2875, "256": 16.9874},
    "ResNet-50": {"16": 17.3744, "32": 9.9206, "64": 5.4576, "128": 2.846},
    "Transformer": {"16": 12.8456, "32": 12.4753, "64": 9.568, "128": 5.7712, "256": 1.707},
}


def _is_gavel(source: Source, header: list[str]) -> bool:
    """By the columns of the compact CSV, or by lines of 7, 9 or 10 fields between tabs."""
    between_tabs = source.first_line.split("\t")
    return set(COLUMNS) <= set(header) or (len(between_tabs) in FIELDS and "submit_s" not in between_tabs)


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; `?throughputs=FILE` gives another table of steps per second."""
    compact = "\t" not in source.first_line
    fields = source.first_line.count("\t") + 1
    table = Columns(source) if compact else Columns(source, FIELDS[fields], delimiter="\t")
    names = COMPACT if compact else LINES
    columns = table.read(names.numbers, texts=("vc", "idx", "model", "batch_size") if compact else ("job_type",))
    table.refuse_negative(columns, *names.numbers)
    table.refuse_wrong_gpus(columns, names.gpus)
    if compact:
        columns["job_id"] = np.char.add(np.char.add(columns["vc"], "-"), columns["idx"])
        columns["model"] = np.array(list(map(_job_type, columns["model"].tolist(), columns["batch_size"].tolist())))
    rates = _rates(table, options, columns[names.model].tolist(), columns[names.gpus], philly=compact or fields == 7)
    columns["total_steps"] = np.round(columns["total_steps"] / rates, 3)
    caveats = CAVEATS + ((SIDE_BY_SIDE,) if compact and "vc" not in options else ())
    return checked_workload(table_rows(table, columns, names, caveats), strict=strict)


def _job_type(model: str, batch: str) -> str:
    """Gavel's name of a job type, such as `LM (batch size 5)`."""
    return f"{model} (batch size {batch})" if batch else model


def _rates(
    table: Columns, options: Options, kinds: list[str], gpus: NDArray[np.float64], *, philly: bool
) -> NDArray[np.float64]:
    """Steps per second of every job: Philly's recovered rates, or a table of throughputs."""
    given = options.get("throughputs")
    counts = np.nan_to_num(gpus).astype(np.int64)
    if given is None and philly:
        known = {
            _job_type(model, batch): rate for model, rates in PHILLY_RATES.items() for batch, rate in rates.items()
        }
        found = [known.get(kind, 0.0) for kind in kinds]
        origin = "the rates recovered for Gavel's Philly traces"
    else:
        path = Path(given) if given else _beside(table.source)
        measured = _throughputs(path)
        found = [measured.get(key, 0.0) for key in zip(kinds, counts.tolist(), strict=True)]
        origin = str(path)
    rates = np.array(found)
    unknown = (rates <= 0) & (counts > 0)
    if unknown.any():
        row = int(np.argmax(unknown))
        problem = f"{kinds[row]!r} on {counts[row]} GPUs has no steps per second in {origin}: give ?throughputs=FILE"
        raise table.bad(row, "model" if "model" in table.header else "job_type", problem)
    return np.where(rates > 0, rates, np.nan)


def _beside(source: Source) -> Path:
    """The table of throughputs beside the trace, or in `profiles` beside it."""
    folders = (source.path.parent, source.path.parent / "profiles")
    for path in (folder / name for folder in folders for name in TABLES_BESIDE):
        if path.is_file():
            return path
    raise BadInput(
        f"{source.name}: a Gavel trace gives steps, not durations: "
        f"put {TABLES_BESIDE[0]} beside it or give ?throughputs=FILE"
    )


def _throughputs(path: Path) -> dict[tuple[str, int], float]:
    """Steps per second by job type and GPUs: Gavel's JSON, or a CSV worker_type,job_type,num_gpus,steps_per_s."""
    source = read_source(str(path), "throughputs= names a table of steps per second by job type and GPUs")
    if not source.text.lstrip().startswith("{"):
        columns = Columns(source).read(("num_gpus", "steps_per_s"), texts=("worker_type", "job_type"))
        ours = columns["worker_type"] == WORKER
        keys = zip(columns["job_type"][ours].tolist(), columns["num_gpus"][ours].astype(int).tolist(), strict=True)
        return dict(zip(keys, columns["steps_per_s"][ours].tolist(), strict=True))
    tables = parse_json(source.text, str(path), "table of Gavel's throughputs", most_bytes=None)
    try:
        return {_job_key(key): float(rates["null"]) for key, rates in tables[WORKER].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not a table of Gavel's throughputs: {error!r}") from None


def _job_key(text: str) -> tuple[str, int]:
    """Gavel writes its keys as ``('LM (batch size 5)', 4)``."""
    kind, _, gpus = text.removeprefix("(").removesuffix(")").rpartition(",")
    return kind.strip("' "), int(gpus)


READER = Reader("Gavel trace", read, COLUMNS, ("throughputs",), _is_gavel)
