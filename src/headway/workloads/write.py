"""Writing Headway's trace format: a CSV that every command reads back to the same jobs."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io.files import write_atomically
from headway.workloads.workload import Workload

TEXTS = ("user", "queue", "model", "gpu_type", "features")
COLUMNS = ("job_id", "submit_s", "gpus", "duration_s", "nodes", *TEXTS)
SUFFIXES = (".csv", ".csv.gz", ".csv.zst")


def write_csv(jobs: Workload, path: Path | str) -> None:
    """Write the jobs to `path` (.csv, .csv.gz or .csv.zst), whole or not at all; same jobs, same bytes."""
    name = str(path)
    if not name.endswith(SUFFIXES):
        raise BadInput(
            f"{name}: a trace is written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}: end the name in one"
        )
    write_atomically(path, _packed(name, _text(jobs).encode()))


def _text(jobs: Workload) -> str:
    """The CSV; columns that hold nothing are left out."""
    empty = {**dict.fromkeys(TEXTS, ""), "nodes": 0}
    names = [name for name in COLUMNS if name not in empty or (getattr(jobs, name) != empty[name]).any()]
    lists = [_written(getattr(jobs, name)) for name in names]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*lists, strict=True))
    return text.getvalue()


def _written(column: NDArray[np.generic]) -> list[object]:
    """Whole numbers without a point, others in the fewest digits that read back the same."""
    if column.dtype.kind == "f" and (column % 1 == 0).all() and (np.abs(column) < 2**53).all():
        column = column.astype(np.int64)
    if column.dtype.kind == "f":
        return [int(value) if value.is_integer() else value for value in column.tolist()]
    return list(column.tolist())


def _packed(name: str, raw: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(raw, mtime=0)
    if name.endswith(".zst"):
        import zstandard

        return bytes(zstandard.ZstdCompressor().compress(raw))
    return raw
