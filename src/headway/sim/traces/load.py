"""Any workload by its name: a file in one of the known formats, recognised by content, or `synthetic:NAME?...`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from headway.core.errors import BadInput
from headway.sim import spec as specs
from headway.sim.synthetic import PREFIX, synthetic
from headway.sim.traces import compact
from headway.sim.traces.source import Source, read
from headway.sim.workload import Workload


class Reader(Protocol):
    """One format: a module with these two functions."""

    def recognises(self, source: Source, header: list[str]) -> bool:
        """Whether the file is in this format."""

    def read(self, source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
        """Read it."""


READERS: tuple[Reader, ...] = (compact,)


def load(spec: str, *, strict: bool = False) -> Workload:
    """The workload that `spec` names; `strict` refuses rows that are otherwise left out and counted."""
    if spec.startswith(PREFIX):
        return synthetic(spec)
    name, options = (spec, {}) if Path(spec).exists() else specs.split(spec)
    source = read(name)
    header = [column.strip() for column in source.first_line.split(",")]
    for reader in READERS:
        if reader.recognises(source, header):
            return reader.read(source, options, strict=strict)
    raise BadInput(f"{name}: no known format")
