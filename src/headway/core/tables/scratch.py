"""The working memory of one decision. Nothing in it matters between decisions: filled with garbage, the next decision is the same."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from headway.core.compiler.tables import by_address
from headway.core.tables.actions import ACTIONS_TYPE, Actions, actions
from headway.core.tables.jobs import JOB, JOB_TYPE
from headway.core.tables.options import OPTIONS_TYPE, RELEASE_COST, Options
from headway.core.tables.state import State, new_state


@by_address
class NodeOffers(NamedTuple):
    """GPUs left on each node for jobs without a place, in columns by node: a decision scans one column at a time."""

    leaf: NDArray[np.int32]  # the row of its leaf switch
    open: NDArray[np.int32]  # it takes new jobs
    now: NDArray[np.int32]  # GPUs that are free
    soon: NDArray[np.int32]  # free or of stopping jobs, less GPUs given away; below 0: that many depend on notices
    noticed: NDArray[np.int32]  # GPUs of jobs under notice
    extra: NDArray[np.int32]  # what jobs may hold beyond the bound of the backfill reservation
    offer: NDArray[np.int32]  # what a placement may choose from; it may change this column
    shown: NDArray[np.int32]  # the offer as the placement was shown it
    left: NDArray[np.int32]  # GPUs left in a trial: by the probe of a set, or by promises that stand
    booking: NDArray[np.int32]  # the first advance reservation that is in force or to come; -1: none

    def __len__(self) -> int:
        """Return the number of nodes, for placements in Python; kernels take the length of a column."""
        return len(self.offer)


@by_address
class LeafOffers(NamedTuple):
    """Links left on each leaf switch, as bits, in columns like those of the nodes."""

    spine: NDArray[np.int64]  # whose ports the bits of this row are; -1: a leaf's links
    now: NDArray[np.uint64]
    soon: NDArray[np.uint64]
    noticed: NDArray[np.uint64]  # held by jobs under notice
    taken: NDArray[np.uint64]  # given to jobs by this decision, also links of jobs under notice
    extra: NDArray[np.uint64]
    offer: NDArray[np.uint64]
    shown: NDArray[np.uint64]

    def __len__(self) -> int:
        """Return the number of leaf switches."""
        return len(self.offer)


def node_offers(nodes: int) -> NodeOffers:
    """Return empty offers of this many nodes."""
    return NodeOffers(**{name: np.zeros(nodes, np.int32) for name in NodeOffers._fields})


def leaf_offers(leaves: int) -> LeafOffers:
    """Return empty offers of this many leaf switches."""
    columns: dict[str, Any] = {name: np.zeros(leaves, np.uint64) for name in LeafOffers._fields}
    return LeafOffers(**(columns | {"spine": np.zeros(leaves, np.int64)}))


# Rows 0 to `open` - 1 are the open classes: their number, the next job to visit, its team, and the next open class of the same team.
# By class number: the first job without a place (`rest`) and why it waits.
CLASS_VISIT: Final = np.dtype([(name, "i4") for name in ("id", "head", "team", "next", "rest", "why")])
JOB_MARK: Final = np.dtype(
    [
        ("action", "i4"),  # its row in this decision's actions; of a promise that was kept: -1 less the promise's row
        ("covered", "i4"),  # the team whose guarantee covers its GPUs, wholly or (`partly`) in part; -1: none
        ("want", "i4"),  # GPUs that an elastic policy gives it
        ("partly", "i1"),  # borrowed in part
        ("ordered", "i1"),  # it is in `order`
        ("needed", "i1"),  # promises depend on its notice, or an advance reservation does
        # Of a job with a promise: it was visited; the promise was kept; it was not visited, but the promise can still be kept.
        ("visited", "i1"),
        ("kept", "i1"),
        ("standing", "i1"),
        ("paired", "i1"),  # this decision packs another job on its GPUs
    ],
    align=True,
)
KEY_NOW: Final = np.dtype([("k1", "f8"), ("k2", "f8")])
# As of this point of the decision; GPUs and jobs as in the table of teams.
TEAM_ACCOUNT: Final = np.dtype(
    [
        *((name, "i8") for name in ("used", "running", "leaving", "stopping")),
        ("covered", "i8"),  # GPUs of its jobs that are within its guarantee
        ("promised", "i8"),  # GPUs promised to its jobs that are still to be placed
        ("fixed", "i8"),  # GPUs that the teams below it need, and those of its own non-preemptible jobs
        ("needed", "i8"),  # the larger of its guarantee and `fixed`
        ("usage", "f8"),  # decayed GPU-seconds (core/ledger.py)
        ("best", "i8"),  # the open class whose next job comes first in the team
        ("child", "i8"),  # the team below it that `best` is from
        ("classes", "i8"),  # one of its open classes; `next` of the class has another
        ("below", "i8"),  # one of the teams below it
        ("sibling", "i8"),  # the next team below the same team
    ]
)
# How a job releases its GPUs.
STAYS: Final = 0
MIGRATES: Final = 1
STOPS: Final = 2
# A job that could release its GPUs: its row (`what`), when (core/deciding/reservation.py), and how (core/deciding/releasing.py).
# `chosen`: it is in the set. `keeps`: it would migrate, but its own GPUs are left.
LISTED: Final = np.dtype([("at", "f8"), ("what", "i8"), ("how", "i4"), ("chosen", "i2"), ("keeps", "i2")])
WALK: Final = np.dtype(
    [
        ("now", "f8"),
        ("stopped_by", "f8"),  # when all stopping jobs have stopped
        ("bound", "f8"),  # when the GPUs of the backfill reservation are free
        ("bound_with_passes", "f8"),  # the same if jobs still pass the reserving job
        ("preempting", "i8"),  # whether this is a preemption point, and jobs can be preempted or GPUs reclaimed
        ("migrating", "i8"),  # whether smaller jobs may migrate for others
        ("explained", "i8"),  # whether this decision says why jobs wait
        ("ordered", "i8"),  # jobs in `order`: a hint for the next decision, which checks each entry
        ("open", "i8"),  # open classes
        ("free", "i8"),  # GPUs free now in all
        ("soon", "i8"),  # GPUs free soon in all
        ("noticed", "i8"),  # GPUs under notice in all
        ("released", "i8"),  # jobs that this decision stops, migrates or gives notice to
        ("passed", "i8"),  # jobs passed though their class stayed open
        ("first", "i8"),  # the first job without a place; -1: none
        ("reserving", "i8"),  # the job that the backfill reservation was worked out for; -1: none
        ("passable", "i8"),  # the job whose reservation cannot be firm, so that preemptible jobs pass it; -1: none
        ("changed", "i8"),  # whether an account changed since the first job of each team was found
        ("starts", "i8"),  # jobs that this decision starts
        ("unmet", "i8"),  # jobs within a guarantee that found no place
    ]
)


@by_address
class Scratch(NamedTuple):
    """Tables beside those of the state."""

    nodes: NodeOffers
    leaves: LeafOffers
    classes: NDArray[Any]
    jobs: NDArray[Any]
    keys: NDArray[Any]  # by job: keys of running jobs now, if keys are dynamic. Rows never written take no memory.
    order: NDArray[np.int32]  # running jobs in the policy's order now
    after: NDArray[np.int64]  # GPUs of preemptible jobs from each place in `order` on
    listed: NDArray[Any]  # jobs that could release GPUs
    trial: NDArray[Any]  # one job, as it would be if it started
    stops: NDArray[Any]  # one row of RELEASE_COST: what the chosen set would cost
    teams: NDArray[Any]
    walk: NDArray[Any]  # one row of WALK


class Round(NamedTuple):
    """The tables that every stage of a decision reads and writes."""

    state: State
    options: Options
    scratch: Scratch
    out: Actions


class Rules(NamedTuple):
    """The functions that a decision calls: the policy's and the placement's."""

    key: Any
    preempt_at: Any
    place: Any


def new_scratch(state: State) -> Scratch:
    """Return the scratch for decisions on this state, until its tables grow."""
    return Scratch(
        node_offers(len(state.nodes)),
        leaf_offers(len(state.leaves)),
        np.zeros(len(state.classes), CLASS_VISIT),
        np.zeros(len(state.jobs), JOB_MARK),
        np.zeros(len(state.jobs), KEY_NOW),
        np.zeros(len(state.run), np.int32),
        np.zeros(len(state.run) + 1, np.int64),
        np.zeros(2 * len(state.run), LISTED),
        np.zeros(1, JOB),
        np.zeros(1, RELEASE_COST),
        np.zeros(len(state.teams), TEAM_ACCOUNT),
        np.zeros(1, WALK),
    )


def room_for_actions(state: State, elastic: bool = False) -> Actions:
    """Return room for as many actions as one decision can make: ten per GPU and, with an elastic policy, a Resize per job."""
    seats, resizes = len(state.seats), len(state.jobs) if elastic else 0
    return actions(10 * seats + resizes + 16, 10 * seats + resizes + 16, 64 * len(state.leaves) + 16)


SCRATCH_TYPE = typeof(new_scratch(new_state(1, np.ones(1, np.int32))))

# A placement: place(nodes, leaves, fewest, job, options, out). Nodes and leaves are those of the scratch, in columns: `nodes.offer[x]`.
# It adds GPUs (and links) among those on `offer` to `out` and returns True, or adds nothing and returns False. It may change the offer,
# which is made again for each call. Of what is on offer, `now` is free now, `soon` is free now or when stopping jobs have stopped; the rest
# would be freed by releasing jobs.
# Without leaf switches it is not called for jobs with a given number of nodes: `node_order` of the placement says which nodes they get.
# `out.counts[0].now` is the time; `out.counts[0].again` is when it wants to be asked again, though nothing happens.
PLACE_SIGNATURE = types.boolean(
    typeof(node_offers(1)),
    typeof(leaf_offers(1)),
    typeof(np.zeros(1, np.int32)),
    JOB_TYPE,
    OPTIONS_TYPE,
    ACTIONS_TYPE,
)
PLACE_TYPE = types.FunctionType(PLACE_SIGNATURE)
