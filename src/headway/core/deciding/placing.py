"""The ladder: what one waiting job tries, in order, to get GPUs.

Contract: `find_place` writes what to do for a waiting job and returns NOT_WAITING, or writes nothing and returns why it waits. A job
takes the first that works: its promise if all of it is free; GPUs free now; its promise if it still stands; GPUs free soon; GPUs
that others release by preemption, by notice, or by migration.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import DUE, NOW, SOON, choose_place, finds_place, narrow_offer, offer
from headway.core.deciding.promises import keep_promise, promise_stands, start_or_promise, start_promised
from headway.core.deciding.releasing import (
    DEFRAGMENT,
    PREEMPT,
    RECLAIM,
    choose_least,
    list_releasable,
    pays_at,
    probe_set,
    release,
    saved_by,
)
from headway.core.deciding.reservation import is_late
from headway.core.deciding.teams import exceeded_limit, keeps_guarantees, within_guarantee
from headway.core.events import (
    NOT_WAITING,
    PROMISE,
    START,
    WAIT_ADVANCE_RESERVATION,
    WAIT_BACKFILL_RESERVATION,
    WAIT_GPUS,
    WAIT_MIN_RUNTIME,
    WAIT_QUOTA,
)
from headway.core.tables.actions import drop_rows, forget
from headway.core.tables.scratch import Round


@jit
def find_place(r: Round, rules: Any, job: Any) -> int:
    """Find GPUs for a waiting job, and write what to do. Return NOT_WAITING, or why it waits."""
    if not keeps_guarantees(r, job):
        return WAIT_QUOTA
    if exceeded_limit(r, job, False, 0) >= 0:
        return _preempt_within_limits(r, rules, job)
    stands = promise_stands(r, job)
    if stands and start_promised(r, job):
        return NOT_WAITING
    if not _could_have_place(r, rules, job):
        return WAIT_GPUS
    late = is_late(r, rules, job, r.scratch.walk[0].now)
    if _take_unheld(r, rules, job, stands, late):
        return NOT_WAITING
    return _take_released(r, rules, job, late)


@jit
def _preempt_within_limits(r: Round, rules: Any, job: Any) -> int:
    """Find GPUs for a job beyond limits: only jobs under the same limits can release them. Return NOT_WAITING or WAIT_QUOTA."""
    walk = r.scratch.walk[0]
    if not walk.preempting or not r.options.preempts or not _could_have_place(r, rules, job):
        return WAIT_QUOTA
    return NOT_WAITING if make_room(r, rules, job, PREEMPT, False) == NOT_WAITING else WAIT_QUOTA


@jit
def _could_have_place(r: Round, rules: Any, job: Any) -> bool:
    """Return False if a job would get no GPUs even without the backfill reservation, which then need not be worked out."""
    walk = r.scratch.walk[0]
    if not r.options.reserves or walk.first < 0 or within_guarantee(r, job) >= 0:
        return True
    could = finds_place(r, rules, job, SOON, False)
    if not could and walk.preempting:
        n = list_releasable(r, job, PREEMPT, False)
        for i in range(n):
            r.scratch.listed[i].chosen = 1
        could = n > 0 and probe_set(r, rules, job, 0, n, False)
    forget(r.out)
    return could


@jit
def _take_unheld(r: Round, rules: Any, job: Any, stands: bool, late: bool) -> bool:
    """Start a waiting job on free GPUs, keep its promise if it `stands`, or promise it GPUs free soon. Return whether one worked."""
    walk, guaranteed = r.scratch.walk[0], within_guarantee(r, job) >= 0
    if exceeded_limit(r, job, True, 0) < 0 and finds_place(r, rules, job, NOW, late):
        start_or_promise(r, START, job, late)
        return True
    if stands:
        keep_promise(r, job)
        return True
    late = late or is_late(r, rules, job, max(walk.now, walk.stopped_by))
    any_soon = r.state.counts[0].stopping + walk.released + (r.state.counts[0].notices if guaranteed else 0) > 0
    if any_soon and finds_place(r, rules, job, DUE if guaranteed else SOON, late):
        start_or_promise(r, PROMISE, job, late)
        return True
    return False


@jit
def _take_released(r: Round, rules: Any, job: Any, late: bool) -> int:
    """Promise a waiting job GPUs that others release. Return NOT_WAITING, or why it waits."""
    walk, why = r.scratch.walk[0], WAIT_GPUS
    if walk.preempting and r.options.preempts:
        why = make_room(r, rules, job, PREEMPT, False)
    if why != NOT_WAITING and within_guarantee(r, job) >= 0:
        why = make_room(r, rules, job, RECLAIM, False)
        if why != NOT_WAITING and walk.migrating:
            why = make_room(r, rules, job, RECLAIM, True)
        walk.unmet += why != NOT_WAITING
    if why != NOT_WAITING and _may_defragment(r, job) and make_room(r, rules, job, DEFRAGMENT, True) == NOT_WAITING:
        return NOT_WAITING
    return _kept_from_free(r, rules, job, late) if why == WAIT_GPUS else why


@jit
def _may_defragment(r: Round, job: Any) -> bool:
    """Return whether smaller jobs may migrate for a job: it is the first without a place, and has waited long enough."""
    walk = r.scratch.walk[0]
    waited = walk.now >= job.queued + r.options.defragment_after
    return waited and walk.preempting == 1 and walk.migrating == 1 and walk.first < 0


@jit
def make_room(r: Round, rules: Any, job: Any, why: int, migrating: bool) -> int:
    """Promise a waiting job the GPUs that the least set of jobs releases. Return NOT_WAITING, or why the job waits.

    If `migrating`, smaller jobs may migrate. A job that is not late now may be late once the released jobs have stopped: then the set is
    chosen again beside the reservation.
    """
    late = is_late(r, rules, job, r.scratch.walk[0].now)  # before jobs are listed: the reservation uses the same list
    rows, n = r.out.counts[0].rows, list_releasable(r, job, why, migrating)
    if n == 0 or not choose_least(r, rules, job, n, late):
        return WAIT_GPUS
    if not late and is_late(r, rules, job, saved_by(r, n)):
        late = True
        drop_rows(r.out, rows)
        if not choose_least(r, rules, job, n, late):
            return WAIT_GPUS
    if r.options.weighs and why != RECLAIM:
        at = pays_at(r, rules, job, n)
        if at > r.scratch.walk[0].now:
            r.out.counts[0].retry_at = min(r.out.counts[0].retry_at, at)
            drop_rows(r.out, rows)
            return WAIT_MIN_RUNTIME
    release(r, job, why, n, rows, late)
    return NOT_WAITING


@jit
def _kept_from_free(r: Round, rules: Any, job: Any, late: bool) -> int:
    """Return which reservation keeps a job from free GPUs: the backfill reservation, an advance reservation, or none (WAIT_GPUS)."""
    why = WAIT_GPUS
    if exceeded_limit(r, job, True, 0) >= 0:
        return why
    if late and finds_place(r, rules, job, NOW, False):
        why = WAIT_BACKFILL_RESERVATION
    elif len(r.state.bookings) > 0:
        offer(r, NOW)
        if narrow_offer(r, job, False, False) >= job.gpus and choose_place(r, rules, job):
            why = WAIT_ADVANCE_RESERVATION
    forget(r.out)
    return why
