"""Tables as lists of matches, for switches that take policies bound to interfaces: first match wins.

`Device` is one switch with everything that a slice puts on it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from headway.network.certificates.certificate import Certificate
from headway.network.routes.inventory import Inventory
from headway.network.routes.tables import Hop, RoutingTable, Way, tables_of


@dataclass(frozen=True, slots=True)
class Match:
    """Packets from `source` to `target` (any where empty) take `way`; without one they are routed as usual."""

    source: str
    target: str
    way: Way | None


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """Matches in order, bound to the interfaces that the packets come in by."""

    name: str
    interfaces: tuple[str, ...]
    matches: tuple[Match, ...]

    def sequences(self, *, spares: bool) -> Iterator[tuple[int, Match, Hop | None]]:
        """Numbered rules, the spare of a match right after it; a hop of None is normal routing. FRR counts to 700."""
        for at, match in enumerate(self.matches, start=1):
            for later, hop in enumerate(hops_of(match.way, spares=spares)):
                yield 2 * at + later, match, hop


def hops_of(way: Way | None, *, spares: bool) -> list[Hop | None]:
    """The ways out in order of preference; None is normal routing."""
    return [way.hop, way.spare] if way and way.spare and spares else [way.hop if way else None]


@dataclass(frozen=True, slots=True)
class Device:
    """A switch: its name in certificates and in the hall, and the tables of one slice on it."""

    name: str
    switch: str
    budget: int | None
    label: str  # of the slice, in names of maps and lists
    steering: str
    tables: tuple[RoutingTable, ...]

    @property
    def plain(self) -> list[Way]:
        """Routes for everything."""
        return [way for table in self.tables if not table.sources and not table.arrives for way in table.ways]

    @property
    def selected(self) -> list[RoutingTable]:
        """Tables for some packets only."""
        return [table for table in self.tables if table.sources or table.arrives]

    @property
    def by_source(self) -> list[RoutingTable]:
        """Tables for packets from some NICs."""
        return [table for table in self.selected if table.sources]

    @property
    def by_port(self) -> list[RoutingTable]:
        """Tables for packets in by some ports."""
        return [table for table in self.selected if not table.sources]

    @property
    def shared(self) -> list[RoutingPolicy]:
        """Few policies, each bound to many ports: those by source together, each of those by incoming port by itself.

        For switches that keep the matches of a policy once, however many ports it is bound to.
        """
        matches = [self._match(table, source) for table in self.by_source for source in table.sources]
        ports = dict.fromkeys(port for table in self.by_source for port in table.arrives)
        own = [RoutingPolicy(self.label, tuple(ports), self._with_local(matches))] if matches else []
        return own + self.arriving

    @property
    def single(self) -> list[RoutingPolicy]:
        """For the tables by source one policy per port, with nothing but what comes in there.

        For switches that keep the matches of a policy once for every port.
        """
        ports: dict[str, list[list[Match]]] = {}
        for table in self.by_source:
            for source, port in zip(table.sources, table.arrives, strict=True):
                ports.setdefault(port, []).append(self._match(table, source))
        return [
            RoutingPolicy(f"{self.label}-s{at}", (port,), self._with_local(matches))
            for at, (port, matches) in enumerate(ports.items())
        ]

    @property
    def arriving(self) -> list[RoutingPolicy]:
        """A policy for each table by incoming port."""
        return [
            RoutingPolicy(
                f"{self.label}-{table.number}", table.arrives, tuple(Match("", way.target, way) for way in table.ways)
            )
            for table in self.by_port
        ]

    def _match(self, table: RoutingTable, source: str) -> list[Match]:
        return [Match(source, way.target, way) for way in table.ways]

    def _with_local(self, matches: list[list[Match]]) -> tuple[Match, ...]:
        """What stays below the switch first, then the matches."""
        local = dict.fromkeys(prefix for table in self.by_source for prefix in table.local)
        return (*(Match("", prefix, None) for prefix in local), *(match for some in matches for match in some))


def count_of(policies: Iterable[RoutingPolicy], *, spares: bool) -> int:
    """Rules in all where the spare of a match is a rule of its own, however many ports a policy is bound to."""
    return sum(1 for policy in policies for _ in policy.sequences(spares=spares))


def devices_of(certificate: Certificate, inventory: Inventory, failed: Sequence[str] = ()) -> list[Device]:
    """Every switch that a slice needs something on; around the links that `failed`."""
    label = f"hw-{certificate.as_json()['digest'][7:13]}"  # names of VRFs have at most 15 characters
    order: dict[str, int] = {}
    tables = tables_of(certificate, inventory, failed)
    for table in tables:
        order.setdefault(table.device, len(order))
    tables.sort(key=lambda table: order[table.device])
    devices = []
    for name, its in groupby(tables, key=lambda table: table.device):
        switch = inventory.switch(name)
        budget = switch.budget if switch.budget is not None else inventory.budget
        devices.append(Device(name, switch.switch, budget, label, inventory.steering, tuple(its)))
    return devices
