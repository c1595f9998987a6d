"""The simulated world: a heap of future facts, and the truth about jobs that no manager knows: how much work is left.

Kernels only; the compiled loop (sim/loop.py) and the Python loop (sim/world_python.py) call the same ones.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.events import ENDED, MIGRATE, PACK, RATED, RESIZE, START, STARTED, STOP, STOPPED
from headway.core.keys import INSTANT_S
from headway.core.ledger import holds_links, nodes_held
from headway.core.order import pop, priority, push
from headway.core.record import record_rate
from headway.core.tables.journal import JournalTable, note
from headway.core.tables.state import State
from headway.job_state import JobState
from headway.network.sharing.exact import set_pace, work_left
from headway.network.slices.colouring import block
from headway.sim.models.contention import are_shared, begin_sending, end_sending, in_phases, met, next_end, slowed
from headway.sim.models.outages import lose_uplinks
from headway.sim.models.plan import plans, talk_here
from headway.sim.models.rewiring import SWITCHING_S, can_rewire, set_up, take_down
from headway.sim.models.slices import first_on_held, open_links, spans_leaves
from headway.sim.world_tables import WorldTables

STAMP_BITS: Final = 24
JOB_BITS: Final = 32


def resume_from(state: State, world: WorldTables, now: float) -> None:
    """Begin in the middle of a state at rest: jobs with GPUs go on from here, and the last rows, not submitted yet, arrive next."""
    states = state.jobs["state"]
    world.clock["now"] = now
    world.clock["next"] = len(states) - int((states == JobState.FUTURE).sum())
    over = (states >= JobState.COMPLETED) | (states == JobState.HELD)
    world.clock["done"] = int(over.sum())  # those that will not end by themselves
    world.truth["timed"] = now
    for j in np.nonzero((states >= JobState.STARTING) & (states <= JobState.STOPPING))[0]:
        if states[j] == JobState.RUNNING:
            _expect(world, now + world.truth["left"][j] / state.jobs["rate"][j], ENDED, j)
        else:
            _expect(world, now, STARTED if states[j] == JobState.STARTING else STOPPED, j)


@jit
def _expect(world: WorldTables, at: float, kind: int, j: int) -> None:
    """Put a fact on the heap; it orders equal times by kind, then by job."""
    if world.clock[0].heap == len(world.heap):
        _compact(world)
    stamp = world.truth[j].stamp & ((1 << STAMP_BITS) - 1)
    push(world.heap, world.clock[0].heap, at, (kind << (JOB_BITS + STAMP_BITS)) | (j << STAMP_BITS) | stamp)
    world.clock[0].heap += 1


@jit
def _job(what: int) -> int:
    return (what >> STAMP_BITS) & ((1 << JOB_BITS) - 1)


@jit
def _holds(world: WorldTables, what: int) -> bool:
    mask = (1 << STAMP_BITS) - 1
    return (world.truth[_job(what)].stamp & mask) == (what & mask)


@jit
def _compact(world: WorldTables) -> None:
    n = world.clock[0].heap
    world.clock[0].heap = 0
    for i in range(n):
        at, what = world.heap[i].at, world.heap[i].what
        if _holds(world, what):
            push(world.heap, world.clock[0].heap, at, what)
            world.clock[0].heap += 1
    assert world.clock[0].heap < len(world.heap)


@jit
def _drop_first(world: WorldTables) -> None:
    pop(world.heap, world.clock[0].heap)
    world.clock[0].heap -= 1


@jit
def break_links(state: State, world: WorldTables, k: int, now: float) -> None:
    """Let the k-th outage, and all others due by now, take effect in the world, before they are recorded.

    Jobs that share a failed link choose other links. A job that holds one stops at once and loses what a preemption costs.
    """
    if k < world.clock[0].broken:
        return
    last = k
    while last < len(world.outages) and world.outages[last].at <= now:
        last += 1
    world.clock[0].broken = last
    for i in range(k, last if are_shared(world.links) else k):
        for m in range(lose_uplinks(world.links, world.outages[i])):
            _expect(world, now, RATED, met(world.links, m))
    for j in range(0 if are_shared(world.links) else len(state.jobs)):
        job, truth, lost = state.jobs[j], world.truth[j], False
        for i in range(k, last):
            lost |= holds_links(state, job, world.outages[i].row, world.outages[i].mask)
        if not lost or job.state == JobState.STOPPING:
            continue
        if job.state == JobState.RUNNING:
            _advance(state, world, j, now)
            save = _save_s(state, world, j)
            truth.left += save * job.rate
            world.clock[0].preemption_s += save
        truth.stamp += 1
        _expect(world, now, STOPPED, j)
    for i in range(k, last if can_rewire(world.circuits) else k):
        block(world.circuits, world.outages[i].row)


@jit
def next_outage(world: WorldTables, now: float) -> int:
    """Take the next outage that is due by now; -1: none."""
    k = world.clock[0].outage
    if k == len(world.outages) or world.outages[k].at > now:
        return -1
    world.clock[0].outage = k + 1
    return k


@jit
def next_time(state: State, world: WorldTables, wake: float) -> float:
    """When something happens next: a fact, an arrival, or the moment to wake."""
    while world.clock[0].heap > 0 and not _holds(world, world.heap[0].what):
        _drop_first(world)
    at = wake
    if world.clock[0].heap > 0:
        at = min(at, world.heap[0].at)
    if world.clock[0].next < len(state.jobs):
        at = min(at, state.jobs[world.clock[0].next].submit)
    if world.clock[0].outage < len(world.outages):
        at = min(at, world.outages[world.clock[0].outage].at)
    if are_shared(world.links):
        at, j = next_end(world.links, at)
        if j >= 0:
            _expect(world, at, ENDED, j)
    return at


@jit
def next_fact(world: WorldTables, now: float) -> tuple[int, int]:
    """Take the next fact from the heap that is due by now: (kind, job), or (-1, -1)."""
    while world.clock[0].heap > 0 and world.heap[0].at <= now + INSTANT_S:
        what = world.heap[0].what
        _drop_first(world)
        if _holds(world, what):
            return what >> (JOB_BITS + STAMP_BITS), _job(what)
    return -1, -1


@jit
def _rate(state: State, world: WorldTables, j: int) -> float:
    """The speed of a job where it is and beside whom it is."""
    job, rate = state.jobs[j], 1.0
    if job.gpus != job.asked:
        rate = world.speed[job.model, job.gpus] / world.speed[job.model, job.asked]
    here = world.talks[j].usual / (1.0 + world.talks[j].here) if plans(world.plan[0]) else 1.0
    slows = len(world.apart) > 0 and world.apart[j] < 1.0
    if slows and nodes_held(state, job) > state.fewest[job.demand, job.gpus]:
        here = min(here, world.apart[j])  # measured harm and modelled harm of the same thing: the larger
    rate *= here
    if job.partner >= 0 and state.jobs[job.partner].state == JobState.RUNNING:
        rate *= world.together[job.model, state.jobs[job.partner].model]
    if are_shared(world.links):
        rate *= slowed(world.links, j)
    return rate


@jit
def _advance(state: State, world: WorldTables, j: int, now: float) -> None:
    truth = world.truth[j]
    truth.left = max(0.0, truth.left - (now - truth.timed) * state.jobs[j].rate)
    if are_shared(world.links) and in_phases(world.links, j):
        truth.left = work_left(world.links, j, now)
    truth.timed = now


@jit
def _retime(state: State, world: WorldTables, journal: JournalTable, j: int, now: float) -> None:
    """A running job's speed may have changed, which is a fact of its own: work out when the job ends now."""
    job, truth = state.jobs[j], world.truth[j]
    rate = _rate(state, world, j)
    _advance(state, world, j, now)
    if rate != job.rate:
        record_rate(state, j, rate, now)
        note(journal, state, RATED, j, now)
    truth.stamp += 1
    if are_shared(world.links) and in_phases(world.links, j):
        set_pace(world.links, j, rate, now)
    else:
        _expect(world, now + truth.left / rate, ENDED, j)


@jit
def _retime_met(state: State, world: WorldTables, journal: JournalTable, count: int, now: float) -> None:
    """The first `count` jobs that `met` lists share links with one that came or went."""
    for i in range(count):
        j = met(world.links, i)
        if state.jobs[j].state == JobState.RUNNING and _rate(state, world, j) != state.jobs[j].rate:
            _retime(state, world, journal, j, now)


@jit
def _follow_slices(state: State, world: WorldTables, journal: JournalTable, now: float) -> None:
    """Reroute the jobs that send over links of a new slice, each once, then set the speed of all running jobs."""
    open_links(state, world.links)
    world.links.head[0].slices_started += 1
    started = world.links.head[0].slices_started
    j = first_on_held(world.links, started)
    if j < 0:
        return
    while j >= 0:
        _advance(state, world, j, now)
        end_sending(world.links, j, now)
        begin_sending(state, world.links, j, world.truth[j].left, now)
        j = first_on_held(world.links, started)
    for i in range(state.counts[0].running):
        j = state.run[i]
        if state.jobs[j].state == JobState.RUNNING and _rate(state, world, j) != state.jobs[j].rate:
            _retime(state, world, journal, j, now)


@jit
def _rewire(state: State, world: WorldTables, journal: JournalTable, j: int, now: float) -> None:
    """Set up the circuits of a job that starts; owners of circuits that move for it stand still meanwhile."""
    for i in range(set_up(state, world.circuits, j)):
        owner = world.circuits.moves[i].job
        if state.jobs[owner].state == JobState.RUNNING:
            world.truth[owner].left += SWITCHING_S * state.jobs[owner].rate
            world.clock[0].stalled_s += SWITCHING_S
            _retime(state, world, journal, owner, now)


@jit
def _home(state: State, job: Any) -> int:
    """A number that stands for the nodes that the job is on."""
    found, seat = 0, job.seat
    while seat >= 0:
        found += priority(state.seats[seat].node)  # a hash: in whatever order, and hardly twice the same
        seat = state.seats[seat].next
    return found


@jit
def _save_s(state: State, world: WorldTables, j: int) -> float:
    """Return the seconds from Stop to Stopped of a job."""
    return world.costs[j].save if len(world.costs) > 0 else state.jobs[j].save


@jit
def _resume_s(state: State, world: WorldTables, j: int) -> float:
    """Return the seconds from Start to Started of a job that has just been placed, and remember its nodes if they matter."""
    if len(world.costs) == 0:
        return state.jobs[j].resume
    cost = world.costs[j]
    previous, cost.home = cost.home, _home(state, state.jobs[j])
    return cost.resume if cost.home == previous else cost.moved


@jit
def _count_start(state: State, clock: Any, job: Any) -> None:
    """Count what kind of place the job has."""
    clock.starts += 1
    clock.isolated += job.link >= 0
    clock.shared += job.link < 0 and spans_leaves(state, job)
    clock.spread += nodes_held(state, job) > state.fewest[job.demand, job.gpus]


@jit
def perform(state: State, world: WorldTables, journal: JournalTable, kind: int, j: int, now: float) -> bool:
    """Carry out an action that has been recorded. True: the job has started at once."""
    job, truth = state.jobs[j], world.truth[j]
    if kind == START or kind == PACK:
        truth.stamp += 1
        if can_rewire(world.circuits):
            _rewire(state, world, journal, j, now)
        if are_shared(world.links) and job.link >= 0:
            _follow_slices(state, world, journal, now)
        _count_start(state, world.clock[0], job)
        resume = _resume_s(state, world, j)
        if job.attempt == 1 or resume == 0.0:
            return True
        world.clock[0].preemption_s += resume
        _expect(world, now + resume, STARTED, j)
    elif (kind == STOP or kind == RESIZE or kind == MIGRATE) and job.state == JobState.STOPPING:
        _advance(state, world, j, now)
        truth.stamp += 1
        save = _save_s(state, world, j)
        world.clock[0].preemption_s += save
        _expect(world, now + save, STOPPED, j)
        if are_shared(world.links):
            _retime_met(state, world, journal, end_sending(world.links, j, now), now)
        if job.partner >= 0 and state.jobs[job.partner].state == JobState.RUNNING:
            _retime(state, world, journal, job.partner, now)
    return False


@jit
def _settle_plan(state: State, world: WorldTables, j: int) -> None:
    """Work out what a job that starts spends on its communication, in its places and with its plan."""
    talk = world.talks[j]
    talk.here = talk_here(state, world.plan[0], talk, state.jobs[j])
    if are_shared(world.links):
        world.links.jobs[j].duty = talk.here / (1.0 + talk.here)


@jit
def learn(state: State, world: WorldTables, journal: JournalTable, kind: int, j: int, partner: int, now: float) -> None:
    """What a recorded fact about job j means for the world; `partner` is who shared its GPUs before."""
    world.clock[0].facts += 1
    if can_rewire(world.circuits) and (kind == ENDED or kind == STOPPED):
        take_down(world.circuits, j)
    if are_shared(world.links) and world.links.head[0].slices and (kind == ENDED or kind == STOPPED):
        open_links(state, world.links)
    if kind == STARTED and plans(world.plan[0]):
        _settle_plan(state, world, j)
    if are_shared(world.links) and (kind == ENDED or kind == STARTED):
        left = world.truth[j].left
        others = (
            begin_sending(state, world.links, j, left, now) if kind == STARTED else end_sending(world.links, j, now)
        )
        _retime_met(state, world, journal, others, now)
    if are_shared(world.links) and kind == RATED:
        _advance(state, world, j, now)
        _retime_met(state, world, journal, end_sending(world.links, j, now), now)
        _retime_met(state, world, journal, begin_sending(state, world.links, j, world.truth[j].left, now), now)
        _retime(state, world, journal, j, now)
    if kind == STARTED:
        world.truth[j].timed = now
        _retime(state, world, journal, j, now)
        partner = state.jobs[j].partner
    elif kind == ENDED:
        world.truth[j].stamp += 1
        world.truth[j].left = 0.0
        world.clock[0].done += 1
    if partner >= 0 and state.jobs[partner].state == JobState.RUNNING:
        _retime(state, world, journal, partner, now)
