"""Policies as NVUE commands of Cumulus Linux 5 (NVIDIA's documentation, Policy-based Routing and Static Routing).

A switch takes at most 255 match rules and 256 next hop groups, one policy per interface, and next hops as groups
only. The commands describe a state: setting it again changes nothing. A rule whose group cannot be reached is not
installed, so the spare is the same match one rule later.
"""

from headway.network.routes.policies import Device
from headway.network.routes.tables import Hop, Way

COMMENT = "#"
BUDGET = 255
NEEDS = "Cumulus Linux 5 (5.15 on: `router pbr state enabled`); the first policy on a switch restarts FRR"


def rules(device: Device, *, spares: bool) -> int:
    """Rules that a device gets."""
    return device.sequences(spares=spares)


def apply(device: Device, *, spares: bool) -> list[str]:
    """`nv set` for groups, maps, interfaces and static routes, then apply."""
    lines = [
        f"nv set vrf default router static {route}" for way in device.plain for route in _static(way, spares=spares)
    ]
    if device.policies:
        lines.append("nv set router pbr enable on")
    lines += [
        f"nv set router nexthop group {_group(device, hop)} via {hop.via} interface {hop.interface}"
        for hop in _hops(device, spares=spares)
    ]
    for policy in device.policies:
        for number, match, hop in policy.sequences(spares=spares):
            rule = f"nv set router pbr map {policy.name} rule {number}"
            lines += [f"{rule} match source-ip {match.source}"] if match.source else []
            lines += [f"{rule} match destination-ip {match.target}"] if match.target else []
            lines.append(f"{rule} action nexthop-group {_group(device, hop)}" if hop else f"{rule} action vrf default")
        lines += [f"nv set interface {interface} router pbr map {policy.name}" for interface in policy.interfaces]
    return [*lines, "nv config apply -y"]


def undo(device: Device) -> list[str]:
    """`nv unset` of the same, users before what they use."""
    lines = []
    for policy in device.policies:
        lines += [f"nv unset interface {interface} router pbr map {policy.name}" for interface in policy.interfaces]
        lines.append(f"nv unset router pbr map {policy.name}")
    lines += [f"nv unset router nexthop group {_group(device, hop)}" for hop in _hops(device, spares=True)]
    lines += [f"nv unset vrf default router static {way.target}" for way in device.plain]
    return [*lines, "nv config apply -y"]


def _hops(device: Device, *, spares: bool) -> list[Hop]:
    """Every way out of the policies, once."""
    every = (hop for policy in device.policies for _, _, hop in policy.sequences(spares=spares) if hop)
    return list(dict.fromkeys(every))


def _group(device: Device, hop: Hop) -> str:
    return f"{device.label}-p{hop.port}"


def _static(way: Way, *, spares: bool) -> list[str]:
    found = [f"{way.target} via {way.hop.via}"]
    return [*found, f"{way.target} distance 2 via {way.spare.via}"] if way.spare and spares else found
