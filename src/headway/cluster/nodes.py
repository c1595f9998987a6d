"""A cluster: nodes in a fixed order, each with its GPUs. Nodes may differ; their order breaks ties in placement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.errors import BadInput

# More nodes than any cluster we know of; a typo such as 15000000x4 must not fill the memory.
MOST_NODES = 1_000_000
# A table of every GPU, and of the speed of every size of job, is kept in memory.
MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """The names of the nodes and the GPUs of each, in the same order; where the switches are known, the leaf of each node too.

    `links` has the links of each leaf, a bit per spine, where these are known: placements can reserve them. `types` has the type of each
    node's GPUs ("": not known) and `features` what else jobs may ask for; both are empty where nothing is known.
    """

    name: str
    nodes: tuple[str, ...]
    gpus: tuple[int, ...]
    leaves: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    features: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.gpus):
            raise BadInput(f"cluster {self.name!r}: {len(self.nodes)} node names but {len(self.gpus)} GPU counts")
        if self.leaves and len(self.leaves) != len(self.nodes):
            raise BadInput(f"cluster {self.name!r}: {len(self.nodes)} nodes but the leaves of {len(self.leaves)}")
        for what, each in (("types", self.types), ("features", self.features)):
            if each and len(each) != len(self.nodes):
                raise BadInput(f"cluster {self.name!r}: {len(self.nodes)} nodes but the {what} of {len(each)}")
        for name in ("types", "features"):
            if not any(getattr(self, name)):
                object.__setattr__(self, name, ())
        if not self.nodes:
            raise BadInput(f"cluster {self.name!r} has no nodes: it needs at least one")
        for node, count in zip(self.nodes, self.gpus, strict=True):
            if count < 1:
                raise BadInput(f"cluster {self.name!r}: node {node!r} has {count} GPUs: every node needs at least one")
        if len(set(self.nodes)) != len(self.nodes):
            twice = next(node for node in self.nodes if self.nodes.count(node) > 1)
            raise BadInput(f"cluster {self.name!r}: two nodes are named {twice!r}: names must differ")

    @property
    def total(self) -> int:
        """GPUs of the whole cluster."""
        return sum(self.gpus)

    def same_nodes(self, other: "Cluster") -> bool:
        """Whether the nodes and what they have are the same, whatever the network."""
        return self.nodes == other.nodes and self.gpus == other.gpus and self.kinds == other.kinds

    @property
    def kinds(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The type and the features of every node."""
        return self.types or ("",) * len(self.nodes), self.features or ((),) * len(self.nodes)

    def described(self, gpu_type: str, features: Iterable[str]) -> "Cluster":
        """The same with a type for nodes that have none, and features for all."""
        if not gpu_type and not features:
            return self
        types, known = self.kinds
        more = tuple(tuple(dict.fromkeys((*each, *sorted(features)))) for each in known)
        return replace(self, types=tuple(each or gpu_type for each in types), features=more)


def check_size(what: str, groups: Sequence[tuple[int, int]]) -> None:
    """Refuse (nodes, GPUs per node) groups that are too large to hold in memory."""
    if sum(count for count, _ in groups) > MOST_NODES:
        raise BadInput(f"{what} has more than {MOST_NODES:,} nodes")
    total = sum(count * each for count, each in groups)
    if total > MOST_GPUS:
        raise BadInput(f"{what} has {total:,} GPUs: at most {MOST_GPUS:,} are allowed")


def of_groups(name: str, groups: Sequence[tuple[int, int]]) -> Cluster:
    """A cluster of (nodes, GPUs per node) groups, with nodes named `n000` onwards so that names sort as numbers."""
    gpus = tuple(each for count, each in groups for _ in range(count))
    width = max(3, len(str(len(gpus) - 1)))
    return Cluster(name, tuple(f"n{index:0{width}d}" for index in range(len(gpus))), gpus)


def cluster_of(known: Mapping[str, Any]) -> Cluster:
    """A cluster by its columns, as JSON has them; without its network."""
    types, features = tuple(known.get("types", ())), tuple(map(tuple, known.get("features", ())))
    gpus = tuple(int(gpus) for gpus in known["gpus"])
    return Cluster(str(known.get("name", "")), tuple(known["nodes"]), gpus, types=types, features=features)
