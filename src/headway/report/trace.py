"""The plots of `headway trace info --plot`: one page that works offline, small whatever the size of the trace."""

import html
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Points of a line; more cannot be told apart on a screen.
POINTS = 600
# One colour an idea, in all four plots (of Okabe and Ito's palette, which colour-blind people can tell apart).
COLOURS = {"jobs": "#0072B2", "GPU time": "#E69F00", "demand": "#009E73", "cluster": "#CC79A7"}
DAY_S = 86_400.0


def page(
    name: str,
    submit_s: NDArray[np.float64],
    gpus: NDArray[np.int32],
    duration_s: NDArray[np.float64],
    demand_times_s: NDArray[np.float64],
    demand_gpus: NDArray[np.int64],
    cluster_gpus: int | None,
) -> str:
    """The whole page as HTML: sizes, durations, arrivals and demand of a workload."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = ("GPUs of a job", "Duration", "Submissions", "Demand if no job waited")
    figure = make_subplots(rows=2, cols=2, subplot_titles=titles, vertical_spacing=0.16, horizontal_spacing=0.1)
    _sizes(figure, go, gpus, duration_s)
    _durations(figure, go, gpus, duration_s)
    _arrivals(figure, go, submit_s)
    _demand(figure, go, demand_times_s, demand_gpus, cluster_gpus)
    figure.update_layout(
        title={"text": f"{html.escape(name)}: {len(gpus):,} jobs", "x": 0.02},
        template="plotly_white",
        height=820,
        margin={"l": 70, "r": 30, "t": 100, "b": 60},
        legend={"orientation": "h", "y": -0.08},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False}))


def _sizes(figure: Any, go: Any, gpus: NDArray[np.int32], duration_s: NDArray[np.float64]) -> None:
    powers = 2 ** np.arange(int(np.ceil(np.log2(max(2, gpus.max())))) + 1)
    place = np.searchsorted(powers, gpus)
    names = ["1", "2", *(f"{low + 1}-{high}" for low, high in itertools.pairwise(powers[1:]))]
    for label, weights in (("jobs", None), ("GPU time", gpus * duration_s)):
        held = np.bincount(place, weights, len(powers))
        bars = go.Bar(x=names, y=100 * held / held.sum(), name=f"share of {label}", marker_color=COLOURS[label])
        figure.add_trace(bars, row=1, col=1)
    figure.update_xaxes(title_text="GPUs", type="category", tickangle=-45, row=1, col=1)
    figure.update_yaxes(title_text="percent", row=1, col=1)


def _durations(figure: Any, go: Any, gpus: NDArray[np.int32], duration_s: NDArray[np.float64]) -> None:
    order = np.argsort(duration_s)
    for label, weights in (("jobs", np.ones(len(gpus))), ("GPU time", gpus * duration_s)):
        share = 100 * np.cumsum(weights[order]) / weights.sum()
        rows = np.unique(np.searchsorted(share, np.linspace(0, 100, POINTS)).clip(0, len(gpus) - 1))
        line = {"shape": "hv", "color": COLOURS[label]}
        figure.add_trace(
            go.Scatter(x=duration_s[order][rows], y=share[rows], showlegend=False, line=line), row=1, col=2
        )
    figure.update_xaxes(title_text="duration (s)", type="log", exponentformat="power", row=1, col=2)
    figure.update_yaxes(title_text="percent at most this long", row=1, col=2)


def _arrivals(figure: Any, go: Any, submit_s: NDArray[np.float64]) -> None:
    unit_s, unit = (DAY_S, "day") if submit_s[-1] - submit_s[0] > 4 * DAY_S else (3600.0, "hour")
    edges = np.arange(np.floor(submit_s[0] / unit_s), np.floor(submit_s[-1] / unit_s) + 2)
    counts = np.histogram(submit_s / unit_s, edges)[0]
    bars = go.Bar(x=edges[:-1] + 0.5, y=counts, showlegend=False, marker_color=COLOURS["jobs"])
    figure.add_trace(bars, row=2, col=1)
    figure.update_xaxes(title_text=f"time ({unit}s)", row=2, col=1)
    figure.update_yaxes(title_text=f"jobs per {unit}", row=2, col=1)


def _demand(
    figure: Any, go: Any, times_s: NDArray[np.float64], wanted: NDArray[np.int64], cluster_gpus: int | None
) -> None:
    unit_s, unit = (DAY_S, "days") if times_s[-1] - times_s[0] > 4 * DAY_S else (3600.0, "hours")
    grid = np.linspace(times_s[0], times_s[-1], POINTS)
    held = wanted[np.searchsorted(times_s, grid, side="right") - 1]
    line = {"shape": "hv", "color": COLOURS["demand"]}
    figure.add_trace(go.Scatter(x=grid / unit_s, y=held, name="GPUs wanted", line=line), row=2, col=2)
    if cluster_gpus is not None:
        line = {"dash": "dash", "color": COLOURS["cluster"]}
        ends = grid[[0, -1]] / unit_s
        limit = go.Scatter(x=ends, y=[cluster_gpus] * 2, mode="lines", name="GPUs of the cluster", line=line)
        figure.add_trace(limit, row=2, col=2)
    figure.update_xaxes(title_text=f"time ({unit})", row=2, col=2)
    figure.update_yaxes(title_text="GPUs", rangemode="tozero", row=2, col=2)
