"""Tables of runs and stacks for a terminal."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headway.io.units import counted
from headway.report.seeds import label
from headway.report.times import UNITS, duration
from headway.sim.experiment import options
from headway.sim.results.stretch import stretch_told
from headway.sim.stacks import WORDS, Stack

if TYPE_CHECKING:
    from headway.sim.results.result import Comparison, Result

LONGEST_HEADING = 6
# Settings that a table shows in any case; the others where they are not the default.
IN_TITLE = ("trace", "cluster", "policy", "placement")
FIGURES = ("mean JCT", "median", "p95", "wait", "makespan", "GPUs", "useful", "stops")


def show_runs(results: "Sequence[Result]") -> None:
    """Runs side by side; with several, the average JCT of each against the first."""
    first, many = results[0].summary, len(results) > 1
    # Fits 80 columns with the names of the built-in policies.
    table = _table(
        _title(first, 1), _kind(first), (*FIGURES, *([_against(first)] if many else [])), overflow="fold", min_width=8
    )
    for result in results:
        table.add_row(*_row(result.summary, first if many else None))
    _print(table, results)


def show_comparison(results: "Comparison") -> None:
    """Policies side by side; with several seeds, means over them with 95 % confidence intervals."""
    if results.seeds == 1:
        show_runs(results)
        return
    first = results[0].summary
    headings = ("mean JCT", f"{_against(first)}: mean", "median", "p95")
    table = _table(_title(first, results.seeds), _kind(first), headings, padding=(0, 1))
    for result, over in zip(results, results.over_seeds(), strict=True):
        jct = over["jct_s"]
        ratios = (_times(jct[part]["ratio"]) for part in ("mean", "median", "p95"))
        table.add_row(_name(result.summary), _within(jct["mean"]), *ratios)
    table.caption = "± is the 95 % confidence interval over seeds, ratios taken seed by seed"
    table.caption_justify = "left"
    _print(table, results, first="first seed: ")


def _within(interval: dict[str, float]) -> str:
    """A time with half of its interval, in one unit."""
    scale, unit = next((scale, unit) for limit, scale, unit in UNITS if interval["mean"] < limit)
    half = (interval["high"] - interval["low"]) / 2
    digits = 0 if unit == "s" else 1
    return f"{interval['mean'] / scale:.{digits}f} ± {half / scale:.{digits}f} {unit}"


def _times(interval: dict[str, float] | None) -> str:
    return f"{interval['mean']:.2f}x ± {(interval['high'] - interval['low']) / 2:.2f}" if interval is not None else "-"


def _title(summary: dict[str, Any], seeds: int) -> str:
    """What was run: the trace, the cluster, the placement, and every other setting that is not its default."""
    from headway.sim.trace import with_seed

    trace = with_seed(summary["trace"], None) if seeds > 1 else summary["trace"]
    parts = [f"{counted(summary['jobs'], 'job')} on {summary['cluster']}"]
    own = WORDS if "stack" in summary else ()
    parts += [] if own else [f"{summary['placement']} placement"]
    for name, option in options().items():
        value = summary["settings"][name]
        if name in own:
            continue
        if name not in IN_TITLE and value != option.default and not (name == "seed" and seeds > 1):
            word = option.word.replace("_", " ")
            parts.append(word if option.kind is bool else f"{word} {value}")
    return f"{trace}: {', '.join([*parts, *([f'{seeds} seeds'] if seeds > 1 else [])])}"


def _against(first: dict[str, Any]) -> str:
    return f"vs {label(first) if len(label(first)) <= LONGEST_HEADING else '1st'}"


def _table(title: str, kind: str, headings: Sequence[str], padding: tuple[int, int] = (0, 0), **policy: Any) -> Table:
    """An empty table with a row per policy or stack; `policy` says how their names are shown."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=padding, title=escape(title))
    table.title_justify, table.title_style = "left", "bold"
    table.add_column(kind, **policy)
    for name in headings:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _print(table: Table, results: "Sequence[Result]", first: str = "") -> None:
    Console().print(table)
    for result in results:
        if result.summary.get("queues"):
            Console().print(_queues(result.summary))
    for result in results:
        who = first + (f"{result.label}: " if len(results) > 1 else "")
        for line in stretch_told(result.summary):
            print(f"{who}{line}")
    if any(result.summary["elastic"] for result in results):
        print("* changes the sizes of jobs, so its work is not that of jobs that run as asked")
    if results[0].skipped:
        sys.stdout.flush()
        print(results[0].skipped, file=sys.stderr)
    if results[0].left_out:
        jobs = counted(results[0].left_out, "job")
        print(f"left out: {jobs} that can never run here (too large, or no slice of their size)")


def _queues(summary: dict[str, Any]) -> Table:
    """Who had what, queue by queue."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0), title=escape(f"queues under {summary['policy']}"))
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("queue", overflow="fold", min_width=8)
    for name in ("share", "guar.", "GPUs", "borrowed", "left", "mean JCT", "wait", "quota", "unfair"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in summary["queues"]:
        used = [f"{one['gpus_used']:.1f}", f"{one['borrowed_gpu_h']:,.0f} h", f"{one['left_gpu_h']:,.0f} h"]
        times = [duration(one[name]) if one[name] is not None else "-" for name in ("jct_s", "queue_s", "quota_s")]
        unfair = f"{100 * one['unfair']:.0f}%" if one["unfair"] is not None else "-"
        table.add_row(one["queue"], f"{100 * one['share']:.0f}%", str(one["guaranteed_gpus"]), *used, *times, unfair)
    table.caption = (
        "GPUs: used on average; borrowed: GPU-hours beyond the guarantee; left: GPU-hours of the guarantee not used; "
        "unfair: jobs worse off than alone on an equal part of their queue's share"
    )
    table.caption_justify = "left"
    return table


def _row(summary: dict[str, Any], first: dict[str, Any] | None) -> list[str]:
    jct = summary["jct_s"]
    times = (jct["mean"], jct["median"], jct["p95"], summary["queue_s"]["mean"], summary["makespan_s"])
    use = [f"{100 * summary[share]:.0f}%" for share in ("gpu_utilisation", "goodput")]
    against = [f"{jct['mean'] / first['jct_s']['mean']:.2f}x"] if first is not None else []
    return [_name(summary), *map(duration, times), *use, f"{summary['preemptions']:,}", *against]


def _kind(summary: dict[str, Any]) -> str:
    return "stack" if "stack" in summary else "policy"


def _name(summary: dict[str, Any]) -> str:
    return f"{label(summary)}{' *' if summary['elastic'] else ''}"


def show_stacks(stacks: Sequence[Stack]) -> None:
    """Every stack in full, and as it is written."""
    listed = Table(box=SIMPLE_HEAD)
    for column in ("stack", "policy", "placement", "network", "collective", "other"):
        listed.add_column(column, overflow="fold")
    for stack in stacks:
        full = stack.full
        other = ", ".join(f"{word} {full[word]}" for word in WORDS[4:] if word in full)
        listed.add_row(stack.name, *(str(full[word]) for word in WORDS[:4]), other)
    Console().print(listed)
    for stack in stacks:
        print(f"{stack.name}: {stack.summary}" if stack.summary else stack.name)
        print(f"  {stack}")
