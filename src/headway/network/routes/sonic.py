"""Policies as SONiC configuration: ingress access lists that redirect, written into CONFIG_DB with `sonic-db-cli`.

Writing the same fields again changes nothing, and deleting what is gone is no error. The spare is a second rule of
lower priority with the same match; it takes over when SONiC withdraws the first, whose next hop is gone (releases
differ in how soon they do). `config save` makes the state survive a restart.
"""

from collections.abc import Iterator

from headway.network.routes.policies import Device, RoutingPolicy, count_of
from headway.network.routes.tables import Way

COMMENT = "#"
BUDGET = 512  # ours: what a table of type L3 holds depends on the switch
NEEDS = "ACL tables of type L3 at ingress (sonic-db-cli writes CONFIG_DB, `config save` keeps it)"
HIGHEST = 9999  # of the priorities that SONiC's own tools give


def rules(device: Device, *, spares: bool) -> int:
    """Rules that a device gets."""
    return count_of(device.shared, spares=spares)


def apply(device: Device, *, spares: bool) -> list[str]:
    """Static routes, tables with the ports they are bound to, and their rules."""
    lines = [_write(f"STATIC_ROUTE|default|{way.target}", _static(way, spares=spares)) for way in device.plain]
    for policy in device.shared:
        bound = {"type": "L3", "stage": "ingress", "policy_desc": policy.name, "ports@": ",".join(policy.interfaces)}
        lines.append(_write(f"ACL_TABLE|{policy.name}", bound))
        lines += [_write(key, fields) for key, fields in _rules(policy, spares=spares)]
    return lines


def undo(device: Device) -> list[str]:
    """Rules first, then their tables, then routes."""
    keys = []
    for policy in device.shared:
        keys += [key for key, _ in _rules(policy, spares=True)] + [f"ACL_TABLE|{policy.name}"]
    keys += [f"STATIC_ROUTE|default|{way.target}" for way in device.plain]
    return [f"sonic-db-cli CONFIG_DB DEL '{key}'" for key in keys]


def _rules(policy: RoutingPolicy, *, spares: bool) -> Iterator[tuple[str, dict[str, str]]]:
    for at, (number, match, hop) in enumerate(policy.sequences(spares=spares)):
        fields = {"PRIORITY": str(HIGHEST - at)}
        fields |= {"SRC_IP": match.source} if match.source else {}
        fields |= {"DST_IP": match.target} if match.target else {}
        fields["PACKET_ACTION"] = f"REDIRECT:{hop.via}@{hop.interface}" if hop else "FORWARD"
        yield f"ACL_RULE|{policy.name}|RULE_{number}", fields


def _static(way: Way, *, spares: bool) -> dict[str, str]:
    hops = [way.hop, *([way.spare] if way.spare and spares else [])]
    return {
        "nexthop": ",".join(hop.via for hop in hops),
        "ifname": ",".join(hop.interface for hop in hops),
        "distance": ",".join(str(distance) for distance, _ in enumerate(hops, start=1)),
    }


def _write(key: str, fields: dict[str, str]) -> str:
    said = " ".join(f"{field} '{value}'" for field, value in fields.items())
    return f"sonic-db-cli CONFIG_DB HSET '{key}' {said}"
