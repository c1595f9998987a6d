"""Design advice from the limit: which dimensions starve the others, and where bandwidth would be better spent.

LIBRA asks the same question at design time with a solver; for one collective the polytope of `limit` answers it
directly.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.collectives.limit import Limit, limit
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.topology.model import Topology
from headway.errors import BadInput

# Blocks within a millionth of the most loaded one count as loaded alike: bandwidths are not known better.
SAME_LOAD = 1e-6


@dataclass(frozen=True, slots=True)
class DimensionAdvice:
    """One dimension: how busy it is at the limit, what would balance it, and its part of the budget."""

    dim: int
    link_gbps: float
    utilisation_at_limit: float
    under_provisioned: bool
    balancing_gbps: float
    split_gbps: float


@dataclass(frozen=True, slots=True)
class TopologyAdvice:
    """The limits of a topology, its dimensions, and the limit that a budget could reach."""

    topology: Topology
    collective: CollectiveKind
    size_bytes: int
    limit: Limit
    dimensions: tuple[DimensionAdvice, ...]
    budget_gbps: float
    budget_limit_s: float

    def as_json(self) -> dict[str, Any]:
        """The contract of `headway collective limit --json`."""
        return {
            "topology": self.topology.name,
            "collective": str(self.collective),
            "size_bytes": self.size_bytes,
            "ideal_s": self.limit.ideal_s,
            "limit_s": self.limit.limit_s,
            "balanced": not any(row.under_provisioned for row in self.dimensions),
            "budget_gbps": self.budget_gbps,
            "budget_limit_s": self.budget_limit_s,
            "per_dimension": [asdict(row) for row in self.dimensions],
        }


def advise(topology: Topology, collective: CollectiveKind, size_bytes: int, budget_gbps: float) -> TopologyAdvice:
    """Explain the limit of a topology and split a budget of bandwidth in the best way.

    Any split inside the base polytope reaches the ideal time of that budget; that in proportion to the most even mix's
    loads is the nearest to the present one. Bandwidths are balanced when every dimension is as little loaded as the
    least is; none is lowered.
    """
    if budget_gbps <= 0:
        raise BadInput(f"a budget of {budget_gbps:g} Gbps: it must be above 0")
    if size_bytes < 1:
        raise BadInput(f"a collective of {size_bytes} bytes: there is nothing to send")
    bound = limit(topology, collective, size_bytes)
    level = {dim: block.level for block in bound.blocks for dim in block.dims}
    most, least = max(level.values()), min(level.values())
    loads = [level[dim] * link_gbps for dim, link_gbps in enumerate(topology.bandwidths_gbps)]
    rows = tuple(
        DimensionAdvice(
            dim,
            link_gbps,
            level[dim] / most,
            level[dim] >= most * (1 - SAME_LOAD) and least < most * (1 - SAME_LOAD),
            max(loads[dim] / least, link_gbps),
            budget_gbps * loads[dim] / sum(loads),
        )
        for dim, link_gbps in enumerate(topology.bandwidths_gbps)
    )
    split = tuple(replace(topology.dimensions[row.dim], link_gbps=row.split_gbps) for row in rows)
    reached = limit(replace(topology, dimensions=split), collective, size_bytes).limit_s
    return TopologyAdvice(topology, collective, size_bytes, bound, rows, budget_gbps, reached)
