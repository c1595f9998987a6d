"""What a decision can seat jobs on: what is free now, what is free soon, and the target, which later jobs may hold too.

All three shrink as jobs are seated.
"""

from typing import Any, Final

from headway.core.compiler.jit import jit
from headway.core.order import first_waiting
from headway.core.tables.actions import Actions
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State

NOW: Final = 0
SOON: Final = 1
TARGET: Final = 2


@jit
def open_rooms(state: State, scratch: Scratch, order: Any, first: int, everything: bool) -> None:
    """Work out what is there now, soon and as a target. Jobs order[:first] keep their GPUs in any case, so theirs are not in it."""
    spare = 0
    for x in range(len(state.nodes)):
        node, room = state.nodes[x], scratch.nodes[x]
        room.now = node.free
        room.soon = node.free + node.stopping
        # With packing nobody is certain to keep a whole GPU: everything is on offer.
        room.target = node.gpus if everything else room.soon
        spare += room.target
    for x in range(len(state.leaves)):
        leaf, links = state.leaves[x], scratch.leaves[x]
        links.now = leaf.free
        links.soon = leaf.free | leaf.stopping
        links.target = links.soon
    for i in range(first, state.counts[0].running):
        job = state.jobs[order[i]]
        seat = -1 if everything else job.seat
        while seat >= 0:
            scratch.nodes[state.seats[seat].node].target += 1
            spare += 1
            seat = state.seats[seat].next
        entry = job.link
        while entry >= 0:
            scratch.leaves[state.held_links[entry].leaf].target |= state.held_links[entry].mask
            entry = state.held_links[entry].next
    scratch.walk[0].spare = spare
    scratch.walk[0].evicted = 0


@jit
def make_offer(state: State, scratch: Scratch, within: int) -> None:
    """Offer what is in the target and within the given limit (NOW, SOON or TARGET), on open nodes."""
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].offer = 0 if state.nodes[x].closed else offered_gpus(scratch, x, within)
    for x in range(len(scratch.leaves)):
        scratch.leaves[x].offer = offered_links(scratch, x, within)


@jit
def offered_gpus(scratch: Scratch, node: int, within: int) -> int:
    """GPUs of an open node that are in the target and within the given limit."""
    room = scratch.nodes[node]
    limit = room.now if within == NOW else room.soon if within == SOON else room.target
    return max(0, min(room.target, limit))


@jit
def offered_links(scratch: Scratch, leaf: int, within: int) -> Any:
    """Links of a leaf that are in the target and within the given room."""
    room = scratch.leaves[leaf]
    return room.target & (room.now if within == NOW else room.soon if within == SOON else room.target)


@jit
def holds(state: State, scratch: Scratch, places: Actions, row: int, within: int) -> bool:
    """Whether all the places of a row are in the target and within the given limit."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        node = places.seats[k].node
        if offered_gpus(scratch, node, within) < places.seats[k].gpus or state.nodes[node].closed:
            return False
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        room, mask = scratch.leaves[places.links[k].leaf], places.links[k].mask
        limit = room.now if within == NOW else room.target
        if room.target & limit & mask != mask:
            return False
    return True


@jit
def withdraw(scratch: Scratch, places: Actions, row: int, within: int) -> None:
    """Take the places of a row out of the target, and out of everything else that they were part of."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        room, gpus = scratch.nodes[places.seats[k].node], places.seats[k].gpus
        room.target -= gpus
        room.soon -= gpus if within <= SOON else 0
        room.now -= gpus if within == NOW else 0
        scratch.walk[0].spare -= gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links, mask = scratch.leaves[places.links[k].leaf], places.links[k].mask
        links.target &= ~mask
        if within <= SOON:
            links.soon &= ~mask
        if within == NOW:
            links.now &= ~mask


@jit
def keep(state: State, scratch: Scratch, job: Any) -> bool:
    """Seat a running job where it is, if nobody before it took its GPUs or links."""
    if job.partner >= 0 and scratch.jobs[job.partner].kept:
        return True  # its partner has been seated on the same GPUs
    fits, seat = True, job.seat
    while seat >= 0:
        room = scratch.nodes[state.seats[seat].node]
        room.target -= 1
        fits &= room.target >= 0
        seat = state.seats[seat].next
    entry = job.link
    while entry >= 0:
        held = state.held_links[entry]
        fits &= scratch.leaves[held.leaf].target & held.mask == held.mask
        entry = held.next
    if not fits:
        seat = job.seat
        while seat >= 0:
            scratch.nodes[state.seats[seat].node].target += 1
            seat = state.seats[seat].next
        return False
    entry = job.link
    while entry >= 0:
        scratch.leaves[state.held_links[entry].leaf].target &= ~state.held_links[entry].mask
        entry = state.held_links[entry].next
    scratch.walk[0].spare -= job.gpus
    return True


@jit
def open_classes(state: State, scratch: Scratch) -> None:
    """Put the first job of every class at its head."""
    scratch.walk[0].open = state.counts[0].classes
    for i in range(state.counts[0].classes):
        c = state.classes[i].open
        first = first_waiting(state, c)
        scratch.classes[i].id = c
        scratch.classes[i].head = first
        scratch.classes[c].rest = first


@jit
def close_class(scratch: Scratch, i: int) -> None:
    """Nobody of the i-th open class has another turn."""
    walk = scratch.walk[0]
    walk.open -= 1
    for k in range(i, walk.open):
        scratch.classes[k].id = scratch.classes[k + 1].id
        scratch.classes[k].head = scratch.classes[k + 1].head
