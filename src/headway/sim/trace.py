"""The trace of an experiment: its jobs, and a hash that says which jobs they were."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io import specs
from headway.io.units import counted
from headway.workloads.load import load
from headway.workloads.synthetic import PREFIX
from headway.workloads.workload import COLUMNS, CONSTRAINTS, Workload


class Trace(NamedTuple):
    """A workload before it is shaped, and its SHA-256: of the file's bytes, or of the columns where there is no file."""

    workload: Workload
    sha256: str


def read_trace(given: str | os.PathLike[str] | Workload, *, strict: bool = False) -> Trace:
    """The trace that a person named, or the workload itself; `strict` refuses rows that are otherwise left out."""
    if isinstance(given, Workload):
        if strict and given.skipped:
            raise BadInput(f"{given.name}: {left_out(given)}")
        return Trace(given, _digest_of(given))
    name = text_of("trace", given)
    workload = load(name, strict=strict)
    return Trace(workload, file_digest(file_of(name)) or _digest_of(workload))


def left_out(workload: Workload) -> str:
    """The rows of a trace that its reader left out, in words: "" where there are none."""
    rows = sum(workload.skipped.values())
    listed = ", ".join(f"{count:,} {reason}" for reason, count in workload.skipped.items())
    return f"{counted(rows, 'row')} left out: {listed}" if rows else ""


def text_of(what: str, given: object) -> str:
    """A name or a path as text."""
    if not isinstance(given, str | os.PathLike):
        raise BadInput(f"{what} {given!r} is neither a name nor a path")
    return os.fsdecode(given)


def file_of(trace: str) -> str:
    """The file that a trace is read from, without the options after its name."""
    return trace if Path(trace).is_file() else trace.partition("?")[0]


def file_digest(path: str) -> str | None:
    """The SHA-256 of a file's bytes; None where it is no file but a name."""
    try:
        if not path or not Path(path).is_file():
            return None
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # such as a name that is too long for a file
        return None


def _digest_of(workload: Workload) -> str:
    """The SHA-256 of a workload's columns, the same on every machine."""
    digest = hashlib.sha256()
    for name in COLUMNS:
        column = getattr(workload, name)
        if name in CONSTRAINTS and not (column != (0 if name == "nodes" else "")).any():
            continue  # so that the hashes of workloads without these columns stay the same
        if column.dtype.kind == "U":
            digest.update(_joined(column))
        else:
            digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
        digest.update(b"\n")
    return digest.hexdigest()


def _joined(texts: NDArray[np.str_]) -> bytes:
    """Texts with a zero between each two; most columns of most traces are empty."""
    if not texts.size or not np.ascontiguousarray(texts).view(np.uint32).any():
        return b"\0" * (len(texts) - 1)
    return "\0".join(texts.tolist()).encode("utf-8", "surrogatepass")


def with_seed(trace: str, seed: int | None) -> str:
    """A synthetic trace with another seed, or without any; any other trace as it is."""
    if not trace.startswith(PREFIX):
        return trace
    name, options = specs.split(trace)
    changed: dict[str, str | int | None] = {**options, "seed": seed}
    kept = [f"{key}={value}" for key, value in changed.items() if value is not None]
    return f"{name}?{'&'.join(kept)}" if kept else name


def has_seed(trace: str) -> bool:
    """Whether a synthetic trace names its seed."""
    return with_seed(trace, None) != trace
