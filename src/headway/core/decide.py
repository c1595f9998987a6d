"""decide: target, then diff. Who should run now, where, and who has to make room.

Jobs are seated in order over a scratch ledger. One that runs keeps its GPUs unless a job before it took them; one that waits takes what is
free now, else what is being freed, else what later jobs hold. One that finds no place gives its turn to the next. Nobody is stopped
for a job that was not placed in the same decision; only what fits now is started. Deciding reads the state, and writes the scratch
(core/tables/scratch.py) and `out`.
"""

from typing import Any

import numpy as np
from numba import types

from headway.core.compiler.jit import jit
from headway.core.events import PACK, RESERVE, RESIZE, START, STOP
from headway.core.keys import pinned
from headway.core.ledger import nodes_held
from headway.core.offers import (
    NOW,
    SOON,
    TARGET,
    close_class,
    holds,
    keep,
    make_offer,
    offered_gpus,
    offered_links,
    open_classes,
    open_rooms,
    withdraw,
)
from headway.core.order import before, first_waiting, list_by_key, moved_key, next_waiting, rank_of, runs_before
from headway.core.tables.actions import ACTIONS_TYPE, Actions, add_seat, clear, close_row, copy_places, forget
from headway.core.tables.options import KEY_TYPE, OPTIONS_TYPE, Options
from headway.core.tables.scratch import PLACE_TYPE, SCRATCH_TYPE, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.core.timers import next_timer
from headway.job_state import JobState


@jit
def _place(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, within: int) -> bool:
    """Ask the placement for a place within NOW, SOON or TARGET, and check what it chose. True: it is in the row being written."""
    make_offer(state, scratch, within)
    if not place(scratch.nodes, scratch.leaves, state.fewest, job, options, out):
        forget(out)  # what it added before it gave up
        return False
    gpus = 0
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        node, taken = out.seats[k].node, out.seats[k].gpus
        if node < 0 or node >= len(state.nodes):
            raise ValueError("the placement chose a node that does not exist")
        if taken < 1 or taken > offered_gpus(scratch, node, within) or state.nodes[node].closed:
            raise ValueError("the placement took GPUs of a node that were not on offer")
        gpus += taken
    if gpus != job.gpus:
        raise ValueError("the placement seated a job on the wrong number of GPUs")
    for k in range(out.rows[out.counts[0].rows].link_at, out.counts[0].links):
        leaf, mask = out.links[k].leaf, out.links[k].mask
        if leaf < 0 or leaf >= len(scratch.leaves) or mask & ~offered_links(scratch, leaf, within):
            raise ValueError("the placement took links that were not on offer")
    return True


@jit
def _gather(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> None:
    """Move a job that had its turn and sits on more nodes than it must, if there is room for it on fewer."""
    sits_on = nodes_held(state, job)
    if moved_key(options, scratch, job)[0] == -np.inf or job.partner >= 0 or sits_on == state.fewest[job.gpus]:
        return
    if not _place(state, options, place, scratch, out, job, NOW):
        return
    if out.counts[0].seats - out.rows[out.counts[0].rows].seat_at >= sits_on:
        forget(out)
        return
    _take(scratch, out, RESERVE, job, NOW)
    add_seat(out, -1, job.gpus)
    close_row(out, RESIZE, job.row)


@jit
def _take(scratch: Scratch, out: Actions, kind: int, job: Any, within: int) -> None:
    """End the row being written about the job; its places are no longer on offer."""
    close_row(out, kind, job.row)
    withdraw(scratch, out, out.counts[0].rows - 1, within)


@jit
def _pack(state: State, scratch: Scratch, order: Any, now: float, out: Actions, job: Any) -> bool:
    """Put the job on the GPUs of one of the same size that keeps them, runs alone, and has not proved a bad partner, if there is one."""
    for i in range(state.counts[0].running):
        other = state.jobs[order[i]]
        if (
            scratch.jobs[other.row].kept
            and other.state == JobState.RUNNING
            and other.started < now  # not with one that starts in this very decision
            and other.partner < 0
            and other.gpus == job.gpus
            and not state.bad_pairs[job.model, other.model]
        ):
            scratch.jobs[other.row].kept = 0  # a pair is enough
            add_seat(out, other.row, job.gpus)
            close_row(out, PACK, job.row)
            return True
    return False


@jit
def _promised(state: State, scratch: Scratch, job: Any) -> int:
    """The row of the job's promise if it can still be kept, or -1."""
    row = job.promise
    if row < 0 or row >= state.promises.counts[0].rows or state.promises.rows[row].job != job.row:
        return -1
    return row if holds(state, scratch, state.promises, row, TARGET) else -1


@jit
def _seat_waiting(
    state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any, lesser: bool
) -> bool:
    """Find a place for a waiting job; `lesser` jobs may have to make room. Writes its action, if any."""
    walk = scratch.walk[0]
    fits = job.gpus <= walk.spare
    row = _promised(state, scratch, job)
    if row >= 0 and holds(state, scratch, state.promises, row, NOW):
        copy_places(state.promises, row, out)
        _take(scratch, out, START, job, NOW)
        return True
    if not fits:
        return False
    if _place(state, options, place, scratch, out, job, NOW):
        _take(scratch, out, START, job, NOW)
        return True
    if row >= 0:
        withdraw(scratch, state.promises, row, SOON)
        walk.evicted = 1
        return True
    if state.counts[0].stopping > 0 and _place(state, options, place, scratch, out, job, SOON):
        _take(scratch, out, RESERVE, job, SOON)
        return True
    if (lesser or walk.evicted) and _place(state, options, place, scratch, out, job, TARGET):
        _take(scratch, out, RESERVE, job, TARGET)
        walk.evicted = 1
        return True
    return False


@jit
def _next_head(state: State, scratch: Scratch) -> int:
    """Which open class has the waiting job that comes first, or -1."""
    best = -1
    for i in range(scratch.walk[0].open):
        if best < 0 or before(state.jobs, scratch.classes[i].head, scratch.classes[best].head):
            best = i
    return best


@jit
def _advance(state: State, options: Options, scratch: Scratch, i: int, seated: bool) -> None:
    """After the head of class i had its turn, go on to the next of its class; where the head found no place, close the class."""
    walk = scratch.walk[0]
    if not seated and options.blocks:
        walk.open = 0
        return
    c, following = scratch.classes[i].id, -1
    if seated or not options.by_class:
        following = next_waiting(state, c, scratch.classes[i].head)
    if seated:
        scratch.classes[c].rest = following
    if following < 0:
        close_class(scratch, i)
    else:
        scratch.classes[i].head = following
    if not options.blocks:
        # Classes are sorted by GPUs: the last ones stop fitting first.
        while walk.open > 0 and scratch.classes[walk.open - 1].id // (2 * options.models) > walk.spare:
            walk.open -= 1


@jit
def _seat_all(state: State, options: Options, place: Any, scratch: Scratch, order: Any, out: Actions) -> None:
    """Walk the running jobs (in `order`) and the waiting ones together, first come first."""
    open_classes(state, scratch)
    n, r, whole_walk = state.counts[0].running, 0, options.packs or options.migrates
    i = _next_head(state, scratch)
    if whole_walk:
        _keep_nobody(state, scratch, order)
    else:
        r = rank_of(state, options, scratch, order, scratch.classes[i].head)  # those before everyone who waits stay
    open_rooms(state, scratch, order, r, whole_walk)
    while True:
        if i < 0 and not scratch.walk[0].evicted and not options.migrates:
            break
        if r < n and (i < 0 or runs_before(state, options, scratch, order[r], scratch.classes[i].head)):
            job = state.jobs[order[r]]
            r += 1
            if keep(state, scratch, job):
                scratch.jobs[job.row].kept = 1
                if options.migrates:
                    _gather(state, options, place, scratch, out, job)
            else:
                close_row(out, STOP, job.row)
                scratch.walk[0].evicted = 1
        elif i >= 0:
            job = state.jobs[scratch.classes[i].head]
            seated = _seat_waiting(state, options, place, scratch, out, job, r < n)
            _advance(state, options, scratch, i, seated)
            i = _next_head(state, scratch)
        else:
            break


@jit
def _keep_nobody(state: State, scratch: Scratch, order: Any) -> None:
    """Mark the running jobs as not seated yet, and their partners too: one that is stopping is not among those that run."""
    for i in range(state.counts[0].running):
        job = state.jobs[order[i]]
        scratch.jobs[job.row].kept = 0
        if job.partner >= 0:
            scratch.jobs[job.partner].kept = 0


@jit
def _pack_rest(state: State, scratch: Scratch, order: Any, now: float, out: Actions) -> None:
    """Those who found no place join others on their GPUs, in order. When one of a class finds no partner, no other of its class does."""
    walk = scratch.walk[0]
    walk.open = 0
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        if scratch.classes[c].rest >= 0:
            scratch.classes[walk.open].id = c
            scratch.classes[walk.open].head = scratch.classes[c].rest
            walk.open += 1
    i = _next_head(state, scratch)
    while i >= 0:
        c, job = scratch.classes[i].id, state.jobs[scratch.classes[i].head]
        following = next_waiting(state, c, job.row) if _pack(state, scratch, order, now, out, job) else -1
        scratch.classes[i].head = following
        if following < 0:
            close_class(scratch, i)
        i = _next_head(state, scratch)


@jit
def _part_bad_pairs(state: State, options: Options, now: float, out: Actions) -> None:
    """Move the later of two packed jobs that together made less headway than one alone, after a fair trial."""
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        if job.partner < 0 or job.state != JobState.RUNNING or now < job.started + options.quantum:
            continue
        other = state.jobs[job.partner]
        later = job.started > other.started or (job.started == other.started and job.row > other.row)
        if later and other.state == JobState.RUNNING and job.rate + other.rate <= 1.0:
            add_seat(out, -1, job.gpus)
            close_row(out, RESIZE, job.row)


ALLOT_SIGNATURE = types.void(STATE_TYPE, SCRATCH_TYPE, types.float64)
ALLOT_TYPE = types.FunctionType(ALLOT_SIGNATURE)


@jit(ALLOT_SIGNATURE)
def as_asked(state: State, scratch: Scratch, now: float) -> None:
    """The allotment of policies that do not resize jobs: never called."""


@jit
def _resize(state: State, options: Options, allot: Any, scratch: Scratch, now: float, out: Actions) -> None:
    """Give every job the size that an elastic policy wants for it (`want` of the scratch); those that run stop first."""
    allot(state, scratch, now)
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        if job.state == JobState.RUNNING and not pinned(job, now, options):
            _resize_to(scratch, out, job)
    for i in range(state.counts[0].classes):
        j = first_waiting(state, state.classes[i].open)
        while j >= 0:
            _resize_to(scratch, out, state.jobs[j])
            j = next_waiting(state, state.classes[i].open, j)


@jit
def _resize_to(scratch: Scratch, out: Actions, job: Any) -> None:
    if scratch.jobs[job.row].want != job.gpus:
        add_seat(out, -1, scratch.jobs[job.row].want)
        close_row(out, RESIZE, job.row)


@jit(types.void(STATE_TYPE, OPTIONS_TYPE, KEY_TYPE, PLACE_TYPE, ALLOT_TYPE, SCRATCH_TYPE, types.float64, ACTIONS_TYPE))
def decide(
    state: State, options: Options, key: Any, place: Any, allot: Any, scratch: Scratch, now: float, out: Actions
) -> None:
    """Write what to do now into the rows of `out`. After a Resize the caller decides again: sizes come before seats."""
    clear(out)
    if options.packs:
        _part_bad_pairs(state, options, now, out)
    if options.elastic and out.counts[0].rows == 0:
        _resize(state, options, allot, scratch, now, out)
    idle = state.counts[0].waiting == 0 and not (options.migrates and state.counts[0].running > 0)
    if out.counts[0].rows > 0 or idle:
        return
    order = state.run
    if options.moving:
        list_by_key(state, options, key, scratch, now)
        order = scratch.order
    _seat_all(state, options, place, scratch, order, out)
    if options.packs:
        _pack_rest(state, scratch, order, now, out)


@jit(types.float64(STATE_TYPE, OPTIONS_TYPE, types.float64))
def wake_at(state: State, options: Options, now: float) -> float:
    """When to decide again even if nothing happens: at the next timer or, where there is a quantum and someone waits, at its end."""
    if options.quantum == np.inf:
        return next_timer(state)
    if state.counts[0].waiting == 0 and not (options.elastic and state.counts[0].running > 0):
        return np.inf
    turn = (np.floor(now / options.quantum) + 1) * options.quantum
    return turn if turn > now else turn + options.quantum
