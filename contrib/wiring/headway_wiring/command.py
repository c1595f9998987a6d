"""`headway collective links`: degraded and irregular networks, planned link by link."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.collective import options
from headway.cli.manager_options import JsonOption, note, number_option, print_json
from headway.errors import BadInput
from headway.io.numbers import COUNT

if TYPE_CHECKING:
    from headway_wiring.model import Wiring
    from headway_wiring.plan import WiredPlan

# Messages may take other paths through switches than the planner gives them, so this is no bound for every plan.
OVER_PATHS = "bound over the given paths: a plan on other paths may be faster"


def register(collective: typer.Typer) -> None:
    """Add the command to `headway collective`."""
    collective.command()(links)


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
    as_json: JsonOption = False,
) -> None:
    """Plan a collective on single links, some of them slow or missing, and compare it with the bound of that network.

    Example: headway collective links ring:8:800Gbps:700ns --size 1GB --fault 0-1:0.5
    """
    from headway.io.units import size_bytes
    from headway_wiring.files import wiring_from
    from headway_wiring.spread import plan_wiring
    from headway_wiring.text import faults_from

    whole = wiring_from(network)
    wanted = options.kind_from(kind), size_bytes(size), chunks
    faults = faults_from(fault or [])
    with options.waiting("planning link by link", as_json):
        plan = plan_wiring(whole.changed(faults), *wanted)
        before = plan_wiring(whole, *wanted) if faults else None
    if plan_file is not None:
        _write(plan, plan_file)
    told = _told(plan, before)
    if as_json:
        print_json(told)
    else:
        _show(told)


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
    if str(plan.collective) == "all-to-all" and plan.wiring.switches:
        row["bound_note"] = OVER_PATHS
    if before is not None:
        row |= {"healthy_s": before.time_s, "unaware_s": _unaware_s(before, plan.wiring)}
    return row


def _show(told: dict[str, Any]) -> None:
    """A plan link by link beside its bound, and what became of the plan of the healthy network."""
    from rich.console import Console

    from headway.cli.tables.collectives import size_text, time_text
    from headway.io.units import counted

    console = Console()
    console.print(
        f"[bold]{told['collective']}[/] of {size_text(told['size_bytes'])} on {told['network']} ({told['ranks']} ranks, "
        f"{told['links']} links), {counted(told['chunks'], 'chunk')}"
    )
    bound = f"bound {time_text(told['bound_s'])} ({told['of_bound']:.1%} of it reached)"
    console.print(f"time {time_text(told['time_s'])}   {bound}")
    if "bound_note" in told:
        console.print(told["bound_note"])
    parts = told["bound_parts"]
    if len(parts) == 1:
        console.print("the bound is that of all hops that the messages must take")
    elif len(parts) == told["ranks"]:
        console.print("the bound is that of all links together: every rank sends and receives its part")
    else:
        shown = " | ".join(_ranks_text(part) for part in parts[:4]) + (" | ..." if len(parts) > 4 else "")
        console.print(f"the bound is what must pass between {len(parts)} parts: {shown}")
    if "healthy_s" in told:
        unaware = "cannot run" if told["unaware_s"] is None else f"takes {time_text(told['unaware_s'])}"
        console.print(f"without the faults {time_text(told['healthy_s'])}; that plan, unchanged, {unaware} now")


def _ranks_text(ranks: Sequence[str]) -> str:
    return " ".join(ranks) if len(ranks) <= 8 else f"{' '.join(ranks[:6])} ... ({len(ranks)} ranks)"


def _unaware_s(before: "WiredPlan", wiring: "Wiring") -> float | None:
    """How long the plan of the healthy network takes now; None if it uses a link that is missing."""
    from headway_wiring.plan import replayed

    try:
        return replayed(before, wiring).time_s
    except BadInput:
        return None


def _write(plan: "WiredPlan", path: Path) -> None:
    from headway.io.files import write_atomically

    write_atomically(path, plan.to_json())
    note(f"plan written to {path}")
