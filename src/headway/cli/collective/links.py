"""`headway collective links`: degraded and irregular networks, planned link by link."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.collective import options
from headway.cli.manager_options import COUNT, JsonOption, note, number_option, print_json
from headway.errors import BadInput

if TYPE_CHECKING:
    from headway.collectives.wiring.model import Wiring
    from headway.collectives.wiring.plan import WiredPlan


def links(
    network: Annotated[
        str, typer.Argument(help="A YAML file of links, or a topology: a name, a file, ring:8:800Gbps.")
    ],
    size: options.SizeOption = "1GB",
    kind: options.KindOption = "all-reduce",
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", help="FROM-TO:FRACTION of the bandwidth left, both ways (FROM>TO: one); 0: missing."),
    ] = None,
    chunks: Annotated[int | None, number_option(COUNT, "--chunks", help="Chunks per rank; chosen if left out.")] = None,
    plan_file: options.PlanOption = None,
    form: options.FormatOption = "headway",
    as_json: JsonOption = False,
) -> None:
    """Plan a collective on single links, some of them slow or missing, and compare it with the bound of that network.

    Example: headway collective links ring:8:800Gbps:700ns --size 1GB --fault 0-1:0.5
    """
    from headway.cli.tables.collectives import show_links
    from headway.collectives.wiring.spread import plan_wiring
    from headway.collectives.wiring.text import faults_from
    from headway.io.units import size_bytes
    from headway.sim.network_files import wiring_from

    whole = wiring_from(network)
    wanted = options.kind_from(kind), size_bytes(size), chunks
    faults = faults_from(fault or [])
    with options.waiting("planning link by link", as_json):
        plan = plan_wiring(whole.changed(faults), *wanted)
        before = plan_wiring(whole, *wanted) if faults else None
    if plan_file is not None:
        options.check_format(form)
        _write(plan, plan_file, form)
    told = _told(plan, before)
    if as_json:
        print_json(told)
    else:
        show_links(told)


def _told(plan: "WiredPlan", before: "WiredPlan | None") -> dict[str, Any]:
    assert plan.bound is not None
    row: dict[str, Any] = {
        "network": plan.wiring.name,
        "ranks": len(plan.wiring.ranks),
        "links": len(plan.wiring.links),
        "collective": str(plan.collective),
        "size_bytes": plan.size_bytes,
        "chunks": len(plan.owners),
        "time_s": plan.time_s,
        "bound_s": plan.bound.time_s,
        "of_bound": plan.bound.time_s / plan.time_s,
        "bound_parts": plan.bound.parts,
    }
    if before is not None:
        row |= {"healthy_s": before.time_s, "unaware_s": _unaware_s(before, plan.wiring)}
    return row


def _unaware_s(before: "WiredPlan", wiring: "Wiring") -> float | None:
    """How long the plan of the healthy network takes now; None if it uses a link that is missing."""
    from headway.collectives.wiring.plan import replayed

    try:
        return replayed(before, wiring).time_s
    except BadInput:
        return None


def _write(plan: "WiredPlan", path: Path, form: str) -> None:
    from headway.collectives.mscclpp import export_wired
    from headway.io.files import write_atomically

    write_atomically(path, plan.to_json() if form == "headway" else export_wired(plan, plan.wiring.name))
    note(f"plan written to {path}")
