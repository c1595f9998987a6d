"""gittins before it has an index: equal jobs run to their ends, and unequal ones still go by attained service."""

import numpy as np
import pytest

from headway.sim.api import simulate
from headway.workloads.workload import workload


def equal_jobs(count, gpus, load, total, seconds=7200.0):
    """Return jobs of one size and length that arrive at random, at a load of a cluster of `total` GPUs."""
    gaps = np.random.default_rng(1).exponential(seconds * gpus / total / load, count)
    return workload("equal", gaps.cumsum(), np.full(count, gpus), np.full(count, seconds))


@pytest.mark.parametrize("load", [0.95, 1.05])
@pytest.mark.parametrize("gpus", [1, 8])
def test_equal_jobs_are_hardly_preempted(gpus, load):
    jobs = equal_jobs(1000, gpus, load, 128)
    result, fifo = (
        simulate(jobs, "16x8", policy, preemption_cost="none").summary for policy in ("gittins", "best-effort")
    )
    assert result["preemptions"] < 100
    assert result["jct_s"]["mean"] < 1.01 * fifo["jct_s"]["mean"]


def test_a_short_job_passes_a_long_one_before_there_is_an_index():
    jobs = workload("two", [0.0, 1000.0], [1, 1], [100_000.0, 500.0])
    assert simulate(jobs, "1x1", "gittins", preemption_cost="none").jobs["end_s"].tolist() == [100_500.0, 1500.0]
