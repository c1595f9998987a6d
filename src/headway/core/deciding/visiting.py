"""Which waiting job is visited next, and what follows for others if it finds no place.

Contract: `open_classes` begins; `next_class` returns the open class whose next job comes first, or -1; `advance` goes on in a class
after its job was visited. If a job finds no place, no other job of its class does (by size, team and constraints), so its class is
closed, unless the reason was about that job alone. The first job without a place is `walk.first`.
"""

from typing import Any, Final

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import fits_empty_nodes
from headway.core.deciding.promises import has_place
from headway.core.deciding.teams import exceeded_limit, goes_first, is_below, keeps_guarantees, leads, queue_of
from headway.core.events import NOT_WAITING, WAIT_BACKFILL_RESERVATION, WAIT_QUOTA
from headway.core.order import first_waiting, next_waiting
from headway.core.tables.scratch import Round
from headway.core.tables.teams import CLUSTER

# At most this many jobs per decision leave their class open though they found no place, because the reason was about them alone.
MOST_PASSED: Final = 100


@jit
def open_classes(r: Round) -> None:
    """Open every class with waiting jobs, and note which classes each team has."""
    state, classes, walk = r.state, r.scratch.classes, r.scratch.walk[0]
    walk.open = state.counts[0].classes
    for t in range(len(r.scratch.teams)):
        r.scratch.teams[t].classes = -1
    for i in range(walk.open):
        c = state.classes[i].open
        first = first_waiting(state, c)
        account = r.scratch.teams[state.jobs[first].team]
        classes[i].id, classes[i].head = c, first
        classes[i].team, classes[i].next = state.jobs[first].team, account.classes
        classes[c].why = NOT_WAITING
        account.classes = i
    skip_placed(r)


@jit
def skip_placed(r: Round) -> None:
    """Go on in every open class to its first job that is not placed."""
    classes = r.scratch.classes
    for i in range(r.scratch.walk[0].open):
        if classes[i].head >= 0:
            _go_on(r, i, classes[i].head)
    r.scratch.walk[0].changed = 1


@jit
def _go_on(r: Round, i: int, j: int) -> None:
    """Let the first job from job j on that is not placed be the next of open class i (-1: the class is closed)."""
    classes, c = r.scratch.classes, r.scratch.classes[i].id
    while j >= 0 and has_place(r, j):
        j = next_waiting(r.state, c, j)
    classes[i].head = j
    if classes[c].why == NOT_WAITING:
        classes[c].rest = j


# ---- whose job is next


@jit
def next_class(r: Round) -> int:
    """Return the open class whose next job comes first, in the order of teams and then of the policy; -1: none.

    The first jobs of sibling teams compete, from the queues up to the cluster. While no account changes, only the team of the last
    winner and the teams above it can have another first job.
    """
    best = r.scratch.teams[CLUSTER].best
    if r.scratch.walk[0].changed:
        for t in range(len(r.scratch.teams) - 1, -1, -1):  # teams come after the team above them
            _find_best(r, t)
        r.scratch.walk[0].changed = 0
    elif best >= 0:
        t = r.scratch.classes[best].team
        while t >= CLUSTER:
            _find_best(r, t)
            t = r.state.teams[t].parent
    return r.scratch.teams[CLUSTER].best


@jit
def _find_best(r: Round, t: int) -> None:
    """Find the first job among a team's own open classes, or among the first jobs of the teams below it."""
    account, classes = r.scratch.teams[t], r.scratch.classes
    account.best = -1
    i = account.classes
    while i >= 0:
        if classes[i].head >= 0 and (account.best < 0 or leads(r, classes[i].head, classes[account.best].head)):
            account.best = i
        i = classes[i].next
    below = account.below
    while below >= 0:
        i = r.scratch.teams[below].best
        if i >= 0 and (
            account.best < 0 or goes_first(r, below, classes[i].head, account.child, classes[account.best].head)
        ):
            account.best, account.child = i, below
        below = r.scratch.teams[below].sibling


# ---- after a job was visited


@jit
def advance(r: Round, rules: Any, i: int, why: int) -> None:
    """Go on to the next job of open class i after its job was placed (NOT_WAITING) or found no place."""
    classes = r.scratch.classes
    c, job = classes[i].id, r.state.jobs[classes[i].head]
    r.scratch.jobs[job.row].visited = 1
    if why != NOT_WAITING:
        _refuse(r, rules, job, c, why)
        if r.options.head_of_line_blocking:
            _block(r, job, why)
            return
    following = -1
    if why == NOT_WAITING or not r.options.by_class or _stays_open(r, job, why):
        following = next_waiting(r.state, c, job.row)
    _go_on(r, i, following)


@jit
def _refuse(r: Round, rules: Any, job: Any, c: int, why: int) -> None:
    """Note why a job of class c waits; the first refused job may get a backfill reservation, unless limits keep it waiting."""
    walk, visit = r.scratch.walk[0], r.scratch.classes[c]
    if visit.why == NOT_WAITING:  # the first of its class
        visit.why = why
    if why != WAIT_QUOTA and fits_empty_nodes(r, rules, job) and walk.first < 0:
        walk.first = job.row


@jit
def _stays_open(r: Round, job: Any, why: int) -> bool:
    """Return whether a class stays open: its job found no place for a reason that may not hold for the others. Count such jobs.

    Only the backfill reservation keeps it from free GPUs and a shorter job may fit, or it is non-preemptible and may not borrow.
    """
    walk = r.scratch.walk[0]
    alone = (why == WAIT_BACKFILL_RESERVATION and not r.options.preempts) or not keeps_guarantees(r, job)
    alone = alone and walk.passed < MOST_PASSED
    walk.passed += alone
    return alone


@jit
def _block(r: Round, job: Any, why: int) -> None:
    """Close the classes that a job without a place blocks (fifo): those under the highest limit it exceeds, or those of its queue."""
    classes, limited = r.scratch.classes, exceeded_limit(r, job, False, 0) if why == WAIT_QUOTA else -1
    blocked = limited if limited >= 0 else queue_of(r, job)
    for i in range(r.scratch.walk[0].open):
        if is_below(r, classes[i].team, blocked):
            classes[i].head = -1
            if limited >= 0 and classes[classes[i].id].why == NOT_WAITING:
                classes[classes[i].id].why = WAIT_QUOTA
    r.scratch.walk[0].changed = 1
