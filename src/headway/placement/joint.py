"""joint: nodes and links in one choice, weighed against waiting.

A job is alone below one leaf switch, else on a slice of its own (isolated), else it shares links (shared); and it is on the fewest nodes,
or on more (spread). Tried in the order of what they cost it:

1. the fewest nodes, below one leaf or as a slice; for such a place others may be stopped;
2. more nodes, of those whose GPUs are free now: below one leaf, or as a slice;
3. links that others use too: on the fewest nodes, then on more.

It takes 2 only once it has waited for `spread` times what that is expected to cost it, and 3 for `patience` times: the part of its time
that is lost (`whole_wait` and `slice_wait` of its row, patience included) times the time that it is expected to run on. That is what it
reports, else as long as it ran so far, at least a minute (for nodes a quarter of an hour). So what waiting for a better place costs is
bounded. Jobs that more nodes would slow by more than a twentieth, and models with skewed tensors, are never spread: in a long queue all
have waited long enough, and would make it longer. A slice that leaves GPUs of a leaf to others leaves them the first spine as well, so
that they reach each other.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_link
from headway.core.tables.jobs import run_s
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.io import specs
from headway.network.slices.room import LEAF, PLACED, SEAT, SERVER, UNPROVEN, Room, survey, within_one_leaf
from headway.network.slices.vclos import NODE_BUDGET, find_slice
from headway.network.slices.whole import is_whole, keep_whole, on_each
from headway.placement.leaf_aware import over_leaves
from headway.placement.profile import PACK_LIMIT
from headway.placement.vclos import add_seats

PATIENCE = 1.0  # for links: to have waited for what is at stake at most doubles it (ski rental)
SPREAD_PATIENCE = 64.0  # for nodes: a job that spreads also breaks up what others need (docs/results/stack.md)
# What a job that has hardly run is expected to run on, for either: a wrong guess for links costs little, spreading lasts for a turn.
LEAST_REST_S, LEAST_TURN_S = 60.0, 900.0
FOR_ALL = np.uint64(1)  # the link to the first spine


@jit(allocates=True)
def _room(nodes: Any, leaves: Any, each: int, free_now: bool) -> Room:
    """What is on offer, or of that what is free now, in parts of `each` GPUs; without a fabric, all on one leaf."""
    room = Room(
        np.empty(len(nodes.offer), SERVER), np.zeros(max(len(leaves.offer), 1), LEAF), np.empty(len(nodes.offer), SEAT)
    )
    for x in range(len(nodes.offer)):
        room.servers[x].free = min(nodes.offer[x], nodes.now[x]) if free_now else nodes.offer[x]
        room.servers[x].leaf = nodes.leaf[x] if len(leaves.offer) > 0 else 0
    for x in range(len(leaves.offer)):
        room.leaves[x].links = leaves.offer[x] & leaves.now[x] if free_now else leaves.offer[x]
    keep_whole(room, each)
    return room


@jit
def _slice(room: Room, gpus: int, block: int, on_leaf: int) -> int:
    """Seats of a slice over several leaves, 0: none. Other than whole leaves leave the first spine to those who share."""
    status, count, width, _ = find_slice(room, gpus, block, NODE_BUDGET)
    if (status == PLACED or status == UNPROVEN) and width == on_leaf:
        return count
    for leaf in range(len(room.leaves)):
        room.leaves[leaf].links &= ~FOR_ALL
    status, count, _, _ = find_slice(room, gpus, block, NODE_BUDGET)
    return count if status == PLACED or status == UNPROVEN else 0


@jit
def _write(room: Room, count: int, out: Actions) -> bool:
    """Claim the seats and the links that a search chose."""
    add_seats(room, count, out)
    for leaf in range(len(room.leaves)):
        if room.leaves[leaf].taken != np.uint64(0):
            add_link(out, leaf, room.leaves[leaf].taken)
    return True


@jit
def _alone(room: Room, gpus: int, each: int, most: int, on_leaf: int) -> int:
    """Seats below one leaf or on a slice, on at most `most` servers (0: any number); 0: none, -1: not enough GPUs."""
    count = within_one_leaf(room, gpus)
    if count == 0 and on_leaf > 0:
        count = _slice(room, gpus, each, on_leaf)
    return count if count <= 0 or is_whole(count, gpus, most) else 0


@jit
def _among_others(room: Room, gpus: int) -> int:
    """Seats over several leaves, without links; 0: not enough GPUs."""
    free = 0
    for leaf in range(len(room.leaves)):
        room.leaves[leaf].taken = np.uint64(0)
    survey(room)
    for leaf in range(len(room.leaves)):
        free += room.leaves[leaf].free
    return over_leaves(room, gpus) if free >= gpus else 0


@jit
def expected_rest_s(job: Any, least: float) -> float:
    """Seconds that a waiting job is expected to run on."""
    return job.left if job.left > 0.0 else max(least, run_s(job, job.since))


@jit
def _is_over(job: Any, wait: float, least: float, out: Actions) -> bool:
    """Whether the job has waited as long as it should; if not, the engine asks again when it has."""
    until = job.queued + wait * expected_rest_s(job, least)
    if out.counts[0].now < until:
        out.counts[0].again = min(out.counts[0].again, until)
        return False
    return True


@jit(PLACE_SIGNATURE, allocates=True)
def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """The best place for which waiting longer is not worth it."""
    gpus, most = np.int64(job.gpus), np.int64(fewest[job.gpus])
    each, on_leaf = on_each(gpus, most), (len(fewest) - 1) // len(leaves.offer) if len(leaves.offer) > 0 else 0
    room = _room(nodes, leaves, each, False)
    count = _alone(room, gpus, each, most, on_leaf)
    if count > 0:
        return _write(room, count, out)
    may_spread = not job.skew > options.pack_limit and _is_over(job, job.whole_wait, LEAST_TURN_S, out)
    if may_spread:
        room = _room(nodes, leaves, 0, True)
        count = _alone(room, gpus, 0, 0, on_leaf)
        if count > 0:
            return _write(room, count, out)
        if count < 0:
            may_spread = False
    if on_leaf == 0 or not _is_over(job, job.slice_wait, LEAST_REST_S, out):
        return False
    room = _room(nodes, leaves, each, False)
    count = _among_others(room, gpus)
    if count > 0 and is_whole(count, gpus, most):
        return _write(room, count, out)
    if not may_spread:
        return False
    room = _room(nodes, leaves, 0, True)
    return _write(room, _among_others(room, gpus), out)


def make(options: Mapping[str, str]) -> Placement:
    """`patience` and `spread`: how many times the expected loss a job waits at most for links of its own and for the fewest nodes (0:
    never).

    `packlimit`: the skew above which it is never spread.
    """
    limit = specs.number(options, "packlimit") if "packlimit" in options else PACK_LIMIT
    links, nodes = _times(options, "patience", PATIENCE), _times(options, "spread", SPREAD_PATIENCE)
    return Placement(
        "joint", place, pack_limit=limit, knows_leaves=True, shares=True, patience=links, spread_patience=nodes
    )


def _times(options: Mapping[str, str], key: str, default: float) -> float:
    return default if key not in options else specs.number(options, key, zero=True)
