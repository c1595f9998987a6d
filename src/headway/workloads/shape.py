"""What is done to a trace before it runs: a window, a sample, a time scale, a load; in that order."""

import math
from dataclasses import dataclass

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.units import seconds
from headway.workloads import shaping
from headway.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Shape:
    """How to shape a trace; the default leaves it as it is."""

    start_s: float = 0.0
    end_s: float = math.inf
    sample: str | None = None  # a number of jobs, or a share such as 10%
    time_scale: float = 1.0
    load: float | None = None

    def apply(self, jobs: Workload, cluster: Cluster | None, seed: int) -> Workload:
        """The shaped trace; `load` is a load on `cluster`, `seed` draws the sample."""
        if self.end_s < math.inf or self.start_s > 0:
            jobs = shaping.window(jobs, self.start_s, self.end_s)
        if self.sample is not None:
            jobs = shaping.sample(jobs, sample_count(self.sample, len(jobs)), seed)
        if self.time_scale != 1.0:
            jobs = shaping.scale_time(jobs, self.time_scale)
        if self.load is not None:
            if cluster is None:
                raise BadInput("a load is a load on a cluster: name one")
            jobs = shaping.with_load(jobs, cluster, self.load)
        return jobs


def read_shape(
    start: str = "0",
    end: str | None = None,
    sample: str | None = None,
    time_scale: float = 1.0,
    load: float | None = None,
) -> Shape:
    """The shape for what a person wrote: times such as 12h or 7d."""
    until = math.inf if end is None else seconds(end, "--to")
    return Shape(seconds(start, "--from"), until, sample, time_scale, load)


def sample_count(text: str, jobs: int) -> int:
    """`1000` jobs, or `10%` of them (at least one)."""
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if text.endswith("%") and 0 < value <= 100:
        return max(1, round(jobs * value / 100))
    if not text.endswith("%") and value >= 1 and value.is_integer():
        return int(value)
    raise BadInput(f"--sample {text}: write a number of jobs such as 1000, or a share such as 10%")
