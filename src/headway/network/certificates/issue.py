"""From what the kernels chose to the certificate: concrete GPUs, rank order, named links, the routing rule.

Ranks follow the servers in the order chosen, so they are contiguous per leaf. The routing rule says how anybody can
re-compute the links of every flow:
- none: the job stays below one leaf (rails: below one leaf per rail);
- rank-mod: link index = rank modulo `modulus`, on `spines` (or each leaf's `fibres`); rails count servers, not ranks;
- by-member: up by the sender's position on its leaf, down by the receiver's, on each leaf's `fibres`;
- by-class: class = rank modulo `modulus`; link class * e + position div modulus, with e of the leaf's `fibres` a class; up
  by the sender's position, down by the receiver's, both of the sender's class;
- direct: two leaves; link index = position, on leaf `near`, of the member that is there.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.network.certificates.certificate import Certificate, Circuit
from headway.network.fabric.model import Fabric
from headway.network.sharing.traffic import DEFAULT_GROUP, PATTERNS, Pattern, clean_patterns, why_undefined
from headway.network.slices.circuits import DIRECT, ONE_LEAF, ONE_SPINE
from headway.network.slices.solver import PodChoice
from headway.network.slices.vclos import leaf_starts, take_in_leaf


def _ranks(
    fabric: Fabric, gpu_free: NDArray[np.bool_], nodes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[int, ...]:
    """The lowest free GPUs of every server, in the order of the servers."""
    order: list[int] = []
    for node, count in zip(nodes, counts, strict=True):
        first = int(node) * fabric.gpus_per_server
        free = np.nonzero(gpu_free[first : first + fabric.gpus_per_server])[0]
        order += [first + int(gpu) for gpu in free[: int(count)]]
    return tuple(order)


def _promised(ranks: int, width: int, pattern: Pattern, any_permutation: bool = False) -> tuple[str, ...]:
    """The job's own pattern first, then the others that the theorem promises."""
    group = pattern.group or DEFAULT_GROUP
    found = clean_patterns(ranks, 0 if any_permutation else width, group)
    return tuple(str(one) for one in sorted(found, key=lambda one: one != pattern))


def _bits(mask: int) -> list[int]:
    return [index for index in range(64) if mask >> index & 1]


def issue_leaf_spine(
    fabric: Fabric,
    gpu_free: NDArray[np.bool_],
    nodes: NDArray[np.int64],
    counts: NDArray[np.int64],
    taken: NDArray[np.uint64],
    width: int,
    pattern: Pattern,
) -> Certificate:
    """The certificate of a slice found by `slices` or `padded`, on leaf-spine, rails, or inside one pod."""
    order = _ranks(fabric, gpu_free, nodes, counts)
    # On rails the theorem speaks of servers: a shift of ranks is, on every rail, a shift of servers.
    unit = fabric.gpus_per_server if fabric.kind == "rail" else 1
    patterns = _promised(len(order), width, pattern, any_permutation=width == 0)
    if unit > 1 and width:
        patterns = tuple(str(one) for one in _clean_on_rails(len(order), width, unit, pattern))
    if width == 0:
        return Certificate(fabric, order, (), {"rule": "none"}, patterns)
    spines = _bits(int(taken.max()))
    links = []
    for group, mask in enumerate(taken):
        rails = range(unit) if unit > 1 else range(1)
        for rail in rails:
            leaf = group * unit + rail if unit > 1 else group
            links += [fabric.cable_name(fabric.leaf_cable(leaf, spine)) for spine in _bits(int(mask))]
    return Certificate(fabric, order, tuple(links), {"rule": "rank-mod", "modulus": width, "spines": spines}, patterns)


def _clean_on_rails(ranks: int, width: int, unit: int, pattern: Pattern) -> list[Pattern]:
    """Patterns clean on rails: shifts of ranks are shifts of servers; XOR needs powers of two throughout.

    Blocks of whole servers follow the rule for blocks of servers; other blocks are not promised.
    """
    group = pattern.group or unit
    clean = []
    for name in PATTERNS:
        one = Pattern(name, group if name in ("hybrid", "hierarchical-ring") else 0)
        if why_undefined(one, ranks):
            continue
        if name == "halving-doubling" and (width & (width - 1) or unit & (unit - 1)):
            continue
        if one.group and one.group % unit:
            continue
        blocks = one.group // unit
        if blocks > 1 and width % blocks and blocks % width:
            continue
        clean.append(one)
    return sorted(clean, key=lambda one: one != pattern)


def issue_pods(
    fabric: Fabric, gpu_free: NDArray[np.bool_], choice: PodChoice, width: int, pattern: Pattern
) -> Certificate:
    """The certificate of a slice across pods."""
    free = np.asarray(gpu_free.reshape(fabric.servers, -1).sum(axis=1), np.int64)
    starts = leaf_starts(fabric.server_leaf, fabric.leaves)
    nodes, counts = np.empty(fabric.servers, np.int64), np.empty(fabric.servers, np.int64)
    at = 0
    for leaf in choice.leaves:
        at = take_in_leaf(free, starts[leaf], starts[leaf + 1], width, nodes, counts, at)
    order = _ranks(fabric, gpu_free, nodes[:at], counts[:at])
    pods = sorted({fabric.leaf_pod[leaf] for leaf in choice.leaves})
    links = [fabric.cable_name(fabric.leaf_cable(leaf, agg)) for leaf in choice.leaves for agg in choice.aggregations]
    for pod in pods:
        for agg, cores in zip(choice.aggregations, choice.cores, strict=True):
            links += [fabric.cable_name(fabric.core_cable(pod, agg, core)) for core in cores]
    leaves_each = len(choice.leaves) // len(pods)
    routing: dict[str, Any] = {
        "rule": "rank-mod",
        "modulus": width,
        "spines": list(choice.aggregations),
        "core_modulus": leaves_each,
        "cores": [list(cores) for cores in choice.cores],
    }
    patterns = _promised(len(order), width, pattern)
    if leaves_each & (leaves_each - 1):
        patterns = tuple(name for name in patterns if name != "halving-doubling")
    return Certificate(fabric, order, tuple(links), routing, patterns)


def circuits_of(fabric: Fabric, partner: NDArray[np.int64], owner: NDArray[np.int64], job: int) -> tuple[Circuit, ...]:
    """The circuits of one job as they stand; also after others' admissions moved some of them."""
    assert fabric.ocs
    found = []
    for leaf, ocs in np.argwhere(owner[: fabric.leaves] == job):
        far = int(partner[leaf, ocs])
        if far >= fabric.leaves:
            spine, fibre = divmod(far - fabric.leaves, fabric.ocs.spine_fibres)
            found.append(Circuit(int(ocs), int(leaf), spine, fibre))
        elif leaf < far:
            found.append(Circuit(int(ocs), int(leaf), other_leaf=far))
    return tuple(found)


def fibre_order(circuits: tuple[Circuit, ...]) -> dict[int, list[int]]:
    """Every leaf's fibres by link index: sorted by spine, so that index i ends on the same spine at every leaf.

    Leaves joined directly meet on the same OCS, which gives both the same order.
    """
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in circuits:
        ends[one.leaf].append((one.spine, one.ocs))
        if one.other_leaf >= 0:
            ends[one.other_leaf].append((one.spine, one.ocs))
    return {leaf: [ocs for _, ocs in sorted(fibres)] for leaf, fibres in sorted(ends.items())}


def issue_ocs(
    fabric: Fabric,
    gpu_free: NDArray[np.bool_],
    partner: NDArray[np.int64],
    owner: NDArray[np.int64],
    job: int,
    nodes: NDArray[np.int64],
    counts: NDArray[np.int64],
    case: int,
    width: int,
    pattern: Pattern,
) -> Certificate:
    """The certificate of an OCS-vClos slice."""
    order = _ranks(fabric, gpu_free, nodes, counts)
    if case == ONE_LEAF:
        return Certificate(fabric, order, (), {"rule": "none"}, _promised(len(order), 0, pattern, any_permutation=True))
    circuits = circuits_of(fabric, partner, owner, job)
    fibres = fibre_order(circuits)
    links = [fabric.cable_name(fabric.leaf_cable(leaf, ocs)) for leaf, held in fibres.items() for ocs in held]
    routing: dict[str, Any] = {"fibres": {str(leaf): held for leaf, held in fibres.items()}}
    if case == DIRECT:
        on_leaf = np.bincount(fabric.leaf_of_gpu[list(order)], minlength=fabric.leaves)
        near = min(fibres, key=lambda leaf: (on_leaf[leaf], leaf))
        routing |= {"rule": "direct", "near": near}
    elif case == ONE_SPINE:
        routing |= {"rule": "by-member"}
    else:
        single = all(len(held) == width for held in fibres.values())
        routing |= {"rule": "rank-mod" if single else "by-class", "modulus": width}
    any_permutation = case in (DIRECT, ONE_SPINE)
    patterns = _promised(len(order), width, pattern, any_permutation)
    return Certificate(fabric, order, tuple(links), routing, patterns, circuits)


def reissue(held: Certificate, partner: NDArray[np.int64], owner: NDArray[np.int64], job: int) -> Certificate:
    """The certificate of a job whose circuits were moved: same GPUs, ranks and spines, other fibres."""
    fabric = held.fabric
    circuits = circuits_of(fabric, partner, owner, job)
    fibres = fibre_order(circuits)
    links = [fabric.cable_name(fabric.leaf_cable(leaf, ocs)) for leaf, mine in fibres.items() for ocs in mine]
    routing = held.routing | {"fibres": {str(leaf): mine for leaf, mine in fibres.items()}}
    return Certificate(fabric, held.rank_order, tuple(links), routing, held.patterns, circuits)
