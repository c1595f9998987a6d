"""Communication of one iteration on the network that a job's own places make, under three plans.

A job with g GPUs on each of n servers below l leaves has a network of dimensions: the server (g wide), the leaf (n/l) and the spine (l).
The last two leave by the same NIC, so two things can be the bottleneck: the links inside a server and the NIC. An all-reduce of one byte
on each GPU spends on them (Themis, section 2, with both halves)

    server first:   2 (1 - 1/g) / inside       and   2/g (1 - 1/s + f/s (1 - 1/l)) / nic        with s = n/l servers below a leaf
    server last:    2/n (1 - 1/g) / inside     and   2 (1 - 1/s + f/s (1 - 1/l)) / nic

with f >= 1 the slow-down of links above the leaf that others use too. A plan is the part of the chunks that go server first:

- baseline: all of them;
- themis: chunk by chunk, whichever is less loaded so far goes first (its greedy rule, without SCF's finer order within a dimension);
- best: the part that loads both alike, or all where the NIC is busier anyway. That is the exact limit (collectives/limit.py) for f = 1.

Chunks overlap, so an all-reduce takes as long as the busier of the two, and one chunk of the other one (`CHUNKS`). An all-to-all has no
order to choose. tests/unit/test_iteration.py holds these against plans that are played chunk by chunk.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from headway.core.compiler.jit import jit
from headway.errors import unknown

BASELINE, THEMIS, BEST = 1, 2, 3
NO_PLAN: Final = 0
PLANS: Final = {"none": NO_PLAN, "baseline": BASELINE, "themis": THEMIS, "best": BEST}
ALL_REDUCE_PLANS: Final = {number: name for name, number in PLANS.items() if number != NO_PLAN}
CHUNKS: Final = 256  # what planners may use (collectives/schedulers.py: AUTO_CHUNKS)


class Shape(NamedTuple):
    """Where a job is: GPUs on the server that has the fewest, servers, leaves."""

    each: int
    servers: int
    leaves: int = 1


class Bandwidth(NamedTuple):
    """Of one GPU, in Gbit/s: inside its server, and of its NIC; how much longer links above leaves take for the others on them."""

    inside_gbps: float
    nic_gbps: float
    crowd: float = 1.0


def plan_number(name: str) -> int:
    """The plan of that name."""
    if name not in PLANS:
        raise unknown("collective", name, PLANS)
    return PLANS[name]


@jit
def loads(shape: Any, at: Any) -> tuple[float, float, float, float]:
    """Seconds per Gbit of an all-reduce inside the server and on the NIC, server first; then the same, server last."""
    below = shape.servers / shape.leaves
    out = 1.0 - 1.0 / below + at.crowd / below * (1.0 - 1.0 / shape.leaves)
    inside = 1.0 - 1.0 / shape.each
    return (
        2.0 * inside / at.inside_gbps,
        2.0 / shape.each * out / at.nic_gbps,
        2.0 / shape.servers * inside / at.inside_gbps,
        2.0 * out / at.nic_gbps,
    )


@jit
def server_first(plan: int, shape: Any, at: Any) -> float:
    """The part of the chunks that a plan sends through the server first."""
    inside, nic, inside_last, nic_last = loads(shape, at)
    if plan == BASELINE or shape.servers == 1 or shape.each == 1:
        return 1.0
    if plan == BEST:
        if nic >= inside:
            return 1.0
        return (nic_last - inside_last) / (nic_last - inside_last + inside - nic)
    first, busy_inside, busy_nic = 0, 0.0, 0.0
    for _ in range(CHUNKS):
        if busy_inside <= busy_nic:
            first += 1
            busy_inside += inside
            busy_nic += nic
        else:
            busy_inside += inside_last
            busy_nic += nic_last
    return first / CHUNKS


@jit
def all_reduce_s(plan: int, shape: Any, at: Any) -> float:
    """Seconds per Gbit on each GPU."""
    inside, nic, inside_last, nic_last = loads(shape, at)
    part = server_first(plan, shape, at)
    one, other = part * inside + (1.0 - part) * inside_last, part * nic + (1.0 - part) * nic_last
    return max(one, other) + min(one, other) / CHUNKS


@jit
def all_to_all_s(shape: Any, at: Any) -> float:
    """Seconds per Gbit that each GPU sends, evenly to all: to its own server inside it, to all others by its NIC."""
    ranks = shape.each * shape.servers
    below = shape.servers / shape.leaves * shape.each  # ranks below a leaf
    near, far = below - shape.each, ranks - below
    return max((shape.each - 1.0) / ranks / at.inside_gbps, (near + far * at.crowd) / ranks / at.nic_gbps)


@jit
def communication_s(plan: int, exchanges: bool, shape: Any, at: Any) -> float:
    """Seconds per Gbit of an all-to-all (`exchanges`) or an all-reduce."""
    if shape.each * shape.servers < 2:
        return 0.0
    return all_to_all_s(shape, at) if exchanges else all_reduce_s(plan, shape, at)


def shape_of(gpus_by_server: Any, leaf_of_server: Any) -> Shape:
    """The shape of GPUs on servers: numbers of GPUs and of leaves, server by server."""
    gpus = np.asarray(gpus_by_server)
    return Shape(int(gpus.min()), len(gpus), len(set(np.asarray(leaf_of_server).tolist())))
