"""Made-up workloads: the exact testbed mix, fits to published statistics, the same jobs for the same seed."""

import csv
import hashlib
from collections import Counter

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.workloads import published
from headway.workloads.load import load
from headway.workloads.shaping import offered_load
from headway.workloads.synthetic import MAKERS, synthetic


def bins(jobs) -> Counter:
    return Counter(zip((jobs.gpus <= 4).tolist(), (jobs.duration_s < 800).tolist(), strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2, 77])
def test_testbed_mix_is_exact(seed: int) -> None:
    jobs = synthetic(f"synthetic:tiresias-480?seed={seed}")
    assert Counter(jobs.gpus.tolist()) == {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
    assert set(Counter(jobs.model.tolist()).values()) == {48}
    assert len(set(jobs.model.tolist())) == 10
    # (small, short), (small, long), (large, short), (large, long): the long shares of the paper are 12.5 % and 7.5 %.
    assert bins(jobs) == {(True, True): 300, (True, False): 60, (False, True): 84, (False, False): 36}
    assert jobs.duration_s.min() >= 120
    assert jobs.duration_s.max() < 7200
    assert jobs.submit_s[0] == 0
    assert (np.diff(jobs.submit_s) >= 0).all()


def test_testbed_durations_are_even_in_their_logarithm_and_arrivals_poisson() -> None:
    jobs = synthetic("tiresias-480?jobs=48000&seed=3")
    short = np.log(jobs.duration_s[jobs.duration_s < 800])
    place = (short - np.log(120)) / (np.log(800) - np.log(120))
    assert np.abs(np.histogram(place, 10, (0, 1))[0] / len(place) - 0.1).max() < 0.01
    gaps = np.diff(jobs.submit_s)
    assert gaps.mean() == pytest.approx(30, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("jobs", [1, 7, 96, 479, 481, 1000])
def test_any_number_of_jobs_scales_the_mix(jobs: int) -> None:
    made = synthetic(f"tiresias-480?jobs={jobs}")
    assert len(made) == jobs
    for size, count in {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}.items():
        assert abs(int((made.gpus == size).sum()) - count * jobs / 480) < 1


# Hashes of every column: a change of any job changes them.
GOLDEN = {
    "tiresias-480": "88ef6b0322bc728e",
    "philly": "6f1ecf3275c7a0ec",
    "helios": "dc5f62f4c6f1bf38",
    "vclos": "0f73c35391104d31",
    "vclos-large": "f71ae87b8a92f134",
    "vclos-tpu": "d217bb5ab2e8122e",
}


@pytest.mark.parametrize("name", list(MAKERS))
def test_same_seed_same_jobs_on_every_machine(name: str) -> None:
    jobs = synthetic(f"{name}?jobs=960&seed=1")
    text = "\n".join(
        f"{s:.3f},{g},{d:.3f},{m}"
        for s, g, d, m in zip(jobs.submit_s, jobs.gpus, jobs.duration_s, jobs.model, strict=True)
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == GOLDEN[name]
    again = synthetic(f"{name}?jobs=960&seed=1")
    assert (again.submit_s == jobs.submit_s).all()
    other = synthetic(f"{name}?jobs=960&seed=2")
    assert (other.duration_s != jobs.duration_s).any()


PUBLISHED = {"philly": published.PHILLY, "helios": published.HELIOS}
# GPU time by size (percent of it in jobs of at most 1, 4, 8, 16 GPUs) and the published means.
GPU_TIME = {"philly": (16.425, 38.165, 88.028, 97.196), "helios": (5.441, 12.138, 41.344, 61.5)}
MEANS = {"philly": (18_006.055, 1.928), "helios": (6_651.681, 3.716)}


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_fits_follow_the_published_statistics(name: str) -> None:
    statistics = PUBLISHED[name]
    jobs = synthetic(f"{name}?jobs=300000&seed=5")
    for size, percent in statistics.sizes.items():
        assert (jobs.gpus == size).mean() * 100 == pytest.approx(percent, abs=0.25)
    for exponent, percent in enumerate(statistics.durations_pct):
        assert (jobs.duration_s <= 2.0**exponent + 0.0005).mean() * 100 == pytest.approx(percent, abs=0.35)
    work = jobs.gpus * jobs.duration_s
    for limit, percent in zip(published.GROUP_LIMITS, GPU_TIME[name], strict=True):
        assert work[jobs.gpus <= limit].sum() / work.sum() * 100 == pytest.approx(percent, abs=4)
    mean_s, mean_gpus = MEANS[name]
    assert jobs.duration_s.mean() == pytest.approx(mean_s, rel=0.1)
    assert jobs.gpus.mean() == pytest.approx(mean_gpus, rel=0.04)
    assert np.diff(jobs.submit_s).mean() == pytest.approx(statistics.gap_s, rel=0.02)


def test_arrivals_follow_the_hours_of_the_day() -> None:
    rng = np.random.default_rng(0)
    times = published.arrivals(published.HELIOS, 10.0, 200_000, rng)
    hours = np.bincount((times // 3600).astype(int) % 24, minlength=24)
    # The first submission becomes 0, so the profile is shifted by less than an hour; night stays night.
    assert hours[5:7].max() < 0.2 * hours[15:18].min()


def test_cdf_points_are_the_published_ones(traces) -> None:
    points = {(name, metric): [] for name in ("Philly", "Helios") for metric in ("duration_s", "num_gpus")}
    with (traces / "acme_paper_cdfs.csv").open() as file:
        for row in csv.DictReader(file):
            key = (row["cluster"], row["metric"])
            if key in points and row["job_class"] == "all_gpu_jobs" and row["weight"] == "jobs":
                points[key].append((float(row["x"]), float(row["cdf_pct"])))
    for name, statistics in (("Philly", published.PHILLY), ("Helios", published.HELIOS)):
        assert [pct for _, pct in points[name, "duration_s"]] == list(statistics.durations_pct)
        ours = np.cumsum(list(statistics.sizes.values()))
        for size, pct in zip(statistics.sizes, ours, strict=True):
            if size <= 64:
                at_most = max(value for x, value in points[name, "num_gpus"] if x <= size)
                assert pct == pytest.approx(at_most, abs=0.18)
        assert ours[-1] == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("name", list(MAKERS))
def test_load_is_met_on_the_named_cluster(name: str) -> None:
    jobs = load(f"synthetic:{name}?jobs=2000&load=0.75&cluster=64x8")
    assert offered_load(jobs, 512) == pytest.approx(0.75, rel=1e-4)
    default = load(f"synthetic:{name}?jobs=2000&load=0.5")
    assert offered_load(default, cluster(MAKERS[name][1]).total) == pytest.approx(0.5, rel=1e-4)


def test_gap_sets_the_mean_gap() -> None:
    jobs = synthetic("philly?jobs=20000&gap=2m")
    assert np.diff(jobs.submit_s).mean() == pytest.approx(120, rel=0.05)


def test_name_says_what_it_is() -> None:
    assert synthetic("philly?jobs=5&seed=3").name == "synthetic:philly?jobs=5&seed=3"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("synthetic:tiresias", "did you mean 'tiresias-480'"),
        ("synthetic:", "unknown synthetic workload"),
        ("synthetic:philly?job=5", "did you mean 'jobs'"),
        ("synthetic:philly?jobs=0", "from 1 to 20,000,000"),
        ("synthetic:philly?jobs=99999999999", "from 1 to 20,000,000"),
        (f"synthetic:philly?jobs={'9' * 5000}", "whole number"),
        ("synthetic:philly?jobs=ten", "whole number"),
        ("synthetic:philly?jobs=-4", "whole number"),
        ("synthetic:philly?seed=1.5", "whole number"),
        ("synthetic:philly?jobs", "not NAME=VALUE"),
        ("synthetic:philly?seed=1&seed=2", "given twice"),
        ("synthetic:philly?load=-1", "above 0"),
        ("synthetic:philly?load=nan", "above 0"),
        ("synthetic:philly?load=0.5&gap=3", "one of them"),
        ("synthetic:philly?gap=0", "above 0"),
        ("synthetic:philly?gap=fast", "not a time"),
        ("synthetic:philly?cluster=4x4", "load="),
        ("synthetic:philly?load=0.5&cluster=0x4", "zero nodes"),
        ("synthetic:philly?jobs=1&load=0.5", "one job is left"),
    ],
)
def test_bad_options_are_named(spec: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as raised:
        load(spec)
    assert "\n" not in str(raised.value)


def test_vclos_tpu_has_the_sizes_and_durations_of_the_authors_generator():
    """8,192 GPUs: TPU v4 slices up to 512 GPUs, mean about 206, 87 % above 32; durations of Helios clipped, mean about 7,900 s."""
    jobs = synthetic("vclos-tpu?jobs=200000")
    assert jobs.gpus.mean() == pytest.approx(206, abs=1)
    assert (jobs.gpus > 32).mean() == pytest.approx(0.87, abs=0.005)
    assert jobs.gpus.max() == 512
    assert jobs.duration_s.mean() == pytest.approx(7900, rel=0.03)
    assert jobs.duration_s.min() == 1000
    assert jobs.duration_s.max() == 100_000
    load = (jobs.gpus * jobs.duration_s).mean() / 241 / 8192
    assert load == pytest.approx(0.88, abs=0.03), "at a mean gap of 241 s"
    power = (jobs.gpus & (jobs.gpus - 1)) == 0
    assert (jobs.model[power] == "MoE").mean() == pytest.approx(0.3, abs=0.01)
    assert (jobs.model[~power] == "dense").all()


def test_the_other_mixes_of_vclos_are_what_their_help_says():
    for name, mean, most in (("vclos", 3.7, 160), ("vclos-large", 21, 512)):
        jobs = synthetic(f"{name}?jobs=100000")
        assert jobs.gpus.mean() == pytest.approx(mean, rel=0.03)
        assert jobs.gpus.max() == most
        assert (jobs.model == "").all()
