"""Figures over jobs: completion and waiting times, by size and by duration, and fairness."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headway.report.data import Jobs, PolicyView, Study
from headway.report.figure import Figure, axis, bars, cdf, colour, curve, numbers, ratio_ticks, shortened, time_ticks

# Upper ends of the bins with their names; the last is open.
SIZES = {1: "1", 2: "2", 4: "3-4", 8: "5-8", 16: "9-16", 32: "17-32", 64: "33-64", np.inf: "> 64"}
DURATIONS = {60: "< 1 min", 600: "1-10 min", 3600: "10-60 min", 21_600: "1-6 h", 86_400: "6-24 h", np.inf: "> 1 d"}
# Shorter waits are plotted as this: a log axis has no zero.
SHORTEST_WAIT_S = 1.0
MOST_GROUPS = 12
# Characters of a name below its tick.
LONGEST_NAME = 16
RULE = {"color": "#8C8C8C", "width": 1, "dash": "dot"}

# The name, the title and the note of a figure.
Head = tuple[str, str, str]
Column = Callable[[Jobs], NDArray[Any]]


def jct_cdf(study: Study) -> Figure:
    """How long jobs take from submission to end."""
    head = ("jct-cdf", "Job completion time", "From submission to end.")
    return _cdf(study, head, "job completion time (log axis)", lambda jobs: jobs.jct_s)


def wait_cdf(study: Study) -> Figure:
    """How long jobs wait in total."""
    note = "All the time a job spent without GPUs; waits under 1 s are plotted at 1 s."
    head = ("wait-cdf", "Waiting time", note)
    return _cdf(study, head, "waiting time (log axis)", lambda jobs: np.maximum(jobs.queue_s, SHORTEST_WAIT_S))


def fairness_cdf(study: Study) -> Figure:
    """Finish-time fairness: against an equal share of the cluster alone."""
    note = "JCT over the time alone on an equal share of the cluster; right of 1, a job lost by sharing."
    head = ("fairness-cdf", "Finish-time fairness", note)
    title = "finish-time fairness (ratio, log axis)"
    drawn = _cdf(study, head, title, lambda jobs: np.maximum(jobs.fairness, 1e-3), ratio=True)
    drawn.layout["shapes"] = [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": RULE}]
    return drawn


def _cdf(study: Study, head: Head, title: str, column: Column, *, ratio: bool = False) -> Figure:
    """A curve per policy over times, or over ratios."""
    curves = [cdf(column(view.jobs)) for view in study.views]
    seen = [value for x, _ in curves for value in x if value]
    hover = "%{x:.3g}" if ratio else "%{x:.4g} s"
    traces = []
    for place, (view, (x, y)) in enumerate(zip(study.views, curves, strict=True)):
        text = f"{view.policy}<br>{hover}: %{{y:.1f}} % of jobs<extra></extra>"
        traces.append(curve(place, view.policy, x, y, line={"shape": "hv"}, hovertemplate=text))
    layout = {
        "xaxis": axis(title, **(ratio_ticks if ratio else time_ticks)(min(seen), max(seen))),
        "yaxis": axis(f"jobs {'with at most this ratio' if ratio else 'at most this long'} (%)", range=[0, 102]),
    }
    return Figure(*head, traces, layout)


def jct_by_size(study: Study) -> Figure:
    """Mean JCT by GPUs asked for."""
    head = ("jct-by-gpus", "Completion time by size", "Mean over the jobs of each size.")
    return _binned(study, head, "GPUs of a job", SIZES, "left", lambda jobs: jobs.gpus)


def jct_by_duration(study: Study) -> Figure:
    """Mean JCT by the time a job needs."""
    note = "Mean over the jobs that need so long on the GPUs they ask for."
    head = ("jct-by-duration", "Completion time by duration", note)
    return _binned(study, head, "duration of a job", DURATIONS, "right", lambda jobs: jobs.duration_s)


def _binned(
    study: Study, head: Head, title: str, bins: dict[float, str], side: Literal["left", "right"], column: Column
) -> Figure:
    """The mean JCT per bin; `side`: left if an upper end belongs to its bin, else right."""
    places = [np.searchsorted(np.array(list(bins)), column(view.jobs), side=side) for view in study.views]
    shown = np.unique(places[0])
    names = [list(bins.values())[k] for k in shown]
    traces, means = [], []
    for place, (view, where) in enumerate(zip(study.views, places, strict=True)):
        held = np.bincount(where, minlength=len(bins))[shown]
        mean = np.bincount(where, view.jobs.jct_s, len(bins))[shown] / np.maximum(held, 1)
        means.append(mean[mean > 0])
        hover = f"{view.policy}, %{{x}}<br>%{{y:.4g}} s over %{{customdata}} jobs<extra></extra>"
        y = numbers(np.where(mean > 0, mean, np.nan))
        traces.append(bars(place, view.policy, names, y, customdata=held.tolist(), hovertemplate=hover))
    seen = np.concatenate(means)
    layout = {
        "barmode": "group",
        "xaxis": axis(title, type="category"),
        # Bars on a log axis start one step below the shortest, so that the shortest is still seen.
        "yaxis": axis("mean JCT (log axis)", **time_ticks(float(seen.min()) / 2, float(seen.max()))),
    }
    return Figure(*head, traces, layout)


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
        middle, high = np.array(spread).T
        offset = 0.6 * (place / (len(study.views) - 1) - 0.5) if len(study.views) > 1 else 0.0
        upward = {
            "type": "data", "symmetric": False, "array": numbers(high - middle), "arrayminus": [0.0] * len(labels),
            "color": colour(place), "thickness": 1.5, "width": 2,
        }  # fmt: skip
        x = [k + offset for k in range(len(labels))]
        dots = {"mode": "markers", "marker": {"color": colour(place), "size": 7}, "error_y": upward, "text": full}
        hover = f"{view.policy}, %{{text}}<br>median %{{y:.3g}}<extra></extra>"
        traces.append(curve(place, view.policy, x, numbers(middle), hovertemplate=hover, **dots))
    more = f", the {len(chosen)} with most jobs of {len(names)}" if len(names) > len(chosen) else ""
    ticks = {"tickvals": list(range(len(labels))), "ticktext": labels, "showgrid": False, "zeroline": False}
    layout = {
        "xaxis": axis(f"{study.grouped_by}{more}", **ticks),
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
