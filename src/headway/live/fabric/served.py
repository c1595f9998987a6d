"""The fabric of a served cluster, where an operator gives it, with the key that certificates are signed with.

Servers of the fabric are the nodes of the cluster in the same order.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.keys import make_keys, read_private_key
from headway.network.certificates.certificate import Certificate, describe
from headway.network.certificates.issue import issue_leaf_spine
from headway.network.fabric.model import Fabric
from headway.network.routes.inventory import Inventory
from headway.network.sharing.patterns import Pattern
from headway.sim.network_files import load_fabric, read_inventory

KEY_FILE = "fabric.key"  # in the data folder; its public half beside it, for whoever verifies
REMEMBERED = "fabric"  # the name in the journal of what a data folder's links are links of
Links = tuple[tuple[int, int], ...]  # (leaf, a bit per spine)


def fabric_of(name: str) -> Fabric:
    """The fabric of this name or file; one whose links can be reserved."""
    fabric = load_fabric(name)
    if fabric.kind != "leaf-spine" or fabric.ocs is not None:
        kind = f"{fabric.kind} with optical switches" if fabric.ocs else fabric.kind
        raise BadInput(
            f"fabric {name}: it is {kind}: links can be reserved on leaf-spine fabrics without optical switches only"
        )
    return fabric


def with_fabric(cluster: Cluster, fabric: Fabric) -> Cluster:
    """The cluster with its leaves and links."""
    if fabric.servers != len(cluster.nodes) or set(cluster.gpus) != {fabric.gpus_per_server}:
        raise BadInput(
            f"fabric {fabric.name} has {fabric.servers} servers of {fabric.gpus_per_server} GPUs, the cluster {cluster.name} "
            f"{len(cluster.nodes)} nodes and {cluster.total} GPUs: they must be the same"
        )
    links = tuple(int(mask) for mask in fabric.free_masks())
    return replace(cluster, leaves=tuple(int(leaf) for leaf in fabric.server_leaf), links=links)


@dataclass(frozen=True)
class ServedFabric:
    """A fabric, the private key that certificates are signed with, and the operator's names and addresses, where there are any."""

    fabric: Fabric
    key: bytes | None = None
    inventory: Inventory | None = None

    def certificate(self, gpus: tuple[int, ...], links: Links) -> Certificate:
        """What a job holds, for `headway fabric verify` and `headway fabric routes`."""
        taken = np.zeros(self.fabric.groups, np.uint64)
        for leaf, mask in links:
            taken[leaf] = mask
        width = max((mask.bit_count() for _, mask in links), default=0)
        return issue_leaf_spine(self.fabric, gpus, taken, width, Pattern("ring"))

    def spans(self, gpus: tuple[int, ...]) -> bool:
        """Whether these GPUs are below more than one leaf."""
        return len({int(self.fabric.leaf_of_gpu[gpu]) for gpu in gpus}) > 1

    def mark(self, cluster: Cluster) -> str:
        """What the links in a journal mean: another fabric, or other nodes, have another mark."""
        text = json.dumps([describe(self.fabric), cluster.nodes], sort_keys=True)
        return f"{self.fabric.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def served(name: str, data: Path, inventory: Path | None = None) -> ServedFabric:
    """The fabric of a data folder; the first manager there makes the key."""
    fabric, key = fabric_of(name), data / KEY_FILE
    hall = read_inventory(inventory) if inventory else None
    if hall and hall.fabric != fabric:
        raise BadInput(f"{inventory} is of fabric {hall.fabric.name}, which is not {name}")
    if not key.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o711)
        make_keys(key)
    return ServedFabric(fabric, read_private_key(key), hall)


def check_same(before: str | None, now: str) -> None:
    """Refuse a data folder whose journal speaks of the links of another fabric than now (both by their marks; empty: of none)."""
    if before is not None and before != now:
        had, have = (f"links of {text.partition(' ')[0]}" if text else "no links" for text in (before, now))
        other = " (its nodes or its links are others than before)" if had == have else ""
        fix = "start as before, with the same --fabric and --placement, or with another --data folder"
        raise BadInput(f"jobs of this data folder were given {had}, and now there are {have}{other}: {fix}")
