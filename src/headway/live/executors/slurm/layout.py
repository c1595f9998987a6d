"""Which ranks run on which node, with which of the node's GPUs: pure, from what the placement decided.

Slurm gives a job equally many GPUs on each of its nodes, so nodes where the attempt has another number of GPUs go to a Slurm job of their
own, a part of the attempt. Mostly there is one part, and RANK is SLURM_PROCID.
"""

from dataclasses import dataclass

from headway.errors import BadInput
from headway.io.units import counted
from headway.live.executors import Launch


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One rank: the node, its number there and in its group, and the first and the number of its GPUs among the attempt's on that node."""

    rank: int
    node: str
    local: int
    locals: int
    group: int
    first: int
    gpus: int


@dataclass(frozen=True, slots=True)
class LayoutPart:
    """The nodes, in order, on which the attempt has the same number of GPUs, and the ranks there, in order."""

    nodes: tuple[str, ...]
    gpus: int
    ranks: tuple[RankPlace, ...]


def layout(launch: Launch) -> tuple[LayoutPart, ...]:
    """The parts of an attempt; the one with rank 0 comes first."""
    on: dict[str, int] = {}
    offsets = []  # of each GPU on its node
    for node in launch.nodes:
        offsets.append(on.get(node, 0))
        on[node] = offsets[-1] + 1
    places = _as_asked(launch, offsets) or _by_node(launch, on, offsets)
    sizes = list(dict.fromkeys(on[place.node] for place in places))
    return tuple(
        LayoutPart(
            tuple(dict.fromkeys(place.node for place in places if on[place.node] == size)),
            size,
            tuple(place for place in places if on[place.node] == size),
        )
        for size in sizes
    )


def _as_asked(launch: Launch, offsets: list[int]) -> list[RankPlace]:
    """Groups of ranks as the job asked for nodes; several may share a node, but none may be on two."""
    spec, places = launch.spec, []
    per = spec.resources.accelerators
    for group in range(spec.groups):
        own = range(group * per, (group + 1) * per)
        node = launch.nodes[own[0]]
        if any(launch.nodes[gpu] != node for gpu in own):
            return []
        for local in range(spec.tasks):
            places.append(RankPlace(group * spec.tasks + local, node, local, spec.tasks, group, offsets[own[0]], per))
    return places


def _by_node(launch: Launch, on: dict[str, int], offsets: list[int]) -> list[RankPlace]:
    """A rank per GPU, grouped by the nodes that they are on."""
    spec = launch.spec
    if spec.tasks != spec.resources.accelerators:
        given = "+".join(str(gpus) for gpus in on.values())
        raise BadInput(
            f"the placement gave {given} GPUs on {counted(len(on), 'node')}, but the job starts {counted(spec.tasks, 'rank')} on "
            f"{counted(spec.resources.accelerators, 'GPU')} of one node: give num_nodes, or start a rank per GPU (tasks_per_node: gpu)"
        )
    groups = {node: number for number, node in enumerate(on)}
    return [
        RankPlace(rank, node, offsets[rank], on[node], groups[node], 0, on[node])
        for rank, node in enumerate(launch.nodes)
    ]
