"""What a job sends, step by step: in every step each rank sends to one other rank.

A step is a cyclic shift or an XOR of the ranks. vClos's theorem speaks of exactly these: every shift is clean on a slice, every XOR when
the ranks per leaf and in all are powers of two. A step weighs the part of the communication that it takes on a clean network: its bytes
over the bandwidth, which inside a server is `server_gbps` and otherwise `link_gbps` (10 : 1 in vClos's evaluation).
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
        (
            "weight",
            "f8",
        ),  # its part of the bytes, or (`weigh`) of the time on a clean network; those of a job add up to 1
    ]
)
RING, HALVING_DOUBLING, ALL_TO_ALL = 0, 1, 2
PATTERNS: Final = {"ring": RING, "halving-doubling": HALVING_DOUBLING, "all-to-all": ALL_TO_ALL}


@jit
def write_steps(pattern: int, ranks: int, local: int, steps: NDArray[Any]) -> int:
    """Write the steps of a pattern over `ranks` ranks, `local` of them on a server, with their bytes; return how many there are.

    All-to-all has a step for every shift; where `steps` has less room, as many shifts as fit are taken at even distances.
    Halving-doubling halves the vector while the distance doubles, so the largest messages go to the nearest ranks; without a power
    of two of ranks it is a ring. A ring over several servers is hierarchical: its parts are gathered inside the servers, and then every
    NIC sends its part to the same place on the next server, a shift by `local`.
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
    if pattern != ALL_TO_ALL:
        return _write_ring(ranks, local, steps)
    count = min(ranks - 1, len(steps))
    for k in range(count):
        # Evenly from 1 to ranks - 1, both included.
        amount = 1 if count == 1 else 1 + k * (ranks - 2) // (count - 1)
        _set(steps[k], SHIFT, amount, 1.0 / count)
    return count


@jit
def _write_ring(ranks: int, local: int, steps: NDArray[Any]) -> int:
    """A ring; over several servers of several ranks, a step inside the servers (an XOR by 0: nobody leaves) and one between them."""
    if local < 2 or local >= ranks:
        _set(steps[0], SHIFT, 1, 1.0)
        return 1
    inside, between = 1.0 - 1.0 / local, (1.0 - local / ranks) / local
    _set(steps[0], XOR, 0, inside / (inside + between))
    _set(steps[1], SHIFT, local, between / (inside + between))
    return 2


@jit
def _set(step: Any, kind: int, amount: int, weight: float) -> None:
    step.kind = kind
    step.amount = amount
    step.weight = weight


@jit
def weigh(order: NDArray[np.int64], server: int, ratio: float, steps: NDArray[Any]) -> None:
    """Turn parts of the bytes into parts of the time, on the GPUs in `order`, `server` of them on each server.

    A step in which nobody leaves a server is `ratio` times as quick.
    """
    total = 0.0
    for k in range(len(steps)):
        leaves = False
        for rank in range(order.size):
            if order[rank] // server != order[destination(steps[k], order.size, rank)] // server:
                leaves = True
                break
        if not leaves:
            steps[k].weight /= ratio
        total += steps[k].weight
    for k in range(len(steps)):
        steps[k].weight /= total


@jit
def most_together(order: NDArray[np.int64], server: int) -> int:
    """The most ranks that follow each other on one server."""
    most, run = 1, 1
    for rank in range(1, order.size):
        run = run + 1 if order[rank] // server == order[rank - 1] // server else 1
        most = max(most, run)
    return most


@jit
def steps_on(pattern: int, order: NDArray[np.int64], server: int, ratio: float, steps: NDArray[Any]) -> int:
    """Write the steps of a job on the GPUs in `order`, weighed by time. Returns how many there are."""
    count = write_steps(pattern, order.size, most_together(order, server), steps)
    weigh(order, server, ratio, steps[:count])
    return count


def steps_of(pattern: str, ranks: int, local: int = 1) -> NDArray[Any]:
    """All steps of a pattern by its name, with their bytes."""
    steps = np.zeros(max(ranks - 1, 2), STEP)
    return steps[: write_steps(PATTERNS[pattern], ranks, local, steps)]


@jit
def destination(step: Any, ranks: int, rank: int) -> int:
    """The rank that `rank` sends to in a step."""
    if step.kind == XOR:
        return rank ^ step.amount
    return (rank + step.amount) % ranks
