"""Figures over jobs: completion and waiting times, by size and by duration, and fairness."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.report.data import Jobs, PolicyView, Study
from headway.report.figure import (
    Figure,
    axis,
    cdf,
    colour,
    line,
    numbers,
    of_policy,
    ratio_ticks,
    shortened,
    time_ticks,
)

# Upper ends of the bins with their names; the last is open.
SIZES = ((1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"))
LARGEST = "> 64"
DURATIONS = ((60, "< 1 min"), (600, "1-10 min"), (3600, "10-60 min"), (21_600, "1-6 h"), (86_400, "6-24 h"))
DURATIONS_REST = "> 1 d"
# Shorter waits are plotted as this: a log axis has no zero.
SHORTEST_WAIT_S = 1.0
MOST_GROUPS = 12
# Characters of a name below its tick.
LONGEST_NAME = 16

Column = Callable[[Jobs], NDArray[np.float64]]


def jct_cdf(study: Study) -> Figure:
    """How long jobs take from submission to end."""
    return _time_cdf(
        study, "jct-cdf", "Job completion time", "From submission to end.", "job completion time (log axis)", _jct
    )


def wait_cdf(study: Study) -> Figure:
    """How long jobs wait in total."""
    note = "All the time a job spent without GPUs; waits under 1 s are plotted at 1 s."
    title = "waiting time (log axis)"
    return _time_cdf(
        study, "wait-cdf", "Waiting time", note, title, lambda jobs: np.maximum(jobs.queue_s, SHORTEST_WAIT_S)
    )


def _jct(jobs: Jobs) -> NDArray[np.float64]:
    return jobs.jct_s


def _time_cdf(study: Study, name: str, heading: str, note: str, title: str, column: Column) -> Figure:
    curves = [cdf(column(view.jobs)) for view in study.views]
    values = [value for x, _ in curves for value in x if value]
    layout = {
        "xaxis": axis(title, **time_ticks(min(values), max(values))),
        "yaxis": axis("jobs at most this long (%)", range=[0, 102]),
    }
    return Figure(name, heading, note, _lines(study, curves, "%{x:.4g} s: %{y:.1f} % of jobs"), layout)


def _lines(
    study: Study, curves: list[tuple[list[float | None], list[float | None]]], hover: str
) -> list[dict[str, Any]]:
    return [
        {
            **of_policy(place, view.policy),
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "line": {**line(place), "shape": "hv"},
            "hovertemplate": f"{view.policy}<br>{hover}<extra></extra>",
        }
        for place, (view, (x, y)) in enumerate(zip(study.views, curves, strict=True))
    ]


def jct_by_size(study: Study) -> Figure:
    """Mean JCT by GPUs asked for."""
    note = "Mean over the jobs of each size."
    places = [_bin(view.jobs.gpus, SIZES, right=True) for view in study.views]
    return _binned(
        study, "jct-by-gpus", "Completion time by size", note, "GPUs of a job", (*_names(SIZES), LARGEST), places
    )


def jct_by_duration(study: Study) -> Figure:
    """Mean JCT by the time a job needs."""
    note = "Mean over the jobs that need so long on the GPUs they ask for."
    places = [_bin(view.jobs.duration_s, DURATIONS, right=False) for view in study.views]
    names = (*_names(DURATIONS), DURATIONS_REST)
    return _binned(study, "jct-by-duration", "Completion time by duration", note, "duration of a job", names, places)


def _names(bins: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    return tuple(name for _, name in bins)


def _bin(values: NDArray[Any], bins: tuple[tuple[int, str], ...], *, right: bool) -> NDArray[np.int64]:
    ends = np.array([end for end, _ in bins], np.float64)
    return np.searchsorted(ends, values, side="left" if right else "right")


def _binned(
    study: Study,
    name: str,
    heading: str,
    note: str,
    title: str,
    names: tuple[str, ...],
    places: list[NDArray[np.int64]],
) -> Figure:
    counts = np.bincount(places[0], minlength=len(names))
    shown = np.flatnonzero(counts)
    traces, means = [], []
    for place, (view, where) in enumerate(zip(study.views, places, strict=True)):
        held = np.bincount(where, minlength=len(names))[shown]
        mean = np.bincount(where, view.jobs.jct_s, len(names))[shown] / np.maximum(held, 1)
        means.append(mean[mean > 0])
        traces.append(
            {
                **of_policy(place, view.policy),
                "type": "bar",
                "x": [names[k] for k in shown],
                "y": numbers(np.where(mean > 0, mean, np.nan)),
                "customdata": held.tolist(),
                "marker": {"color": colour(place)},
                "hovertemplate": f"{view.policy}, %{{x}}<br>%{{y:.4g}} s over %{{customdata}} jobs<extra></extra>",
            }
        )
    seen = np.concatenate(means)
    layout = {
        "barmode": "group",
        "xaxis": axis(title, type="category"),
        # Bars on a log axis start one step below the shortest, so that the shortest is still seen.
        "yaxis": axis("mean JCT (log axis)", **time_ticks(float(seen.min()) / 2, float(seen.max()))),
    }
    return Figure(name, heading, note, traces, layout)


def fairness_cdf(study: Study) -> Figure:
    """Finish-time fairness: against an equal share of the cluster alone."""
    curves = [cdf(np.maximum(view.jobs.fairness, 1e-3)) for view in study.views]
    seen = [value for x, _ in curves for value in x if value]
    note = "JCT over the time alone on an equal share of the cluster; right of 1, a job lost by sharing."
    layout = {
        "xaxis": axis("finish-time fairness (ratio, log axis)", **ratio_ticks(min(seen), max(seen))),
        "yaxis": axis("jobs with at most this ratio (%)", range=[0, 102]),
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": _RULE}],
    }
    return Figure(
        "fairness-cdf", "Finish-time fairness", note, _lines(study, curves, "%{x:.3g}: %{y:.1f} % of jobs"), layout
    )


_RULE = {"color": "#8C8C8C", "width": 1, "dash": "dot"}


def slow_down_by_group(study: Study) -> Figure | None:
    """Slow-down by queue or user; None where the trace names neither."""
    if not study.grouped_by:
        return None
    names, counts = np.unique(study.views[0].jobs.group, return_counts=True)
    chosen = names[np.argsort(-counts, kind="stable")][:MOST_GROUPS]
    full = [str(name) or "(none)" for name in chosen]
    labels = shortened(full, LONGEST_NAME)
    spreads = [[_median_and_p90(view, name) for name in chosen] for view in study.views]
    seen = [value for spread in spreads for pair in spread for value in pair if value > 0]
    traces = []
    for place, (view, spread) in enumerate(zip(study.views, spreads, strict=True)):
        middle, high = (np.array(column) for column in zip(*spread, strict=True))
        markers = {
            "type": "scatter",
            "mode": "markers",
            "x": [k + _offset(place, len(study.views)) for k in range(len(labels))],
            "y": numbers(middle),
            "text": full,
            "error_y": {
                "type": "data", "symmetric": False, "array": numbers(high - middle), "arrayminus": [0.0] * len(labels),
                "color": colour(place), "thickness": 1.5, "width": 2,
            },
            "marker": {"color": colour(place), "size": 7},
            "hovertemplate": f"{view.policy}, %{{text}}<br>median %{{y:.3g}}<extra></extra>",
        }  # fmt: skip
        traces.append(of_policy(place, view.policy) | markers)
    more = f", the {len(chosen)} with most jobs of {len(names)}" if len(names) > len(chosen) else ""
    layout = {
        "xaxis": axis(
            f"{study.grouped_by}{more}",
            tickvals=list(range(len(labels))),
            ticktext=labels,
            showgrid=False,
            zeroline=False,
        ),
        "yaxis": axis("slow-down (ratio, log axis)", **ratio_ticks(min(seen), max(seen))),
    }
    note = "JCT over the time a job needs: the dot is the median, the line reaches to the 90th percentile."
    return Figure("slow-down", f"Slow-down by {study.grouped_by}", note, traces, layout, 380, wide=True)


def _median_and_p90(view: PolicyView, name: str) -> tuple[float, float]:
    rows = view.jobs.group == name
    if not rows.any():
        return float("nan"), float("nan")
    middle, high = np.quantile(view.jobs.slow_down[rows], (0.5, 0.9))
    return float(middle), float(high)


def _offset(place: int, policies: int) -> float:
    return 0.0 if policies == 1 else 0.6 * (place / (policies - 1) - 0.5)
