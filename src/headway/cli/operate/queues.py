"""`headway queues`: GPUs that each queue uses, is guaranteed and has borrowed."""

from typing import TYPE_CHECKING, Any

import typer

from headway.cli.manager_options import Session, add_command, print_view
from headway.io.accounts import names_in_words
from headway.io.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType


WORDS = {"running": "running job", "waiting": "waiting job", "gpus": "GPU"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, queues)


def queues(session: Session) -> None:
    """The queues of teams: shares, guaranteed, used and borrowed GPUs, jobs that run and wait, and who may submit (serve --queues).

    Example: headway queues --json
    """
    rows = session.client.queues()
    if session.printed_as_json(rows):
        return
    print_view(
        queues_table(rows) if rows else "no queues file: all jobs share the cluster alike (headway serve --queues FILE)"
    )


def queues_table(rows: list[dict[str, Any]]) -> "RenderableType":
    """Return one line per queue, with queues below another indented; then their limits, and who may submit to them."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("QUEUE", "SHARE", "GUARANTEED", "USED", "BORROWED", "RUNNING", "WAITING", "GPU-H"):
        table.add_column(name, justify="left" if name == "QUEUE" else "right", overflow="fold", no_wrap=name != "QUEUE")
    depth: dict[str | None, int] = {None: -1}
    lines: list[RenderableType] = [table]
    for one in rows:
        depth[one["name"]] = depth[one["parent"]] + 1
        numbers = [str(one[name]) for name in ("guaranteed_gpus", "used_gpus", "borrowed_gpus", "running", "waiting")]
        named = Text("  " * depth[one["name"]] + one["name"], style="yellow" if one["borrowed_gpus"] else "")
        table.add_row(named, f"{100 * one['share']:.0f}%", *numbers, f"{one['used_gpu_h']:,.1f}")
        limits = [counted(most, WORDS[name]) for name, most in one["limits"].items()]
        limits += [f"{counted(most, WORDS[name])} per user" for name, most in one["per_user"].items()]
        if limits:
            lines.append(Text(f"{one['name']} may have {', '.join(limits)}", style="dim"))
        if one.get("users") is not None:
            admitted = names_in_words(one["users"], one["groups"]) or "only operators"
            lines.append(Text(f"{one['name']} admits {admitted}", style="dim"))
        if one.get("account"):
            lines.append(Text(f"{one['name']} has used {one['account']}", style="dim"))
    return Group(*lines)
