"""Cluster files in YAML: groups of nodes.

name: lab                                # default: the name of the file
nodes:
  - {name: a, gpus: 8, count: 4}         # a0, a1, a2, a3
  - {name: big, gpus: 16, type: a100, features: [ib, nvlink]}    # big, with what jobs may ask for
  - {gpus: 4, count: 2}                  # n5, n6
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headway.cluster.nodes import MOST_NODES, Cluster, check_size
from headway.errors import BadInput
from headway.io.yaml_file import read_yaml

# The name of nodes that have none in the file; they are numbered by their place in the cluster.
UNNAMED = "n"


# A type of GPU or a feature, in what both a job file and Slurm's --constraint can name.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:+-]+$", max_length=256, examples=["a100"])]


class NodeGroup(BaseModel):
    """Nodes of one kind: `{name: a, gpus: 8, count: 4}` is a0, a1, a2, a3."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1)] = UNNAMED
    gpus: Annotated[int, Field(ge=1, strict=True, examples=["8"])]
    count: Annotated[int, Field(ge=1, le=MOST_NODES, strict=True)] = 1
    type: Word | None = None
    features: list[Word] = []


class ClusterFile(BaseModel):
    """A cluster file: a name (by default the file's) and groups of nodes."""

    model_config = ConfigDict(extra="forbid")
    name: str = ""
    nodes: Annotated[list[NodeGroup], Field(min_length=1, examples=["[{name: a, gpus: 8, count: 4}]"])]


def cluster_from(path: Path) -> Cluster:
    """The cluster that a YAML file describes."""
    file = read_yaml(path, ClusterFile, "cluster file")
    check_size(f"{path}: the cluster", [(group.count, group.gpus) for group in file.nodes])
    names: list[str] = []
    for group in file.nodes:
        first = len(names) if group.name == UNNAMED else 0
        alone = group.count == 1 and group.name != UNNAMED
        names += [group.name] if alone else [f"{group.name}{first + index}" for index in range(group.count)]
    nodes = [group for group in file.nodes for _ in range(group.count)]
    types, features = tuple(node.type or "" for node in nodes), tuple(tuple(node.features) for node in nodes)
    gpus = tuple(node.gpus for node in nodes)
    try:
        return Cluster(file.name or path.stem, tuple(names), gpus, types=types, features=features)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
