"""The state of the engine, in tables: jobs, nodes, leaves, seats. Only `record` changes it.

A table is one structured array: kernels take few arguments, compile quickly, and a row lies together in memory. The columns named under
"scratch" belong to the decision being made and mean nothing between decisions.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from headway.core.tables.actions import ACTIONS_TYPE, Actions, actions
from headway.core.tables.jobs import JOB_TYPE, job_table
from headway.core.tables.options import OPTIONS_TYPE

NODE: Final = np.dtype(
    [
        ("base", "i4"),  # its first GPU
        ("gpus", "i4"),
        ("free", "i4"),  # GPUs that nobody holds
        ("stopping", "i4"),  # GPUs of jobs that are stopping: free soon
        ("closed", "i4"),  # takes no new job: drained or down
        ("leaf", "i4"),  # the row of its leaf switch, where there is a fabric
        # scratch: what is still there for the jobs not seated yet
        ("target", "i4"),  # of everything
        ("now", "i4"),  # of what is free
        ("soon", "i4"),  # of what is free or being freed
        ("offer", "i4"),  # what a placement is shown; it may spoil it
    ]
)
# The links of a leaf, one bit a spine, in the same sense. Where circuits can be rewired, rows after the leaves have the spines' ports.
LEAF: Final = np.dtype(
    [
        *((name, "u8") for name in ("free", "stopping", "target", "now", "soon", "offer")),
        ("spine", "i8"),  # whose ports the bits of this row are; -1: a leaf's links
    ]
)
# A seat is a slot of a GPU: number = slot * GPUs + GPU. `next` chains the seats of a job.
SEAT: Final = np.dtype([("holder", "i4"), ("next", "i4"), ("node", "i4")])
HELD_LINK: Final = np.dtype([("mask", "u8"), ("leaf", "i4"), ("next", "i4")])
# root: by class, the tree of its waiting jobs. open: the classes with someone waiting, ascending. scratch: id and head of those still open,
# and by class the first job not seated yet.
CLASS: Final = np.dtype([("root", "i4"), ("open", "i4"), ("id", "i4"), ("head", "i4"), ("rest", "i4")])
TIMER: Final = np.dtype([("at", "f8"), ("what", "i8")])

# Positions in State.tally; the last three are scratch: GPUs left to seat, open classes, whether someone lost a seat.
RUN, WAIT, CLASSES, TIMERS, FREE, STOPPING_JOBS, SPARE_LINK, SPARE, OPEN, EVICTED = range(10)


class State(NamedTuple):
    """Everything that a decision reads, but the options."""

    jobs: NDArray[Any]
    nodes: NDArray[Any]
    leaves: NDArray[Any]
    seats: NDArray[Any]
    held_links: NDArray[Any]
    fewest: NDArray[np.int32]  # the fewest nodes that can hold so many GPUs
    run: NDArray[np.int32]  # jobs with GPUs, sorted
    classes: NDArray[Any]
    timers: NDArray[Any]
    promises: Actions  # places that are being freed for waiting jobs
    bad_pairs: NDArray[np.int8]  # models that proved bad partners on one GPU, by row of the profile table
    tally: NDArray[np.int64]


def new_state(
    jobs: int,
    gpus_per_node: NDArray[Any],
    *,
    slots: int = 1,
    links: NDArray[np.uint64] | None = None,
    node_leaf: NDArray[np.int64] | None = None,
    spines: NDArray[np.int64] | None = None,
    models: int = 1,
) -> State:
    """An empty state with room for so many jobs on these nodes.

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
    # A job has one entry a leaf, and no two jobs the same link: links bound the entries.
    held = np.zeros(1 + 64 * len(leaves), HELD_LINK)
    held["next"] = np.arange(1, len(held) + 1)
    held["next"][-1] = -1
    classes = np.full((2 * total + 2) * (models if slots > 1 else 1), -1, CLASS)
    count = np.zeros(10, np.int64)
    count[FREE] = total
    return State(
        job_table(jobs),
        nodes,
        leaves,
        seats,
        held,
        fewest_nodes(per),
        np.zeros(total * slots + 1, np.int32),
        classes,
        np.zeros(2 * jobs + 16, TIMER),
        actions(2 * total + 4, 4 * total + 4, 64 * len(leaves) + 4),
        np.zeros((models, models), np.int8),
        count,
    )


def fewest_nodes(gpus_per_node: NDArray[Any]) -> NDArray[np.int32]:
    """fewest[g]: the smallest number of nodes that have g GPUs together."""
    reach = np.concatenate([[0], np.cumsum(np.sort(gpus_per_node)[::-1])])
    return np.searchsorted(reach, np.arange(reach[-1] + 1)).astype(np.int32)


def room_for_actions(state: State) -> Actions:
    """As many actions as one decision can make: every job stopped, every GPU claimed, every job resized."""
    seats, jobs = len(state.seats), len(state.jobs)
    return actions(4 * seats + jobs + 16, 4 * seats + jobs + 16, 64 * len(state.leaves) + 16)


STATE_TYPE = typeof(new_state(1, np.ones(1, np.int32)))

# A placement: place(nodes, leaves, fewest, job, j, options, seed, out). It adds the GPUs (and links) it chose among those on
# offer to `out` and says True, or adds nothing and says False.
PLACE_SIGNATURE = types.boolean(
    typeof(np.zeros(1, NODE)),
    typeof(np.zeros(1, LEAF)),
    typeof(np.zeros(1, np.int32)),
    JOB_TYPE,
    types.int64,
    OPTIONS_TYPE,
    types.int64,
    ACTIONS_TYPE,
)
PLACE_TYPE = types.FunctionType(PLACE_SIGNATURE)
