"""What a workload looks like: sizes, durations, arrivals, load on a cluster, and what would bias a study of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.workloads.shaping import offered_load, span_s, work_gpu_s
from headway.workloads.workload import Workload

DAY_S = 86_400.0
# Upper ends of the bins, with their names; the last bin is open.
SIZE_BINS = ((1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (128, "65-128"))
SIZE_REST = "> 128"
DURATION_BINS = (
    *((60.0, "< 1 min"), (600.0, "1-10 min"), (3600.0, "10-60 min"), (6 * 3600.0, "1-6 h"), (DAY_S, "6-24 h")),
    *((7 * DAY_S, "1-7 days"), (30 * DAY_S, "7-30 days")),
)
DURATION_REST = "> 30 days"
# When to warn: shares of the jobs or of the time that change what a comparison of policies shows.
ONE_GPU_SHARE = 0.8
CAP_SHARE, CAP_JOBS = 0.001, 10
# At most this share of the jobs lasts longer than a cap: a few escape it.
ABOVE_CAP_SHARE = 0.05
SILENT_SHARE, SILENT_S = 0.05, DAY_S
LIGHT_LOAD, FULL_LOAD = 0.3, 1.0
TOP_SHARE, TOP_WORK = 0.01, 0.5


@dataclass(frozen=True, slots=True)
class Histogram:
    """Jobs, and GPU-seconds, in named bins."""

    bins: tuple[str, ...]
    jobs: tuple[int, ...]
    work_gpu_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that `trace info` shows; `numbers` are plain and go to JSON as they are."""

    numbers: dict[str, Any]
    sizes: Histogram
    durations: Histogram
    # Submissions in equal slices of the trace.
    arrivals: tuple[int, ...]
    warnings: tuple[str, ...]


def describe(jobs: Workload, cluster: Cluster | None = None, slices: int = 60) -> Description:
    """Describe the jobs, against a cluster where one is given."""
    work = jobs.gpus * jobs.duration_s
    numbers = _numbers(jobs, cluster)
    sizes = _histogram(jobs.gpus, work, SIZE_BINS, SIZE_REST, right=True)
    durations = _histogram(jobs.duration_s, work, DURATION_BINS, DURATION_REST, right=False)
    end = max(float(jobs.submit_s[-1]), float(jobs.submit_s[0]) + 1.0)
    arrivals = np.histogram(jobs.submit_s, slices, (float(jobs.submit_s[0]), end))[0]
    return Description(numbers, sizes, durations, tuple(arrivals.tolist()), warnings(jobs, cluster))


def _numbers(jobs: Workload, cluster: Cluster | None) -> dict[str, Any]:
    gaps = np.diff(jobs.submit_s)
    span = span_s(jobs)
    quantiles = np.quantile(jobs.duration_s, (0.5, 0.9, 0.99))
    mean_gap = float(gaps.mean()) if len(gaps) else 0.0
    numbers: dict[str, Any] = {
        "trace": jobs.name,
        "jobs": len(jobs),
        "skipped": jobs.skipped,
        "users": _count_different(jobs.user),
        "queues": _count_different(jobs.queue),
        "models": _count_different(jobs.model),
        "gpus": {
            "mean": float(jobs.gpus.mean()),
            "median": float(np.median(jobs.gpus)),
            "max": int(jobs.gpus.max()),
            "one_gpu_share": float((jobs.gpus == 1).mean()),
        },
        "duration_s": {
            "median": float(quantiles[0]),
            "mean": float(jobs.duration_s.mean()),
            "p90": float(quantiles[1]),
            "p99": float(quantiles[2]),
            "max": float(jobs.duration_s.max()),
        },
        "span_s": span,
        "gap_s": {"mean": mean_gap, "cv": float(gaps.std() / mean_gap) if mean_gap > 0 else 0.0},
        "work_gpu_h": work_gpu_s(jobs) / 3600,
        "mean_demand_gpus": work_gpu_s(jobs) / span if span > 0 else None,
        "peak_demand_gpus": int(demand(jobs)[1].max()),
    }
    if cluster is not None:
        numbers |= {"cluster": {"name": cluster.name, "nodes": len(cluster.nodes), "gpus": cluster.total}}
        load = offered_load(jobs, cluster.total)
        numbers |= {"load": load if np.isfinite(load) else None}
        numbers |= {"jobs_larger_than_cluster": int((jobs.gpus > cluster.total).sum())}
    return numbers


def demand(jobs: Workload) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """GPUs in demand over time if no job ever waited: times, and the demand from each time on."""
    times = np.concatenate([jobs.submit_s, jobs.submit_s + jobs.duration_s])
    change = np.concatenate([jobs.gpus, -jobs.gpus]).astype(np.int64)
    # Ends come before starts at the same instant: a GPU that passes from job to job counts once.
    order = np.lexsort((change, times))
    return times[order], np.cumsum(change[order])


def warnings(jobs: Workload, cluster: Cluster | None) -> tuple[str, ...]:
    """What biases a study: what the format loses, then what the numbers show."""
    found = list(jobs.caveats)
    if jobs.skipped:
        rows = ", ".join(f"{count:,} with {reason}" for reason, count in jobs.skipped.items())
        found.append(f"rows left out: {rows}")
    one = float((jobs.gpus == 1).mean())
    if one >= ONE_GPU_SHARE:
        found.append(f"{one:.1%} of the jobs need one GPU: placement and gang scheduling hardly show")
    found.extend(_caps(jobs))
    if len(jobs) > 1 and span_s(jobs) > 0:
        gaps = np.diff(jobs.submit_s)
        if gaps.max() > SILENT_SHARE * span_s(jobs) and gaps.max() >= SILENT_S:
            days = gaps.max() / DAY_S
            found.append(f"nothing is submitted for {days:,.1f} days in a row: averages over the whole trace mislead")
    work = np.sort(jobs.gpus * jobs.duration_s)
    top = max(1, round(TOP_SHARE * len(jobs)))
    share = work[-top:].sum() / work.sum()
    if len(jobs) >= 100 and share > TOP_WORK:
        found.append(f"1 % of the jobs hold {share:.0%} of the GPU time: compare several windows or seeds")
    return (*found, *(_against(jobs, cluster) if cluster is not None else ()))


def _caps(jobs: Workload) -> tuple[str, ...]:
    """A duration near the longest that many jobs share, more than there are jobs beyond it: a limit of the cluster, or of the log."""
    values, counts = np.unique(jobs.duration_s, return_counts=True)
    longer = len(jobs) - np.cumsum(counts)
    shared = counts >= np.maximum(longer, max(CAP_JOBS, CAP_SHARE * len(jobs)))
    hits = np.flatnonzero(shared & (longer <= ABOVE_CAP_SHARE * len(jobs)))
    if not len(hits):
        return ()
    cap = hits[np.argmax(counts[hits])]
    beyond = f"{longer[cap]:,} last longer" if longer[cap] else "the longest of all"
    return (f"{counts[cap]:,} jobs last exactly {values[cap]:,.0f} s, {beyond}: durations look capped",)


def _against(jobs: Workload, cluster: Cluster) -> tuple[str, ...]:
    found = []
    larger = int((jobs.gpus > cluster.total).sum())
    if larger:
        found.append(f"{larger:,} jobs need more than the {cluster.total:,} GPUs of {cluster.name}: they can never run")
    load = offered_load(jobs, cluster.total)
    if load > FULL_LOAD:
        found.append(f"the load on {cluster.name} is {load:.2f}: the queue grows as long as jobs come")
    elif load < LIGHT_LOAD:
        found.append(f"the load on {cluster.name} is {load:.2f}: few jobs ever wait, and policies look alike")
    return tuple(found)


def _count_different(column: NDArray[np.str_]) -> int:
    return len(set(column.tolist()) - {""})


def _histogram(
    values: NDArray[Any], work: NDArray[np.float64], bins: tuple[tuple[float, str], ...], rest: str, *, right: bool
) -> Histogram:
    """Counts and work in bins; `right`: an upper end belongs to its bin."""
    ends = np.array([end for end, _ in bins], np.float64)
    place = np.searchsorted(ends, values, side="left" if right else "right")
    jobs = np.bincount(place, minlength=len(bins) + 1)
    held = np.bincount(place, work, minlength=len(bins) + 1)
    return Histogram((*(name for _, name in bins), rest), tuple(jobs.tolist()), tuple(held.tolist()))
