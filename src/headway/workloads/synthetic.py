"""Made-up workloads that follow published statistics: `synthetic:NAME?jobs=480&seed=1`.

The same name, options and seed give the same jobs on every machine: all randomness comes from NumPy's PCG64 generator, and
times are rounded to milliseconds so that the last bit of a logarithm on another processor does not show.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.named import cluster
from headway.errors import BadInput, unknown
from headway.io import specs
from headway.io.units import seconds
from headway.workloads import published
from headway.workloads.shaping import refuse_long, with_load
from headway.workloads.workload import Workload, workload

Floats = NDArray[np.float64]

PREFIX = "synthetic:"
# At 100 bytes per job, ten million take about a gigabyte.
MOST_JOBS = 20_000_000
MOST_GAP_S = 86400.0 * 365
OPTIONS = ("jobs", "seed", "gap", "load", "cluster")

# Gu et al., NSDI'19, section 5.1 (testbed workload): GPUs of a job -> jobs out of 480.
TIRESIAS_SIZES = {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
# The ten models of its table of models, 48 jobs each.
TIRESIAS_MODELS = (
    *("VGG19", "VGG16", "VGG11", "AlexNet", "ResNet152", "ResNet101"),
    *("ResNet50", "Inception4", "Inception3", "GoogleNet"),
)
# Shares of its four duration bins among all jobs: (small, short), (small, long), (large, short), (large, long).
# Small is at most 4 GPUs, short under 800 s. The sizes above make 75 % of the jobs small and the bins 76 %: the long
# shares are kept exact, because they carry the load, and the short bins take the rest (decision 0010).
TIRESIAS_SMALL_GPUS = 4
TIRESIAS_LONG_SHARE = {"small": 0.125, "large": 0.075}
TIRESIAS_SHORT_S = (120.0, 800.0)
TIRESIAS_LONG_S = (800.0, 7200.0)
TIRESIAS_GAP_S = 30.0


def synthetic(spec: str) -> Workload:
    """The workload that `spec` names, with or without the prefix `synthetic:`."""
    name, options = specs.split(spec.removeprefix(PREFIX))
    if name not in MAKERS:
        raise unknown("synthetic workload", name, MAKERS)
    specs.check(options, OPTIONS, f"{PREFIX}{name}")
    make, default_cluster = MAKERS[name]
    jobs = replace(make(options), name=PREFIX + spec.removeprefix(PREFIX))
    if "load" not in options:
        if "cluster" in options:
            raise BadInput(f"{jobs.name}: cluster= names the cluster of load=: give both or neither")
        return jobs
    if "gap" in options:
        raise BadInput(f"{jobs.name}: load= and gap= both fix the arrivals: give one of them")
    return with_load(jobs, cluster(options.get("cluster", default_cluster)), specs.number(options, "load"))


def tiresias_480(options: Mapping[str, str]) -> Workload:
    """The testbed mix of Tiresias; a number of jobs other than 480 scales every count."""
    jobs = job_count(options, 480)
    rng = generator(options)
    gpus = rng.permutation(spread(jobs, TIRESIAS_SIZES))
    duration_s = np.empty(jobs)
    for side, long_share in TIRESIAS_LONG_SHARE.items():
        rows = np.flatnonzero((gpus <= TIRESIAS_SMALL_GPUS) == (side == "small"))
        long = rng.permutation(len(rows)) < round(long_share * jobs)
        for bounds, chosen in ((TIRESIAS_SHORT_S, rows[~long]), (TIRESIAS_LONG_S, rows[long])):
            duration_s[chosen] = log_uniform(rng, bounds, len(chosen))
    models = rng.permutation(spread(jobs, dict.fromkeys(TIRESIAS_MODELS, 1)))
    submit_s = poisson(rng, gap_s(options, TIRESIAS_GAP_S), jobs)
    note = "durations are log-uniform in the paper's four bins, the real ones are not public"
    return made_up("tiresias-480", submit_s, gpus, duration_s, note, models)


def from_statistics(statistics: published.Statistics, options: Mapping[str, str]) -> Workload:
    """Random jobs that follow the published statistics of a cluster."""
    jobs = job_count(options, published.JOBS)
    rng = generator(options)
    gpus = published.sizes(statistics, jobs, rng)
    duration_s = published.durations(statistics, gpus, rng)
    submit_s = published.arrivals(statistics, gap_s(options, statistics.gap_s), jobs, rng)
    note = "sizes, durations and hours follow published statistics; bursts, users and weekdays are not in it"
    return made_up(statistics.cluster, submit_s, gpus, duration_s, note)


# Han et al., arXiv 2308.05692 (vClos), evaluation: durations between these, exponential gaps, sizes as Helios; log-uniform is ours.
VCLOS_S = (1e3, 1e5)
VCLOS_JOBS = 5000
# A second mix up to its cap of 512 GPUs (percent of the jobs; ours): the sizes of Helios end at 160 and leave large clusters idle.
VCLOS_LARGE_SIZES = {1: 32, 2: 14, 4: 12, 8: 14, 16: 10, 32: 8, 64: 5, 128: 3, 256: 1, 512: 1}


# The configurations for 8,192 GPUs in the authors' public generator: TPU v4 slices folded at 512 GPUs, in parts (their table adds up to
# 1.05; its entry for 16 is a slip, taken as 0). Durations: those of Helios, clipped.
VCLOS_TPU_SIZES = {4: 50, 8: 50, 32: 40, 64: 340, 128: 175, 192: 7, 256: 117, 384: 1, 512: 270}
VCLOS_TPU_GAP_S = 241.0
# Of its jobs with a power of two of GPUs, this share are large models that run all-to-all; all others are smaller and do not.
VCLOS_TPU_LARGE_MODELS = 0.3


def vclos(options: Mapping[str, str], large: bool = False) -> Workload:
    """Small jobs with the sizes of Helios (mean 3.7 GPUs, at most 160), or ours up to 512 GPUs (mean 21): patterns apart from models."""
    jobs = job_count(options, VCLOS_JOBS)
    rng = generator(options)
    gpus = rng.permutation(spread(jobs, VCLOS_LARGE_SIZES)) if large else published.sizes(published.HELIOS, jobs, rng)
    duration_s = log_uniform(rng, VCLOS_S, jobs)
    submit_s = poisson(rng, gap_s(options, published.HELIOS.gap_s), jobs)
    note = f"sizes {'up to 512 GPUs' if large else 'as in Helios, up to 160 GPUs'}, durations log-uniform"
    return made_up("vclos-large" if large else "vclos", submit_s, gpus, duration_s, note)


def vclos_tpu(options: Mapping[str, str]) -> Workload:
    """Large jobs, as the authors of vClos generate them for 8,192 GPUs: mean 206 GPUs, 87 % above 32; patterns follow from models.

    The jobs of Helios's cluster Venus, in the order of their sizes, get the sizes of TPU v4 slices: who was large stays large.
    """
    jobs = job_count(options, VCLOS_JOBS)
    rng = generator(options)
    sizes = published.sizes(published.VENUS, jobs, rng)
    duration_s = np.clip(published.durations(published.VENUS, sizes, rng), *VCLOS_S)
    gpus = np.empty(jobs, np.int32)
    gpus[np.lexsort((rng.random(jobs), sizes))] = spread(jobs, VCLOS_TPU_SIZES)
    power = (gpus & (gpus - 1)) == 0
    models = np.where(power & (rng.random(jobs) < VCLOS_TPU_LARGE_MODELS), "MoE", "dense")
    submit_s = poisson(rng, gap_s(options, VCLOS_TPU_GAP_S), jobs)
    note = "sizes of TPU v4 slices up to 512 GPUs, durations of Helios clipped to 1,000 to 100,000 s, all-to-all where models are large"
    return made_up("vclos-tpu", submit_s, gpus, duration_s, note, models)


def made_up(
    name: str, submit_s: Floats, gpus: NDArray[Any], duration_s: Floats, note: str, model: NDArray[Any] | None = None
) -> Workload:
    """The workload, with ids 0, 1, 2 ... in no more characters than the last one needs: a million take 24 MB, not 84."""
    refuse_long(f"{PREFIX}{name}: with this gap", float(submit_s.max()))
    ids = np.arange(len(gpus)).astype(f"U{len(str(len(gpus) - 1))}")
    return workload(name, submit_s, gpus, duration_s, job_id=ids, model=model, caveats=(f"made up: {note}",))


def job_count(options: Mapping[str, str], default: int) -> int:
    """How many jobs to make."""
    return specs.whole(options, "jobs", default, least=1, most=MOST_JOBS)


def gap_s(options: Mapping[str, str], default_s: float) -> float:
    """The mean time between submissions."""
    gap = seconds(options["gap"], "gap", MOST_GAP_S) if "gap" in options else default_s
    if gap <= 0:
        raise BadInput(f"gap={options['gap']} must be above 0")
    return gap


def generator(options: Mapping[str, str]) -> np.random.Generator:
    """The only source of randomness of a workload."""
    return np.random.Generator(np.random.PCG64(specs.whole(options, "seed", 0, least=0)))


def poisson(rng: np.random.Generator, mean_gap_s: float, jobs: int) -> Floats:
    """Times of submission with exponential gaps, from 0 on and to the millisecond."""
    times_s = np.cumsum(rng.exponential(mean_gap_s, jobs))
    from_zero: Floats = np.round(times_s - times_s[0], 3)
    return from_zero


def spread(jobs: int, weights: Mapping[int, int] | Mapping[str, int]) -> NDArray[np.generic]:
    """`jobs` values in the proportions of `weights`: whole counts, the largest remainders rounded up."""
    exact = np.array(list(weights.values()), np.float64) * jobs / sum(weights.values())
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: jobs - counts.sum()]] += 1
    return np.repeat(np.array(list(weights)), counts)


def log_uniform(rng: np.random.Generator, bounds: tuple[float, float], count: int) -> Floats:
    """Times spread evenly in their logarithm between two bounds, to the millisecond and never at the upper one."""
    low, high = bounds
    times = np.exp(rng.uniform(np.log(low), np.log(high), count))
    return np.clip(np.round(times, 3), low, high - 0.001)


# Every name with its maker and the cluster that `load=` refers to unless `cluster=` names another.
MAKERS: dict[str, tuple[Callable[[Mapping[str, str]], Workload], str]] = {
    "tiresias-480": (tiresias_480, "tiresias-testbed"),
    "philly": (partial(from_statistics, published.PHILLY), published.PHILLY.cluster),
    "vclos": (vclos, "vclos-512"),
    "vclos-large": (partial(vclos, large=True), "vclos-8192"),
    "vclos-tpu": (vclos_tpu, "vclos-8192"),
    "helios": (partial(from_statistics, published.HELIOS), published.HELIOS.cluster),
}
