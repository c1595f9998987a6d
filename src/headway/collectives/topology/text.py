"""Text forms of topologies: a preset's name, a YAML file, or `switch:16:1200Gbps:700ns,ring:8:800Gbps:0ns`.

The YAML file:

    name: my-cluster
    dimensions:
      - {kind: switch, size: 8, bandwidth: 3600Gbps, latency: 500ns}
      - {kind: switch, size: 16, bandwidth: 400Gbps, latency: 1.7us}
"""

from pydantic import BaseModel, ConfigDict, Field

from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import preset
from headway.errors import BadInput, unknown
from headway.io.json_file import shown
from headway.io.numbers import plain_whole
from headway.io.specs import check_name
from headway.io.units import gbps, nanoseconds

SHORTHAND = "kind:size:bandwidth:latency, such as switch:16:1200Gbps:700ns"


class _DimensionRow(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: str = Field(examples=["switch"])
    size: int = Field(strict=True, examples=["8"])
    bandwidth: str = Field(examples=["1200Gbps"])
    latency: str | int = "0ns"


class TopologyFile(BaseModel):
    """A topology as its YAML file has it."""

    model_config = ConfigDict(extra="forbid")
    name: str | None = None
    dimensions: list[_DimensionRow] = Field(examples=["[{kind: switch, size: 8, bandwidth: 1200Gbps, latency: 700ns}]"])


def named_topology(text: str) -> Topology:
    """Return a topology by shorthand, if the text has colons, or the preset of that name."""
    return topology_from_shorthand(text) if ":" in text else preset(text)


def topology_from_shorthand(text: str) -> Topology:
    """`switch:16:1200Gbps:700ns,ring:8:800Gbps` (latency 0 if left out)."""
    dimensions = []
    for number, part in enumerate(text.split(","), 1):
        fields = part.strip().split(":")
        if len(fields) not in (3, 4):
            raise BadInput(f"dimension {number} of the topology, {part.strip()!r}: write {SHORTHAND}")
        kind, npus, bandwidth, latency = (*fields, "0ns")[:4]
        if (size := plain_whole(npus)) is None:
            wrong = f"size '{shown(npus)}' is not a whole number"
            raise BadInput(f"dimension {number} of the topology: {wrong}: write {SHORTHAND}")
        dimensions.append(_dimension(f"dimension {number}", kind, size, bandwidth, latency))
    return Topology(text, tuple(dimensions))


def topology_of(rows: TopologyFile, where: str, title: str) -> Topology:
    """Return the topology that a file describes, called `title` if the file has no name; errors name the file and the field."""
    dimensions = tuple(
        _dimension(f"{where}: dimensions[{number}]", row.kind, row.size, row.bandwidth, str(row.latency))
        for number, row in enumerate(rows.dimensions)
    )
    name = rows.name or title
    try:
        check_name("topology", name)
        return Topology(name, dimensions)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _dimension(where: str, kind: str, size: int, bandwidth: str, latency: str) -> Dimension:
    known = [known.value for known in DimensionKind]
    try:
        if kind.lower() not in known:
            raise unknown("kind of dimension", kind, known)
        return Dimension(DimensionKind(kind.lower()), size, gbps(bandwidth), nanoseconds(latency))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
