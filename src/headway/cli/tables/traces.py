"""The tables and small histograms that `headway trace info` prints."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.io.units import counted

BAR_WIDTH = 20
FEW_GPU_H = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
HEIGHTS = " ▁▂▃▄▅▆▇█"
# For terminals that cannot show the blocks above.
PLAIN = str.maketrans(EIGHTHS + HEIGHTS[1:], " ....####" + "..::++##")
UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def show(description: dict[str, Any]) -> None:
    """Print everything, in as many lines as fit a screen."""
    console = Console(highlight=False)
    arrivals, warnings = description["arrivals"], description["warnings"]
    slices = f"{len(arrivals)} equal slices of at most {max(arrivals):,}"
    parts = [
        _summary(description),
        _histogram("GPUs of a job", description["sizes"]),
        _histogram("duration", description["durations"]),
        Text(f"\nsubmissions over the trace, in {slices}", style="bold"),
        Text(f"{sparkline(arrivals)}\n"),
        *([Text("what biases a study of this trace", style="bold")] if warnings else []),
        *(Text(f"- {warning}") for warning in warnings),
    ]
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    text = captured.get()
    if not console.encoding.startswith("utf"):
        text = text.translate(PLAIN).encode("ascii", "replace").decode()
    console.file.write(text)


def duration(value_s: float) -> str:
    """A time in the largest unit that fits: 1.5 h."""
    text = next((f"{value_s / unit_s:,.1f} {unit}" for unit_s, unit in UNITS if value_s >= unit_s), None)
    return text or f"{value_s:,.2f} s"


def bar(share: float) -> str:
    """A bar of a share of the full width, to the eighth of a character."""
    eighths = round(min(1.0, share) * BAR_WIDTH * 8)
    return EIGHTHS[8] * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def sparkline(counts: Sequence[int]) -> str:
    """One character per count; anything above zero is visible."""
    top = max(*counts, 1)
    return "".join(HEIGHTS[max(1, round(count / top * 8)) if count else 0] for count in counts)


def _summary(numbers: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    gpus, lasts = numbers["gpus"], numbers["duration_s"]
    known = ", ".join(f"{numbers[what]:,} {what}" for what in ("users", "queues", "models") if numbers[what])
    rows = {
        "trace": numbers["trace"],
        "jobs": f"{numbers['jobs']:,}" + (f" ({known})" if known else ""),
        "GPUs of a job": f"mean {gpus['mean']:.2f}, median {gpus['median']:g}, largest {gpus['max']:,}",
        "duration": f"median {duration(lasts['median'])}, mean {duration(lasts['mean'])}, "
        f"p90 {duration(lasts['p90'])}, p99 {duration(lasts['p99'])}, longest {duration(lasts['max'])}",
        "submissions": f"over {duration(numbers['span_s'])}, a mean gap of {duration(numbers['gap_s']['mean'])} "
        f"(coefficient of variation {numbers['gap_s']['cv']:.2f})",
        "work": _work(numbers["work_gpu_h"]),
        "demand": f"{_gpus(numbers['mean_demand_gpus'])} on average, {numbers['peak_demand_gpus']:,} at most "
        "(if no job waited)",
    }
    if "cluster" in numbers:
        cluster = numbers["cluster"]
        load = f"{numbers['load']:.3f}" if numbers["load"] is not None else "all at once"
        rows["load"] = (
            f"{load} on {cluster['name']} ({counted(cluster['nodes'], 'node')}, {counted(cluster['gpus'], 'GPU')})"
        )
    for name, text in rows.items():
        table.add_row(name, Text(str(text)))
    return table


def _work(gpu_h: float) -> str:
    """GPU-hours, or GPU-seconds where these would be few."""
    return f"{gpu_h:,.0f} GPU-hours" if gpu_h >= FEW_GPU_H else f"{gpu_h * 3600:,.4g} GPU-seconds"


def _gpus(value: float | None) -> str:
    return "all at once" if value is None else f"{value:,.1f} GPUs"


def _histogram(title: str, bins: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(f"\n{title}", justify="right", no_wrap=True, min_width=len(title))
    for what in ("jobs", "GPU time"):
        table.add_column(f"\n{what}", justify="right", no_wrap=True, min_width=len(what))
        table.add_column("", width=BAR_WIDTH)
    totals = {what: sum(one[what] for one in bins) for what in ("jobs", "work_gpu_s")}
    for one in bins:
        if one["jobs"]:
            shares = [one[what] / total for what, total in totals.items()]
            cells = (cell for share in shares for cell in (f"{share:.1%}", Text(bar(share), "cyan")))
            table.add_row(one["bin"], *cells)
    return table
