"""Cables and switches that do not work, as people name them: `leaf0-spine3`, `spine3`.

A cable is named by both its ends as `fabric show` and certificates name them; a spine (in three tiers, an aggregation switch) by its own
name, which stands for every cable that ends on it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.network.fabric.model import Fabric


def failed_cables(fabric: Fabric, names: Sequence[str]) -> list[int]:
    """The cables that the names stand for."""
    if not names:
        return []
    by_end: dict[str, list[int]] = {}
    for cable in range(fabric.cables):
        lower, upper = fabric.cable_name(cable)
        for name in {f"{lower}-{upper}", upper, _switch(fabric, upper), f"{lower}-{_switch(fabric, upper)}"}:
            by_end.setdefault(name, []).append(cable)
    found: set[int] = set()
    for name in names:
        if name not in by_end:
            lower, upper = fabric.cable_name(0)
            fix = f"name a cable such as {lower}-{upper}, or a switch such as {_switch(fabric, upper)}"
            raise BadInput(f"failed {name!r}: {fabric.name} has no such cable or switch: {fix}")
        found.update(by_end[name])
    return sorted(found)


def _switch(fabric: Fabric, upper: str) -> str:
    """The switch of a port: `spine2` of `spine2.1`, where links are parallel."""
    return upper.rpartition(".")[0] if fabric.parallel_links > 1 and upper.startswith("spine") else upper


def uplinks_left(fabric: Fabric, names: Sequence[str]) -> NDArray[np.uint64]:
    """The uplinks of every leaf that work, as bits. Refused where two leaves could no longer reach each other."""
    alive = np.full(fabric.leaves, (1 << fabric.uplinks) - 1, np.uint64)
    base = fabric.leaves * fabric.uplinks
    for cable in failed_cables(fabric, names):
        if cable >= base:
            raise BadInput(f"failed {'-'.join(fabric.cable_name(cable))}: simulations know failed cables of leaves only")
        leaf, uplink = divmod(cable, fabric.uplinks)
        alive[leaf] &= ~(np.uint64(1) << np.uint64(uplink))
    for one in np.unique(alive):
        apart = np.flatnonzero((alive & one) == 0)
        if apart.size:
            other = int(np.flatnonzero(alive == one)[0])
            pair = f"{fabric.leaf_name(other)} and {fabric.leaf_name(int(apart[0]))}"
            raise BadInput(f"failed {', '.join(names)}: {pair} of {fabric.name} have no spine in common any more")
    return alive
