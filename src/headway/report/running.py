"""Figures over time: GPUs in use, jobs running and waiting, fragmentation, what preemption cost, and the Gantt chart."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.report.data import Bars, OverTime, PolicyView, Study
from headway.report.figure import COLOURS, Figure, axis, colour, line, numbers, of_policy, shortened, time_unit

# Characters of a policy's name below its bar.
LONGEST_NAME = 22
# Beyond this, three names side by side run into each other.
LONGEST_UPRIGHT = 9
Series = Callable[[OverTime], NDArray[np.float64]]


def utilisation(study: Study) -> Figure:
    """GPUs in use."""
    note = "The share of GPUs that jobs hold, averaged over each plotted interval."
    y = axis("GPUs in use (%)", range=[0, 104])
    return _series(study, "utilisation", "GPU utilisation", note, y, lambda over: 100 * over.utilisation)


def running_jobs(study: Study) -> Figure:
    """Jobs that hold GPUs."""
    y = axis("jobs running", rangemode="tozero")
    return _series(study, "running", "Running jobs", "Jobs that hold GPUs.", y, lambda over: over.running_jobs)


def waiting_jobs(study: Study) -> Figure:
    """Jobs that wait."""
    note = "Jobs submitted and not ended that hold no GPU."
    y = axis("jobs waiting", rangemode="tozero")
    return _series(study, "waiting", "Waiting jobs", note, y, lambda over: over.waiting_jobs)


def fragmentation(study: Study) -> Figure:
    """GPUs that are free although a waiting job needs no more of them."""
    note = (
        "GPUs that are free although a waiting job needs no more: fragmented, or held back for the head of the queue."
    )
    y = axis("GPUs stranded (%)", rangemode="tozero")
    return _series(study, "fragmentation", "Fragmentation", note, y, lambda over: 100 * over.stranded)


def _series(study: Study, name: str, heading: str, note: str, y: dict[str, Any], column: Series) -> Figure:
    span = max(float(view.over_time.middles_s[-1]) for view in study.views)
    unit_s, unit = time_unit(span - float(study.views[0].over_time.middles_s[0]))
    traces = [
        {
            **of_policy(place, view.policy),
            "type": "scatter",
            "mode": "lines",
            "x": numbers(view.over_time.middles_s / unit_s),
            "y": numbers(column(view.over_time)),
            "line": {**line(place), "width": 1.5},
            "hovertemplate": f"{view.policy}<br>%{{x:.4g}} {unit}: %{{y:.4g}}<extra></extra>",
        }
        for place, view in enumerate(study.views)
    ]
    return Figure(name, heading, note, traces, {"xaxis": axis(f"time ({unit})"), "yaxis": y})


def preemptions(study: Study) -> Figure:
    """How often jobs lost their GPUs, and what that cost."""
    traces: list[dict[str, Any]] = []
    for place, view in enumerate(study.views):
        counts = [summary["preemptions"] for summary in view.summaries]
        for on, value, what in (("", float(np.mean(counts)), "preemptions"), ("2", view.lost_gpu_h, "GPU-hours lost")):
            traces.append(
                {
                    **of_policy(place, view.policy),
                    "showlegend": not on,
                    "type": "bar",
                    "x": [view.policy],
                    "y": [float(f"{value:.5g}")],
                    "xaxis": f"x{on}",
                    "yaxis": f"y{on}",
                    "marker": {"color": colour(place)},
                    "hovertemplate": f"{view.policy}<br>%{{y:,.4g}} {what}<extra></extra>",
                }
            )
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
    return Figure(
        "preemptions", "Preemptions and what they cost", note, traces, layout, 420 if slanted else 340, wide=many
    )


def gantt(study: Study, view: PolicyView) -> Figure | None:
    """Which job held which GPU; None where the run is too large for it."""
    bars = view.bars
    if bars is None:
        return None
    # One range for all policies, so that their charts can be compared.
    charts = [one.bars for one in study.views if one.bars is not None]
    first_s, last_s = min(float(one.start_s.min()) for one in charts), max(float(one.end_s.max()) for one in charts)
    unit_s, unit = time_unit(last_s - first_s)
    traces = [_bars_of(study, bars, tint, unit_s, unit) for tint in range(len(COLOURS))]
    first, ticks, texts = 0, [], []
    step = max(1, len(study.nodes) // 16)
    for number, (name, count) in enumerate(study.nodes):
        if number % step == 0:
            ticks.append(first + (count - 1) / 2)
            texts.append(name)
        first += count
    layout = {
        "barmode": "overlay",
        "xaxis": axis(f"time ({unit})", range=[first_s / unit_s, last_s / unit_s]),
        "yaxis": axis(
            "node (one row per GPU)", tickvals=ticks, ticktext=texts, range=[study.gpus - 0.5, -0.5], zeroline=False,
            showgrid=False,
        ),
        "showlegend": False,
    }  # fmt: skip
    note = "Each bar is one job on the GPUs it held; neighbouring jobs differ in colour."
    return Figure(
        f"gantt-{view.policy}", f"GPUs over time: {view.policy}", note, traces, layout, 200 + 6 * study.gpus, wide=True
    )


def _bars_of(study: Study, bars: Bars, tint: int, unit_s: float, unit: str) -> dict[str, Any]:
    """The bars of one colour: jobs whose numbers have the same remainder."""
    rows = bars.job % len(COLOURS) == tint
    ids = study.job_id[bars.job[rows]]
    counts = bars.gpus[rows]
    return {
        "type": "bar",
        "orientation": "h",
        "base": numbers(bars.start_s[rows] / unit_s),
        "x": numbers((bars.end_s[rows] - bars.start_s[rows]) / unit_s),
        "y": (bars.first_gpu[rows] + (counts - 1) / 2).tolist(),
        "width": (counts - 0.15).tolist(),
        "text": [f"job {name}, {count} GPUs here" for name, count in zip(ids, counts, strict=True)],
        "textposition": "none",
        "hovertemplate": f"%{{text}}<br>from %{{base:.4g}} for %{{x:.4g}} {unit}<extra></extra>",
        "marker": {"color": COLOURS[tint], "line": {"width": 0}},
        "showlegend": False,
    }
