"""Cables and spines that fail in a simulation, from the start or at a given time: `--network "ecmp?failed=spine3@12h+leaf0-spine1"`.

On a shared network the flows of a failed uplink take others that both leaves still have, and the jobs that sent over it go on at the speed
that follows. Where jobs have links of their own, a job that holds a failed link moves: it stops at once, loses what a
preemption costs, and waits for other links. Nobody is given a failed link again.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.errors import BadInput
from headway.io import units
from headway.network.fabric.failures import check_connected, failed_cables, failed_spines
from headway.network.fabric.model import Fabric
from headway.network.sharing.links import SPRAY, Links

# Links of one leaf, or (behind optical switches) ports of one row of a spine, that fail.
OUTAGE: Final = np.dtype([("at", "f8"), ("row", "i8"), ("mask", "u8")])


def no_outages() -> NDArray[Any]:
    """Nothing fails."""
    return np.zeros(0, OUTAGE)


def outages(fabric: Fabric | None, failed: tuple[str, ...]) -> NDArray[Any]:
    """What fails, in the order of time; names may carry a time after an @."""
    if fabric is None or not failed:
        return no_outages()
    masks: dict[tuple[float, int], int] = {}
    for text in failed:
        name, at, when = text.partition("@")
        time = units.seconds(when, "failed") if at else 0.0
        for row, bits in _rows(fabric, name):
            masks[time, row] = masks.get((time, row), 0) | bits
    table = np.array([(time, row, mask) for (time, row), mask in sorted(masks.items())], OUTAGE)
    if not fabric.ocs:
        alive = np.full(fabric.leaves, (1 << fabric.uplinks) - 1, np.uint64)
        for one in table:
            alive[one["row"]] &= ~one["mask"]
        check_connected(fabric, alive)
    return table


def _rows(fabric: Fabric, name: str) -> list[tuple[int, int]]:
    """Rows of the ledger and the bits of them that fail."""
    if fabric.ocs:
        spines, others = failed_spines(fabric, [name])
        if others:
            raise BadInput(f"failed {name!r}: in a simulation, spines of {fabric.name} can fail, such as spine0")
        first = fabric.leaves + spines[0] * fabric.ocs.spine_fibres
        return [(first + fibre, (1 << fabric.uplinks) - 1) for fibre in range(fabric.ocs.spine_fibres)]
    cables = failed_cables(fabric, [name])
    if cables and cables[-1] >= fabric.leaves * fabric.uplinks:
        raise BadInput(f"failed {name!r}: in a simulation, cables and switches next to leaves can fail")
    return [(cable // fabric.uplinks, 1 << cable % fabric.uplinks) for cable in cables]


@jit
def lose_uplinks(links: Links, outage: Any) -> int:
    """Uplinks of a leaf fail: flows avoid them from now on. How many jobs have to choose again, listed by `met`."""
    head, leaf = links.head[0], links.leaves[outage.row]
    leaf.works &= ~outage.mask
    leaf.alive &= ~outage.mask
    leaf.left = 0
    head.stamp += 1
    count = 0
    for up in range(head.uplinks):
        leaf.left += np.int64((leaf.alive >> np.uint64(up)) & np.uint64(1))
    for up in range(head.uplinks):
        if head.rule != SPRAY and not (outage.mask >> np.uint64(up)) & np.uint64(1):
            continue
        cable = outage.row * head.uplinks + (0 if head.rule == SPRAY else up)
        for link in range(2 * cable, 2 * cable + 2):
            if head.rule == SPRAY:
                links.directed[link].width = leaf.left / head.clean
            one = links.directed[link].first_share
            while one >= 0:
                job = links.jobs[links.shares[one].job]
                if job.stamp != head.stamp:
                    job.stamp = head.stamp
                    links.jobs[count].met = links.shares[one].job
                    count += 1
                one = links.shares[one].after
    return count
