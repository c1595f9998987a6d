"""Cables and switches that do not work, as people name them: `leaf0-spine3`, `spine3`, and in a simulation `spine3@12h`.

A cable is named by both its ends as `fabric show` and certificates name them; a spine (in three tiers, an aggregation switch; an optical
switch) by its own name, which stands for every cable that ends on it.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.network.fabric.model import Fabric


def failed_cables(fabric: Fabric, names: Iterable[str]) -> list[int]:
    """The cables that the names stand for."""
    wanted = set(names)
    cables = set()
    for cable in range(fabric.cables if wanted else 0):
        lower, upper = fabric.cable_name(cable)
        switch = _switch(fabric, upper)
        known = {upper, switch, f"{lower}-{upper}", f"{lower}-{switch}"}
        if not wanted.isdisjoint(known):
            cables.add(cable)
    for name in sorted(wanted):
        if not any(_is_named(fabric, cable, name) for cable in cables):
            lower, upper = fabric.cable_name(0)
            fix = f"name a cable such as {lower}-{upper}, or a switch such as {_switch(fabric, upper)}"
            raise BadInput(f"failed {name!r}: {fabric.name} has no such cable or switch: {fix}")
    return sorted(cables)


def _is_named(fabric: Fabric, cable: int, name: str) -> bool:
    lower, upper = fabric.cable_name(cable)
    switch = _switch(fabric, upper)
    return name in (upper, switch, f"{lower}-{upper}", f"{lower}-{switch}")


def _switch(fabric: Fabric, upper: str) -> str:
    """The switch of a port: `spine2` of `spine2.1`, where links are parallel."""
    return upper.rpartition(".")[0] if fabric.parallel_links > 1 else upper


def failed_spines(fabric: Fabric, names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Behind optical switches no cable of a leaf ends on a spine: the spines among the names, and the other names."""
    spines = {f"spine{spine}": spine for spine in range(fabric.spines)} if fabric.ocs else {}
    return [spines[name] for name in names if name in spines], [name for name in names if name not in spines]


def check_connected(fabric: Fabric, alive: NDArray[np.uint64]) -> None:
    """Refuse failures after which two leaves could no longer reach each other by the uplinks (as bits) that each has left."""
    for one in np.unique(alive):
        apart = np.flatnonzero((alive & one) == 0)
        if apart.size:
            pair = sorted((int(np.flatnonzero(alive == one)[0]), int(apart[0])))
            raise BadInput(
                f"failed: {' and '.join(map(fabric.leaf_name, pair))} of {fabric.name} would have no spine in common any more"
            )
