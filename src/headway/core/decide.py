"""decide: which jobs start now and where, which are promised GPUs, and which release theirs.

This file is the table of contents. docs/semantics.md has the rules, and each stage is a file of core/deciding. Deciding reads the
state, and writes the scratch (core/tables/scratch.py) and `out`.
"""

from typing import Any

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import open_offers
from headway.core.deciding.placing import find_place
from headway.core.deciding.promises import (
    end_notices,
    honour_promises,
    open_promises,
    vacate_reserved_nodes,
    withdraw_notices,
    withdraw_promises,
)
from headway.core.deciding.sizes import ALLOT_TYPE, adjust_sizes, share_gpus
from headway.core.deciding.teams import open_accounts, within_guarantee
from headway.core.deciding.visiting import advance, next_class, open_classes, skip_placed
from headway.core.deciding.why import explain
from headway.core.events import NOT_WAITING
from headway.core.order import sort_running
from headway.core.tables.actions import ACTIONS_TYPE, Actions, clear
from headway.core.tables.options import KEY_TYPE, OPTIONS_TYPE, PREEMPT_AT_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, Round, Rules, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState


@jit(
    types.void(
        *(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, PREEMPT_AT_TYPE, PLACE_TYPE, ALLOT_TYPE, SCRATCH_TYPE),
        *(types.float64, ACTIONS_TYPE),
    )
)
def decide(
    state: State,
    options: Options,
    key: Any,
    preempt_at: Any,
    place: Any,
    allot: Any,
    scratch: Scratch,
    now: float,
    out: Actions,
) -> None:
    """Write what to do now into the rows of `out`, and into its counts when to try again; `repeat`: decide again at once."""
    r, rules = Round(state, options, scratch, out), Rules(key, preempt_at, place)
    begin(r, now)
    if is_idle(r):
        return
    look(r, rules)
    if adjust_sizes(r, allot):
        return
    vacate_reserved_nodes(r)
    honour_promises(r, True)
    visit_promised(r, rules)
    if not end_notices(r, rules):
        return
    visit_waiting(r, rules)
    withdraw_promises(r)
    withdraw_notices(r)
    repeat_for_guarantees(r)
    share_gpus(r, rules)
    retry_defragmenting(r)
    explain(r)


@jit
def begin(r: Round, now: float) -> None:
    """Begin a decision: nothing is written yet. Between preemption points, the time of the next retry stands."""
    walk, counts = r.scratch.walk[0], r.state.counts[0]
    clear(r.out)
    r.out.counts[0].now, r.out.counts[0].again, r.out.counts[0].repeat = now, np.inf, 0
    r.out.counts[0].retry_at = np.inf if counts.moment == now or counts.waiting == 0 else counts.retry_at
    walk.now, walk.stopped_by, walk.explained = now, counts.stopped_by, 0
    walk.preempting = (r.options.preempts or r.options.teams > NO_TEAMS) and counts.moment == now
    walk.migrating = len(r.state.leaves) == 0 and not r.options.head_of_line_blocking
    walk.first, walk.reserving, walk.passable = -1, -1, -1
    walk.released, walk.passed, walk.starts, walk.unmet = 0, 0, 0, 0


@jit
def is_idle(r: Round) -> bool:
    """Return whether there is nothing to decide: no job waits, and running jobs are left alone."""
    tends_running = r.options.migrates or r.options.packs or r.options.elastic
    return r.state.counts[0].waiting + r.state.counts[0].notices + len(r.state.bookings) == 0 and not tends_running


@jit
def look(r: Round, rules: Any) -> None:
    """Set the offers, the order of running jobs and the accounts of teams as they are before this decision."""
    open_offers(r)
    open_promises(r)
    # Between preemption points no stage needs the order, except with dynamic keys, shared GPUs or queues.
    if r.scratch.walk[0].preempting or r.options.dynamic_keys or r.options.packs or r.options.teams > NO_TEAMS:
        sort_running(r, rules.key)
    open_accounts(r)


@jit
def visit_promised(r: Round, rules: Any) -> None:
    """Visit the jobs within a guarantee that have a promise, the oldest promise first."""
    for row in range(r.state.promises.counts[0].rows):
        job = r.state.jobs[r.state.promises.rows[row].job]
        waits = job.promise == row and job.state == JobState.PENDING and not r.scratch.jobs[job.row].visited
        if waits and within_guarantee(r, job) >= 0:
            r.scratch.jobs[job.row].visited = find_place(r, rules, job) == NOT_WAITING


@jit
def visit_waiting(r: Round, rules: Any) -> None:
    """Visit the waiting jobs in order; each takes what it can get.

    At instants at which no job is preempted, promises are honoured first, after jobs within a guarantee.
    """
    open_classes(r)
    promises_open, i = not r.scratch.walk[0].preempting, next_class(r)
    while i >= 0:
        job = r.state.jobs[r.scratch.classes[i].head]
        if promises_open and within_guarantee(r, job) < 0:
            promises_open = False
            honour_promises(r, False)
            skip_placed(r)
        else:
            advance(r, rules, i, find_place(r, rules, job))
        i = next_class(r)
    if promises_open:
        honour_promises(r, False)


@jit
def repeat_for_guarantees(r: Round) -> None:
    """Decide again if a job within a guarantee found no place: jobs that this decision started or released may hold borrowed GPUs now."""
    walk = r.scratch.walk[0]
    r.out.counts[0].repeat |= walk.unmet > 0 and walk.starts + walk.released > 0


@jit
def retry_defragmenting(r: Round) -> None:
    """Try again when the first job without a place will have waited long enough for smaller jobs to migrate."""
    first = r.scratch.walk[0].first
    if first >= 0 and r.scratch.walk[0].preempting:
        at = r.state.jobs[first].queued + r.options.defragment_after
        if at > r.scratch.walk[0].now:
            r.out.counts[0].retry_at = min(r.out.counts[0].retry_at, at)
