"""Description of a workload: sizes, durations, arrivals, load on a cluster, and what would bias a study of it."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.io.units import counted
from headway.workloads.shaping import offered_load, span_s, work_gpu_s
from headway.workloads.workload import Workload

DAY_S = 86_400.0
# Upper ends of the bins, with their names; the last bin is open.
SIZE_BINS: dict[float, str] = {
    **{1: "1", 2: "2", 4: "3-4", 8: "5-8", 16: "9-16", 32: "17-32", 64: "33-64", 128: "65-128", np.inf: "> 128"},
}
DURATION_BINS: dict[float, str] = {
    **{60: "< 1 min", 600: "1-10 min", 3600: "10-60 min", 6 * 3600: "1-6 h", DAY_S: "6-24 h"},
    **{7 * DAY_S: "1-7 days", 30 * DAY_S: "7-30 days", np.inf: "> 30 days"},
}
# Submissions are counted in this many equal slices of the trace.
SLICES = 60
# When to warn: shares of the jobs or of the time that change what a comparison of policies shows.
ONE_GPU_SHARE = 0.8
CAP_SHARE, CAP_JOBS = 0.001, 10
# At most this share of the jobs lasts longer than a cap: a few escape it.
ABOVE_CAP_SHARE = 0.05
SILENT_SHARE, SILENT_S = 0.05, DAY_S
LIGHT_LOAD, FULL_LOAD = 0.3, 1.0
TOP_SHARE, TOP_WORK = 0.01, 0.5


def describe(jobs: Workload, cluster: Cluster | None = None) -> dict[str, Any]:
    """Everything that `trace info` shows, as plain data for JSON; against a cluster where one is given."""
    start, work = float(jobs.submit_s[0]), jobs.gpus * jobs.duration_s
    arrivals = np.histogram(jobs.submit_s, SLICES, (start, max(float(jobs.submit_s[-1]), start + 1.0)))[0]
    return {
        **_numbers(jobs, cluster),
        "sizes": _histogram(jobs.gpus, work, SIZE_BINS, "left"),
        "durations": _histogram(jobs.duration_s, work, DURATION_BINS, "right"),
        "arrivals": arrivals.tolist(),
        "warnings": warnings(jobs, cluster),
    }


def _numbers(jobs: Workload, cluster: Cluster | None) -> dict[str, Any]:
    gaps = np.diff(jobs.submit_s)
    span = span_s(jobs)
    median, p90, p99 = np.quantile(jobs.duration_s, (0.5, 0.9, 0.99)).tolist()
    mean_gap = float(gaps.mean()) if len(gaps) else 0.0
    numbers: dict[str, Any] = {
        "trace": jobs.name,
        "jobs": len(jobs),
        "skipped": jobs.skipped,
        **{f"{name}s": len(set(getattr(jobs, name).tolist()) - {""}) for name in ("user", "queue", "model")},
        "gpus": {
            "mean": float(jobs.gpus.mean()),
            "median": float(np.median(jobs.gpus)),
            "max": int(jobs.gpus.max()),
            "one_gpu_share": float((jobs.gpus == 1).mean()),
        },
        "duration_s": {
            "median": median,
            "mean": float(jobs.duration_s.mean()),
            "p90": p90,
            "p99": p99,
            "max": float(jobs.duration_s.max()),
        },
        "span_s": span,
        "gap_s": {"mean": mean_gap, "cv": float(gaps.std() / mean_gap) if mean_gap > 0 else 0.0},
        "work_gpu_h": work_gpu_s(jobs) / 3600,
        "mean_demand_gpus": work_gpu_s(jobs) / span if span > 0 else None,
        "peak_demand_gpus": int(demand(jobs)[1].max()),
    }
    if cluster is not None:
        load = offered_load(jobs, cluster.total)
        numbers |= {
            "cluster": {"name": cluster.name, "nodes": len(cluster.nodes), "gpus": cluster.total},
            "load": load if np.isfinite(load) else None,
            "jobs_larger_than_cluster": int((jobs.gpus > cluster.total).sum()),
        }
    return numbers


def demand(jobs: Workload) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """GPUs in demand over time if no job ever waited: times, and the demand from each time on."""
    times = np.concatenate([jobs.submit_s, jobs.submit_s + jobs.duration_s])
    change = np.concatenate([jobs.gpus, -jobs.gpus]).astype(np.int64)
    # Ends come before starts at the same instant: a GPU that passes from job to job counts once.
    order = np.lexsort((change, times))
    return times[order], np.cumsum(change[order])


def warnings(jobs: Workload, cluster: Cluster | None) -> list[str]:
    """What biases a study: what the format loses, then what the numbers show."""
    lines = list(jobs.caveats)
    if jobs.skipped:
        lines.append(f"rows left out: {left_out(jobs)}")
    one = float((jobs.gpus == 1).mean())
    if one >= ONE_GPU_SHARE:
        lines.append(f"{one:.1%} of the jobs need one GPU: placement and gang scheduling hardly show")
    lines += _caps(jobs)
    silent_s = np.diff(jobs.submit_s).max(initial=0.0)
    if silent_s > SILENT_SHARE * span_s(jobs) and silent_s >= SILENT_S:
        days = f"{silent_s / DAY_S:,.1f} days"
        lines.append(f"nothing is submitted for {days} in a row: averages over the whole trace mislead")
    work = np.sort(jobs.gpus * jobs.duration_s)
    share = work[-max(1, round(TOP_SHARE * len(jobs))) :].sum() / work.sum()
    if len(jobs) >= 100 and share > TOP_WORK:
        lines.append(f"1 % of the jobs hold {share:.0%} of the GPU time: compare several windows or seeds")
    return lines + (_against(jobs, cluster) if cluster is not None else [])


def left_out(jobs: Workload) -> str:
    """The rows that the reader left out, by reason."""
    return ", ".join(f"{count:,} with {reason}" for reason, count in jobs.skipped.items())


def _caps(jobs: Workload) -> list[str]:
    """A duration near the longest that many jobs share, more than there are jobs beyond it: a limit of the cluster, or of the log."""
    values, counts = np.unique(jobs.duration_s, return_counts=True)
    longer = len(jobs) - np.cumsum(counts)
    shared = counts >= np.maximum(longer, max(CAP_JOBS, CAP_SHARE * len(jobs)))
    hits = np.flatnonzero(shared & (longer <= ABOVE_CAP_SHARE * len(jobs)))
    if not len(hits):
        return []
    cap = hits[np.argmax(counts[hits])]
    beyond = f"{longer[cap]:,} last longer" if longer[cap] else "the longest of all"
    return [f"{counts[cap]:,} jobs last exactly {values[cap]:,.0f} s, {beyond}: durations look capped"]


def _against(jobs: Workload, cluster: Cluster) -> list[str]:
    found = []
    larger = int((jobs.gpus > cluster.total).sum())
    if larger:
        found.append(
            f"{counted(larger, 'job')} {'needs' if larger == 1 else 'need'} more than the {counted(cluster.total, 'GPU')} of "
            f"{cluster.name} and can never run"
        )
    load = offered_load(jobs, cluster.total)
    if load > FULL_LOAD:
        found.append(f"the load on {cluster.name} is {load:.2f}: the queue grows as long as jobs come")
    elif load < LIGHT_LOAD:
        found.append(f"the load on {cluster.name} is {load:.2f}: few jobs ever wait, and policies look alike")
    return found


def _histogram(
    values: NDArray[Any], work: NDArray[np.float64], bins: dict[float, str], side: Literal["left", "right"]
) -> list[dict[str, Any]]:
    """Jobs and GPU-seconds per bin; `side`: left if an upper end belongs to its bin, else right."""
    place = np.searchsorted(np.array(list(bins)), values, side=side)
    jobs, held = np.bincount(place, minlength=len(bins)), np.bincount(place, work, minlength=len(bins))
    rows = zip(bins.values(), jobs.tolist(), held.tolist(), strict=True)
    return [{"bin": name, "jobs": count, "work_gpu_s": gpu_s} for name, count, gpu_s in rows]
