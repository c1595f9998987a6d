"""Networks of several dimensions (Themis, section 2): what a plan is made for.

Every NPU sits on one group per dimension: 16x8x8 means groups of 16 on the first dimension, of 8 on the second and
third. Bandwidth is what one NPU can send on that dimension, so the cost of a collective does not depend on how many
NPUs there are, only on the sizes of the dimensions.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from headway.errors import BadInput

# The limit looks at every set of dimensions: 2^16 sets take a tenth of a second, and no machine has that many
# dimensions.
MOST_DIMENSIONS = 16
# Beyond any network. With them bytes, steps and picoseconds fit into 64 bits, or are refused as too long.
MOST_NPUS = 1 << 20
SLOWEST_GBPS, FASTEST_GBPS = 1e-3, 1e9
LONGEST_LATENCY_NS = 1e9


def check_speed(what: str, link_gbps: float, latency_ns: float) -> None:
    """Refuse a bandwidth or a latency that no link has."""
    if not SLOWEST_GBPS <= link_gbps <= FASTEST_GBPS:
        raise BadInput(f"{what} with a bandwidth of {link_gbps:g} Gbps: it must be between 1 Mbps and 1 million Tbps")
    if not 0 <= latency_ns <= LONGEST_LATENCY_NS:
        raise BadInput(f"{what} with a latency of {latency_ns:g} ns: it must be between 0 and 1 s")


class DimensionKind(StrEnum):
    """How the NPUs of one group are connected."""

    RING = "ring"
    FULLY_CONNECTED = "fullyconnected"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One level of the network: groups of `size` NPUs, each NPU sending at `link_gbps`."""

    kind: DimensionKind
    size: int
    link_gbps: float
    latency_ns: float = 0.0

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MOST_NPUS:
            limits = f"it needs 2 to {MOST_NPUS:,} NPUs (leave out a size of 1)"
            raise BadInput(f"a {self.kind} dimension of size {self.size}: {limits}")
        check_speed(f"a {self.kind} dimension", self.link_gbps, self.latency_ns)


@dataclass(frozen=True, slots=True)
class Topology:
    """A named network: its dimensions from the innermost (the baseline's first) to the outermost."""

    name: str
    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.dimensions) <= MOST_DIMENSIONS:
            raise BadInput(
                f"topology {self.name!r} has {len(self.dimensions)} dimensions: it needs 1 to {MOST_DIMENSIONS}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """NPUs per group, dimension by dimension."""
        return tuple(dimension.size for dimension in self.dimensions)

    @property
    def bandwidths_gbps(self) -> tuple[float, ...]:
        """What one NPU sends, dimension by dimension."""
        return tuple(dimension.link_gbps for dimension in self.dimensions)

    @property
    def npus(self) -> int:
        """How many NPUs the network has."""
        return math.prod(self.sizes)

    def label(self, dim: int) -> str:
        """`dim 2 (ring 16)`, as people count."""
        return f"dim {dim + 1} ({self.dimensions[dim].kind} {self.dimensions[dim].size})"

    def without_latency(self) -> "Topology":
        """The same network, bandwidth-bound: what the limit T* speaks of."""
        return replace(self, dimensions=tuple(replace(dimension, latency_ns=0.0) for dimension in self.dimensions))

    def part(self, dims: tuple[int, ...]) -> "Topology":
        """Only these dimensions: where a tensor- or data-parallel group lives."""
        chosen = tuple(self.dimensions[dim] for dim in dims)
        return Topology(f"{self.name}[{','.join(str(dim + 1) for dim in dims)}]", chosen)
