"""Tables as lists of matches, for switches that take policies bound to interfaces: first match wins.

`Device` is one switch with everything that a slice puts on it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from headway.network.certificates.certificate import Certificate
from headway.network.routes.inventory import Inventory
from headway.network.routes.tables import Hop, Table, Way, tables_of


@dataclass(frozen=True, slots=True)
class Match:
    """Packets from `source` to `target` (any where empty) take `way`; without one they are routed as usual."""

    source: str
    target: str
    way: Way | None


@dataclass(frozen=True, slots=True)
class Policy:
    """Matches in order, bound to the interfaces that the packets come in by."""

    name: str
    interfaces: tuple[str, ...]
    matches: tuple[Match, ...]

    def sequences(self, *, spares: bool) -> Iterator[tuple[int, Match, Hop | None]]:
        """Numbered rules, the spare of a match right after it; a hop of None is normal routing."""
        for at, match in enumerate(self.matches, start=1):
            for later, hop in enumerate(hops_of(match.way, spares=spares)):
                yield 10 * at + later, match, hop


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
    tables: tuple[Table, ...]

    @property
    def plain(self) -> list[Way]:
        """Routes for everything."""
        return [way for table in self.tables if not table.sources and not table.arrives for way in table.ways]

    @property
    def selected(self) -> list[Table]:
        """Tables for some packets only."""
        return [table for table in self.tables if table.sources or table.arrives]

    @property
    def policies(self) -> list[Policy]:
        """The selected tables: those by source together, each of those by incoming port by itself."""
        by_source = [table for table in self.selected if table.sources]
        found = []
        if by_source:
            local = dict.fromkeys(prefix for table in by_source for prefix in table.local)
            matches = [Match("", prefix, None) for prefix in local]
            for table in by_source:
                matches += [Match(source, way.target, way) for source in table.sources for way in table.ways]
            interfaces = dict.fromkeys(port for table in by_source for port in table.arrives)
            found.append(Policy(self.label, tuple(interfaces), tuple(matches)))
        for table in self.selected:
            if not table.sources:
                matches = [Match("", way.target, way) for way in table.ways]
                found.append(Policy(f"{self.label}-{table.number}", table.arrives, tuple(matches)))
        return found

    def sequences(self, *, spares: bool) -> int:
        """Rules in all where the spare of a match is a rule of its own."""
        return sum(1 for policy in self.policies for _ in policy.sequences(spares=spares))


def devices_of(certificate: Certificate, inventory: Inventory, failed: Sequence[str] = ()) -> list[Device]:
    """Every switch that a slice needs something on; around the links that `failed`."""
    label = f"hw-{certificate.as_json()['digest'][7:15]}"
    order: dict[str, int] = {}
    tables = tables_of(certificate, inventory, failed)
    for table in tables:
        order.setdefault(table.device, len(order))
    tables.sort(key=lambda table: order[table.device])
    found = []
    for name, its in groupby(tables, key=lambda table: table.device):
        switch = inventory.switch(name)
        budget = switch.budget if switch.budget is not None else inventory.budget
        found.append(Device(name, switch.switch, budget, label, inventory.steering, tuple(its)))
    return found
