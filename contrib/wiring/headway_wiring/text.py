"""Text forms of wirings: a YAML file of links, or any topology; and their failed or slow links.

name: eight-gpus
ranks: 8                      # or a list of names
switches: [nic-switch]        # may be left out
links:
  - {from: 0, to: 1, bandwidth: 200Gbps, latency: 700ns, both: true}
  - {from: 0, to: nic-switch, bandwidth: 100Gbps}
"""

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from headway.errors import BadInput
from headway.io.numbers import Range
from headway.io.specs import check_name
from headway.io.units import gbps, nanoseconds
from headway_wiring.model import MOST_RANKS, Link, Wiring

LINKS = re.compile(r"""(^|[{,\s])["']?links["']?\s*:""")
FRACTION = Range(0, 1)
FAULT = "FROM>TO:FRACTION, such as 0>1:0.5 for half the bandwidth (both ways: 0-1:0.5) or 0-1:0 for a missing link"


class _LinkRow(BaseModel):
    model_config = ConfigDict(extra="forbid")
    source: str | int = Field(alias="from", examples=["0"])
    target: str | int = Field(alias="to", examples=["1"])
    bandwidth: str = Field(examples=["200Gbps"])
    latency: str | int = "0ns"
    both: bool = False


class WiringFile(BaseModel):
    """A network of links as its YAML file has it."""

    model_config = ConfigDict(extra="forbid")
    name: str | None = None
    ranks: int | list[str | int] = Field(examples=["8"])
    switches: list[str | int] = []
    links: list[_LinkRow] = Field(examples=["[{from: 0, to: 1, bandwidth: 200Gbps, both: true}]"])


def wiring_from_rows(rows: WiringFile, where: str, title: str) -> Wiring:
    """Return the network that a file of links describes, called `title` if the file has no name; errors name the file."""
    try:
        if isinstance(rows.ranks, int) and not 2 <= rows.ranks <= MOST_RANKS:
            raise BadInput(f"it has {rows.ranks} ranks and needs 2 to {MOST_RANKS}")
        ranks = [str(rank) for rank in (range(rows.ranks) if isinstance(rows.ranks, int) else rows.ranks)]
        name, switches = rows.name or title, [str(switch) for switch in rows.switches]
        for what, names in (("network", [name]), ("rank", ranks), ("switch", switches)):
            for one in names:
                check_name(what, one)
        links = [link for number, row in enumerate(rows.links) for link in _links(number, row)]
        return Wiring(name, tuple(ranks), tuple(switches), tuple(links))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def mentions_links(text: str) -> bool:
    """Return whether a YAML text mentions links, in block or flow style."""
    return LINKS.search(text) is not None


def _links(number: int, row: _LinkRow) -> list[Link]:
    try:
        speed = gbps(row.bandwidth), nanoseconds(str(row.latency))
        ends = str(row.source), str(row.target)
        return [Link(*ends, *speed), *([Link(*ends[::-1], *speed)] if row.both else [])]
    except BadInput as error:
        raise BadInput(f"links[{number}]: {error}") from None


def faults_from(texts: Iterable[str]) -> dict[tuple[str, str], float]:
    """`0>1:0.5` as the link and the fraction of its bandwidth that is left; `0-1:0` for both directions."""
    faults: dict[tuple[str, str], float] = {}
    for text in texts:
        ends, colon, fraction = text.rpartition(":")
        source, way, target = ends.partition(">") if ">" in ends else ends.partition("-")
        share = FRACTION.read(fraction)
        if not (colon and way and source and target and share is not None):
            raise BadInput(f"--fault {text}: write {FAULT}")
        faults[source.strip(), target.strip()] = share
        if way == "-":
            faults[target.strip(), source.strip()] = share
    return faults
