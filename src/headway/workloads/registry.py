"""Trace readers by name, and which of them recognises a file.

To add a reader: one file in `traces/` with a `READER`, one name in `READERS`, one test. A reader need not live in Headway:
`jobs.log?reader=my_module:read` reads a file with any function `read(source, options, *, strict) -> Workload`, or with a `Reader`:

    from headway.workloads.workload import workload

    def read(source, options, *, strict):
        rows = [line.split() for line in source.text.splitlines()]
        return workload(source.name, *([float(row[i]) for row in rows] for i in range(3)))
"""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from headway.errors import BadInput, HeadwayError, unknown
from headway.io.outside import imported, raised
from headway.workloads.parsing.reader import Read, Reader
from headway.workloads.parsing.source import Source
from headway.workloads.workload import Workload

# The first that recognises a file reads it: special formats before general ones.
READERS = ("philly", "swf", "gavel", "helios", "acme", "pai2020", "openb", "tiresias", "headway_csv")
# How similar a column's name must be to a missing one to be suggested for it.
SIMILAR = 0.75


def find_reader(name: str) -> Reader:
    """The reader of that name; `module:NAME` is one from outside Headway, a `Reader` or a function that reads."""
    if ":" not in name:
        if name not in READERS:
            raise unknown("trace reader", name, READERS)
        return _built_in(name)
    found = imported("trace reader", name)
    if isinstance(found, Reader):
        return replace(found, read=_guarded(name, found.read))
    if not callable(found):
        raise BadInput(f"trace reader {name!r} is not a function read(source, options, *, strict)")
    return Reader(name, _guarded(name, found))


def named(name: str, source: Source) -> Reader:
    """The reader of that name for a file, which must be in its format if the reader is a built-in one."""
    reader = find_reader(name)
    if name in READERS and not reader.recognises(source, source.header):
        needed = f": it needs the columns {', '.join(reader.columns)}" if reader.columns else ""
        raise BadInput(f"{source.name} is not in the format {reader.name}{needed}")
    return reader


def _guarded(name: str, read: Read) -> Read:
    """The function of a reader from outside Headway: what it does wrong becomes one line."""

    def guarded(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
        try:
            jobs = read(source, options, strict=strict)
        except HeadwayError:
            raise
        except Exception as error:
            raise BadInput(f"{source.name}: the trace reader {name!r} failed: {raised(error, __file__)}") from error
        if not isinstance(jobs, Workload):
            raise BadInput(f"{source.name}: the trace reader {name!r} gave {type(jobs).__name__}, not a Workload")
        return jobs

    return guarded


def recognised(source: Source) -> Reader:
    """The reader for the format of a file."""
    readers = [_built_in(name) for name in READERS]
    header = source.header
    found = next((reader for reader in readers if reader.recognises(source, header)), None)
    if found is None:
        raise _unrecognised(source, header, readers)
    return found


@cache
def _built_in(name: str) -> Reader:
    reader: Reader = importlib.import_module(f"headway.workloads.traces.{name}").READER
    return reader


def _unrecognised(source: Source, header: list[str], readers: list[Reader]) -> BadInput:
    """Name the missing column of the format that comes closest, or all formats."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        given = {column.strip().strip('"') for column in source.first_line.split(mark)}
        if any(len(given & set(reader.columns)) > 1 for reader in readers):
            return BadInput(f"{source.name}, line 1: the columns are between {name}: separate them with commas")
    columns = set(header) | ({"gpus"} if "num_gpus" in header else set())

    def shared(reader: Reader) -> float:
        return len(columns & set(reader.columns)) / max(1, len(reader.columns))

    closest = max(readers, key=shared)
    if shared(closest) == 0:
        known = ", ".join(reader.name for reader in readers)
        return BadInput(
            f"{source.name}: in no known format ({known}); a CSV needs the columns {', '.join(readers[-1].columns)}, "
            f"the first line is {source.first_line[:60]!r}"
        )
    others = [name for name in header if name not in closest.columns]
    missing = ", ".join(_with_suggestion(name, others) for name in closest.columns if name not in columns)
    return BadInput(
        f"{source.name}, line 1: as a {closest.name} it lacks the column {missing}; its columns are {', '.join(header)}"
    )


def _with_suggestion(missing: str, others: list[str]) -> str:
    """A missing column, with the one of the file that seems to be meant for it."""
    lowered = {name.lower(): name for name in others}
    close = difflib.get_close_matches(missing, lowered, n=1, cutoff=SIMILAR)
    return f"{missing!r} (rename {lowered[close[0]]!r}?)" if close else repr(missing)
