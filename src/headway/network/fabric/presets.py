"""Fabrics by name: the sizes of vClos's evaluation, their OCS versions, and a SuperPOD-like rail fabric."""

from collections.abc import Callable

from headway.network.fabric.model import Fabric, Ocs

# vClos, evaluation: servers of 8 GPUs, leaves of 32; 32 spines; 100 Gbit/s NICs, server : network bandwidth 10 : 1.
GPUS_PER_SERVER = 8
GPUS_PER_LEAF = 32
LINK_GBPS = 100.0
SERVER_GBPS = 1000.0
# OCS-vClos, evaluation: spines of 64 ports (128 of them for 8192 GPUs), so 2 fibres to each of 32 OCS.
OCS_SPINE_PORTS = 64
SIZES = (512, 2048, 4096, 8192)


def vclos(gpus: int) -> Fabric:
    """The two-tier 1:1 fabric of vClos's evaluation with so many GPUs."""
    servers_per_leaf = GPUS_PER_LEAF // GPUS_PER_SERVER
    return Fabric(
        name=f"vclos-{gpus}",
        kind="leaf-spine",
        server_group=tuple(server // servers_per_leaf for server in range(gpus // GPUS_PER_SERVER)),
        gpus_per_server=GPUS_PER_SERVER,
        spines=GPUS_PER_LEAF,
        link_gbps=LINK_GBPS,
        server_gbps=SERVER_GBPS,
    )


def ocs_vclos(gpus: int) -> Fabric:
    """The same leaves below 32 optical switches and spines of 64 ports."""
    below = vclos(gpus)
    return Fabric(
        name=f"ocs-vclos-{gpus}",
        kind="leaf-spine",
        server_group=below.server_group,
        gpus_per_server=GPUS_PER_SERVER,
        spines=gpus // OCS_SPINE_PORTS,
        link_gbps=LINK_GBPS,
        server_gbps=SERVER_GBPS,
        ocs=Ocs(switches=GPUS_PER_LEAF, spine_fibres=OCS_SPINE_PORTS // GPUS_PER_LEAF),
    )


def superpod() -> Fabric:
    """Like NVIDIA's DGX SuperPOD of 4 scalable units: 32 servers of 8 GPUs each, 8 rails, 400 Gbit/s, 1:1.

    32 leaves of 32 uplinks over 16 spines: two parallel links from each leaf to each spine.
    """
    return Fabric(
        name="superpod",
        kind="rail",
        server_group=tuple(server // 32 for server in range(128)),
        gpus_per_server=8,
        spines=16,
        parallel_links=2,
        link_gbps=400.0,
        server_gbps=3600.0,
    )


def _sized(build: Callable[[int], Fabric], gpus: int) -> Callable[[], Fabric]:
    return lambda: build(gpus)


PRESETS: dict[str, Callable[[], Fabric]] = {
    **{f"vclos-{gpus}": _sized(vclos, gpus) for gpus in SIZES},
    **{f"ocs-vclos-{gpus}": _sized(ocs_vclos, gpus) for gpus in SIZES},
    "superpod": superpod,
}
