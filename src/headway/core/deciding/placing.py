"""The ladder: what one waiting job tries, in order, to get GPUs.

Contract: `find_place` writes what to do for a waiting job and returns NOT_WAITING, or writes nothing and returns why it waits. A job
takes the first that works: its promise if all of it is free; GPUs free now; its promise if it still stands; GPUs free soon; GPUs
that others release by preemption, by notice, or by migration.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import DUE, NOW, SOON, choose_place, finds_place, narrow_offer, offer
from headway.core.deciding.promises import keep_promise, place_in_row, standing_promise, start_promised
from headway.core.deciding.releasing import (
    DEFRAGMENT,
    PREEMPT,
    RECLAIM,
    choose_least,
    first_that_suffices,
    list_releasable,
    make_room,
    release_if_it_pays,
    saved_by,
)
from headway.core.deciding.reservation import is_late
from headway.core.deciding.teams import exceeded_limit, may_stay, within_guarantee
from headway.core.events import (
    NOT_WAITING,
    PROMISE,
    START,
    WAIT_ADVANCE_RESERVATION,
    WAIT_BACKFILL_RESERVATION,
    WAIT_GPUS,
    WAIT_QUOTA,
)
from headway.core.tables.actions import drop_rows, forget
from headway.core.tables.scratch import Round


@jit
def find_place(r: Round, rules: Any, job: Any) -> int:
    """Find GPUs for a waiting job, and write what to do. Return NOT_WAITING, or why it waits."""
    walk = r.scratch.walk[0]
    limited = exceeded_limit(r, job, True) >= 0
    if not may_stay(r, job) or (limited and not (walk.preempting and r.options.preempts)):
        return WAIT_QUOTA
    guaranteed = within_guarantee(r, job) >= 0
    row = -1 if limited else standing_promise(r, job, DUE if guaranteed else SOON)
    if row >= 0 and start_promised(r, job, row):
        return NOT_WAITING
    if job.gpus > walk.reach:
        return WAIT_QUOTA if limited else WAIT_GPUS
    why = _start_or_promise(r, rules, job, row, limited, guaranteed)
    if why == NOT_WAITING:
        return why
    walk.unmet += guaranteed and not limited
    return _defragment(r, rules, job, WAIT_QUOTA if limited else why)


@jit
def _start_or_promise(r: Round, rules: Any, job: Any, row: int, limited: bool, guaranteed: bool) -> int:
    """Start a waiting job on free GPUs, keep its promise (`row`), or make one. Return NOT_WAITING, or why it waits."""
    walk = r.scratch.walk[0]
    beside = r.options.reserves and walk.first >= 0 and not guaranteed
    if beside and not _could_have_place(r, rules, job):
        return WAIT_GPUS
    late = beside and is_late(r, rules, job, walk.now)
    may_start = not limited and exceeded_limit(r, job, False) < 0
    if may_start and finds_place(r, rules, job, NOW, late):
        place_in_row(r, START, job, NOW, late)
        return NOT_WAITING
    if row >= 0 and keep_promise(r, job, row):
        return NOT_WAITING
    why = _promise(r, rules, job, late, limited, guaranteed)
    return _kept_from_free(r, rules, job, late) if may_start and why == WAIT_GPUS else why


@jit
def _promise(r: Round, rules: Any, job: Any, late: bool, limited: bool, guaranteed: bool) -> int:
    """Promise a waiting job GPUs that are free soon, or that other jobs release. Return NOT_WAITING, or why it waits."""
    walk, why = r.scratch.walk[0], WAIT_GPUS
    late = late or _starts_late(r, rules, job, max(walk.now, walk.stopped_by), guaranteed)
    any_soon = r.state.counts[0].stopping + walk.released + (r.state.counts[0].notices if guaranteed else 0) > 0
    if any_soon and not limited and finds_place(r, rules, job, DUE if guaranteed else SOON, late):
        place_in_row(r, PROMISE, job, SOON, late)
        return NOT_WAITING
    if walk.preempting and r.options.preempts:
        why = _preempt(r, rules, job, late, guaranteed)
    if why != NOT_WAITING and guaranteed and not limited:
        why = make_room(r, rules, job, RECLAIM, False)
        if why != NOT_WAITING and _may_migrate_others(r):
            why = make_room(r, rules, job, RECLAIM, True)
    return why


@jit
def _starts_late(r: Round, rules: Any, job: Any, starts: float, guaranteed: bool) -> bool:
    """Return whether a job that starts at `starts` has to leave the backfill reservation alone; jobs within a guarantee never have to."""
    if guaranteed or not r.options.reserves or r.scratch.walk[0].first < 0:
        return False
    return is_late(r, rules, job, starts)


@jit
def _preempt(r: Round, rules: Any, job: Any, late: bool, guaranteed: bool) -> int:
    """Preempt jobs for a waiting one. Return NOT_WAITING, or why it waits.

    A job that is not late now may be once the preempted jobs have stopped: then the set is chosen again beside the reservation.
    """
    rows, n = r.out.counts[0].rows, list_releasable(r, job, PREEMPT, False)
    if not choose_least(r, rules, job, PREEMPT, n, late):
        return WAIT_GPUS
    if not late and _starts_late(r, rules, job, saved_by(r, n), guaranteed):
        late = True
        drop_rows(r.out, rows)
        if not choose_least(r, rules, job, PREEMPT, n, late):
            return WAIT_GPUS
    return release_if_it_pays(r, rules, job, PREEMPT, n, rows, late)


@jit
def _could_have_place(r: Round, rules: Any, job: Any) -> bool:
    """Return whether a job would get GPUs if there were no backfill reservation: only then is the reservation worked out."""
    could = finds_place(r, rules, job, SOON, False)
    if not could and r.scratch.walk[0].preempting:
        n = list_releasable(r, job, PREEMPT, False)
        could = n > 0 and first_that_suffices(r, rules, job, PREEMPT, n, False) >= 0
    forget(r.out)
    return could


@jit
def _kept_from_free(r: Round, rules: Any, job: Any, late: bool) -> int:
    """Return which reservation keeps a job from free GPUs: the backfill reservation, an advance reservation, or none (WAIT_GPUS)."""
    why = WAIT_GPUS
    if late and finds_place(r, rules, job, NOW, False):
        why = WAIT_BACKFILL_RESERVATION
    elif len(r.state.bookings) > 0:
        offer(r, NOW)
        if narrow_offer(r, job, False, False) >= job.gpus and choose_place(r, rules, job):
            why = WAIT_ADVANCE_RESERVATION
    forget(r.out)
    return why


@jit
def _may_migrate_others(r: Round) -> bool:
    """Return whether jobs may migrate for others: not with links of their own, nor if a job without a place blocks others."""
    return len(r.state.leaves) == 0 and not r.options.head_of_line_blocking


@jit
def _defragment(r: Round, rules: Any, job: Any, why: int) -> int:
    """Let smaller jobs migrate for the first job without a place, once it has waited long enough. Return NOT_WAITING, or `why`."""
    walk = r.scratch.walk[0]
    waited = walk.now >= job.queued + r.options.defragment_after
    if why == WAIT_QUOTA or not walk.preempting or not waited or walk.first >= 0:
        return why
    if _may_migrate_others(r) and make_room(r, rules, job, DEFRAGMENT, True) == NOT_WAITING:
        return NOT_WAITING
    return why
