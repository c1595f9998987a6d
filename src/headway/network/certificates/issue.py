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
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.network.certificates.certificate import Certificate, CrossConnect
from headway.network.fabric.model import Fabric
from headway.network.sharing.patterns import DEFAULT_GROUP, Pattern, clean_patterns
from headway.network.slices.circuits import DIRECT, ONE_LEAF, ONE_SPINE
from headway.network.slices.colouring import Circuits
from headway.network.slices.solver import PodChoice


def _promised(ranks: int, width: int, pattern: Pattern, unit: int = 1) -> tuple[str, ...]:
    """The job's pattern first, then the others that the theorem promises; with width 0 every permutation is clean."""
    patterns = clean_patterns(ranks, width, pattern.group or (unit if unit > 1 else DEFAULT_GROUP), unit)
    return tuple(str(one) for one in sorted(patterns, key=lambda one: one != pattern))


def _below_one_leaf(fabric: Fabric, order: tuple[int, ...], pattern: Pattern) -> Certificate:
    return Certificate(fabric, order, (), {"rule": "none"}, _promised(len(order), 0, pattern))


def _links(fabric: Fabric, uplinks: Mapping[int, Iterable[int]]) -> tuple[tuple[str, str], ...]:
    """Both ends of the uplinks held, by leaf."""
    return tuple(fabric.cable_name(fabric.leaf_cable(leaf, one)) for leaf, held in uplinks.items() for one in held)


def issue_leaf_spine(
    fabric: Fabric, order: tuple[int, ...], taken: NDArray[np.uint64], width: int, pattern: Pattern
) -> Certificate:
    """The certificate of a slice by vclos or vclos-padded, on leaf-spine, rails, or inside one pod."""
    if width == 0:
        return _below_one_leaf(fabric, order, pattern)
    masks = np.repeat(taken, fabric.rails).tolist()
    held = {leaf: [uplink for uplink in range(64) if mask >> uplink & 1] for leaf, mask in enumerate(masks)}
    routing = {"rule": "rank-mod", "modulus": width, "spines": max(held.values(), key=len)}
    promised = _promised(len(order), width, pattern, fabric.rails)
    return Certificate(fabric, order, _links(fabric, held), routing, promised)


def issue_pods(fabric: Fabric, order: tuple[int, ...], choice: PodChoice, pattern: Pattern) -> Certificate:
    """The certificate of a slice across pods."""
    pods = sorted({fabric.leaf_pod[leaf] for leaf in choice.leaves})
    cores_of = dict(zip(choice.aggregations, choice.cores, strict=True))
    upper = [(pod, agg, core) for pod in pods for agg, cores in cores_of.items() for core in cores]
    links = _links(fabric, dict.fromkeys(choice.leaves, choice.aggregations))
    links += tuple(fabric.cable_name(fabric.core_cable(*ends)) for ends in upper)
    leaves_each = len(choice.leaves) // len(pods)
    routing: dict[str, Any] = {
        "rule": "rank-mod",
        "modulus": len(choice.aggregations),
        "spines": list(choice.aggregations),
        "core_modulus": leaves_each,
        "cores": [list(cores) for cores in choice.cores],
    }
    patterns = _promised(len(order), len(choice.aggregations), pattern)
    if leaves_each & (leaves_each - 1):
        patterns = tuple(name for name in patterns if name != "halving-doubling")
    return Certificate(fabric, order, links, routing, patterns)


def circuits_of(fabric: Fabric, circuits: Circuits, job: int) -> tuple[CrossConnect, ...]:
    """The circuits of one job as they stand; also after others' admissions moved some of them."""
    assert fabric.ocs
    result = []
    for leaf, ocs in np.argwhere(circuits.ports["job"][: fabric.leaves] == job).tolist():
        far = int(circuits.ports["far"][leaf, ocs])
        if far >= fabric.leaves:
            spine, fibre = divmod(far - fabric.leaves, fabric.ocs.spine_fibres)
            result.append(CrossConnect(ocs, leaf, spine, fibre))
        elif leaf < far:
            result.append(CrossConnect(ocs, leaf, other_leaf=far))
    return tuple(result)


def fibre_order(circuits: tuple[CrossConnect, ...]) -> dict[int, list[int]]:
    """Every leaf's fibres by link index: sorted by spine, so that index i ends on the same spine at every leaf.

    Leaves joined directly meet on the same OCS, which gives both the same order.
    """
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in circuits:
        for leaf in (one.leaf, one.other_leaf) if one.other_leaf >= 0 else (one.leaf,):
            ends[leaf].append((one.spine, one.ocs))
    return {leaf: [ocs for _, ocs in sorted(fibres)] for leaf, fibres in sorted(ends.items())}


def issue_ocs(
    fabric: Fabric, order: tuple[int, ...], circuits: tuple[CrossConnect, ...], case: int, width: int, pattern: Pattern
) -> Certificate:
    """The certificate of an OCS-vClos slice."""
    if case == ONE_LEAF:
        return _below_one_leaf(fabric, order, pattern)
    fibres = fibre_order(circuits)
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
    patterns = _promised(len(order), 0 if case in (DIRECT, ONE_SPINE) else width, pattern)
    return Certificate(fabric, order, _links(fabric, fibres), routing, patterns, circuits)


def reissue(held: Certificate, circuits: tuple[CrossConnect, ...]) -> Certificate:
    """The certificate of a job whose circuits were moved: same GPUs, ranks and spines, other fibres."""
    fibres = fibre_order(circuits)
    routing = held.routing | {"fibres": {str(leaf): mine for leaf, mine in fibres.items()}}
    return replace(held, links=_links(held.fabric, fibres), routing=routing, circuits=circuits)
