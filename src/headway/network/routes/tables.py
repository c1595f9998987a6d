"""From a certificate to forwarding tables: what every switch on the job's way must do, in the operator's names.

A `RoutingTable` is a few ways out, and what is looked up in it: packets from some NICs, or packets that came in by some
ports. That is how Linux sees policy routing; other switches get the same as lists of matches (`policies`). Tables are
kept small:
- at a leaf one table per uplink, looked up for the NICs that use it, with one way out;
- at a spine one table per lane, link index or class of ranks, looked up for all ports of that kind together, with a
  way for each leaf (or for the NICs behind each of its links, as prefixes). A rule for every pair of port and
  receiver would say the same (3,072 rules for 80 GPUs);
- where a spine serves a single class, plain routes to the job's NICs are enough, and no policy is needed.

Every way out has a spare where the job holds another: traffic of a failed uplink moves to the job's next link, and
stays within the slice.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses
from itertools import count

from headway.errors import BadInput
from headway.network.certificates.certificate import Certificate, CrossConnect
from headway.network.routes.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Hop:
    """A way out of a switch: the interface, the address at its other end, and the number of the port among those of the switch."""

    interface: str
    via: str
    port: int


@dataclass(frozen=True, slots=True)
class Way:
    """What is sent to `target` (everything where it is empty) leaves by `hop`, or by `spare` while that link is down."""

    target: str
    hop: Hop
    spare: Hop | None = None


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """Ways out of a switch for packets from `sources`, or else in by `arrives`; without both, plain routes for everything.

    With sources, `arrives` has the port that each of them comes in by; `local` is left to normal routing.
    """

    device: str
    number: int
    ways: tuple[Way, ...]
    sources: tuple[str, ...] = ()
    arrives: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


def tables_of(certificate: Certificate, inventory: Inventory, failed: Sequence[str] = ()) -> list[RoutingTable]:
    """Every table of a slice, leaf by leaf, then the switches above; around the links that `failed`, such as leaf0-spine3."""
    rule = certificate.routing["rule"]
    if rule == "none":
        return []
    job = _Job(certificate, inventory)
    job.failed = _failed_uplinks(certificate, failed)
    if rule == "direct":
        return list(_joined(job))
    above = _spines_below_ocs if job.fabric.ocs else _lanes
    return [*_leaves(job), *above(job), *(_aggregations(job) if "cores" in job.routing else ())]


def _failed_uplinks(certificate: Certificate, failed: Sequence[str]) -> set[tuple[str, int]]:
    """Links, or switches above them, by name as leaf and uplink; only indices that every leaf shares can stand in for one another."""
    fabric, found = certificate.fabric, set()
    leaves = {fabric.leaf_name(leaf): leaf for leaf in range(fabric.leaves if failed else 0)}
    for name in failed:
        hit = [link for link in certificate.links if name in ("-".join(link), link[1], link[1].split(".")[0])]
        if not hit:
            example = "-".join(certificate.links[0]) if certificate.links else "none"
            raise BadInput(f"--failed {name}: not a link of this slice, such as {example}")
        if certificate.routing["rule"] != "rank-mod" or fabric.kind == "three-tier":
            what = f"{fabric.kind}, routing {certificate.routing['rule']}"
            raise BadInput(f"--failed {name}: no way around is written for this slice ({what}): allocate it again")
        for leaf, upper in hit:
            names = [fabric.upper_name(leaves[leaf], uplink) for uplink in range(fabric.uplinks)]
            found.add((leaf, names.index(upper)))
    return found


class _Job:
    """The job of a certificate: where every rank is, and which links its leaves hold by index."""

    failed: set[tuple[str, int]]  # by leaf and uplink

    def __init__(self, certificate: Certificate, inventory: Inventory) -> None:
        self.fabric, self.routing, self.hall = certificate.fabric, certificate.routing, inventory
        self.order = certificate.rank_order
        self.leaf: list[int] = self.fabric.leaf_of_gpu[list(self.order)].tolist()
        self.nic = [inventory.nic(gpu) for gpu in self.order]
        self.host = [f"{nic.address}/32" for nic in self.nic]
        members: dict[int, Iterator[int]] = defaultdict(count)
        self.member = [next(members[leaf]) for leaf in self.leaf]
        self.leaves = sorted(members)
        # Link indices count ranks; on rails, servers in the order in which ranks reach them.
        servers: dict[int, int] = {}
        each = self.fabric.gpus_per_server
        by_server = [servers.setdefault(gpu // each, len(servers)) for gpu in self.order]
        self.index = by_server if self.fabric.kind == "rail" else list(range(len(self.order)))
        self.modulus: int = self.routing.get("modulus", 1)
        fibres = self.routing.get("fibres")
        self.ports: dict[int, list[int]] = {
            leaf: fibres.get(str(leaf), []) if fibres else self.routing["spines"] for leaf in self.leaves
        }
        self._circuits = {(one.leaf, one.ocs): one for one in certificate.circuits if one.spine >= 0}

    def name(self, leaf: int) -> str:
        return self.fabric.leaf_name(leaf)

    def prefix(self, leaf: int) -> str:
        return self.hall.prefix(self.name(leaf))

    def port(self, rank: int, sender: int) -> int:
        """The uplink of its leaf between a rank and the network, for what rank `sender` sends."""
        rule, ports, index = self.routing["rule"], self.ports[self.leaf[rank]], self.member[rank]
        if rule == "rank-mod":
            index = self.index[sender] % self.modulus
        if rule == "by-class":
            each, within = len(ports) // self.modulus, self.member[rank] // self.modulus
            index = sender % self.modulus * each + within if within < each else len(ports)
        if index >= len(ports):
            raise self.nowhere(rank)
        return ports[index]

    def nowhere(self, rank: int) -> BadInput:
        """A certificate may be sound for the patterns it promises, and still say no way for some pair of ranks."""
        return BadInput(
            f"no routes: the certificate gives rank {rank} no way to some others (it promises less than all pairs)"
        )

    def circuit(self, leaf: int, uplink: int) -> CrossConnect:
        """The circuit from a leaf to a spine."""
        if (leaf, uplink) not in self._circuits:
            raise self.nowhere(self.leaf.index(leaf))
        return self._circuits[leaf, uplink]

    def up(self, leaf: int, uplink: int) -> Hop:
        """Out of a leaf by an uplink, to whatever is at its other end."""
        low, high = self.fabric.cable_name(self.fabric.leaf_cable(leaf, uplink))
        interface = self.hall.lower(low, high).interface
        if not self.fabric.ocs:
            return Hop(interface, self.hall.upper(low, high).address, uplink)
        circuit = self.circuit(leaf, uplink)
        return Hop(interface, self.hall.lower(f"spine{circuit.spine}.{circuit.fibre}", high).address, uplink)

    def down(self, leaf: int, uplink: int) -> Hop:
        """Out of the switch above by a leaf's uplink, to that leaf."""
        low, high = self.fabric.cable_name(self.fabric.leaf_cable(leaf, uplink))
        via = self.hall.lower(low, high).address
        if not self.fabric.ocs:
            lanes = self.fabric.parallel_links
            return Hop(self.hall.upper(low, high).interface, via, leaf * lanes + uplink % lanes)
        circuit = self.circuit(leaf, uplink)
        port = circuit.ocs * self.fabric.ocs.spine_fibres + circuit.fibre
        return Hop(self.hall.lower(f"spine{circuit.spine}.{circuit.fibre}", high).interface, via, port)


def _next(hops: list[Hop], one: Hop) -> Hop | None:
    """The next of a job's ways out after one of them; None if it is the only one."""
    others = list(dict.fromkeys(hops))
    return others[(others.index(one) + 1) % len(others)] if len(others) > 1 else None


def _leaves(job: _Job) -> Iterator[RoutingTable]:
    """At a leaf: the NICs of an index leave by its uplink, whatever the receiver, unless a link on the way failed."""
    users: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, leaf in enumerate(job.leaf):
        users[leaf, job.port(rank, rank)].append(rank)
    for (leaf, uplink), ranks in sorted(users.items()):
        usual = Way("", *_around(job, leaf, uplink, leaf))
        ways = [usual]
        for other in job.leaves if job.failed else ():
            if (other - leaf) % job.fabric.rails == 0:  # a flow stays on its rail
                hop, spare = _around(job, leaf, uplink, other)
                ways[:0] = [Way(job.prefix(other), hop, spare)] if (hop, spare) != (usual.hop, usual.spare) else []
        sources, arrives = tuple(job.host[rank] for rank in ranks), tuple(job.nic[rank].port for rank in ranks)
        yield RoutingTable(job.name(leaf), uplink, tuple(ways), sources, arrives, (job.prefix(leaf),))


def _around(job: _Job, leaf: int, uplink: int, other: int) -> tuple[Hop, Hop | None]:
    """The first of a leaf's uplinks, from one of them on, whose index works there and at another leaf; and the one after it."""
    ports = job.ports[leaf]
    first = ports.index(uplink)
    turned = [(first + step) % len(ports) for step in range(len(ports))]
    working = [
        job.up(leaf, ports[index])
        for index in turned
        if (job.name(leaf), ports[index]) not in job.failed
        and (not job.failed or (job.name(other), job.ports[other][index]) not in job.failed)
    ]
    if not working:
        raise BadInput(
            f"no link of this slice is left between {job.name(leaf)} and {job.name(other)}: allocate it again"
        )
    return working[0], _next(working, working[0])


def _lanes(job: _Job) -> Iterator[RoutingTable]:
    """At a spine with parallel links: what came in on lane k leaves on lane k. With single links normal routing is enough."""
    lanes, fabric = job.fabric.parallel_links, job.fabric
    if lanes == 1:
        return
    if "cores" in job.routing:
        raise BadInput(f"fabric {fabric.name}: no routes are written for pods with parallel links to their leaves")
    for uplink in job.routing["spines"]:
        by_switch: dict[str, list[int]] = defaultdict(list)
        for leaf in job.leaves:
            by_switch[fabric.upper_name(leaf, uplink).rsplit(".", 1)[0]].append(leaf)
        others = [port for port in job.routing["spines"] if port // lanes == uplink // lanes]
        for switch, leaves in by_switch.items():
            ways = tuple(
                Way(job.prefix(leaf), job.down(leaf, uplink), _next([job.down(leaf, port) for port in others], job.down(leaf, uplink)))
                for leaf in leaves
            )  # fmt: skip
            arrives = tuple(job.down(leaf, uplink).interface for leaf in leaves)
            yield RoutingTable(switch, ways[0].hop.port, ways, arrives=arrives)


def _aggregations(job: _Job) -> Iterator[RoutingTable]:
    """Three tiers, at the aggregation switch: the core of rank r is floor(r / n) mod l, for everything outside the pod."""
    fabric = job.fabric
    users: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for rank, leaf in enumerate(job.leaf):
        index, turn = rank % job.modulus, rank // job.modulus % job.routing["core_modulus"]
        if index >= len(job.routing["cores"]) or turn >= len(job.routing["cores"][index]):
            raise job.nowhere(rank)
        core = job.routing["cores"][index][turn]
        users[fabric.leaf_pod[leaf], index, core].append(rank)
    for (pod, index, core), ranks in sorted(users.items()):
        agg = job.routing["spines"][index]
        hops = []
        for other in (core, *job.routing["cores"][index]):
            ends = fabric.cable_name(fabric.core_cable(pod, agg, other))
            port = fabric.leaves * fabric.parallel_links + other  # after the ports to the leaves
            hops.append(Hop(job.hall.lower(*ends).interface, job.hall.upper(*ends).address, port))
        inside = [leaf for leaf in job.leaves if fabric.leaf_pod[leaf] == pod]
        local, arrives = map(job.prefix, inside), (job.down(job.leaf[rank], agg).interface for rank in ranks)
        sources = tuple(job.host[rank] for rank in ranks)
        way = Way("", hops[0], _next(hops, hops[0]))
        yield RoutingTable(f"agg{pod}.{agg}", way.hop.port, (way,), sources, tuple(arrives), tuple(local))


def _spines_below_ocs(job: _Job) -> Iterator[RoutingTable]:
    """At a spine below optical switches: for every class of senders that it serves, the way down to every receiver."""
    classes = 1 if job.routing["rule"] == "by-member" else min(job.modulus, len(job.order))
    # By spine and class: the receivers behind every way down.
    behind: dict[int, dict[int, dict[tuple[int, int], list[int]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for sender in range(classes):
        for rank, leaf in enumerate(job.leaf):
            uplink = job.port(rank, sender)
            behind[job.circuit(leaf, uplink).spine][sender][leaf, uplink].append(rank)
    for spine, by_class in sorted(behind.items()):
        mine: dict[int, list[Hop]] = defaultdict(list)  # by leaf: all ways down of this job
        for uplinks in by_class.values():
            for leaf, uplink in uplinks:
                mine[leaf].append(job.down(leaf, uplink))
        for uplinks in by_class.values():
            alone = len(by_class) == 1
            ways = tuple(_ways_down(job, uplinks, mine, whole_leaves=not alone))
            arrives = tuple(job.down(leaf, uplink).interface for leaf, uplink in sorted(uplinks))
            yield RoutingTable(
                f"spine{spine}", min(way.hop.port for way in ways), ways, arrives=() if alone else arrives
            )


def _ways_down(
    job: _Job, uplinks: dict[tuple[int, int], list[int]], mine: dict[int, list[Hop]], *, whole_leaves: bool
) -> Iterator[Way]:
    """Ways to the receivers behind every link, as few prefixes as say it.

    Where only the job's own packets are looked up, one link of every leaf takes the leaf's whole prefix, after the more specific ones.
    """
    by_leaf: dict[int, dict[int, list[str]]] = defaultdict(dict)
    for (leaf, uplink), ranks in uplinks.items():
        by_leaf[leaf][uplink] = _collapsed(job.host[rank] for rank in ranks)
    for leaf, links in sorted(by_leaf.items()):
        if whole_leaves:
            links[max(links, key=lambda uplink: (len(links[uplink]), uplink))] = [job.prefix(leaf)]
        for uplink, targets in sorted(links.items(), key=lambda pair: pair[1] == [job.prefix(leaf)]):
            hop = job.down(leaf, uplink)
            yield from (Way(target, hop, _next(mine[leaf], hop)) for target in targets)


def _collapsed(hosts: Iterable[str]) -> list[str]:
    return [str(one) for one in collapse_addresses(map(IPv4Network, hosts))]


def _joined(job: _Job) -> Iterator[RoutingTable]:
    """Two leaves joined: at the near leaf by sender, at the other by receiver."""
    near = job.routing["near"]
    other = next(leaf for leaf in job.leaves if leaf != near)

    def across(here: int, there: int, uplink: int) -> Hop:
        """Out of one leaf by a circuit to the other."""
        ends = [job.fabric.cable_name(job.fabric.leaf_cable(leaf, uplink)) for leaf in (here, there)]
        return Hop(job.hall.lower(*ends[0]).interface, job.hall.lower(*ends[1]).address, uplink)

    hops = {leaf: [across(leaf, near + other - leaf, port) for port in job.ports[leaf]] for leaf in (near, other)}
    back = []
    for rank, leaf in enumerate(job.leaf):
        if leaf == near:
            uplink = job.port(rank, rank)
            if uplink not in job.ports[other]:
                raise job.nowhere(rank)
            out, home = across(near, other, uplink), across(other, near, uplink)
            way = Way(job.prefix(other), out, _next(hops[near], out))
            yield RoutingTable(job.name(near), uplink, (way,), (job.host[rank],), (job.nic[rank].port,))
            back.append(Way(job.host[rank], home, _next(hops[other], home)))
    yield RoutingTable(job.name(other), min(job.ports[other]), tuple(back))
