"""The fabric of a Slurm cluster, where an operator gives it (`slurm?fabric=FILE`), and certificates of the links that attempts have alone.

Slurm's topology.conf is a tree, and says nothing of spines. Servers of the fabric are Slurm's nodes in the same order.
"""

from dataclasses import replace

import numpy as np

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.live.executors import Launch
from headway.network.certificates.issue import issue_leaf_spine
from headway.network.fabric.file import load_fabric
from headway.network.fabric.model import Fabric
from headway.network.sharing.patterns import Pattern

CERTIFICATE = "certificate.json"


def fabric_of(name: str) -> Fabric:
    """The fabric of this name or file; one whose links can be reserved."""
    found = load_fabric(name)
    if found.kind != "leaf-spine" or found.ocs is not None:
        raise BadInput(
            f"fabric={name}: it is {found.kind}: links can be reserved on leaf-spine fabrics without optical switches only"
        )
    return found


def with_fabric(cluster: Cluster, fabric: Fabric) -> Cluster:
    """The cluster with its leaves and links."""
    if fabric.servers != len(cluster.nodes) or set(cluster.gpus) != {fabric.gpus_per_server}:
        raise BadInput(
            f"fabric {fabric.name} has {fabric.servers} servers of {fabric.gpus_per_server} GPUs, Slurm {len(cluster.nodes)} nodes "
            f"and {cluster.total} GPUs: they must be the same"
        )
    links = tuple(int(mask) for mask in fabric.free_masks())
    return replace(cluster, leaves=tuple(int(leaf) for leaf in fabric.server_leaf), links=links)


def certificate(fabric: Fabric, launch: Launch) -> str:
    """What the attempt holds, for `headway fabric verify` and `headway fabric routes`."""
    taken = np.zeros(fabric.groups, np.uint64)
    for leaf, mask in launch.links:
        taken[leaf] = mask
    width = max((mask.bit_count() for _, mask in launch.links), default=0)
    return issue_leaf_spine(fabric, launch.gpus, taken, width, Pattern("ring")).as_text()
