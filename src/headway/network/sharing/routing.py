"""Which uplink a flow takes: five rules, one kernel.

- ecmp: a hash of seed, job and both GPUs, as a switch hashes a flow's addresses and ports;
- balanced: the flows of a step that leave one leaf take its uplinks in turn, from a hashed start;
- source: the static position of the sender's NIC on its leaf, shared by all jobs;
- isolated: the job-local rank modulo the slice's width, on the slice's own spines (vClos);
- ideal: no links at all, a network without contention.
Job-local and not the NIC's global number: a global index collides as soon as a job is not aligned to its leaves.
In three tiers the core follows in the same way (vClos: core index = floor(rank / n) mod l). On rails a flow leaves
by the rail of its destination (the copy to that rail's GPU inside the server costs no fabric link).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.errors import BadInput, unknown
from headway.network.fabric.model import Fabric
from headway.network.sharing.traffic import destination

ECMP, BALANCED, SOURCE, ISOLATED, IDEAL = 0, 1, 2, 3, 4
RULES = {"ecmp": ECMP, "balanced": BALANCED, "source": SOURCE, "isolated": ISOLATED, "ideal": IDEAL}
LINKS_PER_FLOW = 4  # three tiers: leaf up, aggregation up, core down, aggregation down


class Wiring(NamedTuple):
    """A fabric as the kernels take it."""

    leaf_of_gpu: NDArray[np.int64]
    nic_of_gpu: NDArray[np.int64]  # position of the GPU's NIC on its leaf
    pod_of_leaf: NDArray[np.int64]
    uplinks: int
    cores: int
    rails: int  # GPUs a server on a rail fabric, else 0
    core_base: int  # first cable between aggregation and core


def wiring_of(fabric: Fabric) -> Wiring:
    """The arrays of a fabric. With an OCS layer paths depend on the circuits: only slices are routed there."""
    if fabric.ocs:
        raise BadInput(f"fabric {fabric.name}: paths through optical switches exist only for slices; use ocs-vclos")
    leaf = fabric.leaf_of_gpu
    nic = np.zeros(leaf.size, np.int64)
    seen = np.zeros(fabric.leaves, np.int64)
    for gpu, one in enumerate(leaf):
        nic[gpu] = seen[one]
        seen[one] += 1
    pods = np.asarray(fabric.leaf_pod, np.int64) if fabric.leaf_pod else np.zeros(fabric.leaves, np.int64)
    rails = fabric.gpus_per_server if fabric.kind == "rail" else 0
    return Wiring(leaf, nic, pods, fabric.uplinks, fabric.cores_per_group, rails, fabric.leaves * fabric.uplinks)


def rule_code(name: str) -> int:
    """The number of a rule by its name."""
    if name not in RULES:
        raise unknown("network", name, RULES)
    return RULES[name]


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
def _pick(rule, word, turn, position, rank, width, spines, size):  # type: ignore[no-untyped-def]
    """The uplink (below `size`) of one flow under a rule."""
    if rule == ECMP:
        return modulo(word, size)
    if rule == BALANCED:
        return (turn + position) % size
    if rule == SOURCE:
        return position % size
    return spines[rank % width]


@jit
def route_step(rule, seed, job, kind, amount, block, gpu_of_rank, wiring, spines, core_width, out_flows, out_links):  # type: ignore[no-untyped-def]
    """The links of every flow of one step that leaves its leaf. Returns how many flows there are.

    `out_flows` gets the sending rank, `out_links` its directed links (-1: none further). `spines` are the slice's own
    (isolated), `core_width` its cores per aggregation switch (three tiers; the slice's cores are 0 to core_width - 1).
    """
    ranks = gpu_of_rank.size
    flows = 0
    if rule == IDEAL:
        return 0
    turns = np.zeros(wiring.pod_of_leaf.size, np.int64)
    for rank in range(ranks):
        target_rank = destination(kind, amount, block, ranks, rank)
        if target_rank < 0 or target_rank == rank:
            continue
        source, target = gpu_of_rank[rank], gpu_of_rank[target_rank]
        index = rank
        if wiring.rails:
            if source // wiring.rails == target // wiring.rails:
                continue  # the same server
            source += target % wiring.rails - source % wiring.rails
            index = rank // wiring.rails
        here, there = wiring.leaf_of_gpu[source], wiring.leaf_of_gpu[target]
        if here == there:
            continue
        word = flow_hash(seed, job, source, target)
        position = wiring.nic_of_gpu[source]
        if rule == BALANCED:
            position = turns[here]
            turns[here] += 1
        turn = modulo(flow_hash(seed, job, here, -1), wiring.uplinks)
        up = _pick(rule, word, turn, position, index, max(spines.size, 1), spines, wiring.uplinks)
        _write(rule, word, position, index, up, here, there, wiring, spines.size, core_width, out_links[flows])
        out_flows[flows] = rank
        flows += 1
    return flows


@jit
def _write(rule, word, position, index, up, here, there, wiring, width, core_width, out):  # type: ignore[no-untyped-def]
    """The directed links of one flow: up and down, through a core when the pods differ."""
    out[:] = -1
    out[0] = 2 * (here * wiring.uplinks + up)
    pod, far = wiring.pod_of_leaf[here], wiring.pod_of_leaf[there]
    if pod == far or wiring.cores == 0:
        out[1] = 2 * (there * wiring.uplinks + up) + 1
        return
    if rule == ECMP:
        core = modulo(mix(word), wiring.cores)
    elif rule == ISOLATED:
        core = index // max(width, 1) % max(core_width, 1)
    else:
        core = position // wiring.uplinks % wiring.cores if rule == SOURCE else (position + here) % wiring.cores
    out[1] = 2 * (wiring.core_base + (pod * wiring.uplinks + up) * wiring.cores + core)
    out[2] = 2 * (wiring.core_base + (far * wiring.uplinks + up) * wiring.cores + core) + 1
    out[3] = 2 * (there * wiring.uplinks + up) + 1
