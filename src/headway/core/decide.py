"""decide: target, then diff. Who should run now, where, and who has to make room.

Jobs are seated in order over a scratch ledger. One that runs keeps its GPUs unless a job before it took them; one that waits takes what is
free now, else what is being freed, else what later jobs hold. One that finds no place gives its turn to the next. Nobody is stopped
for a job that was not placed in the same decision; only what fits now is started. Deciding reads the state and writes `out`.
"""

from typing import Any

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.events import PACK, RESERVE, RESIZE, START, STOP
from headway.core.history import refresh, stale
from headway.core.ledger import nodes_held
from headway.core.offers import (
    NOW,
    SOON,
    TARGET,
    close_class,
    holds,
    keep,
    make_offer,
    open_classes,
    open_rooms,
    withdraw,
)
from headway.core.order import as_list, before, first_waiting, insert, next_waiting, rank
from headway.core.record import set_key
from headway.core.tables.actions import (
    ACTIONS_TYPE,
    ROWS,
    SEATS,
    Actions,
    add_seat,
    clear,
    close_row,
    copy_places,
    forget,
)
from headway.core.tables.jobs import RUNNING
from headway.core.tables.options import KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.state import (
    CLASSES,
    EVICTED,
    OPEN,
    PLACE_TYPE,
    RUN,
    SPARE,
    STATE_TYPE,
    STOPPING_JOBS,
    WAIT,
    State,
)
from headway.core.timers import next_timer


@jit
def rekey_running(state: State, options: Options, key: Any, now: float) -> None:
    """New keys for the jobs with GPUs, then an insertion sort of a list that is almost sorted."""
    for i in range(state.tally[RUN]):
        j = state.run[i]
        set_key(state.jobs[j], now, options, key)
        k = i
        while k > 0 and before(state.jobs, j, state.run[k - 1]):
            state.run[k] = state.run[k - 1]
            k -= 1
        state.run[k] = j


@jit
def rekey_waiting(state: State, options: Options, key: Any, now: float) -> None:
    """New keys for all waiting jobs: each tree is emptied and filled again."""
    for i in range(state.tally[CLASSES]):
        c = state.classes[i].open
        j = as_list(state, c)
        while j >= 0:
            following = state.jobs[j].high
            set_key(state.jobs[j], now, options, key)
            insert(state, c, j)
            j = following


@jit
def _place(state: State, options: Options, place: Any, seed: int, out: Actions, j: int, within: int) -> bool:
    """Place job j within a room: True when its places are in the row being written."""
    make_offer(state, within)
    return place(state.nodes, state.leaves, state.fewest, state.jobs[j], j, options, seed, out)


@jit
def _gather(state: State, options: Options, place: Any, seed: int, out: Actions, j: int) -> None:
    """Move a job that had its turn and sits on more nodes than it must, if there is room for it on fewer."""
    job = state.jobs[j]
    sits_on = nodes_held(state, job)
    if job.k1 == -np.inf or job.partner >= 0 or sits_on == state.fewest[job.gpus]:
        return
    if not _place(state, options, place, seed, out, j, NOW):
        return
    if out.tally[SEATS] - out.rows[out.tally[ROWS]].seat_at >= sits_on:
        forget(out)
        return
    close_row(out, RESERVE, j)
    withdraw(state, out, out.tally[ROWS] - 1, NOW)
    add_seat(out, -1, job.gpus)
    close_row(out, RESIZE, j)


@jit
def _pack(state: State, now: float, out: Actions, job: Any, j: int) -> bool:
    """Join a job that keeps as many GPUs, runs alone on them, and has not proved a bad partner."""
    for i in range(state.tally[RUN]):
        p = state.run[i]
        other = state.jobs[p]
        if (
            other.kept
            and other.state == RUNNING
            and other.started < now  # not with one that starts in this very decision
            and other.partner < 0
            and other.gpus == job.gpus
            and not state.bad_pairs[job.model, other.model]
        ):
            other.kept = 0  # a pair is enough
            add_seat(out, p, job.gpus)
            close_row(out, PACK, j)
            return True
    return False


@jit
def _promised(state: State, j: int) -> int:
    """The row of the job's promise if it can still be kept, or -1."""
    row = state.jobs[j].promise
    if row < 0 or row >= state.promises.tally[ROWS] or state.promises.rows[row].job != j:
        return -1
    return row if holds(state, state.promises, row, TARGET) else -1


@jit
def _seat_waiting(state: State, options: Options, place: Any, seed: int, out: Actions, j: int, lesser: bool) -> bool:
    """Find a place for a waiting job; `lesser` jobs may have to make room. Writes its action, if any."""
    job = state.jobs[j]
    fits = job.gpus <= state.tally[SPARE]
    row = _promised(state, j)
    if row >= 0 and holds(state, state.promises, row, NOW):
        copy_places(state.promises, row, out)
        close_row(out, START, j)
        withdraw(state, out, out.tally[ROWS] - 1, NOW)
        return True
    if fits and _place(state, options, place, seed, out, j, NOW):
        close_row(out, START, j)
        withdraw(state, out, out.tally[ROWS] - 1, NOW)
        return True
    if not fits:
        return False
    if row >= 0:
        withdraw(state, state.promises, row, SOON)
        state.tally[EVICTED] = 1
        return True
    if state.tally[STOPPING_JOBS] > 0 and _place(state, options, place, seed, out, j, SOON):
        close_row(out, RESERVE, j)
        withdraw(state, out, out.tally[ROWS] - 1, SOON)
        return True
    if (lesser or state.tally[EVICTED]) and _place(state, options, place, seed, out, j, TARGET):
        close_row(out, RESERVE, j)
        withdraw(state, out, out.tally[ROWS] - 1, TARGET)
        state.tally[EVICTED] = 1
        return True
    return False


@jit
def _next_head(state: State) -> int:
    """Which open class has the first waiting job, or -1."""
    best = -1
    for i in range(state.tally[OPEN]):
        if best < 0 or before(state.jobs, state.classes[i].head, state.classes[best].head):
            best = i
    return best


@jit
def _advance(state: State, options: Options, i: int, seated: bool) -> None:
    """After the head of class i had its turn: the next of its class, or none if it found no place."""
    if not seated and options.blocks:
        state.tally[OPEN] = 0
        return
    c, following = state.classes[i].id, -1
    if seated or not options.by_class:
        following = next_waiting(state, c, state.classes[i].head)
    if seated:
        state.classes[c].rest = following
    if following < 0:
        close_class(state, i)
    else:
        state.classes[i].head = following
    if not options.blocks:
        # Classes are sorted by GPUs: the last ones stop fitting first.
        while (
            state.tally[OPEN] > 0
            and state.classes[state.tally[OPEN] - 1].id // (2 * options.models) > state.tally[SPARE]
        ):
            state.tally[OPEN] -= 1


@jit
def _seat_all(state: State, options: Options, place: Any, seed: int, out: Actions) -> None:
    """Walk the running and the waiting together, in order."""
    open_classes(state)
    n, whole_walk = state.tally[RUN], options.packs or options.migrates
    if whole_walk:
        r = 0
        for i in range(n):
            job = state.jobs[state.run[i]]
            job.kept = 0
            if job.partner >= 0:
                state.jobs[job.partner].kept = 0  # one that is stopping is not among those that run
    else:
        r = rank(state, state.classes[_next_head(state)].head)  # those before everyone who waits stay
    open_rooms(state, r, whole_walk)
    i = _next_head(state)
    while True:
        if i < 0 and not state.tally[EVICTED] and not options.migrates:
            break
        if r < n and (i < 0 or before(state.jobs, state.run[r], state.classes[i].head)):
            j = state.run[r]
            r += 1
            if keep(state, state.jobs[j]):
                state.jobs[j].kept = 1
                if options.migrates:
                    _gather(state, options, place, seed, out, j)
            else:
                close_row(out, STOP, j)
                state.tally[EVICTED] = 1
        elif i >= 0:
            seated = _seat_waiting(state, options, place, seed, out, state.classes[i].head, r < n)
            _advance(state, options, i, seated)
            i = _next_head(state)
        else:
            break


@jit
def _pack_rest(state: State, now: float, out: Actions) -> None:
    """Those who found no place join others on their GPUs, in order. When one of a class finds no partner, no other of its class does."""
    state.tally[OPEN] = 0
    for i in range(state.tally[CLASSES]):
        c = state.classes[i].open
        if state.classes[c].rest >= 0:
            state.classes[state.tally[OPEN]].id = c
            state.classes[state.tally[OPEN]].head = state.classes[c].rest
            state.tally[OPEN] += 1
    i = _next_head(state)
    while i >= 0:
        c, j = state.classes[i].id, state.classes[i].head
        following = next_waiting(state, c, j) if _pack(state, now, out, state.jobs[j], j) else -1
        state.classes[i].head = following
        if following < 0:
            close_class(state, i)
        i = _next_head(state)


@jit
def _part_bad_pairs(state: State, options: Options, now: float, out: Actions) -> None:
    """Move the later of two packed jobs that together made less headway than one alone, after a fair trial."""
    for i in range(state.tally[RUN]):
        j = state.run[i]
        job = state.jobs[j]
        if job.partner < 0 or job.state != RUNNING or now < job.started + options.quantum:
            continue
        other = state.jobs[job.partner]
        later = job.started > other.started or (job.started == other.started and j > job.partner)
        if later and other.state == RUNNING and job.rate + other.rate <= 1.0:
            add_seat(out, -1, job.gpus)
            close_row(out, RESIZE, j)


ALLOT_SIGNATURE = types.void(STATE_TYPE, types.float64)
ALLOT_TYPE = types.FunctionType(ALLOT_SIGNATURE)


@jit(ALLOT_SIGNATURE)
def as_asked(state: State, now: float) -> None:
    """The allotment of policies that do not resize jobs: never called."""


@jit
def _resize(state: State, allot: Any, now: float, out: Actions) -> None:
    """Give every job the size that an elastic policy wants for it; those that run stop first."""
    allot(state, now)
    for i in range(state.tally[RUN]):
        j = state.run[i]
        job = state.jobs[j]
        if job.want != job.gpus and job.state == RUNNING and job.k1 > -np.inf:
            add_seat(out, -1, job.want)
            close_row(out, RESIZE, j)
    for i in range(state.tally[CLASSES]):
        j = first_waiting(state, state.classes[i].open)
        while j >= 0:
            if state.jobs[j].want != state.jobs[j].gpus:
                add_seat(out, -1, state.jobs[j].want)
                close_row(out, RESIZE, j)
            j = next_waiting(state, state.classes[i].open, j)


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, PLACE_TYPE, ALLOT_TYPE, types.int64, types.float64, ACTIONS_TYPE))
def decide(
    state: State, options: Options, key: Any, place: Any, allot: Any, seed: int, now: float, out: Actions
) -> None:
    """What to do now: the rows of `out`. After a Resize, ask again: who makes room comes before who is seated."""
    clear(out)
    if options.packs:
        _part_bad_pairs(state, options, now, out)
        if out.tally[ROWS] > 0:
            return
    if options.elastic:
        _resize(state, allot, now, out)
        if out.tally[ROWS] > 0:
            return
    if state.tally[WAIT] == 0 and not options.migrates:
        return
    if options.learns and stale(options.history):
        refresh(options.history, options.plotted)
        rekey_waiting(state, options, key, now)
    if options.moving:
        rekey_running(state, options, key, now)
    if state.tally[WAIT] > 0 or state.tally[RUN] > 0:
        _seat_all(state, options, place, seed, out)
        if options.packs:
            _pack_rest(state, now, out)


@jit(types.float64(STATE_TYPE, OPTIONS_TYPE, types.float64))
def wake_at(state: State, options: Options, now: float) -> float:
    """When to decide again though nothing happens: a timer rings; where there is a quantum, when it ends while someone waits."""
    if options.quantum == np.inf:
        return next_timer(state)
    if state.tally[WAIT] == 0 and not (options.elastic and state.tally[RUN] > 0):
        return np.inf
    turn = (np.floor(now / options.quantum) + 1) * options.quantum
    return turn if turn > now else turn + options.quantum
