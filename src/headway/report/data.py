"""What the report of a comparison draws: plain columns and numbers, one `PolicyView` per policy. It knows no simulator."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OverTime:
    """A run in equal bins of time; shares are of all GPUs."""

    middles_s: Floats
    utilisation: Floats
    running_jobs: Floats
    waiting_jobs: Floats
    scattered: Floats  # free, on nodes partly in use
    stranded: Floats  # free, though a job of no more GPUs waits


@dataclass(frozen=True, slots=True)
class Bars:
    """The Gantt chart: each bar is one job on neighbouring GPUs for some time."""

    job: NDArray[np.int64]
    first_gpu: NDArray[np.int64]
    gpus: NDArray[np.int64]
    start_s: Floats
    end_s: Floats


@dataclass(frozen=True, slots=True)
class Jobs:
    """Columns of equal length, of all seeds one after the other."""

    gpus: NDArray[Any]
    duration_s: Floats
    jct_s: Floats
    queue_s: Floats
    slow_down: Floats
    fairness: Floats  # finish-time fairness
    group: NDArray[np.str_]  # the queue or the user


@dataclass(frozen=True, slots=True)
class PolicyView:
    """One policy: a summary per seed, the jobs of all seeds, and the first seed over time."""

    policy: str
    summaries: tuple[dict[str, Any], ...]
    jobs: Jobs
    over_time: OverTime
    lost_gpu_h: float
    bars: Bars | None  # None: too many to draw


@dataclass(frozen=True, slots=True)
class Study:
    """All policies of a comparison on one trace and one cluster; the first policy is what the others are held against."""

    trace: str
    gpus: int
    nodes: tuple[tuple[str, int], ...]  # name, GPUs
    grouped_by: str  # "queue", "user", or "" where the trace names neither
    views: tuple[PolicyView, ...]
    job_id: NDArray[np.str_]
    notes: tuple[str, ...] = ()
    command: str | None = None  # that makes it again
