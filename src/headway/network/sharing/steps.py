"""What a job sends, step by step: in every step each rank sends to one other rank.

A step is a cyclic shift or an XOR of the ranks, with the part of the job's bytes that it carries. vClos's theorem speaks of exactly
these: every shift is clean on a slice, every XOR when the ranks per leaf and in all are powers of two.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit

SHIFT, XOR = 0, 1
STEP: Final = np.dtype(
    [
        ("kind", "i8"),  # SHIFT or XOR
        ("amount", "i8"),
        ("weight", "f8"),  # its part of the bytes; the weights of a job's steps add up to 1
    ]
)
RING, HALVING_DOUBLING, ALL_TO_ALL = 0, 1, 2
PATTERNS: Final = {"ring": RING, "halving-doubling": HALVING_DOUBLING, "all-to-all": ALL_TO_ALL}


@jit
def write_steps(pattern: int, ranks: int, steps: NDArray[Any]) -> int:
    """Write the steps of a pattern over `ranks` ranks and return how many there are.

    All-to-all has a step for every shift; where `steps` has less room, as many shifts as fit are taken at even distances.
    Halving-doubling halves the vector while the distance doubles, so the largest messages go to the nearest ranks; without a power
    of two of ranks it is a ring.
    """
    if ranks < 2:
        return 0
    if pattern == HALVING_DOUBLING and ranks & (ranks - 1) == 0:
        count, reach = 0, 1
        while reach < ranks:
            _set(steps[count], XOR, reach, 0.5 ** (count + 1) / (1.0 - 1.0 / ranks))
            count += 1
            reach *= 2
        return count
    count = 1 if pattern != ALL_TO_ALL else min(ranks - 1, len(steps))
    for k in range(count):
        # Evenly from 1 to ranks - 1, both included.
        amount = 1 if count == 1 else 1 + k * (ranks - 2) // (count - 1)
        _set(steps[k], SHIFT, amount, 1.0 / count)
    return count


@jit
def _set(step: Any, kind: int, amount: int, weight: float) -> None:
    step.kind = kind
    step.amount = amount
    step.weight = weight


def steps_of(pattern: str, ranks: int) -> NDArray[Any]:
    """All steps of a pattern by its name."""
    steps = np.zeros(max(ranks - 1, 1), STEP)
    return steps[: write_steps(PATTERNS[pattern], ranks, steps)]


@jit
def destination(step: Any, ranks: int, rank: int) -> int:
    """The rank that `rank` sends to in a step."""
    if step.kind == XOR:
        return rank ^ step.amount
    return (rank + step.amount) % ranks
