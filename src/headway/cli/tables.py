"""Tables of runs, policies and placements for a terminal."""

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from headway.sim.api import Result


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 12.3 min, 5.2 h, 3.1 d."""
    for limit, scale, unit in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / scale:.0f} {unit}" if unit == "s" else f"{seconds / scale:.1f} {unit}"
    return f"{seconds / 86400.0:.1f} d"


def show_runs(results: "list[Result]") -> None:
    """Runs side by side; with several, the average JCT of each against the first."""
    first = results[0].summary
    many = len(results) > 1
    table = Table(
        box=SIMPLE_HEAD,
        title=f"{first['trace']}: {first['jobs']} jobs on {first['cluster']}, {first['placement']} placement",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("policy", no_wrap=True)
    for name in ("mean JCT", "median", "p95", "wait", "makespan", "GPUs", "stops"):
        table.add_column(name, justify="right", no_wrap=True)
    if many:
        table.add_column(f"vs {first['policy']}", justify="right")
    for result in results:
        table.add_row(*_row(result.summary, first if many else None))
    Console().print(table)
    if results[0].left_out:
        print(f"{results[0].left_out} jobs are larger than the cluster and were left out")


def _row(summary: dict[str, Any], first: dict[str, Any] | None) -> list[str]:
    jct = summary["jct_s"]
    row = [
        summary["policy"],
        duration(jct["mean"]),
        duration(jct["median"]),
        duration(jct["p95"]),
        duration(summary["queue_s"]["mean"]),
        duration(summary["makespan_s"]),
        f"{100 * summary['gpu_utilisation']:.0f} %",
        f"{summary['preemptions']:,}",
    ]
    if first is not None:
        row.append(f"{jct['mean'] / first['jct_s']['mean']:.2f}x")
    return row


def show_choices(kind: str, table: dict[str, tuple[str, str, tuple[str, ...]]]) -> None:
    """Names, what they do, and their options."""
    listed = Table(box=SIMPLE_HEAD)
    for column in (kind, "what it does", "options"):
        listed.add_column(column, no_wrap=column == kind)
    for name, (_, what, options) in table.items():
        listed.add_row(name, what, ", ".join(options))
    Console().print(listed)
