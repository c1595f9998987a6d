"""What a decision can seat jobs on: what is free now, and what is free soon. Both shrink as jobs are seated.

`extra` is what may be held beyond the bound of the reservation (core/deciding/reservations.py); without one, there is no limit.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.bookings import may_use
from headway.core.deciding.demands import suits_job
from headway.core.events import NOT_WAITING
from headway.core.order import first_waiting
from headway.core.receipts import team_of
from headway.core.tables.actions import Actions, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State
from headway.core.tables.teams import NO_TEAMS
from headway.job_state import JobState

NOW: Final = 0
SOON: Final = 1
NO_LIMIT: Final = 1 << 30
ALL_LINKS: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@jit
def open_rooms(state: State, scratch: Scratch) -> None:
    """Work out what is there now and soon."""
    walk, spare = scratch.walk[0], 0
    for x in range(len(state.nodes)):
        node, room = state.nodes[x], scratch.nodes[x]
        room.now = node.free
        room.soon = node.free + node.stopping
        room.extra = NO_LIMIT
        spare += 0 if node.closed else node.free + node.stopping
    walk.spare, walk.soon = spare, spare
    for x in range(len(state.leaves)):
        leaf, links = state.leaves[x], scratch.leaves[x]
        links.now = leaf.free
        links.soon = leaf.free | leaf.stopping
        links.extra = ALL_LINKS


@jit
def offer(scratch: Scratch, within: int) -> None:
    """Offer what is there now or soon."""
    for x in range(len(scratch.nodes)):
        room = scratch.nodes[x]
        room.offer = room.now if within == NOW else room.soon
    if scratch.walk[0].evicts:
        clear_evicted(scratch)
    for x in range(len(scratch.leaves)):
        links = scratch.leaves[x]
        links.offer = links.now if within == NOW else links.soon


@jit
def add_to_offer(state: State, scratch: Scratch, job: Any) -> None:
    """Offer what a job holds too."""
    seat = job.seat
    while seat >= 0:
        scratch.nodes[state.seats[seat].node].offer += 1
        seat = state.seats[seat].next
    entry = job.link
    while entry >= 0:
        held = state.held_links[entry]
        scratch.leaves[held.leaf].offer |= held.mask
        entry = held.next


@jit
def clear_evicted(scratch: Scratch) -> None:
    """Nobody would be evicted."""
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].evicts, scratch.nodes[x].evict_gpu_s = 0, 0.0


@jit
def count_evicted(state: State, scratch: Scratch, job: Any) -> None:
    """Count a job, with the one on the same GPUs, among those who would be evicted from its nodes."""
    cost, jobs, last, seat = job.save + job.resume, 1, -1, job.seat
    if job.partner >= 0:
        other = state.jobs[job.partner]
        cost, jobs = cost + other.save + other.resume, 2
    while seat >= 0:
        node = state.seats[seat].node
        room = scratch.nodes[node]
        room.evict_gpu_s += cost
        room.evicts += 0 if node == last else jobs
        last, seat = node, state.seats[seat].next


@jit
def offer_places(scratch: Scratch, places: Actions, row: int) -> None:
    """Offer the places of a row too."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        scratch.nodes[places.seats[k].node].offer += places.seats[k].gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        scratch.leaves[places.links[k].leaf].offer |= places.links[k].mask


@jit
def limit_offer(state: State, options: Options, scratch: Scratch, job: Any, late: bool) -> int:
    """Take closed nodes off the offer, those that do not suit the job or are kept for other teams and, if it is late, what is kept.

    Returns the GPUs on offer.
    """
    gpus, booked = 0, len(state.bookings) > 0 and not scratch.walk[0].unbooked
    for x in range(len(scratch.nodes)):
        room = scratch.nodes[x]
        if late:
            room.offer = max(0, min(room.offer, room.extra))
        if (
            state.nodes[x].closed
            or not suits_job(state, job, x)
            or (booked and not may_use(state, options, scratch, job, x))
        ):
            room.offer = 0
        room.shown = room.offer
        gpus += room.offer
    for x in range(len(scratch.leaves)):
        links = scratch.leaves[x]
        if late:
            links.offer &= links.extra
        links.shown = links.offer
    return gpus


@jit
def free_gpus(state: State, scratch: Scratch, within: int) -> int:
    """GPUs of open nodes that are there now or soon, for those not seated yet."""
    gpus = 0
    for x in range(len(scratch.nodes)):
        if not state.nodes[x].closed:
            gpus += scratch.nodes[x].now if within == NOW else scratch.nodes[x].soon
    return gpus


@jit
def choose_place(state: State, options: Options, place: Any, scratch: Scratch, out: Actions, job: Any) -> bool:
    """Let the placement choose from the offer, and check what it chose. True: it is in the row being written."""
    if not place(scratch.nodes, scratch.leaves, state.fewest[job.demand], job, options, out):
        forget(out)  # what it added before it gave up
        return False
    gpus = 0
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        node, taken = out.seats[k].node, out.seats[k].gpus
        if node < 0 or node >= len(state.nodes):
            raise ValueError("the placement chose a node that does not exist")
        if taken < 1 or taken > scratch.nodes[node].shown:
            raise ValueError("the placement took GPUs of a node that were not on offer")
        gpus += taken
    if gpus != job.gpus:
        raise ValueError("the placement seated a job on the wrong number of GPUs")
    for k in range(out.rows[out.counts[0].rows].link_at, out.counts[0].links):
        leaf, mask = out.links[k].leaf, out.links[k].mask
        if leaf < 0 or leaf >= len(scratch.leaves) or mask & ~scratch.leaves[leaf].shown:
            raise ValueError("the placement took links that were not on offer")
    return True


@jit
def holds(state: State, scratch: Scratch, places: Actions, row: int, within: int) -> bool:
    """Whether all the places of a row are there, now or soon."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        node = places.seats[k].node
        room = scratch.nodes[node]
        there = room.now if within == NOW else room.soon
        if there < places.seats[k].gpus or state.nodes[node].closed:
            return False
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links, mask = scratch.leaves[places.links[k].leaf], places.links[k].mask
        there_too = links.now if within == NOW else links.soon
        if there_too & mask != mask:
            return False
    return True


@jit
def give_promised(state: State, scratch: Scratch, job: Any) -> None:
    """What others were promised who have not been visited yet counts as given away."""
    for row in range(state.promises.counts[0].rows):
        other = state.jobs[state.promises.rows[row].job]
        waits = other.promise == row and other.row != job.row and other.state == JobState.PENDING
        if not waits or scratch.jobs[other.row].seated == scratch.walk[0].decision:
            continue
        if holds(state, scratch, state.promises, row, SOON):
            for k in range(state.promises.rows[row].seat_at, state.promises.rows[row + 1].seat_at):
                room = scratch.nodes[state.promises.seats[k].node]
                room.given = min(room.soon, room.given + state.promises.seats[k].gpus)


@jit
def withdraw(scratch: Scratch, places: Actions, row: int, within: int, late: bool) -> None:
    """Take the places of a row out of what is there; `late`: also out of what may be held beyond the bound."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        room, gpus = scratch.nodes[places.seats[k].node], places.seats[k].gpus
        room.soon -= gpus
        room.now -= gpus if within == NOW else min(gpus, room.now)  # a promise is kept from what is free first
        room.extra -= gpus if late else 0
        scratch.walk[0].spare -= gpus
        scratch.walk[0].soon -= gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links, mask = scratch.leaves[places.links[k].leaf], places.links[k].mask
        links.soon &= ~mask
        links.now &= ~mask
        if late:
            links.extra &= ~mask


@jit
def free_soon(state: State, scratch: Scratch, job: Any) -> None:
    """Count what a job holds, which is to stop, among what is there soon."""
    scratch.walk[0].soon += job.gpus
    seat = job.seat
    while seat >= 0:
        scratch.nodes[state.seats[seat].node].soon += 1
        seat = state.seats[seat].next
    entry = job.link
    while entry >= 0:
        scratch.leaves[state.held_links[entry].leaf].soon |= state.held_links[entry].mask
        entry = state.held_links[entry].next


@jit
def open_classes(state: State, options: Options, scratch: Scratch) -> None:
    """Put the first job of every class at its head; where there are teams, note which classes each has."""
    teams = options.teams > NO_TEAMS
    scratch.walk[0].open = state.counts[0].classes
    for t in range(len(scratch.teams)):
        scratch.teams[t].first = -1
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        first = first_waiting(state, c)
        scratch.classes[i].id = c
        scratch.classes[i].head = first
        scratch.classes[c].rest = first
        scratch.classes[c].why = NOT_WAITING
        if teams:
            team = scratch.teams[team_of(c, options)]
            scratch.classes[i].next = team.first
            team.first = i


@jit
def close_class(scratch: Scratch, i: int) -> None:
    """Nobody of the i-th open class has another turn."""
    walk = scratch.walk[0]
    if len(scratch.teams) > NO_TEAMS:
        scratch.classes[i].head = -1
        return
    walk.open -= 1
    for k in range(i, walk.open):
        scratch.classes[k].id = scratch.classes[k + 1].id
        scratch.classes[k].head = scratch.classes[k + 1].head


@jit
def close_all(scratch: Scratch) -> None:
    """Nobody has another turn."""
    scratch.walk[0].stale = 1
    for i in range(scratch.walk[0].open - 1, -1, -1):
        close_class(scratch, i)
