"""What `trace info` says of a workload, by hand on small ones."""

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.workloads.describe import demand, describe
from headway.workloads.workload import workload

FOUR = workload("four", [0, 10, 10, 40], [1, 2, 8, 200], [30, 60, 60, 3600], user=["a", "a", "b", ""])


def test_numbers_by_hand() -> None:
    numbers = describe(FOUR, cluster("25x8"))
    assert numbers["jobs"] == 4
    assert numbers["users"] == 2
    assert numbers["gpus"] == {"mean": 52.75, "median": 5.0, "max": 200, "one_gpu_share": 0.25}
    assert numbers["duration_s"]["mean"] == 937.5
    assert numbers["span_s"] == 40
    assert numbers["gap_s"]["mean"] == pytest.approx(40 / 3)
    work = 30 + 120 + 480 + 720_000
    assert numbers["work_gpu_h"] == work / 3600
    assert numbers["load"] == work / (200 * 40)
    assert numbers["peak_demand_gpus"] == 210


def test_histograms_put_ends_in_the_right_bins() -> None:
    description = describe(FOUR)
    assert {one["bin"]: one["jobs"] for one in description["sizes"]} == {
        **{"1": 1, "2": 1, "3-4": 0, "5-8": 1, "9-16": 0, "17-32": 0, "33-64": 0, "65-128": 0, "> 128": 1}
    }
    lasts = {one["bin"]: one["jobs"] for one in description["durations"]}
    assert (lasts["< 1 min"], lasts["1-10 min"], lasts["1-6 h"]) == (1, 2, 1)
    assert sum(description["arrivals"]) == 4


def test_demand_passes_gpus_on_without_counting_them_twice() -> None:
    times_s, gpus = demand(workload("w", [0, 10], [4, 4], [10, 10]))
    assert times_s.tolist() == [0, 10, 10, 20]
    assert gpus.tolist() == [4, 0, 4, 0]


def said(jobs, words: str, where=None) -> bool:
    return any(words in warning for warning in describe(jobs, where)["warnings"])


def test_warnings_appear_when_they_should_and_not_otherwise() -> None:
    even = workload("even", np.arange(100.0), np.tile([1, 4], 50), np.linspace(50, 100, 100))
    assert describe(even)["warnings"] == []
    assert said(workload("ones", np.arange(100.0), np.ones(100), np.linspace(50, 100, 100)), "need one GPU")
    assert said(workload("caps", np.arange(100.0), np.full(100, 2), np.minimum(np.arange(1, 101), 80)), "look capped")
    assert said(workload("gap", [0, 1, 2, 100_000], [2] * 4, [1, 2, 3, 4]), "nothing is submitted for 1.2 days")
    assert not said(workload("short gap", [0, 1, 2, 1000], [2] * 4, [1, 2, 3, 4]), "nothing is submitted for")
    lasts = [*range(1, 400), *[500] * 20, 501, 502]
    assert said(workload("cap", range(421), [2] * 421, lasts), "20 jobs last exactly 500 s, 2 last longer")
    assert not said(workload("no cap", range(421), [2] * 421, [*[10] * 300, *range(20, 141)]), "capped")
    assert said(workload("tail", np.arange(100.0), np.full(100, 2), [1] * 99 + [1e6]), "1 % of the jobs hold 100%")
    assert said(even, "never run", cluster("1x2"))
    assert said(even, "the queue grows", cluster("1x8"))
    assert said(even, "policies look alike", cluster("100x8"))
    assert said(workload("left", [0], [1], [1], skipped={"no GPUs": 1200}), "1,200 with no GPUs")


def test_one_job_and_all_at_once() -> None:
    numbers = describe(workload("one", [5], [1], [10]), cluster("1x1"))
    assert numbers["load"] is None
    assert numbers["mean_demand_gpus"] is None
    assert numbers["gap_s"] == {"mean": 0.0, "cv": 0.0}
