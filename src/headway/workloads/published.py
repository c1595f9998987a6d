"""Workloads fitted to the published statistics of Philly (Jeon et al., ATC'19) and Helios (Hu et al., SC'21).

Sizes and durations follow the published CDFs; how long jobs of a size last follows the published CDF of GPU time by
size: every job gets a random normal number, shifted by its size, and its rank among all jobs is its rank in duration.
Arrivals are a Poisson process whose rate follows the hours of the day.

The CDF points are those of the comparison of clusters in AcmeTrace (Hu et al., NSDI'24, InternLM/AcmeTrace, CC-BY-4.0).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DAY_S = 86_400.0
# Jobs made when no number is asked for.
JOBS = 10_000
# Jobs by size are fitted in groups: 1 GPU, up to 4, up to 8, up to 16, and larger.
GROUP_LIMITS = (1, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is published about one cluster."""

    # The preset that `load=` refers to.
    cluster: str
    gap_s: float
    # Percent of the jobs by GPUs.
    sizes: dict[int, float]
    # Percent of the jobs of at most 2^0, 2^1, ... seconds, and the longest job.
    durations_pct: tuple[float, ...]
    longest_s: float
    # Shift of the normal number for each group of sizes, fitted to the CDF of GPU time by size (docs/traces.md).
    shifts: tuple[float, ...]
    # Percent of the submissions in each hour of the day.
    hours_pct: tuple[float, ...]


PHILLY = Statistics(
    cluster="philly",
    # 117,325 jobs from 2017-08-07 to 2017-12-22 (README of msr-fiddle/philly-traces).
    gap_s=137 * DAY_S / 117_325,
    # The 0.021 % above 32 GPUs (at most 128) are put at 64.
    sizes={1: 82.421, 2: 2.062, 4: 7.563, 8: 6.860, 16: 0.899, 32: 0.174, 64: 0.021},
    durations_pct=(
        *(0.026, 0.080, 0.166, 0.822, 3.617, 8.422, 18.882, 26.986, 31.503, 36.281, 54.914),
        *(67.465, 79.280, 84.598, 90.287, 92.714, 94.859, 96.949, 98.393, 99.316, 99.801, 99.955),
    ),
    longest_s=4_240_676.0,
    shifts=(0.0, 0.531, 0.710, 0.535, 0.320),
    # Counted in the copy of 82,247 jobs (pkusys/ElasticFlow, Pollux's simulator); the clock is the log's.
    hours_pct=(
        *(5.3, 4.1, 4.7, 4.6, 2.9, 4.8, 7.0, 8.7, 4.6, 4.2, 4.3, 3.6),
        *(3.1, 2.9, 2.7, 2.7, 3.7, 2.8, 3.3, 3.0, 4.2, 3.8, 4.7, 4.2),
    ),
)

HELIOS = Statistics(
    cluster="helios",
    # 1,580,464 GPU jobs from April to September 2020 (README of S-Lab-System-Group/HeliosData).
    gap_s=183 * DAY_S / 1_580_464,
    # Sizes between the corners of the published CDF are put in their middle, the 0.066 % above 151 GPUs at 160.
    sizes={
        **{1: 72.189, 2: 2.558, 3: 0.092, 4: 5.632, 5: 0.030, 6: 0.175, 8: 14.014, 12: 0.015, 16: 3.016, 24: 0.355},
        **{32: 1.274, 40: 0.098, 48: 0.097, 56: 0.062, 64: 0.127, 80: 0.076, 96: 0.048, 128: 0.076, 160: 0.066},
    },
    durations_pct=(
        *(3.997, 4.934, 6.350, 7.699, 10.722, 16.150, 24.881, 37.811, 56.574, 67.579, 75.246),
        *(84.100, 87.534, 90.750, 94.364, 96.265, 97.770, 98.900, 99.550, 99.857, 99.963, 100.0),
    ),
    longest_s=4_320_009.0,
    shifts=(0.0, 0.505, 0.539, 0.765, 0.724),
    # Counted in the copy of the cluster Venus (mystous/gpu_scheduler); the clock is the log's.
    hours_pct=(
        *(3.7, 2.7, 2.5, 1.6, 1.1, 0.9, 0.8, 0.9, 1.6, 3.3, 5.4, 6.1),
        *(4.9, 5.4, 6.5, 6.9, 7.2, 7.2, 5.3, 5.5, 5.6, 5.7, 4.8, 4.3),
    ),
)

# The cluster of Helios whose log the authors of vClos draw durations from, counted in the copy of 125,303 jobs of mystous/gpu_scheduler.
# Sizes between powers of two are put at the next smaller one, those above 128 at 160.
VENUS = Statistics(
    cluster="venus",
    gap_s=183 * DAY_S / 125_303,
    sizes={
        **{1: 51.838, 2: 5.707, 4: 7.336, 6: 0.361, 8: 24.734, 16: 4.159, 24: 0.899, 32: 2.717, 40: 0.287},
        **{48: 0.430, 64: 0.310, 80: 0.183, 96: 0.151, 120: 0.151, 128: 0.413, 160: 0.309},
    },
    durations_pct=(
        *(1.888, 2.776, 4.057, 6.373, 9.637, 14.763, 23.222, 37.642, 55.054, 65.144),
        *(72.858, 78.530, 83.668, 86.892, 89.646, 92.327, 95.416, 97.459, 99.992, 99.999),
    ),
    longest_s=567_327.0,
    # Means of the normal numbers of the ranks, by group of sizes.
    shifts=(0.0, 0.088, 0.136, 0.358, -0.049),
    hours_pct=HELIOS.hours_pct,
)


def sizes(statistics: Statistics, jobs: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """The GPUs of each job, at random in the published shares."""
    edges = np.cumsum(list(statistics.sizes.values()))
    chosen = rng.random(jobs) * edges[-1]
    gpus: NDArray[np.int32] = np.array(list(statistics.sizes), np.int32)[np.searchsorted(edges, chosen, side="right")]
    return gpus


def durations(statistics: Statistics, gpus: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.float64]:
    """How long each job lasts: its rank among all jobs, read off the published CDF on a logarithmic axis."""
    from scipy.special import ndtr

    shifts = np.array(statistics.shifts)
    normal = rng.standard_normal(len(gpus)) + shifts[np.searchsorted(GROUP_LIMITS, gpus)]
    rank = np.zeros(len(gpus))
    for shift, share in zip(shifts, _group_shares(statistics), strict=True):
        rank += share * ndtr(normal - shift)
    points_s = np.exp2(np.arange(len(statistics.durations_pct)))
    pct = np.array([*statistics.durations_pct, 100.0])
    exponent = np.interp(rank * 100, pct, np.log2([*points_s, max(statistics.longest_s, points_s[-1])]))
    lasts: NDArray[np.float64] = np.maximum(np.round(np.exp2(exponent), 3), 1.0)
    return lasts


def _group_shares(statistics: Statistics) -> NDArray[np.float64]:
    shares = np.zeros(len(statistics.shifts))
    np.add.at(shares, np.searchsorted(GROUP_LIMITS, list(statistics.sizes)), list(statistics.sizes.values()))
    return shares / sum(statistics.sizes.values())


def arrivals(statistics: Statistics, gap_s: float, jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Times of submission: an even Poisson process whose days are then stretched to the hours people submit in."""
    even = np.cumsum(rng.exponential(gap_s, jobs)) / DAY_S
    day = np.floor(even)
    edges = np.concatenate([[0.0], np.cumsum(statistics.hours_pct)])
    hour = np.interp(even - day, edges / edges[-1], np.arange(25.0))
    times = (day + hour / 24) * DAY_S
    from_zero: NDArray[np.float64] = np.round(times - times[0], 3)
    return from_zero
