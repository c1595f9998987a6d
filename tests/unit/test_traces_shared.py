"""The shared traces (`$HEADWAY_TRACES`): every reader against the statistics published beside the files."""

import csv

import numpy as np
import pytest

from headway.workloads.describe import describe
from headway.workloads.load import load

# Name in stats.csv -> what to load.
FILES = {
    "philly_82k": "philly_82k.csv.gz",
    "muri trace 1 (Philly VC 7f04ca)": "muri_philly_4traces.csv.gz?trace=1",
    "muri trace 2 (Philly VC ee9e8c)": "muri_philly_4traces.csv.gz?trace=2",
    "muri trace 3 (Philly VC 2869ce)": "muri_philly_4traces.csv.gz?trace=3",
    "muri trace 4 (Philly VC 0e4a51)": "muri_philly_4traces.csv.gz?trace=4",
    "helios_venus_125k": "helios_venus_125k.csv.gz",
    "pai2020_60k": "pai2020_60k.csv.gz",
    "acme_kalos_train_319": "acme_kalos_train_319.csv.gz",
    "rubick_llm_workload": "rubick_llm_workload.csv.gz",
}
BINS = ("pct_1", "pct_2", "pct_3_4", "pct_5_8", "pct_9_16", "pct_17_32", "pct_33_64", "pct_65_128", "pct_gt128")


@pytest.fixture(scope="module")
def stats(traces) -> dict[str, dict[str, str]]:
    with (traces / "stats.csv").open() as file:
        return {row["trace"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", list(FILES))
def test_statistics_equal_the_published_ones(traces, stats, name: str) -> None:
    published = {key: float(value) for key, value in stats[name].items() if key not in ("trace", "file")}
    jobs = load(f"{traces}/{FILES[name]}", strict=True)
    numbers = describe(jobs)
    assert numbers["jobs"] == published["jobs"]
    for key in ("mean", "max"):
        assert numbers["duration_s"][key] == pytest.approx(published[f"dur_{key}_s"], abs=1)
    # The published quantiles are the value at n times q, ours lie between two values.
    lasts = np.sort(jobs.duration_s)
    for key, quantile in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert lasts[int(len(jobs) * quantile)] == pytest.approx(published[f"dur_{key}_s"], abs=1)
        assert numbers["duration_s"][key] <= lasts[int(len(jobs) * quantile)]
    assert numbers["span_s"] / 86_400 == pytest.approx(published["span_days"], abs=0.06)
    assert numbers["work_gpu_h"] == pytest.approx(published["gpu_hours"], abs=1)
    assert numbers["mean_demand_gpus"] == pytest.approx(published["mean_demand_gpus"], abs=0.6)
    assert numbers["gpus"]["mean"] == pytest.approx(published["mean_gpus"], abs=0.006)
    assert numbers["gpus"]["max"] == published["max_gpus"]
    shares = np.array([one["jobs"] for one in numbers["sizes"]]) / len(jobs) * 100
    assert shares == pytest.approx([published[key] for key in BINS], abs=0.06)


def test_every_job_trace_of_the_statistics_is_covered(stats) -> None:
    assert set(stats) == {*FILES, "pai2023_openb (GPU pods; duration=deletion-creation)"}


def test_openb_pods(traces, stats) -> None:
    published = stats["pai2023_openb (GPU pods; duration=deletion-creation)"]
    jobs = load(f"{traces}/pai2023_openb_pods.csv.gz")
    # One pod was deleted in the second of its creation: it is left out here and counted there.
    assert jobs.skipped == {"no GPUs": 1088, "no duration": 1}
    assert len(jobs) + 1 == int(published["jobs"])
    assert np.median(jobs.duration_s) == pytest.approx(float(published["dur_median_s"]), abs=1)
    assert jobs.duration_s.mean() == pytest.approx(float(published["dur_mean_s"]), rel=1e-3)
    # Parts of a GPU are rounded up, so the mean is above the published 0.86.
    assert jobs.gpus.mean() > float(published["mean_gpus"])


def test_muri_traces_side_by_side(traces) -> None:
    jobs = load(f"{traces}/muri_philly_4traces.csv.gz")
    assert len(jobs) == 10_879
    assert set(jobs.queue.tolist()) == {"1", "2", "3", "4"}
    assert len(set(jobs.job_id.tolist())) == 10_879


def test_gavel_durations_are_phillys_own(traces) -> None:
    """Jobs of virtual cluster 103959 found in both files at the same time with the same GPUs last equally long."""
    gavel = load(f"{traces}/gavel_philly_per_vc.csv.gz?vc=103959")
    philly = load(f"{traces}/philly_82k.csv.gz?vc=103959")
    assert len(load(f"{traces}/gavel_philly_per_vc.csv.gz")) == 15_264
    # The first job of this virtual cluster in the whole trace, on the clock of the copy of 82,247 jobs.
    offset_s = 1_492_171
    lasts = {}
    for submit_s, gpus, duration_s in zip(philly.submit_s, philly.gpus, philly.duration_s, strict=True):
        lasts.setdefault((submit_s - offset_s, gpus), duration_s)
    rows = [
        (duration_s, lasts[submit_s, gpus])
        for submit_s, gpus, duration_s in zip(gavel.submit_s, gavel.gpus, gavel.duration_s, strict=True)
        if lasts.get((submit_s, gpus), 0) > 2000
    ]
    ours, theirs = np.array(rows).T
    assert len(rows) > 200
    assert (np.abs(ours / theirs - 1) < 0.002).mean() > 0.9


def test_what_biases_the_shared_traces_is_said(traces) -> None:
    helios = describe(load(f"{traces}/helios_venus_125k.csv.gz"))
    assert any("2,364 durations are cut at 48 h" in warning for warning in helios["warnings"])
    philly = describe(load(f"{traces}/philly_82k.csv.gz"))
    assert any("93.2% of the jobs need one GPU" in warning for warning in philly["warnings"])
