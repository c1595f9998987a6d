"""random: any free GPUs, each equally likely, drawn from the seed, the job and the attempt, so that a run can be repeated."""

from collections.abc import Mapping
from typing import Any

from headway.core.compiler.jit import jit
from headway.core.order import priority
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_seat
from headway.core.tables.options import RANDOM, Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.placement.spread import on_offer


@jit(PLACE_SIGNATURE)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """Go over the nodes; each GPU on offer is taken with the chance that makes all choices equally likely."""
    free = on_offer(nodes)
    if free < job.gpus:
        return False
    need, draw = job.gpus, priority(options.seed + 1) ^ priority(1000003 * job.row + job.attempt)
    for x in range(len(nodes.offer)):
        take = 0
        for _ in range(nodes.offer[x]):
            draw = priority(draw)
            if draw % free < need:
                take += 1
                need -= 1
            free -= 1
        if take > 0:
            add_seat(out, x, take)
    return True


def make(options: Mapping[str, str]) -> Placement:
    """No options."""
    return Placement("random", place, node_order=RANDOM)
