"""Policies as NVUE commands of Cumulus Linux 5 (NVIDIA's documentation, Policy-based Routing and Static Routing).

A switch takes at most 255 match rules and 256 next hop groups, one policy per interface, and next hops as groups only. pbrd
makes a rule of every match for every interface that a map is for. So every NIC's port has a map of its own, and the ports of a
class share a VRF: one rule each, and routes in the VRF, which cost no rules. The commands describe a state: setting it again
changes nothing. A rule whose group cannot be reached is not installed, so the spare is the same match one rule later.
"""

from headway.network.routes.policies import Device, count_of
from headway.network.routes.tables import Hop, Way

COMMENT = "#"
BUDGET = 255
NEEDS = "Cumulus Linux 5 (5.15 on: `router pbr state enabled`); the first policy on a switch restarts FRR"


def rules(device: Device, *, spares: bool) -> int:
    """Match rules that a device gets: those of every NIC's own map, and one for every port of a class."""
    return count_of(device.single, spares=spares) + sum(len(table.arrives) for table in device.by_port)


def apply(device: Device, *, spares: bool) -> list[str]:
    """`nv set` for routes, groups, maps and interfaces, then apply."""
    lines = [
        f"nv set vrf default router static {route}" for way in device.plain for route in _static(way, spares=spares)
    ]
    lines += ["nv set router pbr enable on"] if device.selected else []
    lines += [
        f"nv set router nexthop group {_group(device, hop)} via {hop.via} interface {hop.interface}"
        for hop in _hops(device, spares=spares)
    ]
    for policy in device.single:
        for number, match, hop in policy.sequences(spares=spares):
            rule = f"nv set router pbr map {policy.name} rule {number}"
            lines += [f"{rule} match source-ip {match.source}"] if match.source else []
            lines += [f"{rule} match destination-ip {match.target}"] if match.target else []
            lines.append(f"{rule} action nexthop-group {_group(device, hop)}" if hop else f"{rule} action vrf default")
        lines += [f"nv set interface {interface} router pbr map {policy.name}" for interface in policy.interfaces]
    for policy in device.arriving:
        lines.append(f"nv set vrf {policy.name} table auto")
        ways = [match.way for match in policy.matches if match.way]
        routes = [route for way in ways for route in _static(way, spares=spares)]
        lines += [f"nv set vrf {policy.name} router static {route} vrf default" for route in routes]
        rule = f"nv set router pbr map {policy.name} rule 10"
        lines += [f"{rule} match source-ip 0.0.0.0/0", f"{rule} action vrf {policy.name}"]
        lines += [f"nv set interface {interface} router pbr map {policy.name}" for interface in policy.interfaces]
    return [*lines, "nv config apply -y"]


def undo(device: Device) -> list[str]:
    """`nv unset` of the same, users before what they use."""
    lines = []
    for policy in device.single + device.arriving:
        lines += [f"nv unset interface {interface} router pbr map {policy.name}" for interface in policy.interfaces]
        lines.append(f"nv unset router pbr map {policy.name}")
    lines += [f"nv unset vrf {policy.name}" for policy in device.arriving]
    lines += [f"nv unset router nexthop group {_group(device, hop)}" for hop in _hops(device, spares=True)]
    lines += [f"nv unset vrf default router static {way.target}" for way in device.plain]
    return [*lines, "nv config apply -y"]


def _hops(device: Device, *, spares: bool) -> list[Hop]:
    """Every way out of the maps of NICs, once."""
    every = (hop for policy in device.single for _, _, hop in policy.sequences(spares=spares) if hop)
    return list(dict.fromkeys(every))


def _group(device: Device, hop: Hop) -> str:
    return f"{device.label}-p{hop.port}"


def _static(way: Way, *, spares: bool) -> list[str]:
    routes = [f"{way.target} via {way.hop.via}"]
    return [*routes, f"{way.target} distance 2 via {way.spare.via}"] if way.spare and spares else routes
