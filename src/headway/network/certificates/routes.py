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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, permutations
from typing import Any

from headway.errors import BadInput, unknown
from headway.network.certificates.certificate import Certificate

NIC_BASE = ipaddress.IPv4Address("10.64.0.0")
CABLE_BASE = ipaddress.IPv4Address("100.64.0.0")  # RFC 6598: not routed outside
CORE_BASE = ipaddress.IPv4Address("100.96.0.0")
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
    return str(NIC_BASE + 256 * leaf + position + 1)


def leaf_net(leaf: int) -> str:
    """The /24 of a leaf's NICs."""
    return f"{NIC_BASE + 256 * leaf}/24"


def upper_address(leaf: int, uplink: int) -> str:
    """The upper end of a leaf's uplink."""
    return str(CABLE_BASE + 2 * (64 * leaf + uplink))


def lower_address(leaf: int, uplink: int) -> str:
    """The leaf's end of its uplink."""
    return str(CABLE_BASE + 2 * (64 * leaf + uplink) + 1)


class _Job:
    """The job of a certificate: where every rank is, and which links its leaves hold."""

    def __init__(self, certificate: Certificate) -> None:
        self.fabric, self.routing = certificate.fabric, certificate.routing
        if self.fabric.gpus_per_leaf > 254:
            raise BadInput(f"{self.fabric.gpus_per_leaf} NICs on a leaf do not fit the /24 of the address plan")
        order = list(certificate.rank_order)
        self.leaf: list[int] = self.fabric.leaf_of_gpu[order].tolist()
        nics = self.fabric.nic_of_gpu[order].tolist()
        self.host = [f"{nic_address(leaf, nic)}/32" for leaf, nic in zip(self.leaf, nics, strict=True)]
        members: dict[int, Iterator[int]] = defaultdict(count)
        self.member = [next(members[leaf]) for leaf in self.leaf]
        self.leaves = sorted(members)
        self.rule, self.modulus = self.routing["rule"], self.routing.get("modulus", 1)
        fibres = self.routing.get("fibres")
        self.ports: dict[int, list[int]] = {
            leaf: fibres[str(leaf)] if fibres else self.routing["spines"] for leaf in self.leaves
        }
        # By leaf and OCS: the spine that the circuit ends on, its port, and the address at the other end.
        self.spine_end = {
            (one.leaf, one.ocs): (f"spine{one.spine}", f"ocs{one.ocs}.{one.fibre}", lower_address(one.leaf, one.ocs))
            for one in certificate.circuits
        }

    def port(self, leaf: int, rank: int, sender: int) -> int:
        """The uplink of a leaf between it and its member `rank`, for what rank `sender` sends."""
        ports = self.ports[leaf]
        if self.rule == "rank-mod":
            return ports[sender // self.fabric.rails % self.modulus]
        if self.rule == "by-class":
            each = len(ports) // self.modulus
            return ports[sender % self.modulus * each + self.member[rank] // self.modulus]
        return ports[self.member[rank]]


def rules_of(certificate: Certificate) -> list[Rule]:
    """Every policy route of a slice, leaf by leaf, then the switches above."""
    if certificate.routing["rule"] == "none":
        return []
    job = _Job(certificate)
    if job.rule == "direct":
        return list(_direct(job))
    above = (_ocs_spine_rules,) if job.fabric.ocs else (_lane_rules, _aggregation_rules)
    return [rule for part in (_up_rules, *above) for rule in part(job)]


def _up_rules(job: _Job) -> Iterator[Rule]:
    """At the leaf: rank r leaves by the link of its index."""
    for rank, leaf in enumerate(job.leaf):
        port = job.port(leaf, rank, rank)
        yield Rule(job.fabric.leaf_name(leaf), f"up{port}", upper_address(leaf, port), source=job.host[rank])


def _lane_rules(job: _Job) -> Iterator[Rule]:
    """At a spine with parallel links: what came in on lane k leaves on lane k. With single links routing is enough."""
    lanes = job.fabric.parallel_links
    for uplink in job.routing["spines"] if lanes > 1 else ():
        name = job.fabric.upper_name(job.leaves[0], uplink).rsplit(".", 1)[0]
        for here, there in permutations(job.leaves, 2):
            if (here - there) % job.fabric.rails == 0:  # a flow stays on its rail
                out, came = f"down{there}.{uplink % lanes}", f"down{here}.{uplink % lanes}"
                yield Rule(name, out, lower_address(there, uplink), incoming=came, target=leaf_net(there))


def _aggregation_rules(job: _Job) -> Iterator[Rule]:
    """Three tiers, at the aggregation switch: the core of rank r is floor(r / n) mod l, towards other pods."""
    fabric = job.fabric
    for rank, leaf in enumerate(job.leaf if "cores" in job.routing else ()):
        index, pod = rank % job.modulus, fabric.leaf_pod[leaf]
        core = job.routing["cores"][index][rank // job.modulus % job.routing["core_modulus"]]
        agg = job.routing["spines"][index]
        via = str(CORE_BASE + 2 * (fabric.core_cable(pod, agg, core) - fabric.leaves * fabric.uplinks))
        for there in job.leaves:
            if fabric.leaf_pod[there] != pod:
                yield Rule(f"agg{pod}.{agg}", f"core{core}", via, source=job.host[rank], target=leaf_net(there))


def _ocs_spine_rules(job: _Job) -> Iterator[Rule]:
    """At a spine below optical switches: by member, a host route to each NIC; by rank, in on link i and out on link i.

    By class: in on a link of a class, and out on the link of that class that the receiver's position gives.
    """
    if job.rule == "by-member":
        for rank, leaf in enumerate(job.leaf):
            yield Rule(*job.spine_end[leaf, job.port(leaf, rank, rank)], target=job.host[rank])
    elif job.rule == "rank-mod":
        for index in range(job.modulus):
            for here, there in permutations(job.leaves, 2):
                _, came, _ = job.spine_end[here, job.ports[here][index]]
                out = job.spine_end[there, job.ports[there][index]]
                yield Rule(*out, incoming=came, target=leaf_net(there))
    else:
        for here, ports in job.ports.items():
            for at, port in enumerate(ports):
                _, came, _ = job.spine_end[here, port]
                sender = at // (len(ports) // job.modulus)
                for rank, there in enumerate(job.leaf):
                    if there != here:
                        out = job.spine_end[there, job.port(there, rank, sender)]
                        yield Rule(*out, incoming=came, target=job.host[rank])


def _direct(job: _Job) -> Iterator[Rule]:
    """Two leaves joined: at the near leaf by sender, at the other by receiver."""
    near, name = job.routing["near"], job.fabric.leaf_name
    other = next(leaf for leaf in job.leaves if leaf != near)
    for rank, leaf in enumerate(job.leaf):
        if leaf == near:
            port, host = job.port(near, rank, rank), job.host[rank]
            yield Rule(name(near), f"up{port}", lower_address(other, port), source=host, target=leaf_net(other))
            yield Rule(name(other), f"up{port}", lower_address(near, port), target=host)


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
    held = f"{len(certificate.links)} cables held"
    head = [f"{mark} {len(certificate.rank_order)} GPUs on {certificate.fabric.name}: {held}"]
    if not rules:
        head.append(f"{mark} the job stays below one leaf: no routes are needed")
    head += [f"{mark} cross-connect {switch}: {one} <-> {other}" for switch, one, other in crossings]
    by_switch: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_switch[rule.switch].append(rule)
    for switch, its_rules in by_switch.items():
        head += ["", f"{mark} on {switch}"]
        head += _linux(its_rules) if form == "linux" else _frr(name, its_rules)
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
        routes = [f"ip route replace {rule.target or 'default'} {way} table {table}"]
        if rule.source and not rule.target:
            routes.insert(0, f"ip route replace throw {_leaf_net_of(rule)} table {table}")
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
