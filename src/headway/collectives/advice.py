"""Design advice from the limit: which dimensions starve the others, and where bandwidth would be better spent.

LIBRA asks the same question at design time with a solver; for one collective the polytope of `limit` answers it
directly.
"""

from dataclasses import dataclass, replace
from typing import Any

from headway.collectives.limit import Limit, balancing_gbps, best_split_gbps, limit
from headway.collectives.simulate.cost import Collective
from headway.collectives.topology.model import Topology
from headway.errors import BadInput

# Blocks within a millionth of the most loaded one count as loaded alike: bandwidths are not known better.
SAME_LOAD = 1e-6


@dataclass(frozen=True, slots=True)
class DimensionAdvice:
    """One dimension: how busy it is at the limit, what would balance it, and its part of the budget."""

    dim: int
    label: str
    link_gbps: float
    utilisation_at_limit: float
    under_provisioned: bool
    balancing_gbps: float
    split_gbps: float


@dataclass(frozen=True, slots=True)
class Advice:
    """The limits of a topology, its dimensions, and the limit that a budget could reach."""

    topology: Topology
    collective: Collective
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
            "per_dimension": [
                {
                    "dim": row.dim,
                    "link_gbps": row.link_gbps,
                    "utilisation_at_limit": row.utilisation_at_limit,
                    "under_provisioned": row.under_provisioned,
                    "balancing_gbps": row.balancing_gbps,
                    "split_gbps": row.split_gbps,
                }
                for row in self.dimensions
            ],
        }


def advise(topology: Topology, collective: Collective, size_bytes: int, budget_gbps: float) -> Advice:
    """Explain the limit of a topology and split a budget of bandwidth in the best way."""
    if budget_gbps <= 0:
        raise BadInput(f"a budget of {budget_gbps:g} Gbps: it must be above 0")
    if size_bytes < 1:
        raise BadInput(f"a collective of {size_bytes} bytes: there is nothing to send")
    bound = limit(topology, collective, size_bytes)
    level = {dim: block.level for block in bound.blocks for dim in block.dims}
    most, least = max(level.values()), min(level.values())
    if collective is Collective.ALL_TO_ALL:
        sent = [1 - 1 / size for size in topology.sizes]
        balanced = [part / least / 1e9 * 8 for part in sent]
        split = [budget_gbps * part / sum(sent) for part in sent]
    else:
        balanced, split = balancing_gbps(topology).tolist(), best_split_gbps(topology, budget_gbps).tolist()
    rows = tuple(
        DimensionAdvice(
            dim,
            topology.label(dim),
            dimension.link_gbps,
            level[dim] / most,
            level[dim] >= most * (1 - SAME_LOAD) and least < most * (1 - SAME_LOAD),
            max(balanced[dim], dimension.link_gbps),
            split[dim],
        )
        for dim, dimension in enumerate(topology.dimensions)
    )
    redesigned = replace(
        topology,
        dimensions=tuple(
            replace(old, link_gbps=row.split_gbps) for old, row in zip(topology.dimensions, rows, strict=True)
        ),
    )
    reached = limit(redesigned, collective, size_bytes).limit_s
    return Advice(topology, collective, size_bytes, bound, rows, budget_gbps, reached)
