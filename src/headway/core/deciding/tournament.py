"""Which team is served first: a tournament from the queues up to the cluster, played anew after each job that is seated.

Jobs whose team is owed what they ask for come first, those of lower teams before those that are owed it by a team above alone, then those
of the team with the higher priority, then those of the team that uses least for its weight, level by level from the cluster down; inside a
queue the order of the policy holds.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.teams import is_below, owed_by
from headway.core.order import before
from headway.core.receipts import team_of
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER


@jit
def first_of_teams(state: State, options: Options, scratch: Scratch) -> int:
    """Which open class has the waiting job that is served first, or -1: the winner among siblings goes on to the level above.

    While nobody is seated the first of each queue stays the same, but for the queue whose turn it was.
    """
    walk, best = scratch.walk[0], scratch.teams[CLUSTER].best
    if walk.stale:
        for t in range(len(scratch.teams) - 1, -1, -1):  # those below a team come after it
            _find_best(state, options, scratch, t)
        walk.stale = 0
    else:
        t = team_of(scratch.classes[best].id, options)
        while t >= CLUSTER:
            _find_best(state, options, scratch, t)
            t = state.teams[t].parent
    return scratch.teams[CLUSTER].best


@jit
def _find_best(state: State, options: Options, scratch: Scratch, t: int) -> None:
    """Find the first among a team's own open classes, or among those of the teams below it, whose first are known."""
    team, classes = scratch.teams[t], scratch.classes
    team.best = -1
    i = team.first
    while i >= 0:
        head = classes[i].head
        if head >= 0 and (team.best < 0 or _leads(state, options, scratch, head, classes[team.best].head)):
            team.best = i
        i = classes[i].next
    below = team.below
    while below >= 0:
        better = scratch.teams[below].best >= 0
        if better and (team.best < 0 or _goes_first(state, options, scratch, below, team.child)):
            team.best = scratch.teams[below].best
            team.child = below
        below = scratch.teams[below].sibling


@jit
def owed_to(state: State, scratch: Scratch, j: int) -> int:
    """The lowest team that owes a waiting job what it asks for, -1: none; what it was promised counts as not given yet."""
    promised = scratch.jobs[j].counted == scratch.walk[0].decision
    return scratch.jobs[j].own if promised else owed_by(state, scratch, state.jobs[j])


@jit
def _leads(state: State, options: Options, scratch: Scratch, a: int, b: int) -> bool:
    """Whether job a is served before job b of its queue: by the lowest team that owes it what it asks for, unless jobs hold up others.

    Of those that are owed it, the first to ask goes first: a claim that went from job to job would begin its notice anew each time.
    """
    level_a, level_b = _owed_at(state, scratch, a), _owed_at(state, scratch, b)
    if not options.blocks and level_a != level_b:
        return level_a > level_b
    if not options.blocks and level_a > 0 and state.jobs[a].claimed != state.jobs[b].claimed:
        return bool(state.jobs[a].claimed < state.jobs[b].claimed)
    return before(state.jobs, a, b)


@jit
def _owed_at(state: State, scratch: Scratch, j: int) -> int:
    """How far below the cluster the team is that owes a waiting job what it asks for; 0: none does."""
    owed = owed_to(state, scratch, j)
    return int(state.teams[owed].level) if owed >= 0 else 0


@jit
def _used_by_others(scratch: Scratch, t: int, job: Any) -> int:
    """GPUs that a team uses without those that a waiting job of it was promised."""
    promised = scratch.jobs[job.row].counted == scratch.walk[0].decision
    return int(scratch.teams[t].used - (job.gpus if promised else 0))


@jit
def _goes_first(state: State, options: Options, scratch: Scratch, a: int, b: int) -> bool:
    """Whether team a, with the job that comes first in it, is served before its sibling b."""
    mine, others = state.teams[a], state.teams[b]
    x, y = scratch.classes[scratch.teams[a].best].head, scratch.classes[scratch.teams[b].best].head
    if mine.of_user:
        return _leads(state, options, scratch, x, y)
    owed_x, owed_y = owed_to(state, scratch, x), owed_to(state, scratch, y)
    is_owed = is_below(state, owed_x, a)
    if is_owed != is_below(state, owed_y, b):
        return is_owed
    if (owed_x >= 0) != (owed_y >= 0):
        return owed_x >= 0
    if owed_x >= 0 and owed_x == owed_y and state.jobs[x].claimed != state.jobs[y].claimed:
        return bool(state.jobs[x].claimed < state.jobs[y].claimed)
    if mine.priority != others.priority:
        return mine.priority > others.priority
    share = _used_by_others(scratch, a, state.jobs[x]) * others.weight
    other = _used_by_others(scratch, b, state.jobs[y]) * mine.weight
    return share < other if share != other else before(state.jobs, x, y)
