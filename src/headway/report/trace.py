"""The plots of `headway trace info --plot`: a page like every report, small whatever the size of the trace."""

import itertools

import numpy as np
from numpy.typing import NDArray

from headway.io.units import counted
from headway.report import page as shell
from headway.report.figure import POINTS, Figure, axis, bars, curve, numbers, time_ticks, time_unit
from headway.workloads.describe import demand
from headway.workloads.workload import Workload

# What the colours mean, in all four plots.
LEGEND = ("share of jobs", "share of GPU time", "GPUs in demand", "GPUs of the cluster")
JOBS, GPU_TIME, WANTED, CLUSTER = range(4)
# A job of no length has no place on a log axis.
SHORTEST_S = 0.001


def page(jobs: Workload, cluster_gpus: int | None) -> str:
    """The whole page as HTML: sizes, durations, arrivals and demand of a workload."""
    figures = [
        _sizes(jobs.gpus, jobs.duration_s),
        _durations(jobs.gpus, jobs.duration_s),
        _arrivals(jobs.submit_s),
        _demand(*demand(jobs), cluster_gpus),
    ]
    legend = LEGEND if cluster_gpus is not None else LEGEND[:CLUSTER]
    return shell.page(f"{jobs.name}: {counted(len(jobs), 'job')}", "", legend, figures)


def _sizes(gpus: NDArray[np.int32], duration_s: NDArray[np.float64]) -> Figure:
    powers = 2 ** np.arange(int(np.ceil(np.log2(max(2, gpus.max())))) + 1)
    place = np.searchsorted(powers, gpus)
    names = ["1", "2", *(f"{low + 1}-{high}" for low, high in itertools.pairwise(powers[1:]))]
    traces = []
    for which, weights in ((JOBS, None), (GPU_TIME, gpus * duration_s)):
        held = np.bincount(place, weights, len(powers))
        traces.append(bars(which, LEGEND[which], names, numbers(100 * held / max(held.sum(), 1e-9))))
    layout = {"barmode": "group", "xaxis": axis("GPUs of a job", type="category"), "yaxis": axis("share (%)")}
    note = "How many jobs ask for this many GPUs, and the GPU time they use."
    return Figure("sizes", "GPUs of a job", note, traces, layout)


def _durations(gpus: NDArray[np.int32], duration_s: NDArray[np.float64]) -> Figure:
    order = np.argsort(duration_s)
    longest_s = np.maximum(duration_s[order], SHORTEST_S)
    traces = []
    for which, weights in ((JOBS, np.ones(len(gpus))), (GPU_TIME, gpus * duration_s)):
        share = 100 * np.cumsum(weights[order]) / max(weights.sum(), 1e-9)
        rows = np.unique(np.searchsorted(share, np.linspace(0, 100, POINTS)).clip(0, len(gpus) - 1))
        x, y = numbers(longest_s[rows]), numbers(share[rows])
        traces.append(curve(which, LEGEND[which], x, y, line={"shape": "hv"}))
    layout = {
        "xaxis": axis("duration (log axis)", **time_ticks(float(longest_s[0]), float(longest_s[-1]))),
        "yaxis": axis("at most this long (%)", range=[0, 102]),
    }
    return Figure("durations", "Duration", "The time a job needs on the GPUs it asks for.", traces, layout)


def _arrivals(submit_s: NDArray[np.float64]) -> Figure:
    unit_s, units = time_unit(float(submit_s[-1] - submit_s[0]))
    edges = np.arange(np.floor(submit_s[0] / unit_s), np.floor(submit_s[-1] / unit_s) + 2)
    counts = np.histogram(submit_s / unit_s, edges)[0]
    traces = [bars(JOBS, LEGEND[JOBS], numbers(edges[:-1] + 0.5), numbers(counts))]
    layout = {"bargap": 0.05, "xaxis": axis(f"time ({units})"), "yaxis": axis(f"jobs per {units.removesuffix('s')}")}
    note = f"Jobs submitted in each {units.removesuffix('s')}."
    return Figure("submissions", "Submissions", note, traces, layout)


def _demand(times_s: NDArray[np.float64], wanted: NDArray[np.int64], cluster_gpus: int | None) -> Figure:
    unit_s, units = time_unit(float(times_s[-1] - times_s[0]))
    grid = np.linspace(times_s[0], times_s[-1], POINTS)
    held = wanted[np.searchsorted(times_s, grid, side="right") - 1]
    stepped = {"shape": "hv", "width": 1.5}
    traces = [curve(WANTED, LEGEND[WANTED], numbers(grid / unit_s), numbers(held), line=stepped)]
    if cluster_gpus is not None:
        traces.append(curve(CLUSTER, LEGEND[CLUSTER], numbers(grid[[0, -1]] / unit_s), [cluster_gpus] * 2))
    layout = {"xaxis": axis(f"time ({units})"), "yaxis": axis("GPUs", rangemode="tozero")}
    return Figure("demand", "Demand", "GPUs in use if no job ever waited.", traces, layout)
