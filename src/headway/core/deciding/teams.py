"""Teams in a decision: what each is owed, whom a job may stop in another team, and what limits keep waiting.

A team is owed GPUs while it uses less than its guarantee. The GPUs of the jobs that come first in a team are part of its guarantee, as
far as that goes; the others are borrowed.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.events import WAIT_QUOTA
from headway.core.keys import pinned, turn
from headway.core.order import comes_before, first_waiting, next_waiting
from headway.core.receipts import class_of
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER, NO_TEAMS
from headway.job_state import JobState

# Whom a waiting job may stop (`reclaims` of the walk): those after it, as the policy and the shares say; those who hold GPUs that its team
# is owed; all whom it may ask for them, also those who start.
BY_ORDER: Final = 0
TAKING: Final = 1
ASKING: Final = 2

# ---- what teams have at the beginning of a decision, and as jobs are seated


@jit
def is_firm(job: Any, options: Options) -> bool:
    """Whether a job that runs can never be stopped."""
    return turn(job, options) == np.inf


@jit
def open_teams(state: State, options: Options, scratch: Scratch) -> None:
    """Count what teams have: their running jobs in the order of this decision, then those that wait for what they were promised."""
    for t in range(len(state.teams)):
        team, row = scratch.teams[t], state.teams[t]
        team.used, team.running = row.used, row.running
        team.leaving, team.stopping = row.leaving, row.stopping
        team.kept, team.firm, team.need = 0, 0, row.guarantee
        team.below, team.sibling, team.stoppable = -1, -1, 0
        team.asked_gpus, team.asked_jobs = 0, 0
        if t > CLUSTER:
            team.sibling = scratch.teams[row.parent].below
            scratch.teams[row.parent].below = t
    for t in range(len(state.teams) - 1, CLUSTER, -1):
        scratch.teams[state.teams[t].parent].firm += scratch.teams[t].need
    scratch.walk[0].owing, scratch.walk[0].stale = 0, 1
    _share_guarantees(state, options, scratch)
    for row in range(state.promises.counts[0].rows):
        job = state.jobs[state.promises.rows[row].job]
        if job.promise == row and job.state == JobState.STOPPING:
            _count_leaving(state, scratch, job, -1)  # it moves: its team has its GPUs all the time
            count_waiting(state, options, scratch, job)
        elif job.promise == row and job.state == JobState.PENDING:
            count_waiting(state, options, scratch, state.jobs[_first_like(state, options, scratch, job)])


@jit
def _first_like(state: State, options: Options, scratch: Scratch, job: Any) -> int:
    """The first of those like a job that was promised GPUs, of its class and as firm, that is not counted yet.

    Where promises are not kept first, one that comes before the job has its turn first: what is promised is as good as its own.
    """
    c, walk = class_of(job, options), scratch.walk[0]
    j = first_waiting(state, c) if walk.full else -1
    while j >= 0:
        if scratch.jobs[j].counted != walk.decision and is_firm(state.jobs[j], options) == is_firm(job, options):
            return int(j)
        j = next_waiting(state, c, j)
    return int(job.row)


@jit
def _share_guarantees(state: State, options: Options, scratch: Scratch) -> None:
    """Say whose guarantee the GPUs of each running job are part of: those of jobs that cannot be stopped first; then lower teams first."""
    running, deepest = state.counts[0].running, 0
    for t in range(CLUSTER + 1, len(state.teams)):
        deepest = max(deepest, state.teams[t].level if state.teams[t].guarantee > 0 else 0)
    for i in range(running):
        job = state.jobs[scratch.order[i]]
        scratch.jobs[job.row].own = -1
        if is_firm(job, options):
            _count_firm(state, scratch, job, 1)
    for i in range(running):
        job = state.jobs[scratch.order[i]]
        if is_firm(job, options):
            _share_firmly(state, scratch, job)
    for level in range(deepest, 0, -1):
        for i in range(running):
            job = state.jobs[scratch.order[i]]
            if scratch.jobs[job.row].own < 0 and not is_firm(job, options):
                _share_guarantee(state, scratch, job, level)


@jit
def _share_firmly(state: State, scratch: Scratch, job: Any) -> None:
    """A job that cannot be stopped uses what is left of the guarantees of its teams, even if that is less than it holds."""
    t = job.team
    while t > CLUSTER:
        room = state.teams[t].guarantee - scratch.teams[t].kept
        if room >= job.gpus and scratch.jobs[job.row].own < 0:
            scratch.jobs[job.row].own = t
        scratch.teams[t].kept += max(0, min(room, job.gpus))
        t = state.teams[t].parent


@jit
def _share_guarantee(state: State, scratch: Scratch, job: Any, level: int) -> None:
    """Make the job's GPUs part of the guarantee of its team at a level, if there is room in it."""
    t = job.team
    while state.teams[t].level > level:
        t = state.teams[t].parent
    if state.teams[t].level == level and scratch.teams[t].kept + job.gpus <= state.teams[t].guarantee:
        scratch.jobs[job.row].own = t
        keep(state, scratch, t, job.gpus)


@jit
def keep(state: State, scratch: Scratch, t: int, gpus: int) -> None:
    """Count GPUs as part of the guarantee of a team, and of those above it."""
    scratch.walk[0].stale = 1
    while t >= CLUSTER:
        scratch.teams[t].kept += gpus
        t = state.teams[t].parent


@jit
def count_seat(state: State, options: Options, scratch: Scratch, job: Any, sign: int) -> None:
    """A waiting job is seated (1) or no longer (-1), or a running one is to be stopped (-1): count it in its teams."""
    mark, t = scratch.jobs[job.row], job.team
    scratch.walk[0].stale = 1
    if sign > 0:
        mark.own = owed_by(state, scratch, job)
    if mark.own >= 0:
        keep(state, scratch, mark.own, sign * job.gpus)
    if is_firm(job, options):
        _count_firm(state, scratch, job, sign)
    while t >= CLUSTER:
        scratch.teams[t].used += sign * job.gpus
        scratch.teams[t].running += sign
        t = state.teams[t].parent


@jit
def count_waiting(state: State, options: Options, scratch: Scratch, job: Any) -> None:
    """Count a waiting job that is seated among those of its team, once."""
    if scratch.jobs[job.row].counted != scratch.walk[0].decision:
        scratch.jobs[job.row].counted = scratch.walk[0].decision
        count_seat(state, options, scratch, job, 1)


@jit
def uncount_waiting(state: State, options: Options, scratch: Scratch, job: Any) -> None:
    """Count a job that looks for a place no longer."""
    if scratch.jobs[job.row].counted == scratch.walk[0].decision:
        scratch.jobs[job.row].counted = -1
        count_seat(state, options, scratch, job, -1)


@jit
def count_stop(state: State, options: Options, scratch: Scratch, job: Any) -> None:
    """A running job is to be stopped: its team has its GPUs until it has."""
    count_seat(state, options, scratch, job, -1)
    _count_leaving(state, scratch, job, 1)


@jit
def _count_leaving(state: State, scratch: Scratch, job: Any, sign: int) -> None:
    """Count a job among those that are stopping, or no longer."""
    t = job.team
    while t >= CLUSTER:
        scratch.teams[t].leaving += sign * job.gpus
        scratch.teams[t].stopping += sign
        t = state.teams[t].parent


# ---- what a waiting job is owed


@jit
def owed_by(state: State, scratch: Scratch, job: Any) -> int:
    """The lowest team of a waiting job with room in its guarantee for the GPUs that it asks for; -1: none."""
    t = job.team
    while t > CLUSTER:
        if scratch.teams[t].kept + job.gpus <= state.teams[t].guarantee:
            return t
        t = state.teams[t].parent
    return -1


@jit
def count_asked(state: State, scratch: Scratch, job: Any) -> None:
    """GPUs of a guarantee are asked back for a waiting job: limits keep room for it, so that none after it fills them meanwhile."""
    t = job.team
    while t >= CLUSTER:
        scratch.teams[t].asked_gpus += job.gpus
        scratch.teams[t].asked_jobs += 1
        t = state.teams[t].parent


@jit
def note_unmet(state: State, options: Options, scratch: Scratch, job: Any, why: int) -> None:
    """A waiting job found no place: note whether a limit kept it from one, or its team is owed one and did not ask for it."""
    walk = scratch.walk[0]
    if options.teams == NO_TEAMS or walk.asked == job.row:
        return
    if why == WAIT_QUOTA:
        walk.limited_unmet += 1
    elif owed_by(state, scratch, job) >= 0:
        walk.unmet += 1


# ---- who may be stopped for whom


@jit
def is_below(state: State, t: int, above: int) -> bool:
    """Whether team t is `above`, or below it."""
    while t >= CLUSTER and t != above:
        t = state.teams[t].parent
    return t == above


@jit
def _apart(state: State, a: int, b: int) -> tuple[int, int]:
    """The siblings of which one is a or above it and one is b or above it; equal where a is b, or both are users of one queue."""
    while a != b:
        if state.teams[a].level > state.teams[b].level:
            a = state.teams[a].parent
        elif state.teams[b].level > state.teams[a].level:
            b = state.teams[b].parent
        elif state.teams[a].parent == state.teams[b].parent:
            break
        else:
            a, b = state.teams[a].parent, state.teams[b].parent
    return (a, a) if state.teams[a].of_user else (a, b)


@jit
def _is_kept_from(state: State, scratch: Scratch, job: Any, other: Any) -> bool:
    """Whether what another job holds is part of a guarantee that a waiting one has no part in."""
    own = scratch.jobs[other.row].own
    return own >= 0 and not is_below(state, job.team, own)


@jit
def lends(state: State, scratch: Scratch, job: Any, other: Any) -> bool:
    """Whether another job, which runs, holds GPUs that are owed to the team of a waiting one."""
    mark = scratch.jobs[job.row]
    owed = mark.own if mark.asked == scratch.walk[0].decision else owed_by(state, scratch, job)
    return owed >= 0 and not is_below(state, other.team, owed) and not _is_kept_from(state, scratch, job, other)


@jit
def yields(state: State, options: Options, scratch: Scratch, job: Any, other: Any) -> bool:
    """Whether another job makes room for a waiting one once its turn is over, as the order of the policy and the shares of their teams say.

    Between teams: of a lower priority, or of the same if the waiting job's team would still use no more for its weight than the other.
    """
    if not options.preempts or not comes_before(options, scratch, job, other):
        return False
    a, b = _apart(state, job.team, other.team)
    if a == b:
        return True
    if _is_kept_from(state, scratch, job, other):
        return False
    return may_take(state, scratch, a, b, max(job.gpus, other.gpus))


@jit
def may_take(state: State, scratch: Scratch, a: int, b: int, moved: int) -> bool:
    """Whether so many GPUs may go from team b to its sibling a: by priority, or while a would use no more for its weight."""
    if state.teams[a].priority != state.teams[b].priority:
        return bool(state.teams[a].priority > state.teams[b].priority)
    mine, others = scratch.teams[a].used + moved, scratch.teams[b].used - moved
    return mine * state.teams[b].weight <= others * state.teams[a].weight


@jit
def can_stop_for(state: State, options: Options, scratch: Scratch, job: Any, other: Any) -> bool:
    """Whether another job may be stopped for a waiting one in this decision."""
    walk = scratch.walk[0]
    if scratch.jobs[other.row].stops == walk.decision:
        return False
    can = walk.reclaims == ASKING or (other.state == JobState.RUNNING and other.started < walk.now)
    if walk.reclaims != BY_ORDER:
        return can and not is_firm(other, options) and lends(state, scratch, job, other)
    if not can:
        return False
    return not pinned(other, walk.now, options) and yields(state, options, scratch, job, other)


@jit
def makes_room(state: State, options: Options, scratch: Scratch, job: Any, other: Any) -> bool:
    """Whether another job makes room for a waiting one once its turn is over, with or without teams."""
    if options.teams > NO_TEAMS:
        return yields(state, options, scratch, job, other)
    return options.preempts and comes_before(options, scratch, job, other)


@jit
def queue_of(state: State, job: Any) -> int:
    """The team that stands for the queue of a job, not for one of its users."""
    return int(state.teams[job.team].parent if state.teams[job.team].of_user else job.team)


@jit
def in_one_queue(state: State, a: Any, b: Any) -> bool:
    """Whether two jobs are in the same queue."""
    return queue_of(state, a) == queue_of(state, b)


@jit
def claim_over(options: Options, job: Any, now: float) -> bool:
    """Whether those who borrowed GPUs that the job asks back have had their notice."""
    return options.notice == 0.0 or job.claimed + options.notice <= now


# ---- limits


@jit
def over_limit(state: State, scratch: Scratch, job: Any, soon: bool) -> int:
    """The team whose limit a waiting job would exceed, -1: none; `soon`: once those that stop have stopped."""
    t = job.team
    while t >= CLUSTER:
        team, row = scratch.teams[t], state.teams[t]
        gpus, jobs = team.used + team.asked_gpus + job.gpus, team.running + team.asked_jobs + 1
        if not soon:
            gpus, jobs = gpus + team.leaving, jobs + team.stopping
        if gpus > row.most_gpus or jobs > row.most_running:
            return t
        t = row.parent
    return -1


@jit
def clear_freed(state: State, scratch: Scratch) -> None:
    """Begin to count what teams get back."""
    for t in range(len(state.teams)):
        scratch.teams[t].freed_gpus = 0
        scratch.teams[t].freed_jobs = 0


@jit
def count_freed(state: State, scratch: Scratch, other: Any) -> None:
    """Count what teams get back if a job stops."""
    t = other.team
    while t >= CLUSTER:
        scratch.teams[t].freed_gpus += other.gpus
        scratch.teams[t].freed_jobs += 1
        t = state.teams[t].parent


@jit
def within_limits(state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job keeps all limits once those that were counted have stopped."""
    t = job.team
    while t >= CLUSTER:
        team, row = scratch.teams[t], state.teams[t]
        gpus = team.used + team.asked_gpus - team.freed_gpus + job.gpus
        jobs = team.running + team.asked_jobs - team.freed_jobs + 1
        if gpus > row.most_gpus or jobs > row.most_running:
            return False
        t = row.parent
    return True


@jit
def _count_firm(state: State, scratch: Scratch, job: Any, sign: int) -> None:
    """Count the GPUs of a job that cannot be stopped: what teams need changes only where it is more than they are guaranteed."""
    t, more = job.team, sign * job.gpus
    while t >= CLUSTER:
        team = scratch.teams[t]
        team.firm += more
        needed = max(state.teams[t].guarantee, team.firm)
        more, team.need = needed - team.need, needed
        t = state.teams[t].parent


@jit
def may_stay(state: State, scratch: Scratch, job: Any) -> bool:
    """Whether all guarantees can still be met if the job, which cannot be stopped, starts."""
    t, more = job.team, job.gpus
    while t > CLUSTER:
        team = scratch.teams[t]
        more = max(state.teams[t].guarantee, team.firm + more) - team.need
        t = state.teams[t].parent
    return more == 0 or scratch.teams[CLUSTER].firm + more <= state.teams[CLUSTER].guarantee
