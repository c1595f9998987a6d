"""Jobs that ask for N nodes with exactly K GPUs each (`per_node` of their constraints).

Without leaf switches `place_on_nodes` places them for every placement, in the placement's order of nodes. With leaf switches the
placement chooses from an offer of K GPUs per node, and a place without exactly K GPUs on each node counts as none.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.order import priority
from headway.core.tables.actions import Actions, add_seat
from headway.core.tables.options import EMPTIEST, RANDOM, Options


@jit
def place_on_nodes(nodes: Any, job: Any, per_node: int, options: Options, out: Actions) -> bool:
    """Place a job on `per_node` GPUs of each of its nodes. Return False if too few nodes offer that many."""
    need, enough, most = job.gpus // per_node, 0, 0
    for x in range(len(nodes.offer)):
        enough += nodes.offer[x] >= per_node
        most = max(most, nodes.offer[x])
    if job.gpus % per_node != 0 or enough < need:
        return False
    if options.node_order == RANDOM:
        _draw_nodes(nodes, job, per_node, enough, options, out)
        return True
    for step in range(most - per_node + 1):
        level = most - step if options.node_order == EMPTIEST else per_node + step
        for x in range(len(nodes.offer)):
            if need > 0 and nodes.offer[x] == level:
                add_seat(out, x, per_node)
                need -= 1
    return True


@jit
def _draw_nodes(nodes: Any, job: Any, per_node: int, enough: int, options: Options, out: Actions) -> None:
    """Draw the nodes of a job, all choices equally likely, from the seed, the job and the attempt."""
    need, draw = job.gpus // per_node, priority(options.seed + 1) ^ priority(1000003 * job.row + job.attempt)
    for x in range(len(nodes.offer)):
        if nodes.offer[x] >= per_node:
            draw = priority(draw)
            if draw % enough < need:
                add_seat(out, x, per_node)
                need -= 1
            enough -= 1


@jit
def cap_offer(nodes: Any, per_node: int) -> None:
    """Offer at most `per_node` GPUs of each node."""
    for x in range(len(nodes.offer)):
        nodes.offer[x] = min(nodes.offer[x], per_node)


@jit
def has_equal_parts(out: Actions, per_node: int) -> bool:
    """Return whether each entry of the row being written has `per_node` GPUs; placements write one entry per node."""
    equal = True
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        equal &= out.seats[k].gpus == per_node
    return equal
