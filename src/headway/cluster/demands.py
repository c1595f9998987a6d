"""The constraints of jobs: GPU type, features, and GPUs per node. The engine has a table of eligible nodes by constraint.

A feature is a word of the operator's; the type of a node's GPUs counts as one. `ib|roce` asks for one of several. Types are compared
without regard to capitals, as Slurm's users write both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.errors import wrong_field
from headway.io.units import counted

OR: Final = "|"
PER_NODE: Final = "gpus_per_node="  # in labels of the journal
MOST_NAMED: Final = 8  # nodes named in a message


@dataclass(frozen=True, slots=True)
class Demand:
    """A GPU type ("": any), features (`a|b`: one of them), and the exact number of GPUs on each node (0: any)."""

    gpu_type: str = ""
    constraints: tuple[str, ...] = ()
    gpus_per_node: int = 0

    def __bool__(self) -> bool:
        return self != ANY

    def __str__(self) -> str:
        """Return the GPU type and features as text: `a100, ib or roce`."""
        parts = [self.gpu_type] if self.gpu_type else []
        return ", ".join([*parts, *(" or ".join(constraint.split(OR)) for constraint in self.constraints)])

    @property
    def label(self) -> list[str]:
        """Return the constraint as the journal has it; `read_label` is the inverse."""
        per_node = [f"{PER_NODE}{self.gpus_per_node}"] if self.gpus_per_node else []
        return [self.gpu_type, *self.constraints, *per_node]


ANY: Final = Demand()


def read_label(label: Sequence[str]) -> Demand:
    """Return the constraint that a label of the journal stands for."""
    gpu_type, *features = label
    per_node = int(features.pop().removeprefix(PER_NODE)) if features and features[-1].startswith(PER_NODE) else 0
    return Demand(gpu_type, tuple(features), per_node)


def demand_of(gpu_type: str, constraints: Iterable[str], gpus: int = 0, nodes: int = 0) -> Demand:
    """Return the constraint of a job of `gpus` GPUs on exactly `nodes` nodes (0: any), in its canonical form."""
    alike = {OR.join(sorted(set(each.split(OR)))) for each in constraints}
    per_node = gpus // nodes if nodes and gpus > 1 else 0  # one GPU is on one node anyway
    return Demand(gpu_type.lower(), tuple(sorted(alike)), per_node)


def has_type(cluster: Cluster, gpu_type: str) -> NDArray[np.bool_]:
    """Which nodes have GPUs of a type ("": any)."""
    types = cluster.types or ("",) * len(cluster.nodes)
    return np.array([not gpu_type or each.lower() == gpu_type.lower() for each in types])


def has_one_of(cluster: Cluster, constraint: str) -> NDArray[np.bool_]:
    """Which nodes have a feature, or one of several."""
    features = cluster.features or ((),) * len(cluster.nodes)
    wanted = constraint.split(OR)
    matches = np.array([any(word in each for word in wanted) for each in features])
    for word in filter(None, wanted):
        matches |= has_type(cluster, word)
    return matches


def suiting(cluster: Cluster, demand: Demand) -> NDArray[np.bool_]:
    """Return which nodes meet a constraint."""
    eligible = has_type(cluster, demand.gpu_type) & (np.array(cluster.gpus) >= demand.gpus_per_node)
    for constraint in demand.constraints:
        eligible &= has_one_of(cluster, constraint)
    return eligible


def gpus_of(cluster: Cluster, demand: Demand) -> int:
    """Return the most GPUs that jobs with a constraint can hold on an empty cluster."""
    eligible = np.array(cluster.gpus)[suiting(cluster, demand)]
    return demand.gpus_per_node * len(eligible) if demand.gpus_per_node else int(eligible.sum())


def check_possible(cluster: Cluster, demand: Demand, gpus: int) -> None:
    """Refuse a job if no nodes of the cluster could ever meet its constraints; the error says what the cluster has."""
    types = list(dict.fromkeys(filter(None, cluster.types)))
    if not has_type(cluster, demand.gpu_type).any():
        have = f"this cluster has {', '.join(types)}" if types else "the type of the GPUs here is not declared"
        how = "type: of the nodes in a cluster file, or headway serve --gpu-type"
        raise wrong_field("resources.type", f"the job asks for {demand.gpu_type} GPUs, and {have} ({how})")
    missing = [each for each in demand.constraints if not has_one_of(cluster, each).any()]
    if missing:
        have = ", ".join(sorted({*types, *(word for each in cluster.features for word in each)})) or "none declared"
        names = ", ".join(" or ".join(each.split(OR)) for each in missing)
        how = "features: of the nodes in a cluster file, or headway serve --feature"
        raise wrong_field("constraints", f"no node here has {names}; features: {have} ({how})")
    suits = suiting(cluster, replace(demand, gpus_per_node=0))
    if not suits.any():
        parts = [Demand(demand.gpu_type)] if demand.gpu_type else []
        alone = [*parts, *(Demand("", (each,)) for each in demand.constraints)]
        have = "; ".join(f"{one}: {named(cluster, suiting(cluster, one))}" for one in alone)
        raise wrong_field("constraints", f"no node here has all of {demand} ({have})")
    if demand.gpus_per_node:
        _check_nodes(cluster, demand, gpus // demand.gpus_per_node)
    elif demand and (has := gpus_of(cluster, demand)) < gpus:
        asks = f"the job asks for {counted(gpus, 'GPU')} on nodes with {demand}, and those that have it"
        field = "constraints" if demand.constraints else "resources.type"
        raise wrong_field(field, f"{asks} ({named(cluster, suits)}) have {has}: it could never start")


def _check_nodes(cluster: Cluster, demand: Demand, nodes: int) -> None:
    """Refuse a job that needs more nodes with `gpus_per_node` GPUs than the cluster has."""
    each, count = demand.gpus_per_node, int(suiting(cluster, demand).sum())
    if count >= nodes:
        return
    eligible = np.array(cluster.gpus)[suiting(cluster, replace(demand, gpus_per_node=0))]
    kind = f" with {demand}" if str(demand) else ""
    asks = f"the job asks for {counted(nodes, 'node')}{kind} with {counted(each, 'GPU')} each"
    if each > eligible.max():
        have = f"no node{kind} has more than {counted(int(eligible.max()), 'GPU')}"
        raise wrong_field("num_nodes", f"{asks}, and {have}: ask for fewer GPUs per node")
    raise wrong_field("num_nodes", f"{asks}, and the cluster has {count}: ask for at most {counted(count, 'node')}")


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
    per_node: NDArray[np.int32]  # by row of the table: exact GPUs on each node; 0: any number


def demands_of(cluster: Cluster, asked: Sequence[Demand]) -> Demands | None:
    """What jobs ask for, one after the other; None: nothing."""
    if not any(asked):
        return None
    different = {ANY: 0}
    rows = np.array([different.setdefault(each, len(different)) for each in asked], np.int32)
    suits = np.array([suiting(cluster, each) for each in different], np.int8)
    return Demands(suits, rows, np.array([each.gpus_per_node for each in different], np.int32))
