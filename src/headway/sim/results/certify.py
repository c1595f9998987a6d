"""Certificates of running jobs: what the ledger and the circuits say now, in the form that `headway fabric verify` checks.

A certificate is read off the state, never stored: when circuits move for another job, the next one that is asked for says where they are.
"""

from collections import Counter
from typing import Any

import numpy as np

from headway.core.tables.state import State
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.issue import circuits_of, fibre_order
from headway.network.fabric.model import Fabric
from headway.network.sharing.traffic import DEFAULT_GROUP, clean_patterns
from headway.sim.models.contention import ranks_of
from headway.sim.models.rewiring import Circuits


def certificate_of(state: State, circuits: Circuits, fabric: Fabric, j: int) -> Certificate:
    """The certificate of job j, which holds GPUs under a placement that reserves links."""
    order = tuple(int(gpu) for gpu in ranks_of(state, state.jobs[j]))
    masks = _held(state, j)
    if not masks:
        return Certificate(fabric, order, (), {"rule": "none"}, _promised(len(order), 0))
    if fabric.ocs:
        return _with_circuits(circuits, fabric, order, j)
    spines = [bit for bit in range(fabric.uplinks) if next(iter(masks.values())) >> bit & 1]
    links = [
        fabric.cable_name(fabric.leaf_cable(leaf, spine))
        for leaf, mask in sorted(masks.items())
        for spine in range(fabric.uplinks)
        if mask >> spine & 1
    ]
    routing = {"rule": "rank-mod", "modulus": len(spines), "spines": spines}
    return Certificate(fabric, order, tuple(links), routing, _promised(len(order), len(spines)))


def _held(state: State, j: int) -> dict[int, int]:
    """The bits that a job holds, by row of the ledger."""
    masks: dict[int, int] = {}
    entry = int(state.jobs[j]["link"])
    while entry >= 0:
        held = state.held_links[entry]
        masks[int(held["leaf"])] = masks.get(int(held["leaf"]), 0) | int(held["mask"])
        entry = int(held["next"])
    return masks


def _promised(ranks: int, width: int) -> tuple[str, ...]:
    return tuple(str(pattern) for pattern in clean_patterns(ranks, width, DEFAULT_GROUP))


def _with_circuits(circuits: Circuits, fabric: Fabric, order: tuple[int, ...], j: int) -> Certificate:
    """Circuits as they stand, and the classes of ranks that they were reserved for."""
    held = circuits_of(fabric, circuits.ends[0], circuits.ends[1], j)
    fibres = fibre_order(held)
    links = [fabric.cable_name(fabric.leaf_cable(leaf, switch)) for leaf, mine in fibres.items() for switch in mine]
    ranks = Counter(int(leaf) for leaf in fabric.leaf_of_gpu[list(order)])
    ports = Counter(one.spine for one in held)
    classes = _classes(len(order), ranks, {leaf: len(mine) for leaf, mine in fibres.items()}, ports)
    routing: dict[str, Any] = {"fibres": {str(leaf): mine for leaf, mine in fibres.items()}}
    if classes == 1:
        routing |= {"rule": "by-member"}
    else:
        single = all(len(mine) == classes for mine in fibres.values())
        routing |= {"rule": "rank-mod" if single else "by-class", "modulus": classes}
    # One spine is clean for any permutation.
    return Certificate(
        fabric, order, tuple(links), routing, _promised(len(order), 0 if classes == 1 else classes), held
    )


def _classes(size: int, ranks: Counter[int], fibres: dict[int, int], ports: Counter[int]) -> int:
    """The smallest number of classes that the circuits fit: every class ends on one spine, with what every leaf needs."""
    for classes in range(1, size + 1):
        each = sum(fibres.values()) // classes
        if (
            size % classes == 0
            and each * classes == sum(fibres.values())
            and all(fibres[leaf] == -(-count // classes) * classes for leaf, count in ranks.items())
            and all(count % each == 0 for count in ports.values())
        ):
            return classes
    raise AssertionError(f"circuits of no classes: {ranks}, {fibres}, {ports}")


def running(state: State) -> list[int]:
    """Jobs that hold GPUs."""
    return [int(j) for j in np.flatnonzero(state.jobs["seat"] >= 0)]
