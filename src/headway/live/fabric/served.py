"""The fabric of a served cluster, with the key that signs certificates.

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

KEY_FILE = "fabric.key"  # in the data folder, beside the public key that verifies certificates
REMEMBERED = "fabric"  # name in `meta`: the mark of the fabric whose links the journal has
Links = tuple[tuple[int, int], ...]  # (leaf, a bit per spine)


def fabric_of(name: str) -> Fabric:
    """Return the fabric of this name or file; BadInput if its links cannot be reserved."""
    fabric = load_fabric(name)
    if fabric.kind != "leaf-spine" or fabric.ocs is not None:
        kind = f"{fabric.kind} with optical switches" if fabric.ocs else fabric.kind
        raise BadInput(
            f"fabric {name}: it is {kind}: links can be reserved on leaf-spine fabrics without optical switches only"
        )
    return fabric


def with_fabric(cluster: Cluster, fabric: Fabric) -> Cluster:
    """Return the cluster with the leaves and links of a fabric."""
    if fabric.servers != len(cluster.nodes) or set(cluster.gpus) != {fabric.gpus_per_server}:
        raise BadInput(
            f"fabric {fabric.name} has {fabric.servers} servers of {fabric.gpus_per_server} GPUs, the cluster {cluster.name} "
            f"{len(cluster.nodes)} nodes and {cluster.total} GPUs: they must be the same"
        )
    links = tuple(int(mask) for mask in fabric.free_masks())
    return replace(cluster, leaves=tuple(int(leaf) for leaf in fabric.server_leaf), links=links)


@dataclass(frozen=True)
class ServedFabric:
    """A fabric, the private key that signs certificates, and the operator's names and addresses (None: generated ones)."""

    fabric: Fabric
    key: bytes | None = None
    inventory: Inventory | None = None

    def certificate(self, gpus: tuple[int, ...], links: Links) -> Certificate:
        """Return the certificate of a job's GPUs and links."""
        taken = np.zeros(self.fabric.groups, np.uint64)
        for leaf, mask in links:
            taken[leaf] = mask
        width = max((mask.bit_count() for _, mask in links), default=0)
        return issue_leaf_spine(self.fabric, gpus, taken, width, Pattern("ring"))

    def spans(self, gpus: tuple[int, ...]) -> bool:
        """Return whether these GPUs are below more than one leaf."""
        return len({int(self.fabric.leaf_of_gpu[gpu]) for gpu in gpus}) > 1

    def mark(self, cluster: Cluster) -> str:
        """Return a mark of the fabric and the nodes, to notice that the links in a journal are those of another fabric."""
        text = json.dumps([describe(self.fabric), cluster.nodes], sort_keys=True)
        return f"{self.fabric.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def served(name: str, data: Path, inventory: Path | None = None) -> ServedFabric:
    """Return the fabric for a data folder; create its key if there is none."""
    fabric, key = fabric_of(name), data / KEY_FILE
    addresses = read_inventory(inventory) if inventory else None
    if addresses and addresses.fabric != fabric:
        raise BadInput(f"{inventory} is of fabric {addresses.fabric.name}, which is not {name}")
    if not key.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o711)
        make_keys(key)
    return ServedFabric(fabric, read_private_key(key), addresses)


def check_same(before: str | None, now: str) -> None:
    """Refuse a data folder whose journal has links of another fabric. Both are marks; empty: no links, None: a new journal."""
    if before is not None and before != now:
        had, have = (f"links of {text.partition(' ')[0]}" if text else "no links" for text in (before, now))
        other = " (its nodes or its links are others than before)" if had == have else ""
        fix = "start as before, with the same --fabric and --placement, or with another --data folder"
        raise BadInput(f"jobs of this data folder were given {had}, and now there are {have}{other}: {fix}")
