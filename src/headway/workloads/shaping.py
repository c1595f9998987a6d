"""Shaping a workload before it runs: a window, a sample, a time scale, a load. Pure functions from workload to workload.

Each leaves a sentence in the caveats, so that a result says what was done to its trace.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.numbers import Range
from headway.io.units import MOST_S, seconds
from headway.workloads.workload import Workload

MICROSECOND_S = 1e-6
PERCENT, COUNT = Range(1e-6, 100), Range(1, 1e9)  # of a sample


def work_gpu_s(jobs: Workload) -> float:
    """GPU-seconds that the jobs ask for in all."""
    return float(np.dot(jobs.gpus.astype(np.float64), jobs.duration_s))


def span_s(jobs: Workload) -> float:
    """Time from the first submission to the last."""
    return float(jobs.submit_s[-1] - jobs.submit_s[0])


def offered_load(jobs: Workload, gpus: int) -> float:
    """GPU-seconds asked for over those that `gpus` GPUs offer while jobs arrive; infinite if all arrive at once."""
    span = span_s(jobs)
    return work_gpu_s(jobs) / (gpus * span) if span > 0 else float("inf")


def shaped(
    jobs: Workload,
    cluster: Cluster | None,
    seed: int,
    *,
    start: str = "0",
    end: str | None = None,
    sample: str | None = None,
    time_scale: float = 1.0,
    load: float | None = None,
) -> Workload:
    """The trace as people ask for it, step by step in this order; `load` is on `cluster`, and `seed` draws the sample."""
    start_s, end_s = seconds(start, "--from"), math.inf if end is None else seconds(end, "--to")
    if start_s > 0 or end_s < math.inf:
        jobs = window(jobs, start_s, end_s)
    if sample is not None:
        jobs = sampled(jobs, sample_count(sample, len(jobs)), seed)
    if time_scale != 1.0:
        jobs = scale_time(jobs, time_scale)
    if load is not None:
        if cluster is None:
            raise BadInput("a load is a load on a cluster: name one")
        jobs = with_load(jobs, cluster, load)
    return jobs


def sample_count(text: str, jobs: int) -> int:
    """`1000` jobs, or `10%` of them (at least one)."""
    share = text.endswith("%")
    value = (PERCENT if share else COUNT).read(text.removesuffix("%"))
    if value is not None and share:
        return max(1, round(jobs * value / 100))
    if value is not None and value.is_integer():
        return int(value)
    raise BadInput(f"--sample {text}: write a number of jobs such as 1000, or a share such as 10%")


def window(jobs: Workload, start_s: float, end_s: float) -> Workload:
    """Jobs submitted from `start_s` until before `end_s`; the window's start becomes time 0."""
    if not start_s < end_s:
        raise BadInput(f"the window from {start_s:g} s to {end_s:g} s is empty: its end must come after its start")
    low, high = np.searchsorted(jobs.submit_s, (start_s, end_s))
    if low == high:
        raise BadInput(
            f"{jobs.name}: no job is submitted from {start_s:g} s to {end_s:g} s; "
            f"the trace goes from {jobs.submit_s[0]:g} s to {jobs.submit_s[-1]:g} s"
        )
    chosen = jobs.take(np.arange(low, high))
    until = f"{end_s:g} s" if np.isfinite(end_s) else "its end"
    return _noted(
        replace(chosen, submit_s=_tidy(chosen.submit_s - start_s)),
        f"a window from {start_s:g} s to {until}: jobs already running at its start are left out",
    )


def sampled(jobs: Workload, count: int, seed: int) -> Workload:
    """`count` jobs taken at random without replacement, in their order."""
    if not 1 <= count <= len(jobs):
        raise BadInput(f"cannot sample {count:,} of the {len(jobs):,} jobs of {jobs.name}: take 1 to {len(jobs):,}")
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = np.sort(rng.permutation(len(jobs))[:count])
    note = f"a random sample of {count:,} of {len(jobs):,} jobs (seed {seed}): the load falls with it"
    return _noted(jobs.take(rows), note)


def scale_time(jobs: Workload, factor: float) -> Workload:
    """All times multiplied: submissions and durations; the load stays as it is."""
    _check_positive(factor, "time scale")
    duration_s = np.maximum(_tidy(jobs.duration_s * factor), MICROSECOND_S)
    submit_s = _tidy(jobs.submit_s * factor)
    refuse_long(f"{jobs.name}: with the time scale {factor:g}", max(np.abs(submit_s).max(), duration_s.max()))
    scaled = replace(jobs, submit_s=submit_s, duration_s=duration_s, limit_s=jobs.limit_s * factor)
    return _noted(scaled, f"all times were multiplied by {factor:g}")


def with_load(jobs: Workload, cluster: Cluster, load: float) -> Workload:
    """Gaps between submissions stretched or squeezed until the offered load on `cluster` is `load`."""
    _check_positive(load, "load")
    if len(jobs) == 1:
        raise BadInput(
            f"{jobs.name}: one job is left: there are no gaps to scale to a load; take a larger window or sample"
        )
    if span_s(jobs) <= 0:
        raise BadInput(f"{jobs.name}: all jobs are submitted at the same time: gaps cannot be scaled to a load")
    start = jobs.submit_s[0]
    factor = offered_load(jobs, cluster.total) / load
    refuse_long(f"{jobs.name}: with the load {load:g}", span_s(jobs) * factor)
    scaled = replace(jobs, submit_s=_tidy(start + (jobs.submit_s - start) * factor))
    return _noted(scaled, f"gaps between submissions were multiplied by {factor:.4g} for a load of {load:g}")


def refuse_long(what: str, longest_s: float) -> None:
    """Refuse a workload with a time of more than MOST_S seconds."""
    if not longest_s <= MOST_S:
        raise BadInput(f"{what}, times would reach {longest_s:g} s: at most {MOST_S:g} s are allowed")


def _tidy(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times to the microsecond, so that files and journals stay readable and alike on every machine."""
    return np.round(times_s, 6)


def _check_positive(value: float, what: str) -> None:
    if not (np.isfinite(value) and value > 0):
        raise BadInput(f"the {what} {value:g} must be a number above 0")


def _noted(jobs: Workload, note: str) -> Workload:
    return replace(jobs, caveats=(*jobs.caveats, note))
