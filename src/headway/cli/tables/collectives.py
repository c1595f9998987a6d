"""The tables of `headway collective`, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from headway.io.units import counted

if TYPE_CHECKING:
    from headway.collectives.advice import TopologyAdvice
    from headway.collectives.schedulers import SchedulerOutcome
    from headway.collectives.training.iteration import Iteration

MS_PER_S = 1e3
# The last rows of a comparison: what they are called, the field of the summary, and its format.
MEANS = (
    ("mean utilisation", "utilisation", ".2%"),
    ("mean part of limit", "of_limit", ".2%"),
    ("... with latencies", "of_bound", ".2%"),
    ("mean speed-up", "speedup", ".2f"),
    ("largest speed-up", "speedup_max", ".2f"),
    ("against", "against", ""),
)


# Wide enough for the names of the presets and of dimensions.
LONGEST_NAME = 22


def time_text(seconds: float) -> str:
    """`12.50 ms`, `830.1 us`: four figures in the unit that fits."""
    if seconds >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * MS_PER_S:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def size_text(size_bytes: int) -> str:
    """`1 GB`, `15.63 MB`."""
    for scale, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.4g} {unit}"
    return f"{size_bytes} B"


def _table(first: str, *others: str) -> Table:
    """A table of numbers, with names in its first column; a long name goes on in the next line and leaves the numbers their room."""
    table = Table(box=None, pad_edge=False)
    table.add_column(first, overflow="fold", max_width=LONGEST_NAME)
    for name in others:
        table.add_column(name, justify="right")
    return table


def show_outcome(outcome: "SchedulerOutcome") -> None:
    """One plan: its time beside the limits, and each dimension."""
    console = Console()
    own = outcome.scheduler == "best"
    maker = f"best: {outcome.maker}, {outcome.intra}" if own else f"{outcome.scheduler} ({outcome.intra})"
    console.print(
        f"[bold]{outcome.collective}[/] of {size_text(outcome.size_bytes)} on {outcome.topology.name} "
        f"({outcome.topology.npus} NPUs), {counted(len(outcome.plan.chunks), 'chunk')}, {maker}"
    )
    console.print(
        f"time {time_text(outcome.time_s)}   limit {time_text(outcome.limit.limit_s)} "
        f"({outcome.limit.limit_s / outcome.time_s:.1%} of it reached)   ideal {time_text(outcome.limit.ideal_s)}   "
        f"utilisation {outcome.utilisation:.1%}"
    )
    if outcome.bound_s > outcome.limit.limit_s:
        reached = f"{outcome.bound_s / outcome.time_s:.1%} of it reached"
        console.print(f"with latencies no plan takes less than {time_text(outcome.bound_s)} ({reached})")
    table = _table("dimension", "bandwidth", "latency", "sent per NPU", "busy", "utilisation")
    for dim, dimension in enumerate(outcome.topology.dimensions):
        busy = outcome.timeline.busy_s(dim)
        table.add_row(
            outcome.topology.label(dim),
            f"{dimension.link_gbps:g} Gbps",
            f"{dimension.latency_ns:g} ns",
            size_text(outcome.timeline.bytes_on(dim)),
            time_text(busy),
            f"{busy / outcome.time_s:.1%}",
        )
    console.print(table)


def show_comparison(rows: "Sequence[Sequence[SchedulerOutcome]]", summary: Sequence[dict[str, Any]]) -> None:
    """Time and utilisation of every scheduler on every topology, and the averages; what fixes its number of chunks comes
    in a table of its own."""
    console = Console()
    first = rows[0][0]
    console.print(
        f"[bold]{first.collective}[/] of {size_text(first.size_bytes)}: time in ms, and utilisation (ideal over time)"
    )
    for title, fixed in (("each with the number of chunks that suits it", False), ("with a fixed number", True)):
        places = [place for place, mean in enumerate(summary) if ("@" in mean["method"]) is fixed]
        if places:
            console.print(f"\n[bold]{title}[/]")
            console.print(_comparison(rows, [summary[place] for place in places], places))


def _comparison(
    rows: "Sequence[Sequence[SchedulerOutcome]]", summary: Sequence[dict[str, Any]], places: Sequence[int]
) -> Table:
    table = _table("topology", "limit", *(mean["method"] for mean in summary))
    for row in rows:
        chosen = [row[place] for place in places]
        times = (f"{one.time_s * MS_PER_S:.3f}\n{one.utilisation:.1%}" for one in chosen)
        table.add_row(row[0].topology.name, f"{row[0].limit.limit_s * MS_PER_S:.3f}", *times)
    table.add_section()
    for label, field, form in MEANS:
        table.add_row(label, "", *(format(mean[field], form) for mean in summary))
    return table


def show_advice(advice: "TopologyAdvice") -> None:
    """Which dimensions bind, and what to do about it."""
    console = Console()
    topology, bound = advice.topology, advice.limit
    console.print(f"[bold]{topology.name}[/]: {advice.collective} of {size_text(advice.size_bytes)}")
    console.print(f"ideal {time_text(bound.ideal_s)}, exact limit {time_text(bound.limit_s)}")
    starved = [topology.label(row.dim) for row in advice.dimensions if row.under_provisioned]
    worst = f"under-provisioned: {', '.join(starved)}: no order of chunks is faster, the others wait for them"
    console.print(worst if starved else "balanced: a good mix of orders keeps every dimension busy all the time")
    sequence = " then ".join("+".join(f"dim {dim + 1}" for dim in block.dims) for block in bound.blocks)
    console.print(f"data should visit: {sequence} (reduce-scatter; within + in the optimal shares of orders)")
    split = f"best split of {advice.budget_gbps:g} Gbps"
    table = _table("dimension", "bandwidth", "busy at limit", "to balance", split)
    for row in advice.dimensions:
        raised = f"{row.balancing_gbps:.0f} Gbps" if row.balancing_gbps > row.link_gbps * (1 + 1e-9) else "enough"
        present, split = f"{row.link_gbps:g} Gbps", f"{row.split_gbps:.0f} Gbps"
        table.add_row(topology.label(row.dim), present, f"{row.utilisation_at_limit:.1%}", raised, split)
    console.print(table)
    console.print(f"with that split the limit is {time_text(advice.budget_limit_s)}")


def show_iterations(workload: str, results: "Sequence[Sequence[Iteration]]", means: Sequence[dict[str, Any]]) -> None:
    """Iteration time, what of it is exposed communication, and the speed-up against the method named at the end."""
    from headway.collectives.summary import rival

    console = Console()
    console.print(f"[bold]{workload}[/]: one training iteration; time, exposed communication, speed-up")
    for title, fixed in (("each with the number of chunks that suits it", False), ("with a fixed number", True)):
        places = [place for place, mean in enumerate(means) if ("@" in mean["method"]) is fixed]
        table = _table("topology", "compute", *(means[place]["method"] for place in places))
        for result in results:
            rows = [(result[place], rival(result[place], result)) for place in places]
            cells = (
                f"{time_text(row.time_s)}\n{row.exposed_s / row.time_s:.0%} {other.time_s / row.time_s:.2f}x"
                for row, other in rows
            )
            table.add_row(result[0].topology, time_text(result[0].compute_s), *cells)
        for label, field, form in MEANS[-3:]:
            table.add_row(label, "", *(format(means[place][field], form) for place in places))
        console.print(f"\n[bold]{title}[/]")
        console.print(table)


def show_together(requests: Sequence[str], ends: dict[str, list[float]]) -> None:
    """When each request ends under each scheduler."""
    table = _table("request", *ends)
    for place, request in enumerate(requests):
        table.add_row(request, *(time_text(times[place]) for times in ends.values()))
    table.add_row("all", *(time_text(max(times)) for times in ends.values()))
    Console().print(table)
