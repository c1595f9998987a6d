"""Policies as Arista EOS configuration: `policy-map type pbr`, committed as one session.

The session removes what it then writes, so committing it again is an empty change. EOS routes as usual when a next
hop is gone, so the spare is below the policy: next hops are recursive, through a steering address with two static
routes of different distance. Steering addresses are local to the switch, from the inventory's `steering` block, one
per way out and spare. The session has no name: EOS makes one up, so that an earlier session, committed or given up
half-way, is not taken up again.
"""

from ipaddress import IPv4Network

from headway.errors import BadInput
from headway.network.fabric.model import MOST_UPLINKS
from headway.network.routes.policies import Device, Match, RoutingPolicy
from headway.network.routes.tables import Hop, Way

COMMENT = "!"
BUDGET = 512  # ours: what a policy holds depends on the platform
NEEDS = "hardware that takes `policy-map type pbr` on these interfaces"
Pair = tuple[Hop, Hop | None]


def rules(device: Device, *, spares: bool) -> int:
    """Entries of access lists that a device gets; spares are static routes and cost none."""
    return sum(len(policy.matches) for policy in device.shared)


def apply(device: Device, *, spares: bool) -> list[str]:
    """One session: the old state out, the new state in."""
    steering = _steering(device)
    body = _removal(device)
    body += [
        f"ip route {route}" for way in device.plain for route in _static(way.target, way.hop, way.spare, spares=spares)
    ]
    for (hop, spare), address in steering.items():
        body += [f"ip route {route}" for route in _static(f"{address}/32", hop, spare, spares=spares)]
    for policy in device.shared:
        body += _policy(policy, steering)
    return _session(body)


def undo(device: Device) -> list[str]:
    """One session with the removals alone."""
    return _session(_removal(device))


def _session(body: list[str]) -> list[str]:
    return ["configure session", *body, "commit"]


def _removal(device: Device) -> list[str]:
    lines = []
    for policy in device.shared:
        for interface in policy.interfaces:
            lines += [f"interface {interface}", f"   no service-policy type pbr input {policy.name}", "exit"]
        lines.append(f"no policy-map type pbr {policy.name}")
        lines += [f"no class-map type pbr match-any {name}" for name in _classes(policy)]
        lines += [f"no ip access-list {name}" for name in _classes(policy)]
    lines += [
        f"no ip route {route}" for way in device.plain for route in _static(way.target, way.hop, way.spare, spares=True)
    ]
    for (hop, spare), address in _steering(device).items():
        lines += [f"no ip route {route}" for route in _static(f"{address}/32", hop, spare, spares=True)]
    return lines


def _steering(device: Device) -> dict[Pair, str]:
    """An address for every way out of the policies: by its port, which no other slice uses.

    Around failed links one uplink of a leaf can have several spares, by where packets go: each further one has an address after those of
    all uplinks.
    """
    ways = [match.way for policy in device.shared for match in policy.matches if match.way]
    block, ports = IPv4Network(device.steering), dict[Pair, int]()
    for hop, spare in dict.fromkeys((way.hop, way.spare) for way in ways):
        further = MOST_UPLINKS * (1 + hop.port) + (spare or hop).port
        ports[hop, spare] = further if hop.port in ports.values() else hop.port
    if max(ports.values(), default=0) >= block.num_addresses:
        raise BadInput(
            f"the steering block {block} is too small for {device.switch}: give a larger one in the inventory"
        )
    return {pair: str(block[port]) for pair, port in ports.items()}


def _classes(policy: RoutingPolicy) -> dict[str, list[Match]]:
    """Matches that take the same way, in order: one list and one class each."""
    classes: list[list[Match]] = []
    for match in policy.matches:
        if not classes or _pair(classes[-1][0].way) != _pair(match.way):
            classes.append([])
        classes[-1].append(match)
    return {f"{policy.name}-c{at}": matches for at, matches in enumerate(classes)}


def _pair(way: Way | None) -> Pair | None:
    return (way.hop, way.spare) if way else None


def _policy(policy: RoutingPolicy, steering: dict[Pair, str]) -> list[str]:
    lines: list[str] = []
    classes = _classes(policy)
    for name, matches in classes.items():
        lines.append(f"ip access-list {name}")
        for at, match in enumerate(matches, start=1):
            lines.append(f"   {10 * at} permit ip {match.source or 'any'} {match.target or 'any'}")
        lines += ["exit", f"class-map type pbr match-any {name}", f"   match ip access-group {name}", "exit"]
    lines.append(f"policy-map type pbr {policy.name}")
    for at, (name, matches) in enumerate(classes.items(), start=1):
        lines.append(f"   {10 * at} class {name}")
        pair = _pair(matches[0].way)
        lines += [f"      set nexthop recursive {steering[pair]}"] if pair else []
        lines.append("   exit")
    lines.append("exit")
    for interface in policy.interfaces:
        lines += [f"interface {interface}", f"   service-policy type pbr input {policy.name}", "exit"]
    return lines


def _static(target: str, hop: Hop, spare: Hop | None, *, spares: bool) -> list[str]:
    hops = [hop, *([spare] if spare and spares else [])]
    return [f"{target} {one.interface} {one.via} {distance}" for distance, one in enumerate(hops, start=1)]
