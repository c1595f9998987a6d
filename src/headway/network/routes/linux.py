"""Tables as `ip` commands, for Linux-based switches and network namespaces.

Applying twice changes nothing the second time, and so does undoing twice: a rule that is there, or gone, already is
no error; anything else stops the script. A spare is the same route with a greater metric: the kernel takes it once
the link is down (on the loss of carrier, where net.ipv4.conf.all.ignore_routes_with_linkdown is 1). Links that come
back bring no routes back: apply again.
"""

from headway.errors import BadInput
from headway.network.routes.policies import Device
from headway.network.routes.tables import Hop, RoutingTable, Way

COMMENT = "#"
BUDGET = 4096  # the kernel walks the list of rules for every flow it has not seen; ours, not a limit of Linux
PRIORITY = 1000  # before the main table (32766)
FIRST_TABLE = 1000  # above the tables that Linux itself uses
LONGEST_INTERFACE = 15
NEEDS = "net.ipv4.ip_forward=1, rp_filter=0 or 2, net.ipv4.conf.all.ignore_routes_with_linkdown=1"

ADD = """rule() { said=$(ip rule add "$@" 2>&1) || case $said in *"File exists"*) ;; *) echo "$said" >&2; exit 1 ;; esac; }"""
GONE = 'gone() { said=$(ip "$@" 2>&1) || case $said in *"No such"* | *"does not exist"*) ;; *) echo "$said" >&2; exit 1 ;; esac; }'


def rules(device: Device, *, spares: bool) -> int:
    """Policy rules that a device gets; spares are routes and cost none."""
    return sum(len(_selectors(table)) for table in device.selected)


def apply(device: Device, *, spares: bool) -> list[str]:
    """Commands that put the tables in force: routes first, then what is looked up in them."""
    lines = ["set -e", ADD] if device.selected else ["set -e"]
    for way in device.plain:
        lines += [f"ip route replace {route}" for route in _routes(way, spares=spares)]
    for table in device.selected:
        number = FIRST_TABLE + table.number
        lines += [f"ip route replace throw {prefix} table {number}" for prefix in table.local]
        lines += [
            f"ip route replace {route} table {number}" for way in table.ways for route in _routes(way, spares=spares)
        ]
        lines += [f"rule {one} lookup {number} priority {PRIORITY}" for one in _selectors(table)]
    return lines


def undo(device: Device) -> list[str]:
    """Commands that take everything back: rules first, so that nothing is looked up in a table that is half gone."""
    lines = [GONE]
    for table in device.selected:
        number = FIRST_TABLE + table.number
        lines += [f"gone rule del {one} lookup {number} priority {PRIORITY}" for one in _selectors(table)]
        lines.append(f"gone route flush table {number}")
    for way in device.plain:
        lines += [f"gone route del {route}" for route in _routes(way, spares=True)]
    return lines


def check_interface(name: str) -> str:
    """An interface name that the kernel takes."""
    if len(name) > LONGEST_INTERFACE or "/" in name or ":" in name:
        most = f"at most {LONGEST_INTERFACE} characters, no / or :"
        raise BadInput(f"{name} is no interface of Linux ({most}): name another in the inventory, or another --format")
    return name


def _selectors(table: RoutingTable) -> list[str]:
    return [f"from {source}" for source in table.sources] or [f"iif {check_interface(port)}" for port in table.arrives]


def _routes(way: Way, *, spares: bool) -> list[str]:
    """The route, and its spare with a greater metric. Circuits join ports that share no subnet, so next hops are taken as given."""
    hops: list[tuple[int, Hop]] = [(1, way.hop)]
    if way.spare and spares:
        hops.append((2, way.spare))
    target = way.target or "default"
    return [
        f"{target} via {hop.via} dev {check_interface(hop.interface)} onlink metric {metric}" for metric, hop in hops
    ]
