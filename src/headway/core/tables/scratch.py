"""What a decision works on while it is being made. It means nothing between decisions, and no result depends on what was left in it."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from headway.core.compiler.tables import by_address
from headway.core.tables.actions import ACTIONS_TYPE, Actions, actions
from headway.core.tables.jobs import JOB, JOB_TYPE
from headway.core.tables.options import OPTIONS_TYPE, STOPS
from headway.core.tables.state import TIMER, State, new_state

# What is still there for the jobs not seated yet, GPUs per node and links per leaf (as bits): free now; free now or soon; what may be held
# beyond the bound of the reservation; what a placement is shown and may change; and the same as it was shown.
ROOMS: Final = ("now", "soon", "extra", "offer", "shown")
# Where smaller jobs are moved for one (core/deciding/clearing.py): what could be had if everyone stops who can be, what those hold who can
# be moved, what was given to the job and to them by now, what is lacking for that, and whether clearing the node was tried in vain.
CLEARED: Final = ("could", "moved", "given", "lacks", "tried")
# `kept_for`: the team that a node is kept for next, or now, from `kept_from` on; -1: none. `held_up`: the decision in which a job that may
# not be passed waits for it.
# Where the placement asks for it (`Placement.evicts`): `evicts`, how many hold GPUs of the node that are on offer beyond `soon`, and
# `evict_gpu_s`, the GPU-seconds that stopping them there and starting them again takes. `wanted`: whether it chose the node, when all were
# on offer who can be stopped.
NODE_ROOM: Final = np.dtype(
    [
        ("leaf", "i4"),
        *((name, "i4") for name in (*ROOMS, *CLEARED)),
        ("kept_for", "i4"),
        ("kept_from", "f8"),
        ("held_up", "i8"),
        ("evicts", "i4"),
        ("wanted", "i4"),
        ("evict_gpu_s", "f8"),
    ]
)
LEAF_ROOM: Final = np.dtype([("spine", "i8"), *((name, "u8") for name in ROOMS)])
# The classes still open, with the first job of each that has not had its turn; per class, `rest`: the first job not seated yet, and `why`
# it and those after it wait. With teams, a class that is closed stays among them with no head; `next` is another one of its team.
CLASS_WALK: Final = np.dtype([("id", "i4"), ("head", "i4"), ("rest", "i4"), ("why", "i4"), ("next", "i4")])
JOB_WALK: Final = np.dtype(
    [
        ("k1", "f8"),  # the key now, of running jobs whose keys move
        ("k2", "f8"),
        ("listed", "i8"),  # the decision in which it was last among `order`
        ("stops", "i8"),  # the decision that last stops it
        ("paired", "i8"),  # the decision that packs another job on its GPUs
        ("seated", "i8"),  # the decision that last started it, promised it GPUs, or let its promise stand
        ("place", "i8"),  # the row of what it was given then; of a promise that stands, -1 less its row
        ("counted", "i8"),  # the decision that counts it among the jobs of its team, though it waits
        ("asked", "i8"),  # the decision in which GPUs of a guarantee are asked back for it; `own` is whose
        ("own", "i4"),  # the lowest team whose guarantee its GPUs are part of; -1: borrowed
        ("want", "i4"),  # GPUs that an elastic policy gives it
    ],
    align=True,
)
# As of what was decided by now. GPUs and jobs as in the table of teams; `kept`: GPUs that are part of its guarantee; `need`: GPUs that are
# guaranteed or held by jobs that cannot be stopped, and `firm`: the same of those below it; `freed`: by those who are thought to stop;
# `best`: the open class that comes first among its jobs, from its `child` or among its own classes, of which `first` is one; `below`: one
# of the teams below it, and `sibling` the next one; `stoppable`: GPUs of its jobs that may be stopped at all; `held_up`: the decision in
# which a job of it waits that may not be passed; `asked`: what its limits keep for jobs that GPUs are asked back for.
TEAM_WALK: Final = np.dtype(
    [
        *((name, "i8") for name in ("used", "running", "leaving", "stopping", "kept", "firm", "need")),
        *((name, "i8") for name in ("freed_gpus", "freed_jobs", "best", "child", "first")),
        *((name, "i8") for name in ("below", "sibling", "stoppable", "held_up", "asked_gpus", "asked_jobs")),
    ]
)
WALK: Final = np.dtype(
    [
        ("now", "f8"),
        ("bound", "f8"),  # by when the GPUs of the reservation are free
        ("firm_by", "f8"),  # the same with those who may still pass
        ("stopped_by", "f8"),  # by when those that stop have stopped
        ("booked_at", "f8"),  # when nodes begin or cease to be kept for a team next
        ("worth_at", "f8"),  # when the first job will have waited long enough to stop others
        ("again", "f8"),  # when the placement wants to be asked again
        ("round_at", "f8"),  # when the last round was
        ("hurried", "i8"),  # rounds in a row for which the engine was woken at once after the round before
        ("decision", "i8"),
        ("explained", "i8"),  # the last decision that says why jobs wait
        ("ordered", "i8"),  # jobs in `order`
        ("spare", "i8"),  # GPUs left to seat, at most
        ("soon", "i8"),  # GPUs that are there soon, at most
        ("stale", "i8"),  # whether what teams have has changed since their first jobs were found
        ("open", "i8"),  # classes
        ("full", "i8"),  # whether jobs may be stopped
        ("stops", "i8"),  # jobs to be stopped
        ("evicts", "i8"),  # whether the placement is told whom it would evict
        ("narrowed", "i8"),  # whether only nodes that it wants are on offer
        ("looks", "i8"),  # jobs held back by a reservation after which their class was not closed
        ("chosen", "i8"),  # jobs in `chosen`
        ("moved", "i8"),  # of those, the first so many are moved
        ("weighed", "i8"),  # the last job for which stopping others is not worth it yet; -1: none
        ("first", "i8"),  # the first waiting job that found no place; -1: none
        ("unbooked", "i8"),  # whether nodes are looked at as if none were kept for a team
        ("reclaims", "i8"),  # whether GPUs lent by the team of the job being seated are taken back for it
        ("tidies", "i8"),  # nobody is stopped for the job being seated, jobs are moved at once
        ("asked", "i8"),  # the last job for which GPUs were asked back; -1: none
        (
            "alone",
            "i8",
        ),  # the last job kept waiting only because it cannot be stopped: others of its class may start; -1: none
        ("limited", "i8"),  # the team whose limit keeps the job being seated waiting; -1: none
        ("owing", "i8"),  # GPUs that teams asked back, and were not given yet
        ("held_up", "i8"),  # whether a job waits that may not be passed
        ("unmet", "i8"),  # jobs that their teams are owed GPUs for found no place, and wait for no notice
        ("limited_unmet", "i8"),  # jobs that a limit kept from a place
        ("starts", "i8"),  # jobs to be started
        ("unsettled", "i8"),  # whether there may be something to ask for now: to be decided again at once
        ("reserved", "i8"),  # the job that the reservation is for; -1: not worked out yet
    ]
)


@by_address
class Scratch(NamedTuple):
    """Tables beside those of the state, and the actions being written."""

    nodes: NDArray[Any]
    leaves: NDArray[Any]
    classes: NDArray[Any]
    jobs: NDArray[Any]
    order: NDArray[np.int32]  # running jobs by their keys now, where keys move
    after: NDArray[np.int64]  # GPUs of preemptible jobs from each place in `order` on
    chosen: NDArray[np.int32]  # the jobs to be stopped for the one being seated
    bounds: NDArray[Any]  # a heap of running jobs by the time at which their GPUs are free
    trial: NDArray[Any]  # one job, as it would be if it started
    stops: NDArray[Any]  # one row of STOPS: who would be stopped for the job being seated
    teams: NDArray[Any]
    walk: NDArray[Any]  # one row of WALK


def new_scratch(state: State) -> Scratch:
    """Scratch for decisions on this state, until its tables grow."""
    nodes, leaves = np.zeros(len(state.nodes), NODE_ROOM), np.zeros(len(state.leaves), LEAF_ROOM)
    nodes["kept_for"] = -1
    nodes["leaf"], leaves["spine"] = state.nodes["leaf"], state.leaves["spine"]
    walk = np.zeros(1, WALK)
    walk["worth_at"] = walk["booked_at"] = walk["again"] = np.inf
    walk["round_at"] = -np.inf
    return Scratch(
        nodes,
        leaves,
        np.zeros(len(state.classes), CLASS_WALK),
        np.zeros(len(state.jobs), JOB_WALK),
        np.zeros(len(state.run), np.int32),
        np.zeros(len(state.run) + 1, np.int64),
        np.zeros(len(state.run), np.int32),
        np.zeros(len(state.run), TIMER),
        np.zeros(1, JOB),
        np.zeros(1, STOPS),
        np.zeros(len(state.teams), TEAM_WALK),
        walk,
    )


def room_for_actions(state: State) -> Actions:
    """As many actions as one decision can make: every job stopped, every GPU claimed, every job resized."""
    seats, jobs = len(state.seats), len(state.jobs)
    return actions(4 * seats + jobs + 16, 4 * seats + jobs + 16, 64 * len(state.leaves) + 16)


SCRATCH_TYPE = typeof(new_scratch(new_state(1, np.ones(1, np.int32))))

# A placement: place(nodes, leaves, fewest, job, options, out). Nodes and leaves are those of the scratch: it adds GPUs (and links) among
# those on `offer` to `out` and returns True, or adds nothing and returns False. It may change the offer, which is made again for each call.
# Of what is on offer, `now` is free now, `soon` is free now or when those that stop have stopped, and what is beyond that would be freed by
# stopping others. `out.counts[0].now` is the time; `out.counts[0].again` is when it wants to be asked again, though nothing happens.
PLACE_SIGNATURE = types.boolean(
    typeof(np.zeros(1, NODE_ROOM)),
    typeof(np.zeros(1, LEAF_ROOM)),
    typeof(np.zeros(1, np.int32)),
    JOB_TYPE,
    OPTIONS_TYPE,
    ACTIONS_TYPE,
)
PLACE_TYPE = types.FunctionType(PLACE_SIGNATURE)
