"""Fabrics as YAML files describe them (sim/network_files.py reads the files).

Every refusal names the file, the field and what would be right. A leaf-spine with an OCS layer:

    name: lab
    kind: leaf-spine          # or rail (segments, servers_per_segment) or three-tier (pods, leaves_per_pod, ...)
    leaves: 16
    servers_per_leaf: 4
    gpus_per_server: 8
    spines: 8
    spine_ports: 64           # checked against what the spines need
    ocs: {switches: 32, spine_fibres: 2}
"""

import math
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.errors import BadInput
from headway.io.yaml_file import check_content
from headway.network.fabric.model import MOST_GPUS, MOST_LEAVES, MOST_UPLINKS, Fabric, Ocs

# What a regular fabric is counted by: groups of servers (the product), then servers in each.
SIZE_FIELDS = {
    "leaf-spine": ("leaves", "servers_per_leaf"),
    "rail": ("segments", "servers_per_segment"),
    "three-tier": ("pods", "leaves_per_pod", "servers_per_leaf"),
}
# Fields of the file that the fabric takes over as they are.
SAME_FIELDS = {"name", "kind", "gpus_per_server", "parallel_links", "cores_per_group", "link_gbps", "server_gbps"}


# What of anything a file can ask for; the whole is bounded as well.
Count = Annotated[int, Field(ge=1, le=MOST_LEAVES)]
Gbps = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class OcsFile(BaseModel, extra="forbid"):
    """The optical layer as written in YAML."""

    switches: int = Field(ge=1, le=MOST_UPLINKS)
    spine_fibres: Count
    ports: Count | None = None


class ServerFile(BaseModel, extra="forbid"):
    """One server listed by name, for fabrics that are not regular."""

    name: str
    leaf: int | None = Field(default=None, ge=0, lt=MOST_LEAVES)


class FabricFile(BaseModel, extra="forbid"):
    """A fabric as written in YAML."""

    name: str = "fabric"
    kind: Literal["leaf-spine", "rail", "three-tier"] = Field(default="leaf-spine", examples=["leaf-spine"])
    leaves: Count | None = None
    segments: Count | None = None
    pods: Count | None = None
    leaves_per_pod: Count | None = None
    servers_per_leaf: Count | None = None
    servers_per_segment: Count | None = None
    servers: list[ServerFile] | None = None
    gpus_per_server: Count = Field(examples=["8"])
    spines: Count | None = None
    parallel_links: Count = 1
    spine_ports: Count | None = None
    oversubscription: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    cores_per_group: int = Field(default=0, ge=0, le=MOST_LEAVES)
    link_gbps: Gbps = 100.0
    server_gbps: Gbps = 1000.0
    ocs: OcsFile | None = None


def fabric_from(content: Any, where: str) -> Fabric:
    """A fabric from the plain data of a YAML file; `where` is the file named in refusals."""
    return fabric_of(check_content(content, FabricFile, where, "fabric"), where)


def fabric_of(file: FabricFile, where: str) -> Fabric:
    """Return the fabric that a file describes; BadInput, with the file, if its parts do not fit together."""
    try:
        return _fitted(file)
    except (_Unfit, BadInput) as reason:
        raise BadInput(f"{where}: {reason}") from None


class _Unfit(Exception):
    """Which field does not fit the others, and why."""


def _fitted(file: FabricFile) -> Fabric:
    group_of_server = _groups(file)
    servers = max(Counter(group_of_server).values())
    nics = servers if file.kind == "rail" else servers * file.gpus_per_server  # on the fullest leaf
    ocs = _ocs(file, max(group_of_server) + 1, nics) if file.ocs else None
    spines = _spines(file, nics)
    leaf_pod: tuple[int, ...] = ()
    if file.kind == "three-tier":
        per_pod = _needed(file, "leaves_per_pod")
        leaf_pod = tuple(leaf // per_pod for leaf in range(max(group_of_server) + 1))
        if file.cores_per_group < 1:
            raise _Unfit("cores_per_group: a three-tier fabric needs at least 1")
    elif file.cores_per_group:
        raise _Unfit(f"cores_per_group: only a three-tier fabric has cores (kind is {file.kind})")
    same = file.model_dump(include=SAME_FIELDS)
    fabric = Fabric(**same, server_group=group_of_server, spines=spines, leaf_pod=leaf_pod, ocs=ocs)
    if file.spine_ports is not None:
        _check_ports(file.spine_ports, fabric)
    return fabric


def _needed(file: FabricFile, field: str) -> int:
    value: int | None = getattr(file, field)
    if value is None:
        raise _Unfit(f"{field}: missing; a {file.kind} fabric needs it")
    return value


def _groups(file: FabricFile) -> tuple[int, ...]:
    """The leaf or segment of every server, in order."""
    if file.servers is None:
        *groups, each = (_needed(file, field) for field in SIZE_FIELDS[file.kind])
        if math.prod(groups) > MOST_LEAVES or math.prod(groups) * each * file.gpus_per_server > MOST_GPUS:
            raise _Unfit(f"{SIZE_FIELDS[file.kind][0]}: more than {MOST_LEAVES:,} leaves or {MOST_GPUS:,} GPUs in all")
        return tuple(group for group in range(math.prod(groups)) for _ in range(each))
    if not file.servers:
        raise _Unfit("servers: the list is empty")
    leaves = []
    for index, server in enumerate(file.servers):
        field = f"servers.{index}.leaf: server {server.name!r}"
        if server.leaf is None:
            raise _Unfit(f"{field} has NICs but no leaf")
        if file.leaves is not None and server.leaf >= file.leaves:
            raise _Unfit(f"{field} is on leaf {server.leaf}, but leaves are 0 to {file.leaves - 1}")
        leaves.append(server.leaf)
    return tuple(sorted(leaves))


def _spines(file: FabricFile, nics: int) -> int:
    """Spines as given, or as many as the oversubscription asks for; both must agree."""
    ratio, lanes = file.oversubscription, file.parallel_links
    if file.spines is None:
        if file.ocs or ratio is None:
            what = "an OCS fabric needs it" if file.ocs else "give spines or oversubscription"
            raise _Unfit(f"spines: missing; {what}")
        spines = nics / ratio / lanes
        if spines < 1 or abs(spines - round(spines)) > 1e-6:
            gives = f"{ratio:g} of {nics} NICs per leaf gives {spines:.2f} spines"
            raise _Unfit(f"oversubscription: {gives}; give a ratio that divides, or spines")
        return round(spines)
    uplinks = file.spines * lanes
    if not file.ocs and ratio is not None and abs(nics / uplinks - ratio) > 1e-6 * nics / uplinks:
        actual = f"{nics} NICs over {uplinks} uplinks per leaf is {nics / uplinks:g}"
        raise _Unfit(f"oversubscription: {ratio:g} given, but {actual}")
    return file.spines


def _ocs(file: FabricFile, leaves: int, nics: int) -> Ocs:
    """The optical layer, once its ports add up: one fibre per leaf and OCS, enough of them for every NIC."""
    assert file.ocs
    switches, fibres, ports = file.ocs.switches, file.ocs.spine_fibres, file.ocs.ports
    if file.kind != "leaf-spine":
        raise _Unfit(f"ocs: only a leaf-spine fabric can have an OCS layer (kind is {file.kind})")
    if file.parallel_links != 1:
        raise _Unfit(f"parallel_links: {file.parallel_links} with an OCS layer; a leaf has one fibre to each OCS")
    if switches != nics and file.oversubscription is None:
        fix = f"give {nics} switches, or say the oversubscription"
        raise _Unfit(f"ocs.switches: {switches}, but a leaf has {nics} NICs and one fibre to each OCS; {fix}")
    used = leaves + (file.spines or 0) * fibres
    if ports is not None and ports < used:
        need = f"{leaves} leaves and {file.spines} spines x {fibres} fibres need {used} ports on each OCS"
        raise _Unfit(f"ocs.ports: {ports}, but {need}")
    return Ocs(switches, fibres)


def _check_ports(ports: int, fabric: Fabric) -> None:
    """Spine ports must be enough for the cables that end on a spine."""
    if fabric.ocs:
        switches, fibres = fabric.ocs.switches, fabric.ocs.spine_fibres
        if switches * fibres != ports:
            raise _Unfit(f"spine_ports: {ports}, but {fibres} fibres to each of {switches} OCS are {switches * fibres}")
        return
    below, lanes = fabric.leaves // fabric.pods, fabric.parallel_links
    if below * lanes > ports:
        raise _Unfit(f"spine_ports: {ports}, but {below} leaves x {lanes} uplinks to each spine need {below * lanes}")
