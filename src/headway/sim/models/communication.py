"""What simulated jobs send: a pattern and the part of their time that they communicate, drawn for each job from the seed.

vClos, evaluation: halving-doubling for half of the jobs with a power of two of GPUs, ring and all-to-all for the rest; an iteration
communicates for 0.25 to 0.04 of its time with VGG16, 0.04 with ResNet50, 0.12 to 0.08 with BERT, 0.35 with a large language model. We read
a range as going from small to large batches, and draw evenly from it. A job whose model is not known gets one of the four.
"""

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.traffic import SHIFT, XOR
from headway.workloads.workload import Workload

RING, HALVING_DOUBLING, ALL_TO_ALL = 0, 1, 2
# All-to-all of N ranks has N - 1 steps; of more than this, so many are taken at even distances (decision 0037).
MOST_STEPS: Final = 32

SHARES: Final = {"vgg": (0.04, 0.25), "resnet": (0.04, 0.04), "bert": (0.08, 0.12), "llm": (0.35, 0.35)}
# Models of traces by what their name contains; convolutional ones without large dense layers count as ResNet50.
FAMILIES: Final = {
    "vgg": "vgg",
    "alexnet": "vgg",
    "resnet": "resnet",
    "inception": "resnet",
    "googlenet": "resnet",
    "bert": "bert",
    "transformer": "bert",
    "gpt": "llm",
    "llama": "llm",
    "llm": "llm",
}


def draw(workload: Workload, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pattern and communication share of every job."""
    random = np.random.default_rng([seed, 3])
    n, gpus = len(workload), workload.gpus
    one, two, three, four = random.random((4, n))
    power = (gpus & (gpus - 1)) == 0
    pattern = np.where(two < 0.5, RING, ALL_TO_ALL)
    pattern = np.where(power & (one < 0.5), HALVING_DOUBLING, pattern).astype(np.int64)
    bounds = np.array(list(SHARES.values()))[_families(workload.model, (three * len(SHARES)).astype(np.int64))]
    return pattern, bounds[:, 0] + four * (bounds[:, 1] - bounds[:, 0])


def _families(models: NDArray[np.str_], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """The family of every job's model, by position in SHARES; as drawn where it is not known."""
    order = list(SHARES)
    names, where = np.unique(models, return_inverse=True)
    known = np.full(len(names), -1)
    for i, name in enumerate(names):
        known[i] = next((order.index(kind) for part, kind in FAMILIES.items() if part in str(name).lower()), -1)
    return np.where(known[where] < 0, drawn, known[where])


@jit(types.int64(types.int64, types.int64, types.int64[:, ::1], types.float64[::1]))
def write_steps(pattern: int, ranks: int, steps: NDArray[np.int64], weights: NDArray[np.float64]) -> int:
    """The steps of one job as `network/sharing.py` takes them: rows and parts of the traffic. Returns how many."""
    if ranks < 2:
        return 0
    if pattern == HALVING_DOUBLING and ranks & (ranks - 1) == 0:
        count, reach = 0, 1
        while reach < ranks:
            steps[count, 0], steps[count, 1], steps[count, 2] = XOR, reach, ranks
            weights[count] = 0.5 ** (count + 1) / (1.0 - 1.0 / ranks)
            count += 1
            reach *= 2
        return count
    count = 1 if pattern != ALL_TO_ALL else min(ranks - 1, MOST_STEPS)
    for k in range(count):
        # Evenly from 1 to ranks - 1, both included.
        amount = 1 if count == 1 else 1 + k * (ranks - 2) // (count - 1)
        steps[k, 0], steps[k, 1], steps[k, 2] = SHIFT, amount, ranks
        weights[k] = 1.0 / count
    return count
