"""An inventory for a fabric that has none yet: one plan of names and addresses, to start from and to edit.

NIC p of leaf a is 10.64.0.0/10 + 256 a + p + 1 (a /24 for each leaf) on port nic<p>; uplink u of leaf a is up<u>,
with the /31 at 100.64.0.0 + 2 (64 a + u), upper end first; cables to cores follow from 100.96.0.0 on, fibres of
spines below an OCS layer from 100.112.0.0 on.
"""

import json
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

from headway.errors import BadInput
from headway.network.fabric.model import Fabric
from headway.network.routes.inventory import Cable, End, Inventory, Nic, Switch

NIC_BASE = IPv4Address("10.64.0.0")
CABLE_BASE = IPv4Address("100.64.0.0")  # RFC 6598: not routed outside
CORE_BASE = IPv4Address("100.96.0.0")
FIBRE_BASE = IPv4Address("100.112.0.0")
MOST_LEAVES = 1 << 14  # /24s of 10.64.0.0/10, and 64 /31s each in 100.64.0.0/11
MOST_CORE_CABLES = 1 << 19  # /31s in 100.96.0.0/12


def planned(fabric: Fabric) -> Inventory:
    """The plan for a fabric, as an inventory."""
    core_cables = fabric.cables - fabric.leaves * fabric.uplinks
    if fabric.gpus_per_leaf > 254 or fabric.leaves > MOST_LEAVES or core_cables > MOST_CORE_CABLES:
        what = f"254 NICs per leaf, {MOST_LEAVES:,} leaves and {MOST_CORE_CABLES:,} cables to cores"
        raise BadInput(f"fabric {fabric.name} does not fit the plan of addresses ({what}): give an --inventory")
    leaf_of, position = fabric.leaf_of_gpu.tolist(), fabric.nic_of_gpu.tolist()
    nics = {gpu: _nic(fabric, gpu, leaf_of[gpu], position[gpu]) for gpu in range(fabric.gpus)}
    cables = {one.ends: one for one in _cables(fabric)}
    switches = {
        fabric.leaf_name(leaf): _made(Switch, switch=fabric.leaf_name(leaf), prefix=f"{NIC_BASE + 256 * leaf}/24")
        for leaf in range(fabric.leaves)
    }
    for name in _upper_switches(fabric):
        switches[name] = _made(Switch, switch=name, prefix="", budget=None)
    return Inventory(f"the plan for {fabric.name}", fabric, switches, nics, cables)


def as_json(inventory: Inventory, fabric: str) -> str:
    """The file that says the same; `fabric` is how it names the fabric. One line per entry, and YAML as well as JSON."""
    parts: list[str] = [f'{{\n"fabric": {json.dumps(fabric)},\n"switches": {{']
    parts.append(",\n".join(f" {json.dumps(name)}: {_line(one)}" for name, one in inventory.switches.items()))
    parts.append('},\n"nics": [')
    parts.append(",\n".join(f" {_line(one)}" for one in inventory.nics.values()))
    parts.append('],\n"cables": [')
    parts.append(",\n".join(f" {_line(one)}" for one in inventory.cables.values()))
    return "\n".join(parts) + "\n]\n}\n"


def _line(one: Switch | Nic | Cable) -> str:
    return json.dumps(
        {key: value for key, value in one.model_dump(mode="json", exclude_none=True).items() if value != ""}
    )


def _made(model: Any, **given: Any) -> Any:
    """An entry without checks: the plan is ours, and checking millions of addresses takes seconds."""
    return model.model_construct(**given)


def _nic(fabric: Fabric, gpu: int, leaf: int, position: int) -> Nic:
    server, rail = divmod(gpu, fabric.gpus_per_server)
    address = str(NIC_BASE + 256 * leaf + position + 1)
    made: Nic = _made(Nic, gpu=gpu, address=address, port=f"nic{position}", server=f"s{server}", interface=f"eth{rail}")
    return made


def _cables(fabric: Fabric) -> Iterator[Cable]:
    lanes = fabric.parallel_links
    for leaf in range(fabric.leaves):
        for uplink in range(fabric.uplinks):
            base = CABLE_BASE + 2 * (64 * leaf + uplink)
            lower = _made(End, interface=f"up{uplink}", address=str(base + 1))
            lane = f".{uplink % lanes}" if lanes > 1 else ""
            upper = None if fabric.ocs else _made(End, interface=f"down{leaf}{lane}", address=str(base))
            yield _made(Cable, ends=fabric.cable_name(fabric.leaf_cable(leaf, uplink)), lower=lower, upper=upper)
    first = fabric.leaves * fabric.uplinks
    for cable in range(first, fabric.cables):
        base, ends = CORE_BASE + 2 * (cable - first), fabric.cable_name(cable)
        lower = _made(End, interface=f"core{ends[1].split('.')[1]}", address=str(base + 1))
        upper = _made(End, interface=f"pod{ends[0].split('.')[0].removeprefix('agg')}", address=str(base))
        yield _made(Cable, ends=ends, lower=lower, upper=upper)
    if fabric.ocs:
        for fibre in range(fabric.spines * fabric.ocs.spine_fibres):
            spine, of_spine = divmod(fibre, fabric.ocs.spine_fibres)
            for ocs in range(fabric.ocs.switches):
                end = _made(End, interface=f"ocs{ocs}.{of_spine}", address=str(FIBRE_BASE + 64 * fibre + ocs))
                yield _made(Cable, ends=(f"spine{spine}.{of_spine}", f"ocs{ocs}"), lower=end, upper=None)


def _upper_switches(fabric: Fabric) -> Iterator[str]:
    if fabric.kind != "three-tier":
        yield from (f"spine{spine}" for spine in range(fabric.spines))
        return
    for pod in range(fabric.pods):
        yield from (f"agg{pod}.{spine}" for spine in range(fabric.spines))
    for group in range(fabric.uplinks):
        yield from (f"core{group}.{core}" for core in range(fabric.cores_per_group))
