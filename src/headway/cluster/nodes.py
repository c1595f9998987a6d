"""A cluster: nodes in a fixed order, each with its GPUs. Nodes may differ; the order breaks ties in placement."""

from dataclasses import dataclass

from headway.errors import BadInput


@dataclass(frozen=True, slots=True)
class Cluster:
    """Names of the nodes and GPUs of each, in the same order."""

    name: str
    nodes: tuple[str, ...]
    gpus: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.gpus):
            raise BadInput(f"cluster {self.name!r}: {len(self.nodes)} node names but {len(self.gpus)} GPU counts")
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


def of_groups(name: str, groups: tuple[tuple[int, int], ...]) -> Cluster:
    """A cluster of (nodes, GPUs of each) groups, with nodes named `n000` onwards so that names sort as numbers."""
    gpus = tuple(each for count, each in groups for _ in range(count))
    width = max(3, len(str(len(gpus) - 1)))
    return Cluster(name, tuple(f"n{index:0{width}d}" for index in range(len(gpus))), gpus)
