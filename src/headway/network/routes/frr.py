"""Policies as FRRouting configuration (pbrd), to be read by `vtysh -f`.

A sequence whose next hop cannot be reached is not installed, so the spare is the same match one sequence later.
Entering the same lines again changes nothing; undoing removes whole maps.
"""

from headway.errors import BadInput
from headway.network.routes.policies import Device, RoutingPolicy, count_of, hops_of
from headway.network.routes.tables import Way

COMMENT = "!"
BUDGET = 4096  # as on Linux, which installs the rules
NEEDS = "pbrd and staticd"
MOST_SEQUENCES = 700  # of one map


def rules(device: Device, *, spares: bool) -> int:
    """Rules that a device gets: each sequence of a map once for every interface that the map is for."""
    return sum(count_of([policy], spares=spares) * len(policy.interfaces) for policy in _policies(device))


def _policies(device: Device) -> list[RoutingPolicy]:
    return device.single + device.arriving


def apply(device: Device, *, spares: bool) -> list[str]:
    """Static routes, interfaces, and their maps, in this order: pbrd 8.4 installs `set vrf` only in a map that is in use."""
    lines = [f"ip route {route}" for way in device.plain for route in _static(way, spares=spares)]
    for policy in _policies(device):
        for interface in policy.interfaces:
            lines += [f"interface {interface}", f" pbr-policy {policy.name}", "exit"]
        lines += _map(policy, spares=spares)
    return lines


def undo(device: Device) -> list[str]:
    """Interfaces first, then maps and routes."""
    lines = []
    for policy in _policies(device):
        for interface in policy.interfaces:
            lines += [f"interface {interface}", f" no pbr-policy {policy.name}", "exit"]
        sequences = [number for number, _, _ in policy.sequences(spares=True)]
        lines += [f"no pbr-map {policy.name} seq {number}" for number in sequences]
    return lines + [f"no ip route {route}" for way in device.plain for route in _static(way, spares=True)]


def _map(policy: RoutingPolicy, *, spares: bool) -> list[str]:
    lines = []
    for number, match, hop in policy.sequences(spares=spares):
        if number > MOST_SEQUENCES:
            raise BadInput(f"does not fit: {policy.name} has more than the {MOST_SEQUENCES} sequences of an FRR map")
        lines.append(f"pbr-map {policy.name} seq {number}")
        lines += [f" match src-ip {match.source}"] if match.source else []
        lines += [f" match dst-ip {match.target}"] if match.target else []
        lines += [f" set nexthop {hop.via} {hop.interface}" if hop else " set vrf default", "exit"]
    return lines


def _static(way: Way, *, spares: bool) -> list[str]:
    hops = [hop for hop in hops_of(way, spares=spares) if hop]
    return [f"{way.target} {hop.via} {hop.interface} {distance}" for distance, hop in enumerate(hops, start=1)]
