"""Any workload by its name: a file in one of the known formats, recognised by content, or `synthetic:NAME?...`."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from headway.errors import BadInput, unknown
from headway.io import specs as specs
from headway.workloads.parsing.source import Source, read
from headway.workloads.synthetic import MAKERS, PREFIX, synthetic
from headway.workloads.traces import acme, compact, gavel, helios, openb, pai2020, philly, swf, tiresias
from headway.workloads.workload import Workload


class Reader(Protocol):
    """One format: a module with these names."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of the module
        """The format in messages."""

    @property
    def COLUMNS(self) -> tuple[str, ...]:  # noqa: N802
        """Columns that a file must have (none: it is not a CSV file with a header)."""

    @property
    def OPTIONS(self) -> tuple[str, ...]:  # noqa: N802
        """Options it knows besides `vc`."""

    def recognises(self, source: Source, header: list[str]) -> bool:
        """Whether the file is in this format; `header` is its first line between commas."""

    def read(self, source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
        """The jobs of the file."""


# The first that recognises a file reads it: the special before the general.
READERS: tuple[Reader, ...] = (philly, swf, gavel, helios, acme, pai2020, openb, tiresias, compact)
# How alike a column is to the one it was meant to be.
ALIKE = 0.75
# Options that pick one of the queues of a trace.
PICKS = ("vc", "trace")


def load(spec: str, *, strict: bool = False) -> Workload:
    """The workload that `spec` names; `strict` refuses rows that are otherwise left out and counted.

    A file may be followed by options: `trace.csv?vc=NAME` takes the jobs of one virtual cluster.
    """
    if spec.startswith(PREFIX):
        return synthetic(spec)
    name, options = (spec, {}) if os.path.exists(spec) else specs.split(spec)
    if name in MAKERS and not os.path.exists(name):
        raise BadInput(f"{name}: no such file; did you mean {PREFIX}{name}?")
    source = read(name)
    header = source.header
    reader = next((reader for reader in READERS if reader.recognises(source, header)), None)
    if reader is None:
        raise _unrecognised(source, header)
    specs.check(options, ("vc", *reader.OPTIONS), reader.NAME)
    jobs = reader.read(source, options, strict=strict)
    for key in PICKS:
        if key in options:
            jobs = _only(jobs, key, options[key])
    return replace(jobs, name=spec)


def _only(jobs: Workload, key: str, queue: str) -> Workload:
    mask = jobs.queue == queue
    if mask.any():
        return jobs.take(mask)
    queues = set(jobs.queue.tolist()) - {""}
    if not queues:
        raise BadInput(
            f"{jobs.name}: unknown {key} {queue!r}: the trace has no queues (columns vc or queue) to pick from"
        )
    raise BadInput(f"{jobs.name}: {unknown(key, queue, queues)}")


def _unrecognised(source: Source, header: list[str]) -> BadInput:
    """Name the missing column of the format that comes closest, or all formats."""
    separated = _between_others(source)
    if separated:
        return separated
    columns = set(header) | ({"gpus"} if "num_gpus" in header else set())

    def shared(reader: Reader) -> float:
        return len(columns & set(reader.COLUMNS)) / max(1, len(reader.COLUMNS))

    closest = max(READERS, key=shared)
    if shared(closest) == 0:
        known = ", ".join(reader.NAME for reader in READERS)
        return BadInput(
            f"{source.name}: in no known format ({known}); a CSV needs the columns {', '.join(compact.COLUMNS)}, "
            f"the first line is {source.first_line[:60]!r}"
        )
    others = [name for name in header if name not in closest.COLUMNS]
    missing = ", ".join(_meant(name, others) for name in closest.COLUMNS if name not in columns)
    return BadInput(
        f"{source.name}, line 1: as a {closest.NAME} it lacks the column {missing}; its columns are {', '.join(header)}"
    )


def _meant(missing: str, others: list[str]) -> str:
    """A missing column, with the one of the file that seems to be meant for it."""
    lowered = {name.lower(): name for name in others}
    close = difflib.get_close_matches(missing, lowered, n=1, cutoff=ALIKE)
    return f"{missing!r} (rename {lowered[close[0]]!r}?)" if close else repr(missing)


def _between_others(source: Source) -> BadInput | None:
    """A table of columns that are known, but between semicolons or tabs."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        columns = {column.strip().strip('"') for column in source.first_line.split(mark)}
        if any(len(columns & set(reader.COLUMNS)) > 1 for reader in READERS):
            return BadInput(f"{source.name}, line 1: the columns are between {name}: separate them with commas")
    return None
