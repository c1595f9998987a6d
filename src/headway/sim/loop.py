"""The compiled drive loop: wait for facts, record them, decide, perform. It returns when its journal buffer is full, or at the end.

The Python loop (core/engine.py: drive) does the same with the same kernels; tests/equivalence compares their journals row by row.
"""

from typing import Any, Final

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.decide import ALLOT_TYPE, decide, wake_at
from headway.core.events import CROSSED, RESIZE, STARTED, STOP, SUBMITTED
from headway.core.ledger import gpu_count
from headway.core.record import record
from headway.core.tables.actions import ACTIONS_TYPE, ROWS, Actions
from headway.core.tables.journal import JOURNAL_TYPE, Journal, has_room, note
from headway.core.tables.options import CHANGE_TYPE, KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.state import FREE, PLACE_TYPE, STATE_TYPE, State
from headway.core.timers import due
from headway.sim.world import DONE, NEXT, ROUNDS, WORLD_TYPE, World, learn, next_fact, next_time, perform

FINISHED: Final = 0
JOURNAL_FULL: Final = 1
STUCK: Final = 2  # jobs wait and nothing will ever happen
TURNING: Final = 3  # time stands still: a policy asks to be called again and again
MOST_ROUNDS_AT_ONCE: Final = 100_000


@jit
def any_fact(state: State, world: World, now: float) -> tuple[int, int]:
    """The next fact due by now, in the fixed order: Ended, Stopped, Started, Crossed, Submitted; (-1, -1): none."""
    kind, j = next_fact(world, now)
    if kind >= 0:
        return kind, j
    j = due(state, now)
    if j >= 0:
        return CROSSED, j
    j = world.tally[NEXT]
    if j < len(state.jobs) and state.jobs[j].submit <= now:
        world.tally[NEXT] = j + 1
        return SUBMITTED, j
    return -1, -1


@jit
def _happen(
    state: State,
    options: Options,
    key: Any,
    change: Any,
    world: World,
    book: Journal,
    kind: int,
    j: int,
    now: float,
    out: Actions,
    row: int,
) -> bool:
    """Record a fact or an action, write it down, and let it take effect. True: the job has started at once."""
    partner = state.jobs[j].partner
    record(state, options, key, change, kind, j, now, out, row)
    note(book, state, now, kind, j)
    if kind < STOP:
        learn(state, world, kind, j, partner, now)
        return False
    return perform(state, world, kind, j, now)


@jit(
    types.int64(
        STATE_TYPE,
        OPTIONS_TYPE,
        KEY_TYPE,
        CHANGE_TYPE,
        PLACE_TYPE,
        ALLOT_TYPE,
        types.int64,
        WORLD_TYPE,
        JOURNAL_TYPE,
        ACTIONS_TYPE,
    )
)
def drive_compiled(
    state: State,
    options: Options,
    key: Any,
    change: Any,
    place: Any,
    allot: Any,
    seed: int,
    world: World,
    book: Journal,
    out: Actions,
) -> int:
    """Run until all jobs have ended or the journal is full; then it can be called again."""
    still = 0
    while world.tally[DONE] < len(state.jobs):
        now = next_time(state, world, world.clock[1])
        if now == np.inf:
            return STUCK
        still = still + 1 if now == world.clock[0] else 0
        if still > MOST_ROUNDS_AT_ONCE:
            return TURNING
        world.clock[3] += (now - world.clock[0]) * (gpu_count(state) - state.tally[FREE])
        world.clock[0] = now
        kind, j = any_fact(state, world, now) if has_room(book) else (-2, -1)
        while kind >= 0:
            _happen(state, options, key, change, world, book, kind, j, now, out, 0)
            kind, j = any_fact(state, world, now) if has_room(book) else (-2, -1)
        if kind == -2:
            world.clock[1] = now  # go on here with an empty buffer
            return JOURNAL_FULL
        world.tally[ROUNDS] += 1
        again = True
        while again:
            again = False
            decide(state, options, key, place, allot, seed, now, out)
            for row in range(out.tally[ROWS]):
                kind, j = out.rows[row].kind, out.rows[row].job
                again |= kind == RESIZE
                if _happen(state, options, key, change, world, book, kind, j, now, out, row):
                    _happen(state, options, key, change, world, book, STARTED, j, now, out, row)
        world.clock[1] = wake_at(state, options, now)
    return FINISHED
