"""Why the jobs of each class wait, as the decision just made sees it. The jobs of a class find places alike, so one cause holds for all."""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.demands import gpus_for, room_for
from headway.core.deciding.teams import is_firm, makes_room
from headway.core.deciding.victims import count_stoppable, most_from_teams
from headway.core.events import NOT_WAITING, WAIT_FRAGMENTATION, WAIT_GPUS, WAIT_ISOLATION, WAIT_NODE_DOWN, WAIT_TURN
from headway.core.keys import pinned, turn
from headway.core.order import rank_of
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import NO_TEAMS


@jit
def explain_classes(state: State, options: Options, scratch: Scratch) -> None:
    """Refine `why` of each class: enough GPUs are free but not together, or enough would be were jobs after it not in their turn."""
    all_nodes = room_for(state, scratch, 0)
    scratch.walk[0].explained = scratch.walk[0].decision
    turns = scratch.walk[0].full and _sum_preemptible(state, options, scratch)
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        head = scratch.classes[c].rest
        if head < 0:
            continue
        if scratch.classes[c].why == NOT_WAITING:
            scratch.classes[c].why = WAIT_GPUS  # behind one that holds up the others
        if scratch.classes[c].why != WAIT_GPUS:
            continue
        job = state.jobs[head]
        free, soon, open_gpus = all_nodes if job.demand == 0 else room_for(state, scratch, job.demand)
        if job.gpus > open_gpus:
            scratch.classes[c].why = WAIT_NODE_DOWN
        elif turns and soon + _preemptible_for(state, options, scratch, job, job.gpus - soon) >= job.gpus:
            scratch.classes[c].why = WAIT_TURN
        elif not scratch.walk[0].full and state.classes[c].why == WAIT_TURN:
            scratch.classes[c].why = WAIT_TURN  # nothing has happened to change that
        elif job.gpus <= free and (not options.blocks or head == scratch.walk[0].first):
            scratch.classes[c].why = WAIT_ISOLATION if len(state.leaves) else WAIT_FRAGMENTATION


@jit
def _preemptible_for(state: State, options: Options, scratch: Scratch, job: Any, enough: int) -> int:
    """GPUs of those who make room for a waiting job once their turns are over, counted until they are enough."""
    if options.teams == NO_TEAMS and job.demand == 0:
        return int(scratch.after[rank_of(state, options, scratch, job)])
    if options.teams > NO_TEAMS and most_from_teams(state, scratch, job) < enough:
        return 0
    gpus = 0
    for i in range(rank_of(state, options, scratch, job), state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        stops = is_firm(other, options) or scratch.jobs[other.row].stops == scratch.walk[0].decision
        gpus += 0 if stops or not makes_room(state, options, scratch, job, other) else gpus_for(state, job, other)
        if gpus >= enough:
            break
    return gpus


@jit
def _sum_preemptible(state: State, options: Options, scratch: Scratch) -> bool:
    """Sum up the GPUs of preemptible jobs from each rank on, `scratch.after`; returns whether one of them is in its turn."""
    walk, any_in_turn, n = scratch.walk[0], False, state.counts[0].running
    for t in range(len(scratch.teams)):
        scratch.teams[t].stoppable = 0
    scratch.after[n] = 0
    for i in range(n - 1, -1, -1):
        j = scratch.order[i]
        job = state.jobs[j]
        counts = turn(job, options) < np.inf and (walk.stops == 0 or scratch.jobs[j].stops != walk.decision)
        if counts and options.teams > NO_TEAMS:
            count_stoppable(state, scratch, job)
        any_in_turn |= counts and pinned(job, walk.now, options)
        scratch.after[i] = scratch.after[i + 1] + (job.gpus if counts else 0)
    return any_in_turn
