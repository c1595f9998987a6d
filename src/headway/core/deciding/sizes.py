"""Policies that change sizes or share GPUs: elastic (policies/optimus.py), packing and gathering (policies/gandiva.py).

Contract: `adjust_sizes` runs before jobs are placed; if it writes anything, the decision ends and is repeated. `share_gpus` runs after
jobs were placed: it migrates scattered jobs to fewer nodes, and packs waiting jobs on the GPUs of running ones.
"""

from typing import Any

from numba import types

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import NOW, decided, finds_place, take
from headway.core.deciding.promises import has_place
from headway.core.deciding.releasing import can_stop, stop
from headway.core.events import MIGRATE, PACK, RESIZE
from headway.core.keys import keeps_gpus
from headway.core.order import before, first_waiting, next_waiting
from headway.core.tables.actions import add_seat, close_row, forget
from headway.core.tables.scratch import SCRATCH_TYPE, Round, Scratch
from headway.core.tables.state import STATE_TYPE, State
from headway.job_state import JobState

ALLOT_SIGNATURE = types.void(STATE_TYPE, SCRATCH_TYPE, types.float64)
ALLOT_TYPE = types.FunctionType(ALLOT_SIGNATURE)


@jit(ALLOT_SIGNATURE)
def as_asked(state: State, scratch: Scratch, now: float) -> None:
    """Stand in for the allotment of policies that do not resize jobs; never called."""


@jit
def adjust_sizes(r: Round, allot: Any) -> bool:
    """Part bad pairs, and give jobs the sizes that an elastic policy wants. Return whether anything was written."""
    if r.options.packs and r.scratch.walk[0].preempting:
        _part_bad_pairs(r)
    if r.options.elastic and r.out.counts[0].rows == 0:
        allot(r.state, r.scratch, r.scratch.walk[0].now)
        _resize_all(r)
    r.out.counts[0].repeat = r.out.counts[0].rows > 0
    return r.out.counts[0].rows > 0


@jit
def _resize_all(r: Round) -> None:
    """Write a Resize for every job whose size is not the one wanted; running jobs only at preemption points."""
    state, now = r.state, r.scratch.walk[0].now
    for i in range(state.counts[0].running if r.scratch.walk[0].preempting else 0):
        job = state.jobs[state.run[i]]
        if job.state == JobState.RUNNING and not keeps_gpus(job, now, r.options):
            _resize(r, job)
    for i in range(state.counts[0].classes):
        j = first_waiting(state, state.classes[i].open)
        while j >= 0:
            _resize(r, state.jobs[j])
            j = next_waiting(state, state.classes[i].open, j)


@jit
def _resize(r: Round, job: Any) -> None:
    """Write the Resize of a job, if its size is not the one wanted."""
    if r.scratch.jobs[job.row].want != job.gpus:
        add_seat(r.out, -1, r.scratch.jobs[job.row].want)
        close_row(r.out, RESIZE, job.row)


@jit
def _part_bad_pairs(r: Round) -> None:
    """Migrate one of two jobs that made less progress together than one alone, after a fair trial: the later one, if it may go."""
    state, options, now = r.state, r.options, r.scratch.walk[0].now
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        if job.partner < 0 or job.state != JobState.RUNNING:
            continue
        other = state.jobs[job.partner]
        if now < max(job.started, other.started) + options.quantum:
            continue
        later = job.started > other.started or (job.started == other.started and job.row > other.row)
        if keeps_gpus(job, now, options) or not (later or keeps_gpus(other, now, options)):
            continue
        if other.state == JobState.RUNNING and job.rate + other.rate <= 1.0:
            close_row(r.out, MIGRATE, job.row)


@jit
def share_gpus(r: Round, rules: Any) -> None:
    """Migrate scattered jobs together (policies that migrate), then pack waiting jobs on the GPUs of others (policies that pack)."""
    for i in range(r.state.counts[0].running if r.options.packs else 0):
        r.scratch.jobs[r.state.run[i]].paired = 0
    if r.options.migrates and r.scratch.walk[0].preempting:
        for i in range(r.state.counts[0].running):
            job = r.state.jobs[r.scratch.order[i]]
            if can_stop(r, job) and job.partner < 0:
                _gather(r, rules, job)
    if r.options.packs:
        _pack_rest(r)


@jit
def _gather(r: Round, rules: Any, job: Any) -> None:
    """Migrate a job to fewer nodes, if there are free GPUs for it on fewer."""
    nodes, last, seat, late = 0, -1, job.seat, r.scratch.walk[0].reserving == r.scratch.walk[0].first >= 0
    while seat >= 0:  # seats of one node follow each other
        nodes += r.state.seats[seat].node != last
        last, seat = r.state.seats[seat].node, r.state.seats[seat].next
    if nodes == r.state.fewest[job.demand, job.gpus] or not finds_place(r, rules, job, NOW, late):
        return
    row = r.out.counts[0].rows
    if r.out.counts[0].seats - r.out.rows[row].seat_at >= nodes:
        forget(r.out)
        return
    stop(r, job)
    close_row(r.out, MIGRATE, job.row)
    take(r, r.out, row, late)
    r.out.counts[0].repeat = 1


@jit
def _pack_rest(r: Round) -> None:
    """Pack jobs without a place on the GPUs of others, in order. If one job of a class finds no partner, no other of its class does."""
    classes, n = r.scratch.classes, 0
    for i in range(r.state.counts[0].classes):
        c = r.state.classes[i].open
        if classes[c].rest >= 0:
            classes[n].id, classes[n].head = c, classes[c].rest
            n += 1
    while n > 0:
        i = 0
        for k in range(1, n):
            if before(r.state.jobs, classes[k].head, classes[i].head):
                i = k
        c, job = classes[i].id, r.state.jobs[classes[i].head]
        goes_on = has_place(r, job.row) or _pack(r, job)
        classes[i].head = next_waiting(r.state, c, job.row) if goes_on else -1
        if classes[i].head < 0:
            n -= 1
            for k in range(i, n):
                classes[k].id, classes[k].head = classes[k + 1].id, classes[k + 1].head


@jit
def _pack(r: Round, job: Any) -> bool:
    """Pack a waiting job on the GPUs of a job of its size and constraints that runs alone and is no bad partner. Return whether it was."""
    for i in range(r.state.counts[0].running):
        other = r.state.jobs[r.scratch.order[i]]
        is_free = other.partner < 0 and not r.scratch.jobs[other.row].paired and decided(r, other.row) < 0
        if (
            is_free
            and other.state == JobState.RUNNING
            and other.started < r.scratch.walk[0].now  # not a job that starts in this very decision
            and other.gpus == job.gpus
            and not r.state.bad_pairs[job.model, other.model]
            and job.demand == other.demand
        ):
            r.scratch.jobs[other.row].paired = 1
            add_seat(r.out, other.row, job.gpus)
            close_row(r.out, PACK, job.row)
            return True
    return False
