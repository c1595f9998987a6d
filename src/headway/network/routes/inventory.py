"""The inventory: addresses, interfaces and switch names for the GPUs, leaves, spines and cables of a fabric.

A certificate names GPUs by number and cables by the names of their ends; an operator's network has its own names. The
inventory is a YAML or JSON file that maps one to the other (`headway fabric inventory F --out FILE` writes one to
start from):

    fabric: lab.yaml                 # a preset, or a fabric file beside this one
    budget: 512                      # policy rules that a switch takes; a switch may have its own
    switches:
      leaf0: {switch: rack1-leaf, prefix: 10.64.0.0/24}     # the prefix of the NICs below a leaf
      spine0: {switch: row1-spine, budget: 255}
    nics:
      - {gpu: 0, address: 10.64.0.1, port: swp1, server: node1, interface: eth2}
    cables:
      - ends: [leaf0, spine0]
        lower: {interface: swp33, address: 100.64.0.1}
        upper: {interface: swp1, address: 100.64.0.0}

Cables are named as in certificates. With an OCS layer a cable [leaf0, ocs3] has only its lower end, and a fibre of a
spine is a cable [spine0.1, ocs3] of its own: spine 0, second fibre to that switch. Names and addresses end up in
commands, so they are checked strictly.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, FailFast, Field, StringConstraints

from headway.errors import BadInput
from headway.network.fabric.model import MOST_CABLES, MOST_GPUS, Fabric

STEERING = "198.18.0.0/15"  # RFC 2544: for tests of devices, never routed


def _address(text: str) -> str:
    return str(IPv4Address(text))


def _network(text: str) -> str:
    return str(IPv4Network(text))


Address = Annotated[str, AfterValidator(_address)]
Prefix = Annotated[str, AfterValidator(_network)]
# Nothing that a shell or a switch could take for more than a name.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]{0,62}$")]
Budget = Annotated[int, Field(ge=0, le=1 << 20)]


class Switch(BaseModel, extra="forbid", frozen=True):
    """A switch as the operator calls it; leaves say the prefix of the NICs below them."""

    switch: Name
    prefix: Prefix = ""
    budget: Budget | None = None


class Nic(BaseModel, extra="forbid", frozen=True):
    """The NIC of a GPU: its address, and the port of its leaf that it is on."""

    gpu: int = Field(ge=0, lt=MOST_GPUS, examples=["0"])
    address: Address
    port: Name
    server: Name | None = None
    interface: Name | None = None


class End(BaseModel, extra="forbid", frozen=True):
    """One end of a cable."""

    interface: Name
    address: Address


class Cable(BaseModel, extra="forbid", frozen=True):
    """A cable by the names of its ends in certificates."""

    ends: tuple[Name, Name]
    lower: End
    upper: End | None = None


class InventoryFile(BaseModel, extra="forbid"):
    """An inventory as written in YAML or JSON."""

    fabric: str = Field(min_length=1, max_length=4096, examples=["vclos-512"])
    budget: Budget | None = None
    steering: Prefix = STEERING
    switches: dict[Name, Switch]
    nics: Annotated[list[Nic], FailFast()] = Field(max_length=MOST_GPUS)
    cables: Annotated[list[Cable], FailFast()] = Field(max_length=MOST_CABLES)


@dataclass(frozen=True)
class Inventory:
    """What is known of the hall, to be asked by the names of certificates; what is missing is refused by name."""

    where: str
    fabric: Fabric
    switches: dict[str, Switch]
    nics: dict[int, Nic]
    cables: dict[tuple[str, str], Cable]
    budget: int | None = None
    steering: str = STEERING

    def switch(self, name: str) -> Switch:
        """The switch that certificates call so."""
        return self._known(self.switches, name, f"switches has no {name}")

    def prefix(self, leaf: str) -> str:
        """The prefix of the NICs below a leaf."""
        prefix = self.switch(leaf).prefix
        if not prefix:
            raise BadInput(f"{self.where}: switches.{leaf} has no prefix, such as prefix: 10.64.0.0/24")
        return prefix

    def nic(self, gpu: int) -> Nic:
        """The NIC of a GPU."""
        return self._known(self.nics, gpu, f"nics has no gpu: {gpu}")

    def lower(self, low: str, high: str) -> End:
        """The lower end of a cable."""
        return self._known(self.cables, (low, high), f"cables has none with ends: [{low}, {high}]").lower

    def upper(self, low: str, high: str) -> End:
        """The upper end of a cable."""
        end = self._known(self.cables, (low, high), f"cables has none with ends: [{low}, {high}]").upper
        if end is None:
            raise BadInput(f"{self.where}: the cable [{low}, {high}] has no upper end")
        return end

    def _known(self, table: dict[Any, Any], key: Any, missing: str) -> Any:
        if key not in table:
            raise BadInput(f"{self.where}: {missing}, which the certificate needs")
        return table[key]


def inventory_of(where: str, fabric: Fabric, file: InventoryFile) -> Inventory:
    """Return the inventory that a file describes; BadInput, with the file, if an entry is there twice."""
    _once(where, "switches", [one.switch for one in file.switches.values()])
    _once(where, "nics: gpu", [one.gpu for one in file.nics])
    _once(where, "cables: ends", [one.ends for one in file.cables])
    ends = [end for one in file.cables for end in (one.lower, one.upper) if end]
    _once(where, "address", [one.address for one in file.nics] + [one.address for one in ends])
    by_switch = [(one.ends[0], one.lower.interface) for one in file.cables]
    by_switch += [(_switch_of(one.ends[1]), one.upper.interface) for one in file.cables if one.upper]
    nics = {one.gpu: one for one in file.nics}
    outside = [gpu for gpu in nics if gpu >= fabric.gpus]
    if outside:
        raise BadInput(f"{where}: nics: gpu {outside[0]}: the fabric {fabric.name} has GPUs 0 to {fabric.gpus - 1}")
    leaf_of = {gpu: fabric.leaf_name(int(fabric.leaf_of_gpu[gpu])) for gpu in nics}
    by_switch += [(leaf_of[gpu], nic.port) for gpu, nic in nics.items()]
    _once(where, "interface", [(_switch_of(name), port) for name, port in by_switch])
    inventory = Inventory(
        where, fabric, file.switches, nics, {one.ends: one for one in file.cables}, file.budget, file.steering
    )
    _check_prefixes(inventory, leaf_of)
    return inventory


def _switch_of(end: str) -> str:
    """The switch that a cable's end is on: `spine2` of `spine2.1` (a parallel link or a fibre), `agg0.2` of `agg0.2.1`."""
    parts = end.split(".")
    return end if end.startswith("leaf") else ".".join(parts[: 2 if end.startswith(("agg", "core")) else 1])


def _once(where: str, what: str, values: list[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
            raise BadInput(f"{where}: {what} {shown} is there twice: keep one")
        seen.add(value)


def _check_prefixes(inventory: Inventory, leaf_of: dict[int, str]) -> None:
    """NICs are inside the prefix of their leaf, and prefixes do not overlap."""
    networks = {name: IPv4Network(one.prefix) for name, one in inventory.switches.items() if one.prefix}
    in_order = sorted(networks.items(), key=lambda pair: pair[1])
    for (one, low), (other, high) in pairwise(in_order):
        if low.overlaps(high):
            raise BadInput(f"{inventory.where}: switches.{other}.prefix {high} overlaps {low} of {one}")
    for gpu, nic in inventory.nics.items():
        network = networks.get(leaf_of[gpu])
        if network and IPv4Address(nic.address) not in network:
            what = f"gpu {gpu} has address {nic.address}, outside {network} of {leaf_of[gpu]}"
            raise BadInput(f"{inventory.where}: nics: {what}")
