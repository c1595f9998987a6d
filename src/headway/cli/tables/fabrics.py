"""What `headway fabric` prints: the fabric as a drawing in text, a slice, and what the verifier found."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from headway.network.certificates.allocate import Occupancy
    from headway.network.certificates.certificate import Certificate
    from headway.network.certificates.verify import Verdict
    from headway.network.fabric.model import Fabric

MOST_BOXES = 4  # switches drawn in one row of text before the rest is counted
MOST_LEAVES = 24  # rows of the occupancy map


def _boxes(total: int, name: Callable[[int], str]) -> str:
    """`[spine0] [spine1] [spine2] ... [spine15]`: the first few switches and the last."""
    few = total <= MOST_BOXES
    boxes = [f"[{name(one)}]" for one in (range(total) if few else [*range(MOST_BOXES - 1), total - 1])]
    return " ".join(boxes if few else [*boxes[:-1], "...", boxes[-1]])


def _tiers(fabric: "Fabric") -> list[tuple[str, str, str]]:
    """Name, drawing and note of every tier, from the cores down to the servers."""
    rows: list[tuple[str, str, str]] = []
    if fabric.cores_per_group:
        rows.append(("cores", _boxes(fabric.uplinks, "core{}.*".format), f"{fabric.cores_per_group} per group"))
    if fabric.kind == "three-tier":
        rows.append(("aggregation", _boxes(fabric.spines, "agg*.{}".format), f"{fabric.spines} per pod"))
    else:
        ports = f", {fabric.ocs.switches * fabric.ocs.spine_fibres} ports" if fabric.ocs else ""
        rows.append(("spines", _boxes(fabric.spines, "spine{}".format), f"{fabric.spines}{ports}"))
    if fabric.ocs:
        fibres = f"{fabric.ocs.switches}, {fabric.ocs.spine_fibres} fibres to each spine, 1 to each leaf"
        rows.append(("optical", _boxes(fabric.ocs.switches, "ocs{}".format), fibres))
    lanes = f", {fabric.parallel_links} to each spine" if fabric.parallel_links > 1 else ""
    note = f"{fabric.leaves}, {fabric.uplinks} uplinks each{lanes} at {fabric.link_gbps:g} Gbit/s"
    rows.append(("leaves", _boxes(fabric.leaves, fabric.leaf_name), note))
    note = f"{fabric.gpus_per_server} GPUs each, {fabric.server_gbps:g} Gbit/s inside"
    rows.append(("servers", _boxes(fabric.servers, "s{}".format), note))
    return rows


def show_fabric(console: Console, fabric: "Fabric", state: "Occupancy") -> None:
    """Draw a fabric from the cores down to the GPUs, then its free uplinks leaf by leaf."""
    console.print(
        Text(fabric.name, style="bold"), f": {fabric.kind}, {fabric.gpus:,} GPUs in {fabric.servers:,} servers", sep=""
    )
    table = Table.grid(padding=(0, 2))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap)
    for index, (name, boxes, note) in enumerate(_tiers(fabric)):
        if index:
            table.add_row("", Text("  |  \\ /  |  \\ /  |", style="dim"), "")
        table.add_row(Text(name, style="bold"), Text(boxes, style="cyan"), Text(note, style="dim"))
    console.print(table)
    console.print(
        f"NICs on a full leaf {fabric.gpus_per_leaf}, uplinks {fabric.uplinks}: oversubscription "
        f"{fabric.oversubscription:g} : 1; {fabric.cables:,} cables between switches"
    )
    _show_free(console, fabric, state)


def _show_free(console: Console, fabric: "Fabric", state: "Occupancy") -> None:
    """One row per leaf: free GPUs and a mark for every uplink (`.` free, `#` held)."""
    free = state.free_per_server()
    per_group = [int(free[fabric.server_leaf == group].sum()) for group in range(fabric.groups)]
    table = Table(title="Uplinks ( . free, # held )", title_justify="left")
    table.add_column("segment" if fabric.kind == "rail" else "leaf")
    table.add_column("free GPUs", justify="right")
    table.add_column("uplinks 0 to " + str(fabric.uplinks - 1), no_wrap=True, overflow="crop")
    for group in range(min(fabric.groups, MOST_LEAVES)):
        held = [not int(state.masks[group]) >> uplink & 1 for uplink in range(fabric.uplinks)]
        table.add_row(str(group), str(per_group[group]), "".join(".#"[one] for one in held))
    if fabric.groups > MOST_LEAVES:
        table.add_row("...", str(sum(per_group[MOST_LEAVES:])), f"{fabric.groups - MOST_LEAVES} more")
    console.print(table)


def show_certificate(console: Console, certificate: "Certificate", moved: int) -> None:
    """A slice in a few lines."""
    fabric = certificate.fabric
    servers = {gpu // fabric.gpus_per_server for gpu in certificate.rank_order}
    leaves = {int(fabric.leaf_of_gpu[gpu]) for gpu in certificate.rank_order}
    table = Table(title=f"{len(certificate.rank_order)} GPUs on {fabric.name}", title_justify="left", show_header=False)
    table.add_row("servers, leaves", f"{len(servers)}, {len(leaves)}")
    modulus = f", modulus {certificate.routing['modulus']}" if "modulus" in certificate.routing else ""
    table.add_row("routing", f"{certificate.routing['rule']}{modulus}")
    table.add_row("cables held", str(len(certificate.links)))
    if fabric.ocs:
        table.add_row("circuits", f"{len(certificate.circuits)} set up, {moved} of other jobs moved")
    table.add_row("pattern", certificate.patterns[0])
    table.add_row("also clean for", ", ".join(certificate.patterns[1:]))
    table.add_row("first ranks on GPUs", ", ".join(map(str, certificate.rank_order[:16])))
    console.print(table)


def show_verdicts(console: Console, verdicts: list["Verdict"]) -> None:
    """One row per certificate, then the patterns that are not clean and the reasons for rejection."""
    table = Table()
    for name in ("certificate", "GPUs", "isolation", "clean for", "not clean, or why rejected"):
        table.add_column(name, justify="right" if name == "GPUs" else "left", overflow="fold")
    colours = {"full": "green", "partial": "yellow", "rejected": "red"}
    for one in verdicts:
        clean = ", ".join(finding.pattern for finding in one.findings if finding.clean and not one.reasons)
        rest = "; ".join(f"{finding.pattern}: {finding.complaint}" for finding in one.findings if finding.complaint)
        if one.reasons:
            rest = "; ".join(one.reasons[:3]) + (f"; {len(one.reasons) - 3} more" if len(one.reasons) > 3 else "")
        state = Text(one.isolation, style=colours[one.isolation])
        table.add_row(Text(one.where), str(one.ranks or "?"), state, clean, Text(rest))
    console.print(table)
    checked = sorted({one.fabric for one in verdicts if one.anchored})
    if checked:
        console.print(Text(f"checked against the real fabric {', '.join(checked)}"))
    for note in dict.fromkeys(note for one in verdicts for note in one.notes):
        console.print(Text(f"note: {note}"))
    signers = sorted({one.signed_by for one in verdicts if one.signature == "valid" and not one.reasons})
    if signers:
        console.print(Text(f"signed by {', '.join(signers)}"))
