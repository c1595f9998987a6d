"""The routes of a certificate as text to review and apply, with the count of policy rules on every switch.

If a switch does not take that many rules, this is an error before anything is written. If only the spares do not
fit, they are left out.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headway.errors import BadInput, unknown
from headway.network.certificates.certificate import Certificate
from headway.network.routes import eos, frr, linux, nvue, sonic
from headway.network.routes.inventory import Inventory
from headway.network.routes.policies import Device, devices_of
from headway.network.routes.tables import Way


class Format(Protocol):
    """What a kind of switch takes."""

    COMMENT: str
    BUDGET: int
    NEEDS: str

    def rules(self, device: Device, *, spares: bool) -> int:
        """Policy rules that a device gets."""

    def apply(self, device: Device, *, spares: bool) -> list[str]:
        """What puts a device's tables in force."""

    def undo(self, device: Device) -> list[str]:
        """What takes them back."""


FORMATS: dict[str, Format] = {"linux": linux, "sonic": sonic, "eos": eos, "nvue": nvue, "frr": frr}
CHOICES = (*FORMATS, "json")


def render(
    certificate: Certificate,
    inventory: Inventory,
    form: str,
    *,
    undo: bool = False,
    switch: str = "",
    budget: int | None = None,
    beside: Sequence[Certificate] = (),
    failed: Sequence[str] = (),
) -> str:
    """The routes of a certificate for all switches, or for one; `budget` replaces every switch's own.

    What the certificates `beside` it, which are in force, put on a switch is taken off its budget. Links that `failed` are avoided.
    """
    if form not in CHOICES:
        raise unknown("format", form, CHOICES)
    devices = _chosen(devices_of(certificate, inventory, failed), switch, inventory)
    others = [one for other in beside for one in devices_of(other, inventory)]
    if form == "json":
        return json.dumps(_plain(certificate, devices, _Budget(budget, others)), indent=1) + "\n"
    kind, room = FORMATS[form], _Budget(budget, others)
    for one in devices if not undo else ():
        room.check(kind, form, one)
    lines = _head(certificate, inventory, form, devices, undo=undo)
    if failed:
        shared = "flows share links, so the promise does not hold meanwhile"
        lines.append(f"{kind.COMMENT} around {', '.join(failed)}: {shared}; undo what is in force first")
    for one in devices:
        if undo:
            lines += ["", f"{kind.COMMENT} on {one.switch} ({one.name})", *kind.undo(one)]
        else:
            lines += ["", *room.lines(kind, one), *kind.apply(one, spares=room.spares_fit(kind, one))]
    return "\n".join(lines) + "\n"


def _chosen(devices: list[Device], switch: str, inventory: Inventory) -> list[Device]:
    """All devices, or the one named; none for a switch of the hall that is not on the job's way."""
    hall = dict.fromkeys(name for key, one in inventory.switches.items() for name in (key, one.switch))
    if switch and switch not in hall:
        raise unknown("switch", switch, hall)
    return [one for one in devices if switch in ("", one.name, one.switch)]


@dataclass(frozen=True, slots=True)
class _Budget:
    """Policy rules that switches take: as given, else as the inventory says, else as is usual; less what others use."""

    given: int | None
    others: Sequence[Device]

    def most(self, kind: Format, device: Device) -> int:
        own = device.budget if device.budget is not None else kind.BUDGET
        return self.given if self.given is not None else own

    def used(self, kind: Format, device: Device) -> int:
        return sum(kind.rules(other, spares=True) for other in self.others if other.name == device.name)

    def left(self, kind: Format, device: Device) -> int:
        return self.most(kind, device) - self.used(kind, device)

    def spares_fit(self, kind: Format, device: Device) -> bool:
        return kind.rules(device, spares=True) <= self.left(kind, device)

    def check(self, kind: Format, form: str, device: Device) -> None:
        """An error where not even the rules without spares fit."""
        need, unused, used = kind.rules(device, spares=False), self.left(kind, device), self.used(kind, device)
        if need > unused:
            most = f"its budget is {self.most(kind, device):,}" + (f", of which {used:,} are used" if used else "")
            where = f"{device.switch} ({device.name})"
            raise BadInput(f"does not fit: {where} needs {need:,} policy rules as {form}, and {most} (--budget)")

    def lines(self, kind: Format, device: Device) -> list[str]:
        """What is said above the commands of a switch."""
        mark, fit, used = kind.COMMENT, self.spares_fit(kind, device), self.used(kind, device)
        count = f"{kind.rules(device, spares=fit)} of {self.most(kind, device)} policy rules"
        lines = [f"{mark} on {device.switch} ({device.name}): {count}, {len(device.plain)} plain routes"]
        lines += [f"{mark} and {used} rules of slices in force"] if used else []
        if not fit:
            lines.append(f"{mark} no spare next hops: with them it would be {kind.rules(device, spares=True)} rules")
        return lines


def _head(
    certificate: Certificate, inventory: Inventory, form: str, devices: Sequence[Device], *, undo: bool
) -> list[str]:
    mark = FORMATS[form].COMMENT
    what = "the way back: " if undo else ""
    lines = [
        f"{mark} {what}{len(certificate.rank_order)} GPUs on {certificate.fabric.name}: {len(certificate.links)} cables held"
    ]
    if not devices:
        return [*lines, f"{mark} no routes are needed: the job stays below one leaf, or the switch is not on its way"]
    lines.append(f"{mark} names and addresses: {inventory.where}; needs {FORMATS[form].NEEDS}")
    if not undo:
        lines += [f"{mark} cross-connect {name}: {one} <-> {other}" for name, one, other in cross_connects(certificate)]
    return lines


def cross_connects(certificate: Certificate) -> list[tuple[str, str, str]]:
    """What every optical switch joins: (switch, one end, other end)."""
    return [
        (f"ocs{one.ocs}", f"leaf{one.leaf}", f"leaf{one.other_leaf}" if one.other_leaf >= 0 else f"spine{one.spine}.{one.fibre}")
        for one in sorted(certificate.circuits, key=lambda one: (one.ocs, one.leaf))
    ]  # fmt: skip


def _plain(certificate: Certificate, devices: list[Device], room: _Budget) -> dict[str, Any]:
    """Everything as plain data: for every switch its tables, and the rules that each format makes of them."""
    described, rules = [], []
    for one in devices:
        counts = {form: _counts(kind, one, room) for form, kind in FORMATS.items()}
        described.append(
            {
                "name": one.name,
                "switch": one.switch,
                "counts": counts,
                "tables": [asdict(table) for table in one.tables],
            }
        )
        for policy in one.shared:
            for match in policy.matches:
                rules += [_rule(one, match.way, match.source, policy.interfaces)] if match.way else []
        rules += [_rule(one, way) for way in one.plain]
    return {
        "fabric": certificate.fabric.name,
        "devices": described,
        "rules": rules,
        "cross_connects": [{"switch": name, "ends": [one, other]} for name, one, other in cross_connects(certificate)],
    }


def _counts(kind: Format, device: Device, room: _Budget) -> dict[str, Any]:
    need = kind.rules(device, spares=False)
    counts = {"rules": need, "with_spares": kind.rules(device, spares=True), "in_force": room.used(kind, device)}
    return counts | {"budget": room.most(kind, device), "fits": need <= room.left(kind, device)}


def _rule(device: Device, way: Way, source: str = "", incoming: tuple[str, ...] = ()) -> dict[str, Any]:
    spare = way.spare.interface if way.spare else ""
    says = {"source": source, "target": way.target, "incoming": list(incoming), "spare": spare}
    rule: dict[str, Any] = {"switch": device.name, "port": way.hop.interface, "via": way.hop.via}
    return rule | {key: value for key, value in says.items() if value}
