"""Fabrics as people name them: a preset, a YAML file, or an inventory.

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

from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headway.errors import BadInput, unknown
from headway.io.yaml_file import check_content, read_yaml
from headway.network.fabric.inventory import read_inventory
from headway.network.fabric.model import MOST_UPLINKS, Fabric, Ocs
from headway.network.fabric.presets import PRESETS


class OcsFile(BaseModel):
    """The optical layer as written in YAML."""

    model_config = ConfigDict(extra="forbid")
    switches: int = Field(ge=1, le=MOST_UPLINKS)
    spine_fibres: int = Field(ge=1)
    ports: int | None = Field(default=None, ge=1)


class ServerFile(BaseModel):
    """One server listed by name, for fabrics that are not regular."""

    model_config = ConfigDict(extra="forbid")
    name: str
    leaf: int | None = Field(default=None, ge=0)


class FabricFile(BaseModel):
    """A fabric as written in YAML."""

    model_config = ConfigDict(extra="forbid")
    name: str = "fabric"
    kind: Literal["leaf-spine", "rail", "three-tier"] = Field(default="leaf-spine", examples=["leaf-spine"])
    leaves: int | None = Field(default=None, ge=1)
    segments: int | None = Field(default=None, ge=1)
    pods: int | None = Field(default=None, ge=1)
    leaves_per_pod: int | None = Field(default=None, ge=1)
    servers_per_leaf: int | None = Field(default=None, ge=1)
    servers_per_segment: int | None = Field(default=None, ge=1)
    servers: list[ServerFile] | None = None
    gpus_per_server: int = Field(ge=1, examples=["8"])
    spines: int | None = Field(default=None, ge=1)
    parallel_links: int = Field(default=1, ge=1)
    spine_ports: int | None = Field(default=None, ge=1)
    oversubscription: float | None = Field(default=None, gt=0)
    cores_per_group: int = Field(default=0, ge=0)
    link_gbps: float = Field(default=100.0, gt=0)
    server_gbps: float = Field(default=1000.0, gt=0)
    ocs: OcsFile | None = None


def load_fabric(name_or_path: str) -> Fabric:
    """A preset by name, a YAML file, or an inventory (.csv, .csv.gz)."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    if not path.exists():
        if path.suffix in {".yaml", ".yml", ".csv", ".gz"} or "/" in name_or_path:
            raise BadInput(f"no file {name_or_path}: give a YAML file, an inventory CSV or one of {', '.join(PRESETS)}")
        raise unknown("fabric", name_or_path, PRESETS)
    if path.name.endswith((".csv", ".csv.gz")):
        return read_inventory(path)
    return _fabric(read_yaml(path, FabricFile, "fabric"), str(path))


def fabric_from(content: Any, where: str) -> Fabric:
    """A fabric from the plain data of a YAML file; `where` is the file named in refusals."""
    return _fabric(check_content(content, FabricFile, where, "fabric"), where)


def _fabric(given: FabricFile, where: str) -> Fabric:
    """The fabric that was described, once its parts fit together."""
    group_of_server = _groups(given, where)
    ocs = _ocs(given, group_of_server, where)
    spines = _spines(given, group_of_server, where)
    leaf_pod: tuple[int, ...] = ()
    if given.kind == "three-tier":
        per_pod = _needed(given.leaves_per_pod, "leaves_per_pod", given, where)
        leaf_pod = tuple(leaf // per_pod for leaf in range(max(group_of_server) + 1))
        if given.cores_per_group < 1:
            raise BadInput(f"{where}: cores_per_group: a three-tier fabric needs at least 1")
    elif given.cores_per_group:
        raise BadInput(f"{where}: cores_per_group: only a three-tier fabric has cores (kind is {given.kind})")
    fabric = Fabric(
        name=given.name,
        kind=given.kind,
        server_group=group_of_server,
        gpus_per_server=given.gpus_per_server,
        spines=spines,
        parallel_links=given.parallel_links,
        leaf_pod=leaf_pod,
        cores_per_group=given.cores_per_group,
        link_gbps=given.link_gbps,
        server_gbps=given.server_gbps,
        ocs=ocs,
    )
    _check_ports(given, fabric, where)
    return fabric


def _needed(value: int | None, field: str, given: FabricFile, where: str) -> int:
    if value is None:
        raise BadInput(f"{where}: {field}: missing; a {given.kind} fabric needs it")
    return value


def _groups(given: FabricFile, where: str) -> tuple[int, ...]:
    """The leaf or segment of every server, in order."""
    if given.servers is not None:
        if not given.servers:
            raise BadInput(f"{where}: servers: the list is empty")
        for index, server in enumerate(given.servers):
            if server.leaf is None:
                raise BadInput(f"{where}: servers.{index}.leaf: server {server.name!r} has NICs but no leaf")
            if given.leaves is not None and server.leaf >= given.leaves:
                raise BadInput(
                    f"{where}: servers.{index}.leaf: server {server.name!r} is on leaf {server.leaf}, "
                    f"but leaves are 0 to {given.leaves - 1}"
                )
        return tuple(sorted(server.leaf for server in given.servers if server.leaf is not None))
    if given.kind == "rail":
        groups = _needed(given.segments, "segments", given, where)
        each = _needed(given.servers_per_segment, "servers_per_segment", given, where)
    elif given.kind == "three-tier":
        groups = _needed(given.pods, "pods", given, where) * _needed(
            given.leaves_per_pod, "leaves_per_pod", given, where
        )
        each = _needed(given.servers_per_leaf, "servers_per_leaf", given, where)
    else:
        groups = _needed(given.leaves, "leaves", given, where)
        each = _needed(given.servers_per_leaf, "servers_per_leaf", given, where)
    return tuple(group for group in range(groups) for _ in range(each))


def _fullest(given: FabricFile, group_of_server: tuple[int, ...]) -> int:
    """NICs on the fullest leaf."""
    servers = max(Counter(group_of_server).values())
    return servers if given.kind == "rail" else servers * given.gpus_per_server


def _spines(given: FabricFile, group_of_server: tuple[int, ...], where: str) -> int:
    """Spines as given, or as many as the oversubscription asks for; both must agree."""
    nics = _fullest(given, group_of_server)
    if given.ocs:
        if given.spines is None:
            raise BadInput(f"{where}: spines: missing; an OCS fabric needs it")
        return given.spines
    if given.spines is None:
        if given.oversubscription is None:
            raise BadInput(f"{where}: spines: missing; give spines or oversubscription")
        spines = nics / given.oversubscription / given.parallel_links
        if spines < 1 or abs(spines - round(spines)) > 1e-6:
            raise BadInput(
                f"{where}: oversubscription: {given.oversubscription:g} of {nics} NICs per leaf gives {spines:.2f} spines; "
                f"give a ratio that divides, or spines"
            )
        return round(spines)
    ratio = nics / (given.spines * given.parallel_links)
    if given.oversubscription is not None and abs(ratio - given.oversubscription) > 1e-6 * ratio:
        raise BadInput(
            f"{where}: oversubscription: {given.oversubscription:g} given, but {nics} NICs over "
            f"{given.spines * given.parallel_links} uplinks per leaf is {ratio:g}"
        )
    return given.spines


def _ocs(given: FabricFile, group_of_server: tuple[int, ...], where: str) -> Ocs | None:
    """The optical layer, once its ports add up: one fibre per leaf and OCS, enough of them for every NIC."""
    if given.ocs is None:
        return None
    if given.kind != "leaf-spine":
        raise BadInput(f"{where}: ocs: only a leaf-spine fabric can have an OCS layer (kind is {given.kind})")
    if given.parallel_links != 1:
        raise BadInput(
            f"{where}: parallel_links: {given.parallel_links} with an OCS layer; a leaf has one fibre to each OCS"
        )
    nics = _fullest(given, group_of_server)
    if given.ocs.switches != nics and given.oversubscription is None:
        raise BadInput(
            f"{where}: ocs.switches: {given.ocs.switches}, but a leaf has {nics} NICs and one fibre to each OCS; "
            f"give {nics} switches, or say the oversubscription"
        )
    leaves = max(group_of_server) + 1
    used = leaves + (given.spines or 0) * given.ocs.spine_fibres
    if given.ocs.ports is not None and given.ocs.ports < used:
        raise BadInput(
            f"{where}: ocs.ports: {given.ocs.ports}, but {leaves} leaves and {given.spines} spines x "
            f"{given.ocs.spine_fibres} fibres need {used} ports on each OCS"
        )
    return Ocs(given.ocs.switches, given.ocs.spine_fibres)


def _check_ports(given: FabricFile, fabric: Fabric, where: str) -> None:
    """Spine ports must be enough for the cables that end on a spine."""
    if given.spine_ports is None:
        return
    if fabric.ocs:
        used = fabric.ocs.switches * fabric.ocs.spine_fibres
        if used != given.spine_ports:
            raise BadInput(
                f"{where}: spine_ports: {given.spine_ports}, but {fabric.ocs.spine_fibres} fibres to each of "
                f"{fabric.ocs.switches} OCS are {used}"
            )
        return
    below = fabric.leaves // fabric.pods if fabric.kind == "three-tier" else fabric.leaves
    used = below * fabric.parallel_links
    if used > given.spine_ports:
        raise BadInput(
            f"{where}: spine_ports: {given.spine_ports}, but {below} leaves x {fabric.parallel_links} "
            f"uplinks to each spine need {used}"
        )
