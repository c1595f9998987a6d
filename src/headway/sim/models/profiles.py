"""Profiles of models: cost of preemption, slow-down when spread, packing and scaling.

Save, resume, size and skew are of Tiresias (NSDI'19), sections 4 and 5; resume and the spread ratio were read off its figures. The sum of
speeds of two packed jobs is of Gavel's measured pairs on one V100 (OSDI'20 artifact: co-located against isolated, means by family):
ResNet-50 with itself 0.77, ResNet-18 1.81, Transformer 1.50, LM 1.28. The constant c in speed(g) = g / (1 + c (g - 1)) is the median fit
to ElasticFlow's throughputs on A100 (ASPLOS'23 artifact) at the largest batch: ResNet-50 0.066, Inception-3 0.137, VGG-16 0.045.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Profile(NamedTuple):
    """One model."""

    save_s: float
    resume_s: tuple[float, float, float]  # at 1, 2 and 8 workers
    size_mb: float
    skew: float  # largest tensor / model size
    apart: float  # speed spread at random / consolidated
    packed: float  # speeds of two of them on one GPU, added
    scaling: float  # c of speed(g)


# A job whose model is not known: 62 s a preemption (13,724 s for 221 of them on the testbed), no harm from spreading, no gain from packing.
UNKNOWN_COST_S = 62.0
UNKNOWN = Profile(UNKNOWN_COST_S, (0.0, 0.0, 0.0), float("nan"), float("nan"), 1.0, 1.0, 0.137)
PROFILES: dict[str, Profile] = {
    "VGG19": Profile(2.7, (18.5, 45.3, 49.3), 548.1, 0.715, 0.72, 0.77, 0.045),
    "VGG16": Profile(2.3, (17.6, 43.0, 48.8), 527.8, 0.743, 0.73, 0.77, 0.045),
    "VGG11": Profile(1.9, (14.9, 42.1, 46.6), 506.8, 0.773, 0.77, 0.77, 0.045),
    "AlexNet": Profile(1.3, (8.3, 36.8, 38.6), 235.9, 0.610, 0.80, 1.28, 0.045),
    "ResNet152": Profile(26.3, (64.4, 66.7, 68.4), 230.2, 0.039, 1.04, 0.77, 0.066),
    "ResNet101": Profile(17.8, (44.8, 45.7, 47.0), 170.4, 0.053, 1.06, 0.77, 0.066),
    "ResNet50": Profile(9.4, (25.2, 24.7, 26.1), 97.7, 0.092, 1.08, 0.77, 0.066),
    "Inception4": Profile(22.2, (57.7, 60.0, 61.3), 162.9, 0.036, 1.02, 0.77, 0.137),
    "Inception3": Profile(14.1, (37.7, 38.1, 39.0), 91.0, 0.086, 1.06, 0.77, 0.137),
    "GoogleNet": Profile(5.7, (17.2, 15.8, 16.7), 26.7, 0.146, 1.07, 1.81, 0.137),
}
TABLE = (UNKNOWN, *PROFILES.values())
_NO_MARKS = str.maketrans("", "", "-_ \t")
ROW = {name.lower(): row for row, name in enumerate(PROFILES, 1)}


def rows_of(models: NDArray[np.str_]) -> NDArray[np.int32]:
    """The row of each model in the table; 0: not known."""
    names, where = np.unique(models, return_inverse=True)
    rows = [ROW.get(str(name).lower().translate(_NO_MARKS), 0) for name in names]
    return np.array(rows, np.int32)[where]


def column(name: str) -> NDArray[np.float64]:
    """One number of every model, by row."""
    return np.array([getattr(profile, name) for profile in TABLE])


def resume_s(rows: NDArray[np.int32], workers: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the seconds to resume by number of workers: linear in log2 between the measured 1, 2 and 8, level beyond."""
    one, two, eight = np.array([profile.resume_s for profile in TABLE]).T[:, :, None]
    x = np.log2(np.arange(1, 9))
    low, high = np.minimum(x, 1.0), np.maximum(x - 1.0, 0.0) / 2.0
    by_workers = one + low * (two - one) + high * (eight - two)
    return np.asarray(by_workers[rows, np.clip(workers, 1, 8) - 1])


def speeds(most_gpus: int) -> NDArray[np.float64]:
    """speed[model, GPUs], in units of one GPU."""
    g = np.arange(most_gpus + 1)
    return g / (1.0 + np.outer(column("scaling"), np.maximum(g - 1, 0)))


def pair_speeds() -> NDArray[np.float64]:
    """together[a, b]: the speed of model a when packed with model b."""
    packed = column("packed")
    return (packed[:, None] + packed[None, :]) / 4.0
