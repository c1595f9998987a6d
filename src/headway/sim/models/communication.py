"""What simulated jobs send: a pattern and the part of their time that they communicate, drawn per job from the seed.

vClos, evaluation: halving-doubling for half of the jobs with a power of two of GPUs, ring and all-to-all for the rest; an iteration
communicates for 0.25 to 0.04 of its time with VGG16, 0.04 with ResNet50, 0.12 to 0.08 with BERT, 0.35 with a large language model. We read
a range as going from small to large batches, and draw evenly from it. A job whose model is not known gets one of the four, and its
pattern has nothing to do with it. In the authors' public generator the two belong together: jobs that run all-to-all have the share of
large models, and no other job has. Models named `MoE` and `dense` (`synthetic:vclos-tpu`) are drawn so.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.network.sharing.steps import ALL_TO_ALL, HALVING_DOUBLING, RING
from headway.workloads.workload import Workload

# All-to-all of N ranks has N - 1 steps; of more than this, this many are taken at even distances (decision 0037).
MOST_STEPS: Final = 32

SHARES: Final = {"vgg": (0.04, 0.25), "resnet": (0.04, 0.04), "bert": (0.08, 0.12), "llm": (0.35, 0.35)}
# Families with a pattern of their own: all-to-all, with the share of large models in the generator; or anything else, with a smaller one.
COUPLED: Final = {"moe": (0.348, 0.348), "dense": (0.02, 0.25)}
# Of dense jobs with a power of two of GPUs: halving-doubling .5 to ring .2 in the generator.
HALVING_OF_DENSE: Final = 5 / 7
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
    "moe": "moe",
    "dense": "dense",
}


class Traffic(NamedTuple):
    """What every job sends."""

    pattern: NDArray[np.int64]  # network/sharing/steps.py
    duty: NDArray[np.float64]  # the part of an iteration that communicates on a clean network


def silence(jobs: int) -> Traffic:
    """Return traffic of no job: what jobs send does not matter. The arrays repeat one value in memory."""
    return Traffic(np.broadcast_to(RING, jobs), np.broadcast_to(0.0, jobs))


def draw(workload: Workload, seed: int) -> Traffic:
    """The traffic of every job, drawn from the seed."""
    random = np.random.default_rng([seed, 3])
    n, gpus = len(workload), workload.gpus
    one, two, three, four = random.random((4, n))
    power = (gpus & (gpus - 1)) == 0
    pattern = np.where(two < 0.5, RING, ALL_TO_ALL)
    pattern = np.where(power & (one < 0.5), HALVING_DOUBLING, pattern).astype(np.int64)
    family = _families(workload.model, (three * len(SHARES)).astype(np.int64))
    moe, dense = (family == len(SHARES) + place for place in range(len(COUPLED)))
    pattern[moe] = ALL_TO_ALL
    pattern[dense] = np.where(power & (one < HALVING_OF_DENSE), HALVING_DOUBLING, RING)[dense]
    bounds = np.array([*SHARES.values(), *COUPLED.values()])[family]
    return Traffic(pattern, bounds[:, 0] + four * (bounds[:, 1] - bounds[:, 0]))


def _families(models: NDArray[np.str_], otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    """The family of every job's model, by position in SHARES and COUPLED; `otherwise` where the model is not known."""
    order = [*SHARES, *COUPLED]
    names, where = np.unique(models, return_inverse=True)
    known = np.full(len(names), -1)
    for i, name in enumerate(names):
        known[i] = next((order.index(kind) for part, kind in FAMILIES.items() if part in str(name).lower()), -1)
    return np.where(known[where] < 0, otherwise, known[where])
