"""A slice as switch configuration: the policy routes that enforce a certificate, as text to review and apply.

Every switch that the job crosses gets rules "traffic from this NIC (or in by this port) leaves by that port". Three
forms: `linux` (ip rule and ip route, as network namespaces or Linux-based switches take them), `frr` (policy maps of
FRRouting) and `json`. Optical cross-connects are listed with them. Addresses follow one plan, since a certificate
names GPUs and cables only: NIC p of leaf a is 10.64.0.0/10 + 256 a + p + 1 (a /24 for each leaf), the cable of uplink
u of leaf a is the /31 at 100.64.0.0 + 2 (64 a + u), upper end first; cables to cores follow from 100.96.0.0 on.
"""

import ipaddress
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from headway.errors import BadInput, unknown
from headway.network.certificates.certificate import Certificate

NIC_BASE = int(ipaddress.IPv4Address("10.64.0.0"))
CABLE_BASE = int(ipaddress.IPv4Address("100.64.0.0"))  # RFC 6598: not routed outside
CORE_BASE = int(ipaddress.IPv4Address("100.96.0.0"))
FIRST_TABLE = 1000  # above the tables Linux itself uses
FORMATS = ("linux", "frr", "json")


@dataclass(frozen=True, slots=True)
class Rule:
    """On `switch`: what comes from `source` (or in by `incoming`) to `target` leaves by `port` towards `via`."""

    switch: str
    port: str
    via: str
    source: str = ""
    incoming: str = ""
    target: str = ""


def nic_address(leaf: int, position: int) -> str:
    """The address of NIC `position` on a leaf."""
    return str(ipaddress.IPv4Address(NIC_BASE + 256 * leaf + position + 1))


def leaf_net(leaf: int) -> str:
    """The /24 of a leaf's NICs."""
    return f"{ipaddress.IPv4Address(NIC_BASE + 256 * leaf)}/24"


def upper_address(leaf: int, uplink: int) -> str:
    """The upper end of a leaf's uplink."""
    return str(ipaddress.IPv4Address(CABLE_BASE + 2 * (64 * leaf + uplink)))


def lower_address(leaf: int, uplink: int) -> str:
    """The leaf's end of its uplink."""
    return str(ipaddress.IPv4Address(CABLE_BASE + 2 * (64 * leaf + uplink) + 1))


def core_address(cable: int) -> str:
    """The core's end of an aggregation switch's cable, counted from the first such cable."""
    return str(ipaddress.IPv4Address(CORE_BASE + 2 * cable))


class _Places:
    """Where every rank of a certificate is."""

    def __init__(self, certificate: Certificate) -> None:
        fabric = certificate.fabric
        if fabric.gpus_per_leaf > 254:
            raise BadInput(f"{fabric.gpus_per_leaf} NICs on a leaf do not fit the /24 of the address plan")
        self.leaf = fabric.leaf_of_gpu[list(certificate.rank_order)]
        nic = fabric.nic_of_gpu
        self.address = [
            nic_address(int(leaf), int(nic[gpu])) for leaf, gpu in zip(self.leaf, certificate.rank_order, strict=True)
        ]
        member: dict[int, int] = defaultdict(int)
        self.member = []
        for leaf in self.leaf:
            self.member.append(member[int(leaf)])
            member[int(leaf)] += 1
        self.leaves = sorted({int(leaf) for leaf in self.leaf})
        unit = fabric.gpus_per_server if fabric.kind == "rail" else 1
        self.index = [rank // unit for rank in range(len(certificate.rank_order))]


def rules_of(certificate: Certificate) -> list[Rule]:
    """Every policy route of a slice, leaf by leaf, then the switches above."""
    rule = certificate.routing["rule"]
    if rule == "none":
        return []
    places = _Places(certificate)
    if rule == "direct":
        return _direct(certificate, places)
    leaf_rules = _up_rules(certificate, places)
    if certificate.fabric.ocs:
        return leaf_rules + _ocs_spine_rules(certificate, places)
    return leaf_rules + _lane_rules(certificate, places) + _aggregation_rules(certificate, places)


def _ports(certificate: Certificate, leaf: int) -> list[int]:
    fibres = certificate.routing.get("fibres")
    return list(fibres[str(leaf)] if fibres else certificate.routing["spines"])


def _up_rules(certificate: Certificate, places: _Places) -> list[Rule]:
    """At the leaf: rank r leaves by the link of its index."""
    rules = []
    for rank, leaf in enumerate(places.leaf):
        ports = _ports(certificate, int(leaf))
        port = ports[_up_index(certificate, places, rank, len(ports))]
        rules.append(
            Rule(
                switch=certificate.fabric.leaf_name(int(leaf)),
                port=f"up{port}",
                via=upper_address(int(leaf), port),
                source=f"{places.address[rank]}/32",
            )
        )
    return rules


def _up_index(certificate: Certificate, places: _Places, rank: int, held: int) -> int:
    """Which of the `held` links of its leaf a rank leaves by."""
    rule, modulus = certificate.routing["rule"], certificate.routing.get("modulus", 1)
    if rule == "by-member":
        return places.member[rank]
    if rule == "by-class":
        return rank % modulus * (held // modulus) + places.member[rank] // modulus
    return places.index[rank] % modulus


def _lane_rules(certificate: Certificate, places: _Places) -> list[Rule]:
    """At a spine with parallel links: what came in on lane k leaves on lane k. With single links routing is enough."""
    fabric = certificate.fabric
    if fabric.parallel_links == 1:
        return []
    rules = []
    for spine in certificate.routing["spines"]:
        name = fabric.upper_name(places.leaves[0], spine).rsplit(".", 1)[0]
        lane = spine % fabric.parallel_links
        rails = fabric.gpus_per_server if fabric.kind == "rail" else 1  # a flow stays on its rail
        rules += [
            Rule(name, f"down{there}.{lane}", lower_address(there, spine), incoming=f"down{here}.{lane}", target=leaf_net(there))
            for here in places.leaves
            for there in places.leaves
            if here != there and (here - there) % rails == 0
        ]  # fmt: skip
    return rules


def _aggregation_rules(certificate: Certificate, places: _Places) -> list[Rule]:
    """Three tiers, at the aggregation switch: the core of rank r is floor(r / n) mod l, towards other pods."""
    fabric, routing = certificate.fabric, certificate.routing
    if "cores" not in routing:
        return []
    rules = []
    for rank, leaf in enumerate(places.leaf):
        index = rank % routing["modulus"]
        core = routing["cores"][index][rank // routing["modulus"] % routing["core_modulus"]]
        pod = fabric.leaf_pod[int(leaf)]
        switch = f"agg{pod}.{routing['spines'][index]}"
        cable = fabric.core_cable(pod, routing["spines"][index], core) - fabric.leaves * fabric.uplinks
        via, source = core_address(cable), f"{places.address[rank]}/32"
        rules += [
            Rule(switch, f"core{core}", via, source=source, target=leaf_net(there))
            for there in places.leaves
            if fabric.leaf_pod[there] != pod
        ]
    return rules


def _ocs_spine_rules(certificate: Certificate, places: _Places) -> list[Rule]:
    """At a spine below optical switches: by member, a host route to each NIC; by rank, in on link i and out on link i."""
    spine_of = {(one.leaf, one.ocs): (one.spine, one.fibre) for one in certificate.circuits}
    rules = []
    if certificate.routing["rule"] == "by-member":
        for rank, leaf in enumerate(places.leaf):
            port = _ports(certificate, int(leaf))[places.member[rank]]
            spine, fibre = spine_of[int(leaf), port]
            via = lower_address(int(leaf), port)
            rules.append(Rule(f"spine{spine}", f"ocs{port}.{fibre}", via, target=f"{places.address[rank]}/32"))
        return rules
    if certificate.routing["rule"] == "by-class":
        return _class_rules(certificate, places, spine_of)
    for index in range(certificate.routing["modulus"]):
        for here in places.leaves:
            spine, fibre = spine_of[here, _ports(certificate, here)[index]]
            incoming = f"ocs{_ports(certificate, here)[index]}.{fibre}"
            for there in places.leaves:
                if here == there:
                    continue
                port = _ports(certificate, there)[index]
                out = f"ocs{port}.{spine_of[there, port][1]}"
                via = lower_address(there, port)
                rules.append(Rule(f"spine{spine}", out, via, incoming=incoming, target=leaf_net(there)))
    return rules


def _class_rules(
    certificate: Certificate, places: _Places, spine_of: dict[tuple[int, int], tuple[int, int]]
) -> list[Rule]:
    """In on a link of a class and out on the link of that class that the receiver's position gives."""
    classes = certificate.routing["modulus"]
    rules = []
    for here in places.leaves:
        for at, come in enumerate(_ports(certificate, here)):
            spine, fibre = spine_of[here, come]
            one = at // (len(_ports(certificate, here)) // classes)
            for rank, leaf in enumerate(places.leaf):
                there = int(leaf)
                if there == here:
                    continue
                held = _ports(certificate, there)
                port = held[one * (len(held) // classes) + places.member[rank] // classes]
                out, via = f"ocs{port}.{spine_of[there, port][1]}", lower_address(there, port)
                target = f"{places.address[rank]}/32"
                rules.append(Rule(f"spine{spine}", out, via, incoming=f"ocs{come}.{fibre}", target=target))
    return rules


def _direct(certificate: Certificate, places: _Places) -> list[Rule]:
    """Two leaves joined: at the near leaf by sender, at the other by receiver."""
    near = certificate.routing["near"]
    other = next(leaf for leaf in places.leaves if leaf != near)
    name = certificate.fabric.leaf_name
    rules = []
    for rank, leaf in enumerate(places.leaf):
        if leaf != near:
            continue
        port = _ports(certificate, near)[places.member[rank]]
        address = f"{places.address[rank]}/32"
        rules.append(Rule(name(near), f"up{port}", lower_address(other, port), source=address, target=leaf_net(other)))
        rules.append(Rule(name(other), f"up{port}", lower_address(near, port), target=address))
    return rules


def cross_connects(certificate: Certificate) -> list[tuple[str, str, str]]:
    """What every optical switch joins: (switch, one end, other end)."""
    return [
        (f"ocs{one.ocs}", f"leaf{one.leaf}", f"leaf{one.other_leaf}" if one.other_leaf >= 0 else f"spine{one.spine}.{one.fibre}")
        for one in sorted(certificate.circuits, key=lambda one: (one.ocs, one.leaf))
    ]  # fmt: skip


def render(certificate: Certificate, form: str) -> str:
    """The routes of a certificate as text."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    rules, crossings = rules_of(certificate), cross_connects(certificate)
    if form == "json":
        content: dict[str, Any] = {
            "fabric": certificate.fabric.name,
            "rules": [{key: value for key, value in asdict(rule).items() if value} for rule in rules],
            "cross_connects": [{"switch": switch, "ends": [one, other]} for switch, one, other in crossings],
        }
        return json.dumps(content, indent=1) + "\n"
    mark = "#" if form == "linux" else "!"
    name = f"slice-{certificate.as_json()['digest'][7:13]}"
    head = [
        f"{mark} {len(certificate.rank_order)} GPUs on {certificate.fabric.name}: {len(certificate.links)} cables held"
    ]
    if not rules:
        head.append(f"{mark} the job stays below one leaf: no routes are needed")
    head += [f"{mark} cross-connect {switch}: {one} <-> {other}" for switch, one, other in crossings]
    by_switch: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_switch[rule.switch].append(rule)
    for switch, held in by_switch.items():
        head += ["", f"{mark} on {switch}"]
        head += _linux(held) if form == "linux" else _frr(name, held)
    return "\n".join(head) + "\n"


def _leaf_net_of(rule: Rule) -> str:
    """The /24 of the leaf that the sender is on: its neighbours are reached without going up."""
    return str(ipaddress.ip_network(rule.source).supernet(new_prefix=24))


def _table(port: str) -> int:
    """The routing table of a way out: a port belongs to one slice, so slices never share a table."""
    first, _, second = port.lstrip("abcdefghijklmnopqrstuvwxyz").partition(".")
    return FIRST_TABLE + 64 * int(first) + int(second or 0)


def _linux(rules: list[Rule]) -> list[str]:
    """`ip` commands for one switch; on a leaf, traffic to its NICs falls through to the main table."""
    lines: list[str] = []
    written: set[str] = set()
    for rule in rules:
        way = f"via {rule.via} dev {rule.port}"
        if not rule.source and not rule.incoming:
            lines.append(f"ip route replace {rule.target} {way}")
            continue
        table = _table(rule.port)
        routes = (
            [f"ip route replace throw {_leaf_net_of(rule)} table {table}"] if rule.source and not rule.target else []
        )
        routes.append(f"ip route replace {rule.target or 'default'} {way} table {table}")
        lines += [line for line in routes if line not in written]
        written.update(routes)
        match = f"from {rule.source}" if rule.source else f"iif {rule.incoming}"
        to = f" to {rule.target}" if rule.target else ""
        lines.append(f"ip rule add {match}{to} lookup {table} priority {table}")
    return lines


def _frr(name: str, rules: list[Rule]) -> list[str]:
    """FRRouting for one switch: policy maps, then the interfaces that the traffic comes in by."""
    lines: list[str] = []
    entries: dict[str, int] = defaultdict(int)
    interfaces: dict[str, str] = {}
    for rule in rules:
        if not rule.source and not rule.incoming:
            lines.append(f"ip route {rule.target} {rule.via} {rule.port}")
            continue
        policy = f"{name}-{rule.incoming}" if rule.incoming else name
        if not entries[policy] and rule.source and not rule.target:
            entries[policy] += 10
            lines += [f"pbr-map {policy} seq 10", f" match dst-ip {_leaf_net_of(rule)}", " set vrf unchanged", "exit"]
        entries[policy] += 10
        lines.append(f"pbr-map {policy} seq {entries[policy]}")
        lines += [f" match src-ip {rule.source}"] if rule.source else []
        lines += [f" match dst-ip {rule.target}"] if rule.target else []
        lines += [f" set nexthop {rule.via} {rule.port}", "exit"]
        # NIC p of a leaf is on its port nic<p>; above the leaves the policy goes on every port to a leaf.
        nic = int(rule.source.split("/")[0].rsplit(".", 1)[1]) - 1 if rule.source else 0
        interfaces[rule.incoming or (f"nic{nic}" if rule.switch.startswith("leaf") else "down*")] = policy
    for interface, policy in interfaces.items():
        lines += [f"interface {interface}", f" pbr-policy {policy}", "exit"]
    return lines
