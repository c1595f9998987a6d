"""The fabric below a simulated cluster: which it is, what its ledger holds, and which jobs can never be isolated on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.named import PRESETS as CLUSTERS
from headway.cluster.nodes import Cluster
from headway.core.protocols import Placement
from headway.errors import BadInput, ImpossibleJobs
from headway.network.fabric.model import Fabric
from headway.network.fabric.presets import PRESETS
from headway.network.sharing.rules import Sharing, parse_network
from headway.network.slices.sizes import has_slice, why_never
from headway.workloads.workload import Workload

SLICES = "vclos, vclos-padded or ocs-vclos"


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """How the jobs of a run use the fabric; the default is a network without contention."""

    name: str = "ideal"  # as people write it, with its options
    fabric: Fabric | None = None

    @property
    def sharing(self) -> Sharing:
        """How jobs share it."""
        return parse_network(self.name)


IDEAL = NetworkModel()


def find_network(name: str, fabric: str | Fabric | None, cluster: Cluster, placement: Placement) -> NetworkModel:
    """The network that a person named, on the fabric of the cluster, if it fits the placement."""
    sharing = parse_network(name)
    if sharing.rule == "isolated" and not placement.needs_fabric:
        raise BadInput(
            f"network isolated needs a placement that reserves links: use --placement {SLICES}, not {placement.name}"
        )
    placed_by_leaf = placement.needs_fabric or (placement.knows_leaves and not placement.shares)
    if fabric is None and sharing.rule == "ideal" and not placed_by_leaf:
        return IDEAL
    if isinstance(fabric, str):
        from headway.sim.network_files import load_fabric

        fabric = load_fabric(fabric)
    loaded = fabric or _of_cluster(cluster, placement)
    _check(loaded, cluster, placement)
    if placement.shares and (sharing.failed or sharing.rule == "spray"):
        why = "failures are not simulated" if sharing.failed else "packets take every link, so none can be held"
        raise BadInput(f"network {name}: {why} with placement {placement.name}: use --placement leaf-aware")
    if sharing.is_shared and loaded.ocs:
        raise BadInput(
            f"network {name}: fabric {loaded.name} has paths for slices only: use --network isolated or ideal"
        )
    return NetworkModel(name, loaded)


def _of_cluster(cluster: Cluster, placement: Placement) -> Fabric:
    """The fabric of a cluster's name; for a placement that rewires, its version with optical switches."""
    name = f"ocs-{cluster.name}" if placement.rewires and not cluster.name.startswith("ocs-") else cluster.name
    if name not in PRESETS:
        sizes = ", ".join(preset for preset in PRESETS if preset in CLUSTERS)
        raise BadInput(f"cluster {cluster.name} has no fabric: name one with --fabric, or take a cluster of {sizes}")
    return PRESETS[name]()


def _check(fabric: Fabric, cluster: Cluster, placement: Placement) -> None:
    """Refuse a fabric that is not the cluster's, or that a placement cannot reserve links of."""
    if fabric.servers != len(cluster.gpus) or set(cluster.gpus) != {fabric.gpus_per_server}:
        raise BadInput(
            f"fabric {fabric.name} has {fabric.servers} servers of {fabric.gpus_per_server} GPUs, "
            f"cluster {cluster.name} {len(cluster.gpus)} nodes and {cluster.total} GPUs: they must be the same"
        )
    if placement.needs_fabric and placement.rewires != (fabric.ocs is not None):
        have, right = ("has", "ocs-vclos") if fabric.ocs else ("has no", "vclos or vclos-padded")
        raise BadInput(f"fabric {fabric.name} {have} optical switches: use --placement {right}, not {placement.name}")
    if placement.shares and (fabric.ocs or len(set(np.bincount(fabric.server_leaf))) > 1):
        why = "has optical switches" if fabric.ocs else "has leaves of different sizes"
        raise BadInput(
            f"fabric {fabric.name} {why}: placement {placement.name} needs equal leaves and fixed links; use leaf-aware or ocs-vclos"
        )
    if (placement.needs_fabric or placement.shares) and fabric.kind != "leaf-spine":
        raise BadInput(
            f"fabric {fabric.name} is {fabric.kind}: placements reserve links of leaf-spine fabrics only; "
            "`headway fabric allocate` gives slices of it one by one"
        )


def ledger_of(fabric: Fabric | None, placement: Placement) -> dict[str, Any]:
    """What `new_state` needs to know of the fabric: links by leaf, and ports by row where circuits can be rewired."""
    if fabric is None or not (placement.needs_fabric or placement.knows_leaves):
        return {}
    links, spines = fabric.free_masks(), np.full(fabric.leaves, -1, np.int64)
    if fabric.ocs:
        # A spine with w fibres to each switch has w rows with a bit a switch.
        rows = fabric.spines * fabric.ocs.spine_fibres
        links = np.concatenate([links, np.full(rows, (1 << fabric.uplinks) - 1, np.uint64)])
        spines = np.concatenate([spines, np.repeat(np.arange(fabric.spines), fabric.ocs.spine_fibres)])
    return {"links": links, "node_leaf": fabric.server_leaf, "spines": spines}


def never_isolated(gpus: NDArray[np.int32], fabric: Fabric | None, placement: Placement) -> NDArray[np.bool_]:
    """Jobs of sizes that no slice of the fabric can have, whatever is free."""
    never = np.zeros(len(gpus), np.bool_)
    if fabric and placement.needs_fabric:
        for size in np.unique(gpus):
            never[gpus == size] = not has_slice(fabric, placement.name, int(size))
    return never


def only_isolable(workload: Workload, network: NetworkModel, placement: Placement, skip_impossible: bool) -> Workload:
    """The jobs that a slice can hold. Others are refused with the nearest sizes, or left out."""
    never = never_isolated(workload.gpus, network.fabric, placement)
    count, jobs, first = int(never.sum()), len(workload), int(never.argmax())
    if network.fabric is None or (count < jobs and (skip_impossible or not count)):
        return workload.take(~never)
    why = why_never(network.fabric, placement.name, int(workload.gpus[first]))
    problem = f"{workload.name}: {count} of {jobs} jobs fit no slice; job {workload.job_id[first]}: {why}"
    raise ImpossibleJobs(problem, "; leave such jobs out" if count < jobs else "")
