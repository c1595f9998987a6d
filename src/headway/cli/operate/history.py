"""`headway history`: accounting of jobs, as in `sacct`."""

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.manager_options import Session, add_command, note, number_option, print_view
from headway.cli.operate.selection import state_names
from headway.client.job import HISTORY_FIELDS
from headway.errors import BadInput, unknown
from headway.io.numbers import Range
from headway.io.units import counted, seconds

if TYPE_CHECKING:
    from rich.table import Table

MOST = 100_000  # rows that the manager sends
GROUPS = ("user", "queue", "state")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, history)


def history(
    session: Session,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="Only jobs in this state; repeatable.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Not jobs that ended before: 7d (ago), 2026-11-01 or 2026-11-01T08:30.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Not jobs that were submitted later: the same.")] = None,
    by: Annotated[str | None, typer.Option(metavar="user|queue|state", help="Sums instead of jobs.")] = None,
    limit: Annotated[
        int | None,
        number_option(
            Range(1, MOST, whole=True), "--limit", "-n", help="The most jobs; default: 50 in a table, else all."
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """What became of jobs, the newest first: states, times, waits, nodes and GPU-hours, also of jobs that are long over.

    Example: headway history --user ada --since 7d --state FAILED, or headway history --since 2026-11-01 --by user
    """
    if by is not None and by not in GROUPS:
        raise unknown("group", by, GROUPS)
    most = limit or (MOST if as_csv or session.as_json or by else 50)
    given = {"since": moment_of(since, "--since"), "until": moment_of(until, "--until")}
    rows = session.client.history(user=user, state=state_names(state or ()), limit=most, **given)
    if len(rows) == most:
        note(f"headway: the newest {counted(most, 'job')}; there may be more (--limit, --since)")
    content = sums(rows, by) if by else rows
    if session.printed_as_json(content):
        return
    if as_csv:
        _print_csv(content, (by, *SUMS) if by else HISTORY_FIELDS)
        return
    from rich.console import Console

    print_view(sums_table(content, by) if by else history_table(rows, Console().width))


def moment_of(text: str | None, option: str, now: datetime | None = None) -> float | None:
    """A moment in seconds since 1970: so long ago, or a date of this machine's time zone."""
    if text is None:
        return None
    now = now or datetime.now(UTC)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        pass
    try:
        return now.timestamp() - seconds(text)
    except BadInput:
        raise BadInput(
            f"{option} {text}: write a time ago (7d, 12h) or a date (2026-11-01, 2026-11-01T08:30)"
        ) from None


SUMS = ("jobs", "completed", "failed", "gpu_hours", "mean_wait_s", "preemptions")


def sums(rows: Sequence[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """The jobs of each user, queue or state together; those with the most GPU-hours first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[by] or "default", []).append(row)
    rows_by_group = []
    for name, members in groups.items():
        failed = sum(row["state"] in ("FAILED", "TIMEOUT") for row in members)
        one = {by: name, "jobs": len(members), "completed": sum(row["state"] == "COMPLETED" for row in members)}
        one |= {"failed": failed, "gpu_hours": sum(row["gpu_hours"] for row in members)}
        one["mean_wait_s"] = sum(row["wait_s"] for row in members) / len(members)
        rows_by_group.append({**one, "preemptions": sum(row["preemptions"] for row in members)})
    return sorted(rows_by_group, key=lambda each: (-each["gpu_hours"], each[by]))


def _print_csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> None:
    """CSV with a header; moments in ISO 8601, several nodes with spaces between them."""
    from headway.cli.tables.terminal import plain

    def shown(value: Any) -> Any:
        return plain(value) if isinstance(value, str) and sys.stdout.isatty() else value

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(columns)
    for row in rows:
        cells = []
        for name in columns:
            value = row[name]
            if name.endswith("_at") and value is not None:
                value = datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds")
            elif isinstance(value, list):
                value = " ".join(value)
            elif isinstance(value, float):
                value = f"{value:.6g}"
            cells.append("" if value is None else shown(harmless(value)))
        out.writerow(cells)


def harmless(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula: names are made up by people."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


# What a table leaves out first where the terminal is narrow.
LEAST = ("NODES", "PRE", "SUBMITTED", "EXIT", "USER")


def history_table(rows: Sequence[dict[str, Any]], width: int = 100) -> "Table":
    """One line per job, and one for all of them. Columns that do not fit are left out whole: CSV has everything in full."""
    cells = [_cells(row) for row in rows]
    columns = list(_cells(EMPTY))
    for name in LEAST:
        wide = sum(1 + max(len(name), *(len(each[name]) for each in cells), 0) for name in columns) if cells else 0
        if wide <= width + 1:
            break
        columns.remove(name)
    return _table(rows, cells, columns)


EMPTY: dict[str, Any] = dict.fromkeys(HISTORY_FIELDS, "") | {
    **dict.fromkeys(("submitted_at", "wait_s", "gpu_hours", "preemptions", "gpus"), 0),
    **dict.fromkeys(("started_at", "exit_code")),
    "nodes": [],
}


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """What the table says of a job, by column."""
    from headway.cli.tables.jobs import short, span
    from headway.cli.tables.nodes import folded

    ran_s = None if row["started_at"] is None else row["gpu_hours"] * 3600.0 / row["gpus"]
    return {
        "JOB": str(row["job_id"]),
        "USER": short(row["user"], 8),
        "NAME": short(row["name"], 14),
        "STATE": row["state"],
        "SUBMITTED": f"{datetime.fromtimestamp(row['submitted_at']).astimezone():%m-%d %H:%M}",
        "WAITED": span(row["wait_s"]),
        "RAN": span(ran_s),
        "GPUS": str(row["gpus"]),
        "GPU-H": _hours(row["gpu_hours"]),
        "PRE": str(row["preemptions"] or ""),
        "EXIT": "" if row["exit_code"] is None else str(row["exit_code"]),
        "NODES": folded(row["nodes"], 10),
    }


def _table(rows: Sequence[dict[str, Any]], cells: Sequence[dict[str, str]], columns: Sequence[str]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.jobs import STYLES, span

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    left_aligned = {"USER", "NAME", "STATE", "NODES"}
    for name in columns:
        table.add_column(name, justify="left" if name in left_aligned else "right", no_wrap=True, overflow="ellipsis")
    for each in cells:
        style = STYLES.get(each["STATE"], "")
        table.add_row(*(Text(each[name], style=style if name == "STATE" else "") for name in columns))
    hours, waits = sum(row["gpu_hours"] for row in rows), [row["wait_s"] for row in rows]
    mean = f", mean wait {span(sum(waits) / len(waits))}" if waits else ""
    out = "; a wider terminal or --csv shows more" if len(columns) < len(_cells(EMPTY)) else ""
    table.caption = f"{counted(len(rows), 'job')}, {_hours(hours)} GPU-hours{mean}{out}"
    table.caption_justify = "left"
    return table


def _hours(value: float) -> str:
    """GPU-hours, with more places where there are few."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 0.1 or not value else f"{value:.4f}"


def sums_table(groups: Sequence[dict[str, Any]], by: str) -> "Table":
    """One line per user, queue or state."""
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.jobs import short, span

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (by.upper(), "JOBS", "COMPLETED", "FAILED", "GPU-HOURS", "MEAN WAIT", "PREEMPTIONS"):
        table.add_column(name, justify="left" if name == by.upper() else "right", no_wrap=True)
    for each in groups:
        counts = (f"{each[name]:,}" for name in ("jobs", "completed", "failed"))
        ends = (_hours(each["gpu_hours"]), span(each["mean_wait_s"]), f"{each['preemptions']:,}")
        table.add_row(Text(short(each[by], 30)), *counts, *ends)
    return table
