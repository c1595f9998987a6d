"""Two jobs on the same GPUs, and jobs moved together: for policies that pack and migrate (policies/gandiva.py)."""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.demands import sits_well
from headway.core.deciding.offers import NOW, choose_place, close_class, limit_offer, offer, withdraw
from headway.core.deciding.victims import can_stop
from headway.core.events import PACK, RESERVE, RESIZE
from headway.core.keys import pinned
from headway.core.ledger import nodes_held
from headway.core.order import before, next_waiting
from headway.core.tables.actions import Actions, add_seat, close_row, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.job_state import JobState


@jit
def gather_all(state: State, options: Options, place: Any, scratch: Scratch, out: Actions) -> None:
    """Move each job that had its turn and sits on more nodes than it must, if there is room for it on fewer."""
    for i in range(state.counts[0].running):
        job = state.jobs[scratch.order[i]]
        if (
            can_stop(options, scratch, job)
            and job.partner < 0
            and scratch.jobs[job.row].paired != scratch.walk[0].decision
        ):
            _gather(state, options, place, scratch, out, job)


@jit
def _gather(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> None:
    sits_on = nodes_held(state, job)
    if sits_on == state.fewest[job.demand, job.gpus]:
        return
    offer(scratch, NOW)
    if limit_offer(state, options, scratch, job, True) < job.gpus or not choose_place(
        state, options, place, scratch, out, job
    ):
        return
    if out.counts[0].seats - out.rows[out.counts[0].rows].seat_at >= sits_on:
        forget(out)
        return
    close_row(out, RESERVE, job.row)
    withdraw(scratch, out, out.counts[0].rows - 1, NOW, True)
    add_seat(out, -1, job.gpus)
    close_row(out, RESIZE, job.row)
    scratch.jobs[job.row].stops = scratch.walk[0].decision
    scratch.walk[0].stops += 1


@jit
def _pack(state: State, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Put the job on the GPUs of one of the same size that keeps them, runs alone, and has not proved a bad partner, if there is one."""
    walk = scratch.walk[0]
    for i in range(state.counts[0].running):
        other = state.jobs[scratch.order[i]]
        if (
            other.state == JobState.RUNNING
            and other.started < walk.now  # not with one that starts in this very decision
            and scratch.jobs[other.row].stops != walk.decision
            and scratch.jobs[other.row].paired != walk.decision  # a pair is enough
            and other.partner < 0
            and other.gpus == job.gpus
            and not state.bad_pairs[job.model, other.model]
            and sits_well(state, job, other)
        ):
            scratch.jobs[other.row].paired = walk.decision
            add_seat(out, other.row, job.gpus)
            close_row(out, PACK, job.row)
            return True
    return False


@jit
def pack_rest(state: State, scratch: Scratch, out: Actions) -> None:
    """Those who found no place join others on their GPUs, in order. When one of a class finds no partner, no other of its class does."""
    walk = scratch.walk[0]
    walk.open = 0
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        if scratch.classes[c].rest >= 0:
            scratch.classes[walk.open].id = c
            scratch.classes[walk.open].head = scratch.classes[c].rest
            walk.open += 1
    while walk.open > 0:
        i = 0
        for k in range(1, walk.open):
            if before(state.jobs, scratch.classes[k].head, scratch.classes[i].head):
                i = k
        c, job = scratch.classes[i].id, state.jobs[scratch.classes[i].head]
        goes_on = scratch.jobs[job.row].seated == walk.decision or _pack(state, scratch, out, job)
        following = next_waiting(state, c, job.row) if goes_on else -1
        scratch.classes[i].head = following
        if following < 0:
            close_class(scratch, i)


@jit
def part_bad_pairs(state: State, options: Options, now: float, out: Actions) -> None:
    """After a fair trial, part two that together made less headway than one alone: the later moves, or the other if that one must stay."""
    for i in range(state.counts[0].running):
        job = state.jobs[state.run[i]]
        if job.partner < 0 or job.state != JobState.RUNNING:
            continue
        other = state.jobs[job.partner]
        if now < max(job.started, other.started) + options.quantum:
            continue
        later = job.started > other.started or (job.started == other.started and job.row > other.row)
        if pinned(job, now, options) or not (later or pinned(other, now, options)):
            continue
        if other.state == JobState.RUNNING and job.rate + other.rate <= 1.0:
            add_seat(out, -1, job.gpus)
            close_row(out, RESIZE, job.row)
