"""Fabrics by name: the sizes of vClos's evaluation, their OCS versions, a SuperPOD-like rail fabric, and Tiresias's testbed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from headway.network.fabric.model import Fabric, Ocs

# vClos, evaluation: servers of 8 GPUs, leaves of 32; 32 spines; 100 Gbit/s NICs, server : network bandwidth 10 : 1.
GPUS_PER_SERVER = 8
GPUS_PER_LEAF = 32
# OCS-vClos, evaluation: spines of 64 ports (128 of them for 8192 GPUs), so 2 fibres to each of 32 OCS.
OCS_SPINE_PORTS = 64
SIZES = (512, 2048, 4096, 8192)


def vclos(gpus: int, server: int = GPUS_PER_SERVER) -> Fabric:
    """The two-tier 1:1 fabric of vClos's evaluation with `gpus` GPUs, `server` on each server."""
    leaf_of_server = tuple(gpu // GPUS_PER_LEAF for gpu in range(0, gpus, server))
    name = f"vclos-{gpus}" if server == GPUS_PER_SERVER else f"vclos-{gpus}-by-{server}"
    return Fabric(name, "leaf-spine", leaf_of_server, server, spines=GPUS_PER_LEAF)


def ocs_vclos(gpus: int, server: int = GPUS_PER_SERVER) -> Fabric:
    """The same leaves below 32 optical switches and spines of 64 ports."""
    ocs = Ocs(switches=GPUS_PER_LEAF, spine_fibres=OCS_SPINE_PORTS // GPUS_PER_LEAF)
    electrical = vclos(gpus, server)
    return replace(electrical, name=f"ocs-{electrical.name}", spines=gpus // OCS_SPINE_PORTS, ocs=ocs)


def superpod() -> Fabric:
    """Like NVIDIA's DGX SuperPOD of 4 scalable units: 32 servers of 8 GPUs each, 8 rails, 400 Gbit/s, 1:1.

    32 leaves of 32 uplinks over 16 spines: two parallel links from each leaf to each spine.
    """
    segments = tuple(server // 32 for server in range(128))
    return Fabric("superpod", "rail", segments, 8, spines=16, parallel_links=2, link_gbps=400.0, server_gbps=3600.0)


def testbed() -> Fabric:
    """Below Tiresias's testbed of 15 servers with 4 GPUs (NSDI'19): 5 leaves of 3 servers, 1:1. Its real cabling is not published."""
    return Fabric("tiresias-testbed", "leaf-spine", tuple(server // 3 for server in range(15)), 4, spines=12)


def rubick() -> Fabric:
    """Below Rubick's 8 servers of 8 A800 GPUs: NVLink of 400 GB/s, and 100 Gbit/s of RDMA for each GPU; two leaves, since its cabling is
    not published."""
    return Fabric("rubick-64", "leaf-spine", tuple(s // 4 for s in range(8)), 8, spines=32, server_gbps=3200.0)


PRESETS: dict[str, Callable[[], Fabric]] = {
    **{f"vclos-{gpus}": partial(vclos, gpus) for gpus in SIZES},
    **{f"ocs-vclos-{gpus}": partial(ocs_vclos, gpus) for gpus in SIZES},
    # The authors' public configurations for 8,192 GPUs have four on a server: cluster 2048x4.
    "vclos-8192-by-4": partial(vclos, 8192, 4),
    "ocs-vclos-8192-by-4": partial(ocs_vclos, 8192, 4),
    "superpod": superpod,
    "tiresias-testbed": testbed,
    "rubick-64": rubick,
}
