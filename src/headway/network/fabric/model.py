"""The cluster's network as numbers: which leaf a GPU hangs on, which cables go up from it, how they are named.

Three kinds (vClos, section on the fabric): `leaf-spine` (a server's NICs all on one leaf), `rail` (leaf = segment and
rail: GPU g of every server of a segment on the segment's leaf g) and `three-tier` (pods of leaves and aggregation
switches; aggregation switch a of every pod reaches the cores of group a). A leaf-spine may have a layer of optical
circuit switches (OCS) between leaves and spines: every leaf has one fibre to every OCS, every spine `spine_fibres`.

Parallel links between one leaf and one spine are counted as that many virtual spines: uplink v of a leaf ends on
physical spine v // parallel_links. A leaf's uplinks fit one 64-bit mask, which is what the allocation search works on.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io.specs import check_name

MOST_UPLINKS = 64  # bits in the word that holds one leaf's free links
# Beyond any cluster: a slip of the keyboard must not fill memory.
MOST_GPUS, MOST_LEAVES, MOST_CABLES = 1 << 20, 1 << 16, 1 << 22

KINDS = ("leaf-spine", "rail", "three-tier")


@dataclass(frozen=True, slots=True)
class Ocs:
    """A layer of optical circuit switches: each leaf one fibre to each, each spine `spine_fibres` to each."""

    switches: int
    spine_fibres: int


@dataclass(frozen=True)
class Fabric:
    """One cluster's network. Servers are numbered leaf by leaf, GPUs server by server."""

    name: str
    kind: str
    server_group: tuple[int, ...]  # the leaf of every server; on rails, its segment
    gpus_per_server: int
    spines: int  # physical; in three tiers the aggregation switches of one pod
    parallel_links: int = 1
    leaf_pod: tuple[int, ...] = ()  # three tiers only
    cores_per_group: int = 0  # three tiers only
    link_gbps: float = 100.0
    server_gbps: float = 1000.0
    ocs: Ocs | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be numbered; readers check the rest, with file and field."""
        if self.kind not in KINDS:
            raise BadInput(f"fabric {self.name}: kind {self.kind!r}: one of {', '.join(KINDS)}")
        check_name("fabric", self.name)
        if not self.server_group:
            raise BadInput(f"fabric {self.name}: no servers")
        if list(self.server_group) != sorted(self.server_group):
            raise BadInput(f"fabric {self.name}: servers must be listed leaf by leaf")
        if not 1 <= self.uplinks <= MOST_UPLINKS:
            raise BadInput(f"fabric {self.name}: {self.uplinks} uplinks per leaf: between 1 and {MOST_UPLINKS}")
        if self.gpus > MOST_GPUS or self.leaves > MOST_LEAVES or self.cables > MOST_CABLES:
            most = f"{MOST_GPUS:,} GPUs, {MOST_LEAVES:,} leaves and {MOST_CABLES:,} cables"
            raise BadInput(f"fabric {self.name}: too large: at most {most}")

    @cached_property
    def groups(self) -> int:
        """What the allocation search calls leaves: leaves, or rail segments."""
        return max(self.server_group) + 1

    @cached_property
    def leaves(self) -> int:
        """Leaf switches in all."""
        return self.groups * self.rails

    @property
    def rails(self) -> int:
        """Leaves that a server's GPUs are spread over: one each on rails, otherwise one for all."""
        return self.gpus_per_server if self.kind == "rail" else 1

    @property
    def servers(self) -> int:
        """Servers in all."""
        return len(self.server_group)

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.servers * self.gpus_per_server

    @property
    def uplinks(self) -> int:
        """Cables going up from one leaf: virtual spines, or optical switches."""
        return self.ocs.switches if self.ocs else self.spines * self.parallel_links

    @property
    def pods(self) -> int:
        """Pods of a three-tier fabric; one otherwise."""
        return max(self.leaf_pod) + 1 if self.leaf_pod else 1

    @cached_property
    def server_leaf(self) -> NDArray[np.int64]:
        """The group (leaf, or rail segment) of every server, as the kernels take it."""
        return np.asarray(self.server_group, np.int64)

    @cached_property
    def leaf_of_gpu(self) -> NDArray[np.int64]:
        """The leaf switch of every GPU's NIC."""
        gpu = np.arange(self.gpus)
        return np.asarray(self.server_leaf[gpu // self.gpus_per_server] * self.rails + gpu % self.rails, np.int64)

    @cached_property
    def nic_of_gpu(self) -> NDArray[np.int64]:
        """The position of every GPU's NIC on its leaf."""
        first_server = np.searchsorted(self.server_leaf, self.server_leaf)  # of every server's group
        first_gpu = np.repeat(first_server, self.gpus_per_server) * self.gpus_per_server
        return np.asarray((np.arange(self.gpus) - first_gpu) // self.rails, np.int64)

    @cached_property
    def gpus_per_leaf(self) -> int:
        """NICs on the fullest leaf."""
        return int(np.bincount(self.leaf_of_gpu).max())

    @property
    def oversubscription(self) -> float:
        """NICs below a full leaf for each cable above it: 1 is non-blocking."""
        return self.gpus_per_leaf / self.uplinks

    @cached_property
    def cables(self) -> int:
        """Cables between switches: leaf up-links first, then (three tiers) aggregation to core."""
        return self.leaves * self.uplinks + self.pods * self.uplinks * self.cores_per_group

    def leaf_cable(self, leaf: int, uplink: int) -> int:
        """The cable from a leaf to its virtual spine (or OCS) `uplink`."""
        return leaf * self.uplinks + uplink

    def core_cable(self, pod: int, aggregation: int, core: int) -> int:
        """The cable from a pod's aggregation switch to core number `core` of that switch's group."""
        return self.leaves * self.uplinks + (pod * self.uplinks + aggregation) * self.cores_per_group + core

    def leaf_name(self, leaf: int) -> str:
        """`leaf3`, or on rails `leaf1.r3` (segment and rail)."""
        if self.kind == "rail":
            return f"leaf{leaf // self.gpus_per_server}.r{leaf % self.gpus_per_server}"
        return f"leaf{leaf}"

    def upper_name(self, leaf: int, uplink: int) -> str:
        """What uplink `uplink` of a leaf ends on: `spine2`, `spine2.1` (second parallel link), `agg0.2`, `ocs5`."""
        if self.ocs:
            return f"ocs{uplink}"
        switch = f"agg{self.leaf_pod[leaf]}." if self.kind == "three-tier" else "spine"
        lane = f".{uplink % self.parallel_links}" if self.parallel_links > 1 else ""
        return f"{switch}{uplink // self.parallel_links}{lane}"

    def cable_name(self, cable: int) -> tuple[str, str]:
        """Both ends of a cable, lower switch first."""
        base = self.leaves * self.uplinks
        if cable < base:
            leaf, uplink = divmod(cable, self.uplinks)
            return self.leaf_name(leaf), self.upper_name(leaf, uplink)
        switch, core = divmod(cable - base, self.cores_per_group)
        pod, aggregation = divmod(switch, self.uplinks)
        return f"agg{pod}.{aggregation}", f"core{aggregation}.{core}"

    def free_masks(self) -> NDArray[np.uint64]:
        """Every group's mask of uplinks with all of them free."""
        return np.full(self.groups, (1 << self.uplinks) - 1, np.uint64)
