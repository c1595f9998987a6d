"""spread: one GPU after the other from the node with the most left. Never refuses while enough GPUs are free."""

from collections.abc import Mapping
from typing import Any

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_seat
from headway.core.tables.options import EMPTIEST, Options
from headway.core.tables.scratch import PLACE_SIGNATURE


@jit
def on_offer(nodes: Any) -> int:
    """GPUs on offer in all."""
    total = 0
    for x in range(len(nodes.offer)):
        total += nodes.offer[x]
    return total


@jit(PLACE_SIGNATURE)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """Level the nodes down: find how far, then take what stands above that level."""
    if on_offer(nodes) < job.gpus:
        return False
    level, above = 0, 0
    for x in range(len(nodes.offer)):
        level = max(level, nodes.offer[x])
    while above < job.gpus:
        level -= 1
        above = 0
        for x in range(len(nodes.offer)):
            above += max(0, nodes.offer[x] - level)
    # The last layer may be larger than needed: the nodes at the end of the list keep theirs.
    surplus = above - job.gpus
    for x in range(len(nodes.offer) - 1, -1, -1):
        take = max(0, nodes.offer[x] - level)
        if take > 0 and surplus > 0:
            take -= 1
            surplus -= 1
        if take > 0:
            add_seat(out, x, take)
    return True


def make(options: Mapping[str, str]) -> Placement:
    """No options."""
    return Placement("spread", place, node_order=EMPTIEST)
