"""Team accounts. A decision asks them three questions: whose job is next, may this job take these GPUs, and who holds borrowed GPUs.

Contract: `open_accounts` copies what teams use from the state and says which running jobs are within a guarantee. `count_in_accounts` keeps
the accounts up to date as jobs are placed and released. Without queues the cluster is the only team: it guarantees nothing to a part of
itself and limits nothing.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.keys import is_non_preemptible, usage_at
from headway.core.order import before, comes_before
from headway.core.tables.scratch import STOPS, Round
from headway.core.tables.teams import CLUSTER, NO_TEAMS
from headway.job_state import JobState

NO_GUARANTEE: Final = 2  # rank of a job that is within no guarantee

# ---- accounts


@jit
def open_accounts(r: Round) -> None:
    """Copy what teams use, and say which running jobs are within guarantees."""
    state, deepest = r.state, 0
    for t in range(len(state.teams)):
        account, team = r.scratch.teams[t], state.teams[t]
        account.used, account.running = team.used, team.running
        account.leaving, account.stopping = team.leaving, team.stopping
        account.covered, account.promised, account.fixed, account.needed = 0, 0, 0, team.guarantee
        account.usage = usage_at(team, r.scratch.walk[0].now, r.options.half_life)
        account.below, account.sibling = -1, -1
        if t > CLUSTER:
            account.sibling = r.scratch.teams[team.parent].below
            r.scratch.teams[team.parent].below = t
            deepest = max(deepest, team.level if team.guarantee > 0 else 0)
    for t in range(len(state.teams) - 1, CLUSTER, -1):
        r.scratch.teams[state.teams[t].parent].fixed += r.scratch.teams[t].needed
    r.scratch.walk[0].changed = 1
    if len(state.teams) > NO_TEAMS:
        _count_promises(r)
        _cover_running(r, deepest)


@jit
def _count_promises(r: Round) -> None:
    """Count jobs that migrate as used until they start again, and no longer as stopping; count the promises of waiting jobs."""
    for row in range(r.state.promises.counts[0].rows):
        job = r.state.jobs[r.state.promises.rows[row].job]
        if job.promise == row and job.migrating:
            count_in_accounts(r, job, 1, -1 if job.state == JobState.STOPPING else 0)
        elif job.promise == row and job.state == JobState.PENDING:
            _count_promised(r, job, 1)


@jit
def _cover_running(r: Round, deepest: int) -> None:
    """Let jobs use guarantees, from the deepest teams up: first jobs that cannot be released, last jobs under notice."""
    running, promises = r.state.counts[0].running, r.state.promises
    for i in range(running):
        job = r.state.jobs[r.scratch.order[i]]
        r.scratch.jobs[job.row].covered, r.scratch.jobs[job.row].partly = -1, 0
        if is_non_preemptible(job, r.options):
            _count_fixed(r, job, 1)
    for level in range(deepest, 0, -1):
        for row in range(promises.counts[0].rows):
            job = r.state.jobs[promises.rows[row].job]
            if job.promise == row and job.migrating and is_borrowed(r, job):
                _cover(r, job, level)
        for covering_round in range(3):
            for i in range(running):
                job = r.state.jobs[r.scratch.order[i]]
                if is_borrowed(r, job) and _covering_round(r, job) == covering_round:
                    _cover(r, job, level)


@jit
def _covering_round(r: Round, job: Any) -> int:
    """Return whether a job uses its team's guarantee first (0), as the policy orders (1), or last (2)."""
    if is_non_preemptible(job, r.options):
        return 0
    return 2 if job.until < np.inf else 1


@jit
def _cover(r: Round, job: Any, level: int) -> None:
    """Let a job use the guarantee of its team at a level; if too little is left there, the job is borrowed in part."""
    t, mark = job.team, r.scratch.jobs[job.row]
    while r.state.teams[t].level > level:
        t = r.state.teams[t].parent
    left = r.state.teams[t].guarantee - r.scratch.teams[t].covered
    if r.state.teams[t].level < level or left <= 0:
        return
    if left < job.gpus:
        if mark.covered < 0:
            mark.covered, mark.partly = t, 1
        r.scratch.teams[t].covered += left
        return
    mark.covered, mark.partly = t, 0
    while t > CLUSTER:
        r.scratch.teams[t].covered += job.gpus
        t = r.state.teams[t].parent


@jit
def count_in_accounts(r: Round, job: Any, used: int, stopping: int) -> None:
    """Count a job in its teams among those that use GPUs and among stopping jobs: 1 one more, -1 one less, 0 no change."""
    t = job.team
    r.scratch.walk[0].changed = 1
    if is_non_preemptible(job, r.options):
        _count_fixed(r, job, used)
    while t >= CLUSTER:
        account = r.scratch.teams[t]
        account.used += used * job.gpus
        account.running += used
        account.leaving += stopping * job.gpus
        account.stopping += stopping
        t = r.state.teams[t].parent


@jit
def count_waiting(r: Round, job: Any) -> None:
    """Count a waiting job that gets GPUs or keeps its promise in its teams; a job that migrates is counted already."""
    if not job.migrating:
        r.scratch.jobs[job.row].covered, r.scratch.jobs[job.row].partly = -1, 0
        count_in_accounts(r, job, 1, 0)
        _count_promised(r, job, -1)


@jit
def _count_promised(r: Round, job: Any, sign: int) -> None:
    """Count the promise of a waiting job in its teams (1), or no longer (-1) because the job was placed."""
    t = job.team if _is_promised(r, job) else -1
    while t >= CLUSTER:
        r.scratch.teams[t].promised += sign * job.gpus
        t = r.state.teams[t].parent


@jit
def _is_promised(r: Round, job: Any) -> bool:
    """Return whether a waiting job has a promise."""
    promises, row = r.state.promises, job.promise
    return not job.migrating and 0 <= row < promises.counts[0].rows and promises.rows[row].job == job.row


@jit
def _count_fixed(r: Round, job: Any, sign: int) -> None:
    """Count the GPUs of a non-preemptible job: what a team needs changes only if it is more than its guarantee."""
    t, more = job.team, sign * job.gpus
    while t >= CLUSTER:
        account = r.scratch.teams[t]
        account.fixed += more
        needed = max(r.state.teams[t].guarantee, account.fixed)
        more, account.needed = needed - account.needed, needed
        t = r.state.teams[t].parent


# ---- may this job take these GPUs


@jit
def within_guarantee(r: Round, job: Any) -> int:
    """Return the lowest team of a waiting job that uses no more than its guarantee with it; -1: none.

    Promises count as used: a job that was preempted for a job of its own team does not take the GPUs back. A job that migrates or has a
    promise does not count twice.
    """
    t, gpus = job.team, 0 if job.migrating or (job.team != CLUSTER and _is_promised(r, job)) else job.gpus
    while t > CLUSTER:
        if r.scratch.teams[t].used + r.scratch.teams[t].promised + gpus <= r.state.teams[t].guarantee:
            return int(t)
        t = r.state.teams[t].parent
    return -1


@jit
def exceeded_limit(r: Round, job: Any, stopping: bool, n: int) -> int:
    """Return the highest team whose limit a waiting job would exceed, or -1.

    Stopping jobs count if `stopping`. Jobs among the first n listed that are chosen to be stopped do not count.
    """
    exceeded, t, more = -1, job.team, 0 if job.migrating else 1  # a job that migrates is counted already
    while t >= CLUSTER:
        account, team = r.scratch.teams[t], r.state.teams[t]
        gpus = account.used + more * job.gpus + stopping * account.leaving
        jobs = account.running + more + stopping * account.stopping
        for i in range(n if gpus > team.most_gpus or jobs > team.most_running else 0):
            listed = r.scratch.listed[i]
            if listed.chosen and listed.how == STOPS and is_below(r, r.state.jobs[listed.what].team, t):
                gpus -= r.state.jobs[listed.what].gpus
                jobs -= 1
        if gpus > team.most_gpus or jobs > team.most_running:
            exceeded = t
        t = team.parent
    return int(exceeded)


@jit
def keeps_guarantees(r: Round, job: Any) -> bool:
    """Return whether all guarantees can still be met if a job, should it be non-preemptible, starts; without queues there are none."""
    if job.team == CLUSTER or not is_non_preemptible(job, r.options):
        return True
    t, more = job.team, job.gpus
    while t > CLUSTER:
        more = max(r.state.teams[t].guarantee, r.scratch.teams[t].fixed + more) - r.scratch.teams[t].needed
        t = r.state.teams[t].parent
    return more == 0 or r.scratch.teams[CLUSTER].fixed + more <= r.state.teams[CLUSTER].guarantee


# ---- who holds borrowed GPUs


@jit
def is_below(r: Round, t: int, above: int) -> bool:
    """Return whether team t is `above` or below it."""
    while t >= CLUSTER and t != above:
        t = r.state.teams[t].parent
    return t == above


@jit
def is_borrowed(r: Round, other: Any) -> bool:
    """Return whether no guarantee covers all GPUs of a running job."""
    return r.scratch.jobs[other.row].covered < 0 or r.scratch.jobs[other.row].partly == 1


@jit
def is_borrowed_from(r: Round, other: Any, t: int) -> bool:
    """Return whether a running job is borrowed, or only a team above team t covers it."""
    covered = r.scratch.jobs[other.row].covered
    return is_borrowed(r, other) or (covered != t and is_below(r, t, covered))


@jit
def may_reclaim(r: Round, job: Any, other: Any) -> bool:
    """Return whether a running job holds GPUs that the team of a waiting one is guaranteed."""
    guarantee = within_guarantee(r, job)
    return guarantee >= 0 and not is_below(r, other.team, guarantee) and is_borrowed_from(r, other, guarantee)


@jit
def gives_way(r: Round, job: Any, other: Any) -> bool:
    """Return whether a running job is preempted for a waiting one once its minimum run time is over, as order and shares say."""
    if not r.options.preempts or not comes_before(r, job, other):
        return False
    if job.team == other.team:
        return True
    a, b = _siblings_above(r, job.team, other.team)
    if a == b:
        return True
    covered = r.scratch.jobs[other.row].covered
    if covered >= 0 and not is_below(r, job.team, covered):
        return False
    if r.state.teams[a].priority != r.state.teams[b].priority:
        return bool(r.state.teams[a].priority > r.state.teams[b].priority)
    gpus = max(job.gpus, other.gpus)
    return share(r, a, gpus) * r.state.teams[b].weight <= share(r, b, -gpus) * r.state.teams[a].weight


@jit
def share(r: Round, t: int, gpus: int) -> float:
    """Return the decayed usage of a team if it used `gpus` more, before division by its weight."""
    return r.scratch.teams[t].usage + (r.scratch.teams[t].used + gpus) * r.options.horizon


@jit
def _siblings_above(r: Round, a: int, b: int) -> tuple[int, int]:
    """Return the sibling teams that are a and b, or above them; equal if a is b, or if both are users of one queue."""
    teams = r.state.teams
    while a != b:
        if teams[a].level > teams[b].level:
            a = teams[a].parent
        elif teams[b].level > teams[a].level:
            b = teams[b].parent
        elif teams[a].parent == teams[b].parent:
            break
        else:
            a, b = teams[a].parent, teams[b].parent
    return (a, a) if teams[a].of_user else (a, b)


@jit
def queue_of(r: Round, job: Any) -> int:
    """Return the team of the job's queue, also for a job counted by user."""
    return int(r.state.teams[job.team].parent if r.state.teams[job.team].of_user else job.team)


# ---- whose job is next


@jit
def leads(r: Round, a: int, b: int) -> bool:
    """Return whether job a is visited before job b of its queue: by guarantee, then by the policy's order."""
    if not r.options.head_of_line_blocking:
        queue = queue_of(r, r.state.jobs[a])
        rank_a, rank_b = _guarantee_rank(r, a, queue), _guarantee_rank(r, b, queue)
        if rank_a != rank_b:
            return rank_a < rank_b
    return before(r.state.jobs, a, b)


@jit
def _guarantee_rank(r: Round, j: int, t: int) -> int:
    """Return whether job j is within a guarantee of team t or below it (0), of a team above (1), or of none."""
    guarantee = within_guarantee(r, r.state.jobs[j])
    if guarantee < 0:
        return NO_GUARANTEE
    return 0 if is_below(r, guarantee, t) else 1


@jit
def goes_first(r: Round, a: int, x: int, b: int, y: int) -> bool:
    """Return whether team a, whose next job is x, is served before its sibling b, whose next job is y."""
    mine, others = r.state.teams[a], r.state.teams[b]
    if mine.of_user:
        return leads(r, x, y)
    mine_rank, others_rank = _guarantee_rank(r, x, a), _guarantee_rank(r, y, b)
    if mine_rank != others_rank:
        return mine_rank < others_rank
    if mine.priority != others.priority:
        return mine.priority > others.priority
    mine_share, others_share = share(r, a, 0) * others.weight, share(r, b, 0) * mine.weight
    return mine_share < others_share if mine_share != others_share else before(r.state.jobs, x, y)
