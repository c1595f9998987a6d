"""Which uplink a flow takes: four rules, one kernel.

- ecmp: a hash of seed, job and both GPUs, as a switch hashes a flow's addresses and ports; several queue pairs have a hash each;
- balanced: the flows of a step that leave one leaf take its uplinks in turn, from a hashed start;
- source: the static position of the sender's NIC on its leaf, shared by all jobs;
- spray: all of them; the leaf's first uplink stands for all (its `width` is their number).
In three tiers the core follows in the same way. On rails a flow leaves by the rail of its destination (the copy to that rail's GPU inside
the server costs no fabric link). Instead of an uplink that failed, or that a slice holds, a flow takes another one that both leaves still
have. If slices hold all uplinks that work on both leaves, the flow shares one of these. Flows of isolated slices are not routed here: their
certificates prove that no link carries two.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.network.sharing.links import BALANCED, ECMP, SOURCE, SPRAY, Links
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
def job_hash(seed: int, job: int) -> np.uint64:
    """The hash that all flows of a job begin with."""
    return mix(mix(np.uint64(seed)) ^ np.uint64(job))


@jit
def flow_hash(of_job: np.uint64, source: int, target: int) -> np.uint64:
    """The hash of one flow of a job."""
    return mix(mix(of_job ^ np.uint64(source)) ^ np.uint64(target))


@jit
def modulo(word: np.uint64, size: int) -> int:
    """A hash as an index below `size`."""
    return int(np.int64(word % np.uint64(size)))


@jit
def paths_of(links: Links, ranks: int) -> int:
    """How many rows `route_step` writes at most for a job with this number of ranks."""
    return ranks * links.head[0].queue_pairs


@jit
def route_step(links: Links, j: int, order: NDArray[np.int64], step: Any, out: NDArray[np.int64]) -> int:
    """The directed links of every flow of one step of job j that leaves its leaf. Returns how many flows there are.

    `order` has the GPU of every rank; `out` gets a row per flow, -1 where its path is shorter.
    """
    head = links.head[0]
    if head.rule == BALANCED:
        for rank in range(order.size):
            links.leaves[links.gpus[order[rank]].leaf].turn = 0
    flows, of_job = 0, job_hash(head.seed, j)
    for rank in range(order.size):
        source, target = order[rank], order[destination(step, order.size, rank)]
        if head.rails:
            source += target % head.rails - source % head.rails
        here, there = links.gpus[source], links.gpus[target]
        if here.leaf == there.leaf:
            continue
        word, position = flow_hash(of_job, source, target), np.int64(here.nic)
        if head.rule == BALANCED:
            leaf = links.leaves[here.leaf]
            position = leaf.turn + modulo(flow_hash(of_job, here.leaf, -1), head.uplinks)
            leaf.turn += 1
        for pair in range(head.queue_pairs):
            if pair > 0:
                word = mix(word ^ np.uint64(pair))
            path = out[flows]
            for hop in range(LINKS_PER_FLOW):
                path[hop] = -1
            up = _uplink(links, word, position, here.leaf, there.leaf)
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
def _uplink(links: Links, word: np.uint64, position: int, here: int, there: int) -> int:
    """Return the uplink of a flow: one that works on both leaves, and that no job holds if there is such an uplink."""
    head, one, other = links.head[0], links.leaves[here], links.leaves[there]
    if head.rule == SPRAY:
        return 0
    if one.left == head.uplinks and other.left == head.uplinks:
        return modulo(word, head.uplinks) if head.rule == ECMP else position % head.uplinks
    alive, left = one.alive & other.alive, np.int64(0)
    if alive == np.uint64(0):  # failures broke the rule that slices leave a spine to other jobs
        alive = one.works & other.works
    for up in range(head.uplinks):
        left += np.int64((alive >> np.uint64(up)) & np.uint64(1))
    wanted = modulo(word, left) if head.rule == ECMP else position % left
    for up in range(head.uplinks):
        wanted -= np.int64((alive >> np.uint64(up)) & np.uint64(1))
        if wanted < 0:
            return up
    return 0


@jit
def _core(head: Any, word: np.uint64, position: int, leaf: int) -> int:
    """The core that a flow between pods takes, of those of its aggregation switch."""
    if head.rule == SPRAY:
        return 0
    if head.rule == ECMP:
        return modulo(mix(word), head.cores)
    if head.rule == SOURCE:
        return position // head.uplinks % head.cores
    return (position + leaf) % head.cores
