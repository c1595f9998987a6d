"""Which uplink a flow takes: three rules, one kernel.

- ecmp: a hash of seed, job and both GPUs, as a switch hashes a flow's addresses and ports;
- balanced: the flows of a step that leave one leaf take its uplinks in turn, from a hashed start;
- source: the static position of the sender's NIC on its leaf, shared by all jobs.
In three tiers the core follows in the same way. On rails a flow leaves by the rail of its destination (the copy to that rail's GPU inside
the server costs no fabric link). Flows of isolated slices are not routed here: their certificates prove that no link carries two.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.links import BALANCED, ECMP, SOURCE, Links
from headway.network.sharing.steps import destination

LINKS_PER_FLOW: Final = 4  # three tiers: leaf up, aggregation up, core down, aggregation down


@jit
def mix(value: np.uint64) -> np.uint64:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit changes half of the output bits."""
    value = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@jit
def flow_hash(seed: int, job: int, source: int, target: int) -> np.uint64:
    """The hash of one flow."""
    word: np.uint64 = mix(mix(mix(np.uint64(seed)) ^ np.uint64(job)) ^ np.uint64(source))
    mixed: np.uint64 = mix(word ^ np.uint64(target))
    return mixed


@jit
def modulo(word: np.uint64, size: int) -> np.int64:
    """A hash as an index below `size`."""
    return np.int64(word % np.uint64(size))


@jit
def route_step(links: Links, j: int, order: NDArray[np.int64], step: Any, out: NDArray[np.int64]) -> int:
    """The directed links of every flow of one step of job j that leaves its leaf. Returns how many flows there are.

    `order` has the GPU of every rank; `out` gets a row per flow, -1 where its path is shorter.
    """
    head = links.head[0]
    turns = np.zeros(head.leaves, np.int64)
    flows = 0
    for rank in range(order.size):
        source, target = order[rank], order[destination(step, order.size, rank)]
        if head.rails:
            source += target % head.rails - source % head.rails
        here, there = links.gpus[source], links.gpus[target]
        if here.leaf == there.leaf:
            continue
        word, position = flow_hash(head.seed, j, source, target), np.int64(here.nic)
        up = position % head.uplinks
        if head.rule == ECMP:
            up = modulo(word, head.uplinks)
        elif head.rule == BALANCED:
            position = turns[here.leaf]
            turns[here.leaf] += 1
            up = (modulo(flow_hash(head.seed, j, here.leaf, -1), head.uplinks) + position) % head.uplinks
        path = out[flows]
        path[:] = -1
        path[0] = 2 * (here.leaf * head.uplinks + up)
        if here.pod == there.pod or head.cores == 0:
            path[1] = 2 * (there.leaf * head.uplinks + up) + 1
        else:
            core = _core(head, word, position, here.leaf)
            path[1] = 2 * (head.core_base + (here.pod * head.uplinks + up) * head.cores + core)
            path[2] = 2 * (head.core_base + (there.pod * head.uplinks + up) * head.cores + core) + 1
            path[3] = 2 * (there.leaf * head.uplinks + up) + 1
        flows += 1
    return flows


@jit
def _core(head: Any, word: np.uint64, position: int, leaf: int) -> int:
    """The core that a flow between pods takes, of those of its aggregation switch."""
    if head.rule == ECMP:
        return modulo(mix(word), head.cores)
    if head.rule == SOURCE:
        return position // head.uplinks % head.cores
    return (position + leaf) % head.cores
