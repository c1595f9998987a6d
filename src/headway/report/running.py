"""Figures over time: GPUs in use, jobs running and waiting, fragmentation, the cost of preemption, and the Gantt chart."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.io.units import counted
from headway.report.data import Bars, OverTime, PolicyView, Study
from headway.report.figure import COLOURS, OWN_LEGEND, Figure, axis, bars, colour, curve, numbers, shortened, time_unit

# Characters of a policy's name below its bar.
LONGEST_NAME = 22
# Beyond this, three names side by side run into each other.
LONGEST_UPRIGHT = 9
# Name, title, y axis, and what is drawn.
SERIES: tuple[tuple[str, str, dict[str, Any], Callable[[OverTime], NDArray[np.float64]]], ...] = (
    ("utilisation", "GPU utilisation", axis("GPUs in use (%)", range=[0, 104]), lambda over: 100 * over.utilisation),
    ("fragmentation", "Fragmentation", axis("GPUs stranded (%)", rangemode="tozero"), lambda over: 100 * over.stranded),
    ("running", "Running jobs", axis("jobs running", rangemode="tozero"), lambda over: over.running_jobs),
    ("waiting", "Waiting jobs", axis("jobs waiting", rangemode="tozero"), lambda over: over.waiting_jobs),
)
NOTES = {
    "utilisation": "The share of GPUs that jobs hold, averaged over each plotted interval.",
    "fragmentation": "GPUs that are free although a waiting job needs no more: fragmented, or held back for the head of "
    "the queue.",
    "running": "Jobs that hold GPUs.",
    "waiting": "Jobs submitted and not ended that hold no GPU.",
}


def over_time(study: Study) -> list[Figure]:
    """What `SERIES` names, a curve per policy."""
    span = max(float(view.over_time.middles_s[-1]) for view in study.views)
    unit_s, unit = time_unit(span - float(study.views[0].over_time.middles_s[0]))
    figures = []
    for name, title, y, column in SERIES:
        traces = []
        for place, view in enumerate(study.views):
            x, values = numbers(view.over_time.middles_s / unit_s), numbers(column(view.over_time))
            hover = f"{view.policy}<br>%{{x:.4g}} {unit}: %{{y:.4g}}<extra></extra>"
            traces.append(curve(place, view.policy, x, values, line={"width": 1.5}, hovertemplate=hover))
        figures.append(Figure(name, title, NOTES[name], traces, {"xaxis": axis(f"time ({unit})"), "yaxis": y}))
    return figures


def preemptions(study: Study) -> Figure:
    """How often jobs lost their GPUs, and what that cost."""
    traces: list[dict[str, Any]] = []
    for place, view in enumerate(study.views):
        counts = [summary["preemptions"] for summary in view.summaries]
        for on, value, what in (("", float(np.mean(counts)), "preemptions"), ("2", view.lost_gpu_h, "GPU-hours lost")):
            more = {"showlegend": not on, "xaxis": f"x{on}", "yaxis": f"y{on}"}
            hover = f"{view.policy}<br>%{{y:,.4g}} {what}<extra></extra>"
            traces.append(bars(place, view.policy, [view.policy], [float(f"{value:.5g}")], hovertemplate=hover, **more))
    names = [view.policy for view in study.views]
    many = len(names) > 3
    slanted = many or max(map(len, names)) > LONGEST_UPRIGHT
    bare = {
        "type": "category", "tickvals": names, "ticktext": shortened(names, LONGEST_NAME),
        "tickangle": -45 if slanted else 0,
    }  # fmt: skip
    layout = {
        "xaxis": {**axis("preemptions", **bare), "domain": [0, 0.42]},
        "yaxis": axis("times", rangemode="tozero"),
        "xaxis2": {**axis("lost to saving and resuming", **bare), "domain": [0.58, 1]},
        "yaxis2": axis("GPU-hours", rangemode="tozero", anchor="x2"),
    }
    note = "GPUs held while no work was done."
    height = 420 if slanted else 340
    return Figure("preemptions", "Preemptions and what they cost", note, traces, layout, height, wide=many)


def receipts(study: Study) -> Figure | None:
    """Where the waiting went: the mean wait of a job by cause, one stack per policy; None where nobody waited."""
    causes = dict.fromkeys(cause for view in study.views for summary in view.summaries for cause in summary["wait_s"])
    if not causes:
        return None
    means = {
        cause: [
            float(np.mean([summary["wait_s"].get(cause, 0.0) for summary in view.summaries])) for view in study.views
        ]
        for cause in causes
    }
    names = [view.policy for view in study.views]
    unit_s, unit = time_unit(max(map(sum, zip(*means.values(), strict=True))))
    traces = [
        {
            **{"type": "bar", "name": cause, "x": names, "marker": {"color": colour(place)}},
            "y": numbers(np.array(means[cause]) / unit_s),
            "hovertemplate": f"%{{x}}<br>{cause}: %{{y:,.4g}} {unit}<extra></extra>",
        }
        for place, cause in enumerate(causes)
    ]
    ticks = {"type": "category", "tickvals": names, "ticktext": shortened(names, LONGEST_NAME)}
    layout = {
        **OWN_LEGEND,
        "barmode": "stack",
        "xaxis": axis("policy", **ticks),
        "yaxis": axis(f"mean wait of a job ({unit})", rangemode="tozero"),
    }
    note = "Every second that jobs did not run, by its one cause: the parts of a stack add up to the mean wait."
    return Figure("receipts", "Why jobs waited", note, traces, layout, 380, wide=len(names) > 3)


def gantt(study: Study, view: PolicyView) -> Figure | None:
    """Which job held which GPU; None where the run is too large for it."""
    if view.bars is None:
        return None
    # One range for all policies, so that their charts can be compared.
    charts = [one.bars for one in study.views if one.bars is not None]
    first_s, last_s = min(float(one.start_s.min()) for one in charts), max(float(one.end_s.max()) for one in charts)
    unit_s, unit = time_unit(last_s - first_s)
    traces = [_bars_of(study, view.bars, tint, unit_s, unit) for tint in range(len(COLOURS))]
    names, counts = zip(*study.nodes, strict=True)
    shown = slice(None, None, max(1, len(names) // 16))
    middles = np.cumsum(counts) - (np.array(counts) + 1) / 2
    ticks = {"tickvals": middles[shown].tolist(), "ticktext": names[shown], "zeroline": False, "showgrid": False}
    layout = {
        "barmode": "overlay",
        "xaxis": axis(f"time ({unit})", range=[first_s / unit_s, last_s / unit_s]),
        "yaxis": axis("node (one row per GPU)", range=[study.gpus - 0.5, -0.5], **ticks),
        "showlegend": False,
    }
    note = "Each bar is one job on the GPUs it held; neighbouring jobs differ in colour."
    title, height = f"GPUs over time: {view.policy}", 200 + 6 * study.gpus
    return Figure(f"gantt-{view.policy}", title, note, traces, layout, height, wide=True)


def _bars_of(study: Study, chart: Bars, tint: int, unit_s: float, unit: str) -> dict[str, Any]:
    """The bars of one colour: jobs whose numbers have the same remainder."""
    rows = chart.job % len(COLOURS) == tint
    ids = study.job_id[chart.job[rows]]
    counts = chart.gpus[rows]
    return {
        "type": "bar",
        "orientation": "h",
        "base": numbers(chart.start_s[rows] / unit_s),
        "x": numbers((chart.end_s[rows] - chart.start_s[rows]) / unit_s),
        "y": (chart.first_gpu[rows] + (counts - 1) / 2).tolist(),
        "width": (counts - 0.15).tolist(),
        "text": [f"job {name}, {counted(count, 'GPU')} here" for name, count in zip(ids, counts, strict=True)],
        "textposition": "none",
        "hovertemplate": f"%{{text}}<br>from %{{base:.4g}} for %{{x:.4g}} {unit}<extra></extra>",
        "marker": {"color": COLOURS[tint], "line": {"width": 0}},
        "showlegend": False,
    }
