"""A wiring: ranks, switches and directed links, each with its own bandwidth. What no product of dimensions describes.

A rank holds data and passes it on. A switch passes on what it receives, to one neighbour: it neither copies nor adds.
A wiring comes from a file, or from the dimensions of a topology, link by link, so that a single one can be slow or
missing.
"""

import itertools
import math
from dataclasses import dataclass, replace

from headway.collectives.topology.model import Dimension, DimensionKind, Topology, check_speed
from headway.errors import BadInput

# A plan names every transfer: with more ranks there are millions of them, and dimensions describe such networks better.
MOST_RANKS = 128
MOST_LINKS = 100_000


@dataclass(frozen=True, slots=True)
class Link:
    """One direction between two vertices."""

    source: str
    target: str
    link_gbps: float
    latency_ns: float = 0.0

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise BadInput(f"link {self}: it leads back to where it begins")
        check_speed(f"link {self}", self.link_gbps, self.latency_ns)

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"


@dataclass(frozen=True, slots=True)
class Wiring:
    """A network of single links. Ranks are numbered in their order here."""

    name: str
    ranks: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.ranks) <= MOST_RANKS:
            raise BadInput(f"network {self.name!r} has {len(self.ranks)} ranks: it needs 2 to {MOST_RANKS}")
        if len(self.links) > MOST_LINKS:
            raise BadInput(f"network {self.name!r} has {len(self.links)} links: it may have {MOST_LINKS}")
        known = set(self.vertices)
        if len(known) < len(self.vertices):
            twice = next(name for name in self.vertices if self.vertices.count(name) > 1)
            raise BadInput(f"network {self.name!r}: {twice!r} is named twice among its ranks and switches")
        seen = set[tuple[str, str]]()
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise BadInput(f"network {self.name!r}: link {link}: {end!r} is neither a rank nor a switch")
            if (link.source, link.target) in seen:
                raise BadInput(f"network {self.name!r}: link {link} is there twice: add up the bandwidths")
            seen.add((link.source, link.target))

    @property
    def vertices(self) -> tuple[str, ...]:
        """Ranks, then switches."""
        return self.ranks + self.switches

    def transposed(self) -> "Wiring":
        """The same network with every link turned round."""
        turned = (replace(link, source=link.target, target=link.source) for link in self.links)
        return replace(self, links=tuple(turned))

    def changed(self, fractions: dict[tuple[str, str], float]) -> "Wiring":
        """The network with some links at a fraction of their bandwidth; at 0 they are missing."""
        known = {(link.source, link.target) for link in self.links}
        for ends, fraction in fractions.items():
            if ends not in known:
                raise BadInput(f"network {self.name!r} has no link {ends[0]}>{ends[1]}")
            if not 0 <= fraction <= 1:
                raise BadInput(f"link {ends[0]}>{ends[1]} at {fraction:g} of its bandwidth: it must be between 0 and 1")
        links = []
        for link in self.links:
            fraction = fractions.get((link.source, link.target), 1.0)
            if fraction > 0:
                links.append(replace(link, link_gbps=link.link_gbps * fraction))
        return replace(self, links=tuple(links))


def wiring_of(topology: Topology) -> Wiring:
    """A topology link by link: rank 0 is first on every dimension, and the first dimension counts fastest.

    A ring has half of an NPU's bandwidth in each direction, a full connection an equal part for every other, and a switch
    (`dim2.0`: the first of dimension 2) a link up and one down for every NPU.
    """
    if topology.npus > MOST_RANKS:
        raise BadInput(
            f"topology {topology.name!r} has {topology.npus} NPUs: link by link at most {MOST_RANKS} can be planned"
        )
    sizes = topology.sizes
    links: list[Link] = []
    switches: list[str] = []
    for dim, dimension in enumerate(topology.dimensions):
        step = math.prod(sizes[:dim])
        bases = [rank for rank in range(topology.npus) if rank // step % dimension.size == 0]
        for number, base in enumerate(bases):
            group = [str(base + place * step) for place in range(dimension.size)]
            switch = f"dim{dim + 1}.{number}"
            links += _group_links(dimension, group, switch)
            switches += [switch] if dimension.kind is DimensionKind.SWITCH else []
    merged: dict[tuple[str, str], Link] = {}
    for link in links:
        merged[link.source, link.target] = link
    ranks = tuple(str(rank) for rank in range(topology.npus))
    return Wiring(topology.name, ranks, tuple(switches), tuple(merged.values()))


def _group_links(dimension: Dimension, group: list[str], switch: str) -> list[Link]:
    if dimension.kind is DimensionKind.SWITCH:
        up = [Link(rank, switch, dimension.link_gbps, dimension.latency_ns) for rank in group]
        return up + [Link(switch, rank, dimension.link_gbps, dimension.latency_ns) for rank in group]
    if dimension.kind is DimensionKind.FULLY_CONNECTED or dimension.size == 2:
        pairs = list(itertools.permutations(group, 2))
        return [Link(*pair, dimension.link_gbps / (dimension.size - 1), dimension.latency_ns) for pair in pairs]
    neighbours = [(group[place - 1], group[place]) for place in range(dimension.size)]
    pairs = neighbours + [(after, before) for before, after in neighbours]
    return [Link(*pair, dimension.link_gbps / 2, dimension.latency_ns) for pair in pairs]
