"""What jobs ask of the nodes that they run on: a type of GPU, and features. Which nodes suit them is a table of the engine.

A feature is a word of the operator's; the type of a node's GPUs counts as one. `ib|roce` asks for one of several. Types are compared
without regard to capitals, as Slurm's users write both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.units import counted

OR: Final = "|"
MOST_NAMED: Final = 8  # nodes named in a message


@dataclass(frozen=True, slots=True)
class Demand:
    """A type of GPU ("": any) and constraints, each a feature or several of which one will do."""

    gpu_type: str = ""
    constraints: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != ANY

    def __str__(self) -> str:
        """In words: `a100, ib or roce`."""
        parts = [self.gpu_type] if self.gpu_type else []
        return ", ".join([*parts, *(" or ".join(constraint.split(OR)) for constraint in self.constraints)])

    @property
    def label(self) -> list[str]:
        """How the journal names it."""
        return [self.gpu_type, *self.constraints]


ANY: Final = Demand()


def demand_of(gpu_type: str, constraints: Iterable[str]) -> Demand:
    """What a job asks for, written in one way only."""
    alike = {OR.join(sorted(set(each.split(OR)))) for each in constraints}
    return Demand(gpu_type.lower(), tuple(sorted(alike)))


def has_type(cluster: Cluster, gpu_type: str) -> NDArray[np.bool_]:
    """Which nodes have GPUs of a type ("": any)."""
    types = cluster.types or ("",) * len(cluster.nodes)
    return np.array([not gpu_type or each.lower() == gpu_type.lower() for each in types])


def has_one_of(cluster: Cluster, constraint: str) -> NDArray[np.bool_]:
    """Which nodes have a feature, or one of several."""
    features = cluster.features or ((),) * len(cluster.nodes)
    wanted = constraint.split(OR)
    found = np.array([any(word in each for word in wanted) for each in features])
    for word in filter(None, wanted):
        found |= has_type(cluster, word)
    return found


def suiting(cluster: Cluster, demand: Demand) -> NDArray[np.bool_]:
    """Which nodes suit a demand."""
    found = has_type(cluster, demand.gpu_type)
    for constraint in demand.constraints:
        found &= has_one_of(cluster, constraint)
    return found


def gpus_of(cluster: Cluster, demand: Demand) -> int:
    """GPUs of all nodes that suit a demand."""
    return int(np.array(cluster.gpus)[suiting(cluster, demand)].sum())


def check_possible(cluster: Cluster, demand: Demand, gpus: int) -> None:
    """Refuse a job of so many GPUs that no nodes of the cluster could ever suit, with what there is."""
    types = list(dict.fromkeys(filter(None, cluster.types)))
    if not has_type(cluster, demand.gpu_type).any():
        have = f"this cluster has {', '.join(types)}" if types else "the type of the GPUs here is not declared"
        how = "type: of the nodes in a cluster file, or headway serve --gpu-type"
        raise BadInput(f"resources.type: the job asks for {demand.gpu_type} GPUs, and {have} ({how})")
    missing = [each for each in demand.constraints if not has_one_of(cluster, each).any()]
    if missing:
        have = ", ".join(sorted({*types, *(word for each in cluster.features for word in each)})) or "none declared"
        names = ", ".join(" or ".join(each.split(OR)) for each in missing)
        how = "features: of the nodes in a cluster file, or headway serve --feature"
        raise BadInput(f"constraints: no node here has {names}; features: {have} ({how})")
    suits = suiting(cluster, demand)
    if not suits.any():
        parts = [Demand(demand.gpu_type)] if demand.gpu_type else []
        alone = [*parts, *(Demand("", (each,)) for each in demand.constraints)]
        have = "; ".join(f"{one}: {named(cluster, suiting(cluster, one))}" for one in alone)
        raise BadInput(f"constraints: no node here has all of {demand} ({have})")
    if demand and (has := gpus_of(cluster, demand)) < gpus:
        raise BadInput(
            f"the job asks for {counted(gpus, 'GPU')} on nodes with {demand}, and those that have it "
            f"({named(cluster, suits)}) have {has}: it could never start"
        )


def named(cluster: Cluster, suits: NDArray[np.bool_]) -> str:
    """The names of some nodes, the first few of them."""
    names = [name for name, suit in zip(cluster.nodes, suits, strict=True) if suit]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Demands:
    """The table of demands of a set of jobs, and the row of each job in it."""

    suits: NDArray[np.int8]
    rows: NDArray[np.int32]


def demands_of(cluster: Cluster, asked: Sequence[Demand]) -> Demands | None:
    """What jobs ask for, one after the other; None: nothing."""
    if not any(asked):
        return None
    different = {ANY: 0}
    rows = np.array([different.setdefault(each, len(different)) for each in asked], np.int32)
    return Demands(np.array([suiting(cluster, each) for each in different], np.int8), rows)
