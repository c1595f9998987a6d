"""The state of the engine, in tables: jobs, nodes, leaves, seats. Only `record` and `core/operations.py` change it.

A table is one structured array: kernels take few arguments, compile quickly, and a row lies together in memory. What belongs to a
decision being made is not here but in core/tables/scratch.py.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.classes import kind_count
from headway.core.compiler.tables import by_address
from headway.core.events import REASONS, WAIT_GPUS
from headway.core.tables.actions import Actions, actions
from headway.core.tables.jobs import job_table
from headway.core.tables.teams import Team, team_table

NODE: Final = np.dtype(
    [
        ("base", "i4"),  # its first GPU
        ("gpus", "i4"),
        ("free", "i4"),  # GPUs that nobody holds
        ("stopping", "i4"),  # GPUs of jobs that are stopping: free soon
        ("closed", "i4"),  # takes no new job: drained or down
        ("leaf", "i4"),  # the row of its leaf switch, where there is a fabric
    ]
)
# The links of a leaf, one bit per spine, in the same sense. Where circuits can be rewired, rows after the leaves have the spines' ports.
LEAF: Final = np.dtype(
    [
        ("free", "u8"),
        ("stopping", "u8"),
        ("spine", "i8"),  # whose ports the bits of this row are; -1: a leaf's links
    ]
)
# A seat is a slot of a GPU: number = slot * GPUs + GPU. `next` chains the seats of a job.
SEAT: Final = np.dtype([("holder", "i4"), ("next", "i4"), ("node", "i4")])
HELD_LINK: Final = np.dtype([("mask", "u8"), ("leaf", "i4"), ("next", "i4")])
# root: per class, the tree of its waiting jobs; why they wait, and since when for that. open: the classes with someone waiting, ascending.
CLASS: Final = np.dtype([("since", "f8"), ("root", "i4"), ("open", "i4"), ("why", "i4")])
# Nodes that are kept for a team for a time, by the beginning.
BOOKING: Final = np.dtype([("begin", "f8"), ("end", "f8"), ("node", "i4"), ("team", "i4")])
TIMER: Final = np.dtype([("at", "f8"), ("what", "i8")])
COUNT: Final = np.dtype(
    [
        ("moment", "f8"),  # when something last happened for which jobs may be stopped; -infinity: nothing yet
        ("retry_at", "f8"),  # when a preemption that does not pay yet is to be tried again; infinity: never
        ("stopped_by", "f8"),  # by when all that were asked to stop have stopped, as far as is known
        ("running", "i8"),  # jobs with GPUs that are not stopping
        ("waiting", "i8"),
        ("classes", "i8"),  # with someone waiting
        ("timers", "i8"),
        ("free_gpus", "i8"),
        ("stopping", "i8"),  # jobs
        ("notices", "i8"),  # jobs under notice
        ("promises", "i8"),  # rows of `promises` beyond which those that were kept are dropped
        ("spare_link", "i8"),  # the first unused row of `held_links`
    ]
)


@by_address
class State(NamedTuple):
    """Everything that a decision reads, but the options."""

    jobs: NDArray[Any]
    nodes: NDArray[Any]
    leaves: NDArray[Any]
    seats: NDArray[Any]
    held_links: NDArray[Any]
    fewest: NDArray[np.int32]  # by demand: the fewest nodes that can hold a number of GPUs
    run: NDArray[np.int32]  # jobs with GPUs, sorted by key as of their last event
    classes: NDArray[Any]
    timers: NDArray[Any]
    promises: Actions  # places that are being freed for waiting jobs
    spent: NDArray[np.float64]  # by class and reason: seconds for which that was why its jobs wait, up to its `since`
    # By reason and job: seconds spent so, settled on the job's own events (core/receipts.py). Rows never written take no memory.
    receipts: NDArray[np.float64]
    bad_pairs: NDArray[np.int8]  # models that proved bad partners on one GPU, by row of the profile table
    teams: NDArray[Any]  # the cluster and, where there is a queues file, its queues; see core/tables/teams.py
    bookings: NDArray[Any]  # nodes kept for teams, by the beginning
    suits: NDArray[np.int8]  # by demand and node: whether the node has what jobs of that demand ask for; 0: any will do
    per_node: NDArray[np.int32]  # by demand: GPUs on each node of such a job, exactly; 0: any number
    counts: NDArray[Any]  # one row of COUNT


def new_state(
    jobs: int,
    gpus_per_node: NDArray[Any],
    *,
    slots: int = 1,
    links: NDArray[np.uint64] | None = None,
    node_leaf: NDArray[np.int64] | None = None,
    spines: NDArray[np.int64] | None = None,
    models: int = 1,
    teams: Sequence[Team] = (),
    bookings: NDArray[Any] | None = None,
    suits: NDArray[np.int8] | None = None,
    per_node: NDArray[np.int32] | None = None,
) -> State:
    """Return an empty state with room for a number of jobs on these nodes.

    Of a fabric: `links` are the free links of each leaf, then the free ports of each row of `spines` (-1 for leaves).
    """
    per = np.asarray(gpus_per_node, np.int32)
    total = int(per.sum())
    nodes = np.zeros(len(per), NODE)
    nodes["base"] = np.cumsum(per) - per
    nodes["gpus"] = nodes["free"] = per
    leaves = np.zeros(0 if links is None else len(links), LEAF)
    leaves["spine"] = -1 if spines is None else spines
    if links is not None:
        leaves["free"] = links
    if node_leaf is not None:
        nodes["leaf"] = node_leaf
    seats = np.full(total * slots, -1, SEAT)
    seats["node"] = np.tile(np.repeat(np.arange(len(per)), per), slots)
    # A job has one entry per leaf, and no two jobs the same link: links bound the entries.
    held = np.zeros(1 + 64 * len(leaves), HELD_LINK)
    held["next"] = np.arange(1, len(held) + 1)
    held["next"][-1] = -1
    table = team_table(total, teams)
    suits = any_node(len(per)) if suits is None else suits
    per_node = np.zeros(len(suits), np.int32) if per_node is None else per_node
    classes = np.full(kind_count(total, models if slots > 1 else 1) * len(table) * len(suits), -1, CLASS)
    classes["since"], classes["why"] = 0.0, WAIT_GPUS
    count = np.zeros(1, COUNT)
    count["free_gpus"] = total
    count["moment"], count["retry_at"] = -np.inf, np.inf
    return State(
        job_table(jobs),
        nodes,
        leaves,
        seats,
        held,
        fewest_by_demand(per, suits, per_node, total),
        np.zeros(total * slots + 1, np.int32),
        classes,
        np.zeros(2 * jobs + 16, TIMER),
        actions(2 * total + 4, 4 * total + 4, 64 * len(leaves) + 4),
        np.zeros((len(classes), len(REASONS))),
        np.zeros((len(REASONS), jobs)),
        np.zeros((models, models), np.int8),
        table,
        np.zeros(0, BOOKING) if bookings is None else bookings,
        suits,
        per_node,
        count,
    )


def fewest_nodes(gpus_per_node: NDArray[Any]) -> NDArray[np.int32]:
    """fewest[g]: the smallest number of nodes that have g GPUs together."""
    reach = np.concatenate([[0], np.cumsum(np.sort(gpus_per_node)[::-1])])
    return np.searchsorted(reach, np.arange(reach[-1] + 1)).astype(np.int32)


def fewest_by_demand(
    gpus_per_node: NDArray[Any], suits: NDArray[np.int8], per_node: NDArray[np.int32], total: int
) -> NDArray[np.int32]:
    """Return by constraint and size the fewest eligible nodes that hold a job of up to `total` GPUs; impossible sizes: all nodes."""
    table = np.full((len(suits), total + 1), suits.shape[1], np.int32)
    for demand, (row, each) in enumerate(zip(suits, per_node.tolist(), strict=True)):
        eligible = gpus_per_node[row == 1]
        if each:
            nodes = np.arange(np.count_nonzero(eligible >= each) + 1)
            table[demand, each * nodes] = nodes
        else:
            fewest = fewest_nodes(eligible)
            table[demand, : len(fewest)] = fewest
    return table


def any_node(nodes: int) -> NDArray[np.int8]:
    """The table of demands where no job asks for anything: every node suits."""
    return np.ones((1, nodes), np.int8)


STATE_TYPE = typeof(new_state(1, np.ones(1, np.int32)))
