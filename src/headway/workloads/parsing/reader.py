"""The type of a trace reader: a name, the columns that it is recognised by, and a function that reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headway.workloads.parsing.source import Source
from headway.workloads.workload import Workload

# What follows the name of a file: `jobs.csv?vc=NAME&reader=swf`.
Options = Mapping[str, str]


class Read(Protocol):
    """The function of a reader."""

    def __call__(self, source: Source, options: Options, *, strict: bool) -> Workload:
        """The jobs of a file; `strict` refuses rows that are otherwise left out and counted."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One trace format."""

    # The format in messages.
    name: str
    read: Read
    # Columns that a file must have; none where it is not a CSV file with a header.
    columns: tuple[str, ...] = ()
    # Options it knows besides `vc` and `reader`, as in `jobs.csv?trace=1`.
    options: tuple[str, ...] = ()
    # Whether a file is in this format, given its first line between commas; by default a file with all the columns is.
    test: Callable[[Source, list[str]], bool] | None = None

    def recognises(self, source: Source, header: list[str]) -> bool:
        """Whether a file is in this format; `header` is its first line between commas."""
        return set(self.columns) <= set(header) if self.test is None else self.test(source, header)
