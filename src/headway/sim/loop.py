"""The compiled drive loop: wait for facts, record them, decide, perform. It returns when its journal buffer is full, or at the end.

The Python loop (core/engine.py: drive) does the same with the same kernels; tests/equivalence compares their journals row by row.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof, types

from headway.core.compiler.jit import jit
from headway.core.compiler.tables import by_address
from headway.core.decide import decide
from headway.core.deciding.sizes import ALLOT_TYPE
from headway.core.engine import Engine
from headway.core.events import CROSSED, DISCONNECTED, NO_JOB, RATED, REFITTED, STARTED, SUBMITTED, TICKED
from headway.core.keys import INSTANT_S
from headway.core.ledger import gpu_count
from headway.core.receipts import record_why
from headway.core.record import record, record_action, record_links, record_retry, refit_due
from headway.core.tables.actions import Actions
from headway.core.tables.journal import (
    JournalTable,
    has_room,
    journal,
    note,
    note_action,
    note_links,
    note_nobody,
    note_retry,
    note_why,
)
from headway.core.tables.options import CHANGE_TYPE, KEY_TYPE, OPTIONS_TYPE, PREEMPT_AT_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, Scratch, new_scratch, room_for_actions
from headway.core.tables.state import STATE_TYPE, State, new_state
from headway.core.timers import SOON_S, due, next_changed_why, tick_due, wake_at
from headway.sim.world import break_links, learn, next_fact, next_outage, next_time, perform
from headway.sim.world_tables import WORLD_TYPE, WorldTables

FINISHED: Final = 0
JOURNAL_FULL: Final = 1
STUCK: Final = 2  # jobs wait and nothing will ever happen
TURNING: Final = 3  # no progress: a policy keeps requesting an immediate wake-up
GOING_ON: Final = 4
MOST_ROUNDS_AT_ONCE: Final = 100_000
# What `row` of the clock says besides the next action: that the next moment is to come, or that more facts of this one are.
NEXT_MOMENT: Final = -1
MORE_FACTS: Final = -2


@by_address
class Buffers(NamedTuple):
    """What the loop writes beside the state and the world: the journal, and what a decision works on and gives."""

    journal: JournalTable
    scratch: Scratch
    out: Actions


def new_buffers(engine: Engine, rows: int, keep_places: bool) -> Buffers:
    """Return buffers for a run: a journal of about `rows` rows, and the engine's own tables for decisions."""
    return Buffers(journal(engine.state, rows, keep_places), engine.scratch, engine.out)


_SMALL: Final = new_state(1, np.ones(1, np.int32))
BUFFERS_TYPE = typeof(Buffers(journal(_SMALL, 1, True), new_scratch(_SMALL), room_for_actions(_SMALL)))


@jit
def any_fact(state: State, world: WorldTables, now: float) -> tuple[int, int]:
    """Return the next fact due by now, in the fixed order: Disconnected, Ended, Stopped, Started, Crossed, Submitted; (-1, -1): none.

    Disconnected comes with the number of the outage, all others with the job. Rated: the job has to choose other links.
    """
    k = next_outage(world, now)
    if k >= 0:
        return DISCONNECTED, k
    kind, j = next_fact(world, now)
    if kind >= 0:
        return kind, j
    j = due(state, now)
    if j >= 0:
        return CROSSED, j
    j = world.clock[0].next
    if j < len(state.jobs) and state.jobs[j].submit <= now + INSTANT_S:
        world.clock[0].next = j + 1
        return SUBMITTED, j
    return -1, -1


@jit
def _happen(
    state: State,
    options: Options,
    key: Any,
    change: Any,
    world: WorldTables,
    journal: JournalTable,
    kind: int,
    j: int,
    now: float,
) -> None:
    """Record a fact about job j, or the outage j, write it down, and let it take effect."""
    if kind == DISCONNECTED:
        outage = world.outages[j]
        break_links(state, world, j, now)
        record_links(state, outage.row, outage.mask, now)
        note_links(journal, outage.row, outage.mask, now)
        return
    partner = state.jobs[j].partner
    if kind == RATED:  # recorded once its new speed is known
        learn(state, world, journal, kind, j, partner, now)
        return
    record(state, options, key, change, kind, j, now)
    note(journal, state, kind, j, now)
    learn(state, world, journal, kind, j, partner, now)


@jit
def _act(state: State, options: Options, key: Any, change: Any, world: WorldTables, buffers: Buffers, row: int) -> None:
    """Record an action, write it down, and carry it out."""
    now, action = world.clock[0].now, buffers.out.rows[row]
    record_action(state, options, key, change, buffers.out, row, now)
    note_action(buffers.journal, state, buffers.out, row, now)
    if perform(state, world, buffers.journal, action.kind, action.job, now):
        _happen(state, options, key, change, world, buffers.journal, STARTED, action.job, now)


@jit
def _next_moment(state: State, options: Options, key: Any, change: Any, world: WorldTables, buffers: Buffers) -> int:
    """Go to the next moment and record its facts, or go on with those of the last."""
    clock, journal = world.clock[0], buffers.journal
    if clock.row == NEXT_MOMENT:
        now = next_time(state, world, clock.wake)
        if now == np.inf:
            return STUCK
        hurried = clock.wake <= now and clock.wake < clock.now + SOON_S
        clock.still = clock.still + 1 if now == clock.now or hurried else 0
        if clock.still > MOST_ROUNDS_AT_ONCE:
            return TURNING
        clock.held_gpu_s += (now - clock.now) * (gpu_count(state) - state.counts[0].free_gpus)
        clock.now = now
    now = clock.now
    while has_room(journal):
        kind, j = any_fact(state, world, now)
        if kind < 0:
            clock.rounds += 1
            if tick_due(state, options, clock.wake, now):
                record(state, options, key, change, TICKED, NO_JOB, now)
                note_nobody(journal, TICKED, now)
            if refit_due(state, options):
                record(state, options, key, change, REFITTED, NO_JOB, now)
                note_nobody(journal, REFITTED, now)
            return GOING_ON
        _happen(state, options, key, change, world, journal, kind, j, now)
    clock.row = MORE_FACTS
    return JOURNAL_FULL


@jit
def _note_findings(state: State, buffers: Buffers, now: float) -> None:
    """Record why jobs wait and when to retry a preemption, if that has changed."""
    i = next_changed_why(state, buffers.scratch, 0)
    while i >= 0:
        c = state.classes[i].open
        why = buffers.scratch.classes[c].why
        record_why(state, c, why, now)
        note_why(buffers.journal, c, why, now)
        i = next_changed_why(state, buffers.scratch, i + 1)
    if buffers.out.counts[0].retry_at != state.counts[0].retry_at:
        record_retry(state, buffers.out.counts[0].retry_at)
        note_retry(buffers.journal, buffers.out.counts[0].retry_at, now)


@jit(
    types.int64(
        *(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, CHANGE_TYPE, PREEMPT_AT_TYPE, PLACE_TYPE, ALLOT_TYPE),
        *(WORLD_TYPE, BUFFERS_TYPE),
    )
)
def drive_compiled(
    state: State,
    options: Options,
    key: Any,
    change: Any,
    preempt_at: Any,
    place: Any,
    allot: Any,
    world: WorldTables,
    buffers: Buffers,
) -> int:
    """Run until all jobs have ended or the journal is full; then it can be called again."""
    clock, out = world.clock[0], buffers.out
    while clock.row != NEXT_MOMENT or clock.done < len(state.jobs):
        if clock.row < 0:
            reached = _next_moment(state, options, key, change, world, buffers)
            if reached != GOING_ON:
                return reached
            decide(state, options, key, preempt_at, place, allot, buffers.scratch, clock.now, out)
            _note_findings(state, buffers, clock.now)
            clock.row = 0
        while clock.row < out.counts[0].rows:
            if not has_room(buffers.journal):
                return JOURNAL_FULL
            _act(state, options, key, change, world, buffers, clock.row)
            clock.row += 1
        if out.counts[0].repeat:
            decide(state, options, key, preempt_at, place, allot, buffers.scratch, clock.now, out)
            _note_findings(state, buffers, clock.now)
            clock.row = 0
        else:
            clock.wake = wake_at(state, options, out, clock.now)
            clock.row = NEXT_MOMENT
    return FINISHED
