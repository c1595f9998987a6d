"""Who makes room: as few running jobs as will do, the lowest in the order of the policy.

Candidates come after the job that needs room, have had their turn, and did not start at this very moment. From the highest of them to the
lowest, each is spared if the job finds a place without it while everyone lower may still be stopped. So no job is stopped while a lower one
could make room in its stead, nobody is stopped in vain, and the places are known before anyone is stopped. Where stopping one higher job
would do instead of several lower ones, the lower ones are stopped: the order of the policy counts more than the number of stops. A
placement that is told whom it would evict chooses the nodes first, and the same holds among those who sit there.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import (
    SOON,
    add_to_offer,
    choose_place,
    count_evicted,
    free_soon,
    limit_offer,
    offer,
)
from headway.core.deciding.teams import (
    BY_ORDER,
    can_stop_for,
    clear_freed,
    count_freed,
    may_take,
    owed_by,
    within_limits,
)
from headway.core.events import STOP
from headway.core.keys import pinned
from headway.core.order import comes_before, rank_of
from headway.core.tables.actions import Actions, close_row, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER, NO_TEAMS
from headway.job_state import JobState


@jit
def can_stop(options: Options, scratch: Scratch, job: Any) -> bool:
    """Whether the job may be stopped in this decision, and is not already."""
    walk = scratch.walk[0]
    return (
        job.state == JobState.RUNNING
        and job.started < walk.now
        and not pinned(job, walk.now, options)
        and scratch.jobs[job.row].stops != walk.decision
    )


@jit
def is_candidate(state: State, options: Options, scratch: Scratch, waiting: Any, job: Any) -> bool:
    """Two jobs on the same GPUs are stopped together, and count where the first of them does."""
    if options.teams > NO_TEAMS:
        return can_stop_for(state, options, scratch, waiting, job)
    if not can_stop(options, scratch, job):
        return False
    if job.partner < 0:
        return True
    other = state.jobs[job.partner]
    return can_stop(options, scratch, other) and comes_before(options, scratch, job, other)


@jit
def sum_stoppable(state: State, options: Options, scratch: Scratch) -> None:
    """Sum up the GPUs of those who may be stopped by the order of the policy, from each place in the order on: `scratch.after`."""
    walk, n = scratch.walk[0], state.counts[0].running
    scratch.after[n] = 0
    for i in range(n - 1, -1, -1):
        job = state.jobs[scratch.order[i]]
        counts = walk.full and job.state == JobState.RUNNING and not pinned(job, walk.now, options)
        scratch.after[i] = scratch.after[i + 1] + (job.gpus if counts else 0)
        if counts:
            count_stoppable(state, scratch, job)


@jit
def count_stoppable(state: State, scratch: Scratch, job: Any) -> None:
    """Count the GPUs of a running job among those that others may have."""
    t = job.team
    while t >= CLUSTER:
        scratch.teams[t].stoppable += job.gpus
        t = state.teams[t].parent


@jit
def most_from_teams(state: State, scratch: Scratch, job: Any) -> int:
    """GPUs that a waiting job could have at most from those that were counted, as far as the shares of their teams tell."""
    t = job.team
    gpus = scratch.teams[t].stoppable
    while t > CLUSTER:
        above = state.teams[t].parent
        if state.teams[t].of_user:
            gpus = scratch.teams[above].stoppable
        else:
            other = scratch.teams[above].below
            while other >= 0:
                if other != t and may_take(state, scratch, t, other, job.gpus):
                    gpus += scratch.teams[other].stoppable
                other = scratch.teams[other].sibling
        t = above
    return int(gpus)


@jit
def reach(state: State, options: Options, scratch: Scratch, job: Any) -> int:
    """GPUs that a job could have at most, wherever they are: those that are there soon, and those of jobs that could be stopped for it."""
    walk = scratch.walk[0]
    if options.teams == NO_TEAMS or owed_by(state, scratch, job) >= 0:
        return int(walk.spare)
    after = scratch.after[rank_of(state, options, scratch, job)]
    return int(walk.soon + min(after, most_from_teams(state, scratch, job)))


@jit
def _add(state: State, scratch: Scratch, job: Any, limited: bool) -> None:
    """Offer what a job holds too; where a limit has to be kept, count what its teams get back."""
    add_to_offer(state, scratch, job)
    if limited:
        count_freed(state, scratch, job)


@jit
def first_candidate(state: State, options: Options, scratch: Scratch, job: Any) -> int:
    """From which place in the order on those may be who can be stopped: anywhere, where a team takes back what it lent."""
    return 0 if scratch.walk[0].reclaims != BY_ORDER else rank_of(state, options, scratch, job)


@jit
def _fits(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, first: int, late: bool
) -> bool:
    """Whether there is a place if those chosen and the candidates from `first` on stop. True: it is in the row being written."""
    offer(scratch, SOON)
    limited = scratch.walk[0].limited >= 0
    if limited:
        clear_freed(state, scratch)
    for i in range(scratch.walk[0].chosen):
        _add(state, scratch, state.jobs[scratch.chosen[i]], limited)
    for i in range(first, state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if is_candidate(state, options, scratch, job, other):
            _add(state, scratch, other, limited)
    if limited and not within_limits(state, scratch, job):
        return False
    if scratch.walk[0].evicts:
        _tell_evicted(state, options, scratch, job, first)
    return limit_offer(state, options, scratch, job, late) >= job.gpus and choose_place(
        state, options, place, scratch, out, job
    )


@jit
def _tell_evicted(state: State, options: Options, scratch: Scratch, job: Any, first: int) -> None:
    """For a placement that asks for it: count whom those places would evict, and offer only nodes that it wants, once it has said which."""
    for i in range(scratch.walk[0].chosen):
        count_evicted(state, scratch, state.jobs[scratch.chosen[i]])
    for i in range(first, state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if is_candidate(state, options, scratch, job, other):
            count_evicted(state, scratch, other)
    for x in range(len(scratch.nodes) if scratch.walk[0].narrowed else 0):
        if not scratch.nodes[x].wanted:
            scratch.nodes[x].offer = 0


@jit
def could_stop_for(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Whether there is a place for a waiting job if everyone after it who can be stopped is."""
    scratch.walk[0].chosen = 0
    low = first_candidate(state, options, scratch, job)
    return low < state.counts[0].running and _fits(state, options, place, scratch, out, job, low, False)


@jit
def _want_place(scratch: Scratch, out: Actions) -> None:
    """From now on only the nodes of the place in the row being written are on offer, and that place is forgotten."""
    scratch.walk[0].narrowed = 1
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].wanted = 0
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        scratch.nodes[out.seats[k].node].wanted = 1
    forget(out)


@jit
def choose_victims(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, late: bool
) -> bool:
    """Choose who is stopped for a waiting job. True: they are in `scratch.chosen`, and its place is in the row being written."""
    walk, end = scratch.walk[0], state.counts[0].running
    walk.chosen = 0
    low = first_candidate(state, options, scratch, job)
    if low == end or not _fits(state, options, place, scratch, out, job, low, late):
        return False
    if walk.evicts:
        _want_place(scratch, out)
        if not _fits(state, options, place, scratch, out, job, low, late):
            walk.narrowed = 0
            return False
    while True:
        forget(out)
        # The largest number from which on candidates suffice, together with those chosen: whoever stands there is needed.
        high = end
        while low < high:
            middle = (low + high + 1) >> 1
            if _fits(state, options, place, scratch, out, job, middle, late):
                low = middle
                forget(out)
            else:
                high = middle - 1
        if low == end:
            found = _fits(state, options, place, scratch, out, job, end, late)
            walk.narrowed = 0
            return found
        scratch.chosen[walk.chosen] = scratch.order[low]
        walk.chosen += 1
        low += 1


@jit
def stop_one(out: Actions, job: Any) -> None:
    """Write the stop of a job and of the one that shares its GPUs."""
    close_row(out, STOP, job.row)
    if job.partner >= 0:
        close_row(out, STOP, job.partner)


@jit
def mark_stopped(state: State, scratch: Scratch, job: Any) -> None:
    """The job is to be stopped, with the one on the same GPUs: what they hold is free soon."""
    walk = scratch.walk[0]
    scratch.jobs[job.row].stops = walk.decision
    if job.partner >= 0:
        scratch.jobs[job.partner].stops = walk.decision
    walk.stopped_by = max(walk.stopped_by, walk.now + job.save)
    free_soon(state, scratch, job)
