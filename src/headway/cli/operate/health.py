"""`headway health`: state of the manager itself."""

from typing import TYPE_CHECKING, Any

import typer

from headway.cli.manager_options import Session, add_command, print_view

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, health)


def health(session: Session) -> None:
    """How the manager is doing: times of decisions and of the journal, depth of the queue, last errors. Exit code 1 if something is wrong.

    Example: headway health --json
    """
    answer = session.client.health()
    if not session.printed_as_json(answer):
        print_view(health_view(answer))
    if not answer["ok"]:
        raise typer.Exit(1)


def health_view(answer: dict[str, Any]) -> "RenderableType":
    """One line on the whole, a table of times, and what went wrong."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.jobs import moment, short, span

    word = Text("well", style="green") if answer["ok"] else Text("in trouble", style="red")
    title = Text("the manager is ", style="bold").append(word)
    title.append(f" (version {answer['version']}, {answer['policy']}, up for {span(answer['up_s'])})", style="not bold")
    parts: list[RenderableType] = [title]
    if answer["trouble"]:
        parts.append(Text(f"  {short(answer['trouble'], 300)}", style="red"))
    times = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("TIMES", "COUNT", "MEAN", "MEDIAN", "P95", "P99", "LONGEST"):
        times.add_column(name, justify="left" if name == "TIMES" else "right")
    for label, key in (("decisions", "decisions"), ("rounds", "rounds"), ("journal commits", "commits")):
        row = answer[key]
        shown = (_quick(row[name]) for name in ("mean_s", "p50_s", "p95_s", "p99_s", "max_s"))
        times.add_row(label, f"{row['count']:,}", *shown)
    queue, journal = answer["queue"], answer["journal"]
    by_queue = ", ".join(
        f"{count:,} in {short(name, 30)}" for name, count in list(queue["waiting_by_queue"].items())[:6]
    )
    waits = f"{queue['running']:,} running, {queue['waiting']:,} waiting, {queue['held']:,} held"
    longest = f"; the longest waits {span(queue['longest_wait_s'])}" if queue["waiting"] or queue["held"] else ""
    behind = f"{journal['rows_behind']:,} not written yet, for {span(journal['behind_s'])}"
    facts = {
        "queue": waits + longest + (f" ({by_queue})" if by_queue else ""),
        "journal": f"{journal['rows']:,} rows, " + (behind if journal["rows_behind"] else "all written"),
        "errors": f"{answer['errors']:,} since it started",
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in facts.items():
        table.add_row(name, Text(value))  # names of queues are made up by people: no markup
    parts += [Text(""), times, Text(""), table]
    for each in answer["last_errors"][-5:]:
        often = f" ({each['times']} times)" if each["times"] > 1 else ""
        parts.append(Text(f"  {moment(each['time'])}  {short(each['message'], 200)}{often}", style="red"))
    return Group(*parts)


def _quick(value_s: float) -> str:
    """A time of the manager's own work: microseconds to seconds."""
    if value_s < 1e-3:
        return f"{value_s * 1e6:.0f}us"
    return f"{value_s * 1e3:.1f}ms" if value_s < 1.0 else f"{value_s:.2f}s"
