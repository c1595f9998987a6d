"""The rooms of one decision: what is there to be seated on, as a target, now and soon. They shrink as jobs are seated."""

from typing import Any, Final

from headway.core.compiler.jit import jit
from headway.core.order import first_waiting
from headway.core.tables.actions import Actions
from headway.core.tables.state import CLASSES, EVICTED, OPEN, RUN, SPARE, State

NOW: Final = 0
SOON: Final = 1
TARGET: Final = 2


@jit
def open_rooms(state: State, first: int, everything: bool) -> None:
    """Fill the rooms. Jobs run[:first] keep their GPUs in any case, so theirs are not on offer."""
    spare = 0
    for x in range(len(state.nodes)):
        node = state.nodes[x]
        node.now = node.free
        node.soon = node.free + node.stopping
        # With packing nobody is certain to keep a whole GPU: everything is on offer.
        node.target = node.gpus if everything else node.soon
        spare += node.target
    for x in range(len(state.leaves)):
        leaf = state.leaves[x]
        leaf.now = leaf.free
        leaf.soon = leaf.free | leaf.stopping
        leaf.target = leaf.soon
    for i in range(first, state.tally[RUN]):
        job = state.jobs[state.run[i]]
        seat = -1 if everything else job.seat
        while seat >= 0:
            state.nodes[state.seats[seat].node].target += 1
            spare += 1
            seat = state.seats[seat].next
        entry = job.link
        while entry >= 0:
            state.leaves[state.held_links[entry].leaf].target |= state.held_links[entry].mask
            entry = state.held_links[entry].next
    state.tally[SPARE] = spare
    state.tally[EVICTED] = 0


@jit
def make_offer(state: State, within: int) -> None:
    """Offer what is in the target and within the given room, on open nodes."""
    for x in range(len(state.nodes)):
        node = state.nodes[x]
        limit = node.now if within == NOW else node.soon if within == SOON else node.target
        node.offer = 0 if node.closed else max(0, min(node.target, limit))
    for x in range(len(state.leaves)):
        leaf = state.leaves[x]
        leaf.offer = leaf.target & (leaf.now if within == NOW else leaf.soon if within == SOON else leaf.target)


@jit
def holds(state: State, places: Actions, row: int, within: int) -> bool:
    """Whether all the places of a row are in the target and within the given room."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        node = state.nodes[places.seats[k].node]
        limit = node.now if within == NOW else node.target
        if min(node.target, limit) < places.seats[k].gpus or node.closed:
            return False
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        leaf, mask = state.leaves[places.links[k].leaf], places.links[k].mask
        limit = leaf.now if within == NOW else leaf.target
        if leaf.target & limit & mask != mask:
            return False
    return True


@jit
def withdraw(state: State, places: Actions, row: int, within: int) -> None:
    """Take the places of a row out of the target, and out of the given room and those around it."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        node, gpus = state.nodes[places.seats[k].node], places.seats[k].gpus
        node.target -= gpus
        node.soon -= gpus if within <= SOON else 0
        node.now -= gpus if within == NOW else 0
        state.tally[SPARE] -= gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        leaf, mask = state.leaves[places.links[k].leaf], places.links[k].mask
        leaf.target &= ~mask
        if within <= SOON:
            leaf.soon &= ~mask
        if within == NOW:
            leaf.now &= ~mask


@jit
def keep(state: State, job: Any) -> bool:
    """Seat a running job where it is, if nobody before it took its GPUs or links."""
    if job.partner >= 0 and state.jobs[job.partner].kept:
        return True  # its partner has been seated on the same GPUs
    fits, seat = True, job.seat
    while seat >= 0:
        node = state.nodes[state.seats[seat].node]
        node.target -= 1
        fits &= node.target >= 0
        seat = state.seats[seat].next
    entry = job.link
    while entry >= 0:
        row = state.held_links[entry]
        fits &= state.leaves[row.leaf].target & row.mask == row.mask
        entry = row.next
    if not fits:
        seat = job.seat
        while seat >= 0:
            state.nodes[state.seats[seat].node].target += 1
            seat = state.seats[seat].next
        return False
    entry = job.link
    while entry >= 0:
        state.leaves[state.held_links[entry].leaf].target &= ~state.held_links[entry].mask
        entry = state.held_links[entry].next
    state.tally[SPARE] -= job.gpus
    return True


@jit
def open_classes(state: State) -> None:
    """Put the first job of every class at its head."""
    state.tally[OPEN] = state.tally[CLASSES]
    for i in range(state.tally[CLASSES]):
        c = state.classes[i].open
        state.classes[i].id = c
        state.classes[i].head = state.classes[c].rest = first_waiting(state, c)


@jit
def close_class(state: State, i: int) -> None:
    state.tally[OPEN] -= 1
    for k in range(i, state.tally[OPEN]):
        state.classes[k].id = state.classes[k + 1].id
        state.classes[k].head = state.classes[k + 1].head
