"""Offers: the GPUs and links that a placement may choose from. They shrink as jobs are placed.

Contract: `open_offers` sets `now`, `soon` and `noticed` of every node from the state. `finds_place` and `probe` call the placement
and leave its choice in the row being written, or nothing. `take` removes the places of a row from what is left.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.equal_parts import cap_offer, has_equal_parts, place_on_nodes
from headway.core.deciding.teams import is_below
from headway.core.keys import is_non_preemptible, min_runtime, time_left
from headway.core.tables.actions import Actions, forget
from headway.core.tables.scratch import Round
from headway.core.tables.teams import NO_TEAMS

# Which GPUs are offered: free now; free soon, below 0 if promises depend on notices; free soon or under notice.
NOW: Final = 0
SOON: Final = 1
DUE: Final = 2
NO_BOUND: Final = 1 << 30
ALL_LINKS: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@jit
def open_offers(r: Round) -> None:
    """Set what is free now, free soon and under notice on every node and leaf."""
    state, walk, free, soon = r.state, r.scratch.walk[0], 0, 0
    for x in range(len(state.nodes)):
        node, left = state.nodes[x], r.scratch.nodes[x]
        left.now = node.free
        left.soon = node.free + node.stopping
        left.extra = NO_BOUND
        free += 0 if node.closed else node.free
        soon += 0 if node.closed else node.free + node.stopping
    walk.free, walk.soon, walk.reach = free, soon, soon
    for x in range(len(state.nodes) if len(state.leaves) > 0 or len(state.teams) > NO_TEAMS else 0):
        left = r.scratch.nodes[x]
        left.leaf, left.noticed, left.reserved_for = state.nodes[x].leaf, 0, -1
    for x in range(len(state.leaves)):
        leaf, links = state.leaves[x], r.scratch.leaves[x]
        links.spine = leaf.spine
        links.now = leaf.free
        links.soon = leaf.free | leaf.stopping
        links.extra = ALL_LINKS
    for i in range(state.counts[0].running if state.counts[0].notices > 0 else 0):
        job = state.jobs[state.run[i]]
        if job.until < np.inf:
            count_noticed(r, job, 1)
    _open_reserved_nodes(r)


@jit
def _open_reserved_nodes(r: Round) -> None:
    """Set for each node which team's advance reservation is in force or next, and when it begins."""
    for i in range(len(r.state.bookings)):
        booking = r.state.bookings[i]
        left = r.scratch.nodes[booking.node]
        if booking.end > r.scratch.walk[0].now and left.reserved_for < 0:
            left.reserved_for = booking.team
            left.reserved_from = booking.begin


@jit
def count_noticed(r: Round, job: Any, sign: int) -> None:
    """Count a job's GPUs among those under notice (1), or no longer (-1)."""
    seat = job.seat
    while seat >= 0:
        r.scratch.nodes[r.state.seats[seat].node].noticed += sign
        seat = r.state.seats[seat].next


# ---- making an offer


@jit
def offer(r: Round, within: int) -> None:
    """Offer what is left now, soon, or soon and under notice."""
    for x in range(len(r.scratch.nodes)):
        left = r.scratch.nodes[x]
        left.offer = left.now if within == NOW else left.soon + (left.noticed if within == DUE else 0)
    for x in range(len(r.scratch.leaves)):
        links = r.scratch.leaves[x]
        links.offer = links.now if within == NOW else links.soon


@jit
def offer_held(r: Round, job: Any) -> None:
    """Offer what a job holds too."""
    seat = job.seat
    while seat >= 0:
        r.scratch.nodes[r.state.seats[seat].node].offer += 1
        seat = r.state.seats[seat].next
    entry = job.link
    while entry >= 0:
        held = r.state.held_links[entry]
        r.scratch.leaves[held.leaf].offer |= held.mask
        entry = held.next


@jit
def offer_places(r: Round, places: Actions, row: int, sign: int) -> None:
    """Offer the places of a row too (1), or no longer (-1)."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        r.scratch.nodes[places.seats[k].node].offer += sign * places.seats[k].gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links = r.scratch.leaves[places.links[k].leaf]
        links.offer = links.offer | places.links[k].mask if sign > 0 else links.offer & ~places.links[k].mask


@jit
def may_use(r: Round, job: Any, node: int) -> bool:
    """Return whether no advance reservation keeps a job that starts now from a node: it is of the team, or gone by the beginning."""
    left, now = r.scratch.nodes[node], r.scratch.walk[0].now
    if left.reserved_for < 0 or is_below(r, job.team, left.reserved_for):
        return True
    stays = time_left(job, now, r.options)
    if not is_non_preemptible(job, r.options):
        stays = min(stays, min_runtime(job, r.options))
    runs = now + (job.resume if job.attempt > 0 else 0.0)
    return left.reserved_from > now and runs + stays <= left.reserved_from


@jit
def is_eligible(r: Round, job: Any, node: int) -> bool:
    """Return whether a node has the GPU type and the features that a job asks for."""
    return job.demand == 0 or r.state.suits[job.demand, node] != 0


@jit
def narrow_offer(r: Round, job: Any, late: bool, reserved: bool) -> int:
    """Take off the offer what the job may not use, and return the GPUs left on it.

    These are closed nodes, nodes that it is not eligible for or that have fewer GPUs left than it needs on each node, nodes of other
    teams' advance reservations (if `reserved`), and for a late job what the backfill reservation needs.
    """
    state, gpus, reserved = r.state, 0, reserved and len(r.state.bookings) > 0
    least = max(1, state.per_node[job.demand])
    for x in range(len(r.scratch.nodes)):
        left = r.scratch.nodes[x]
        if late:
            left.offer = min(left.offer, left.extra)
        may_offer = left.offer >= least and not state.nodes[x].closed and is_eligible(r, job, x)
        if not may_offer or (reserved and not may_use(r, job, x)):
            left.offer = 0
        left.shown = left.offer
        gpus += left.offer
    for x in range(len(r.scratch.leaves)):
        links = r.scratch.leaves[x]
        if late:
            links.offer &= links.extra
        links.shown = links.offer
    return gpus


# ---- asking the placement


@jit
def choose_place(r: Round, rules: Any, job: Any) -> bool:
    """Let the placement choose from the offer, and check its choice. True: it is in the row being written."""
    out, per_node = r.out, r.state.per_node[job.demand]
    if per_node > 0 and len(r.scratch.leaves) == 0:
        return place_on_nodes(r.scratch.nodes, job, per_node, r.options, out)
    if per_node > 0 and job.gpus > per_node:
        cap_offer(r.scratch.nodes, per_node)
    if not rules.place(r.scratch.nodes, r.scratch.leaves, r.state.fewest[job.demand], job, r.options, out):
        forget(out)  # what it added before it gave up
        return False
    if per_node > 0 and not has_equal_parts(out, per_node):
        forget(out)
        return False
    _check_place(r, job)
    return True


@jit
def _check_place(r: Round, job: Any) -> None:
    """Raise ValueError if the place in the row being written is not of the job's size, or not of what was on offer."""
    out, gpus = r.out, 0
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats):
        node, taken = out.seats[k].node, out.seats[k].gpus
        if node < 0 or node >= len(r.state.nodes):
            raise ValueError("the placement chose a node that does not exist")
        if taken < 1 or taken > r.scratch.nodes[node].shown:
            raise ValueError("the placement took GPUs of a node that were not on offer")
        gpus += taken
    if gpus != job.gpus:
        raise ValueError("the placement placed a job on the wrong number of GPUs")
    for k in range(out.rows[out.counts[0].rows].link_at, out.counts[0].links):
        leaf, mask = out.links[k].leaf, out.links[k].mask
        if leaf < 0 or leaf >= len(r.scratch.leaves) or mask & ~r.scratch.leaves[leaf].shown:
            raise ValueError("the placement took links that were not on offer")


@jit
def probe(r: Round, rules: Any, job: Any, late: bool) -> bool:
    """Return whether the offer has a place for the job. True: it is in the row being written."""
    return narrow_offer(r, job, late, True) >= job.gpus and choose_place(r, rules, job)


@jit
def finds_place(r: Round, rules: Any, job: Any, within: int, late: bool) -> bool:
    """Return whether what is left has a place for the job. True: it is in the row being written."""
    if within == NOW and job.gpus > r.scratch.walk[0].free:
        return False
    offer(r, within)
    return probe(r, rules, job, late)


@jit
def fits_empty_nodes(r: Round, rules: Any, job: Any) -> bool:
    """Return whether advance reservations leave a place for the job, were all nodes empty."""
    if len(r.state.bookings) == 0:
        return True
    for x in range(len(r.scratch.nodes)):
        r.scratch.nodes[x].offer = r.state.nodes[x].gpus
    fits = probe(r, rules, job, False)
    forget(r.out)
    return fits


# ---- what was given away


@jit
def is_left(r: Round, places: Actions, row: int, within: int) -> bool:
    """Return whether all places of a row are left."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        node = places.seats[k].node
        left = r.scratch.nodes[node]
        there = left.now if within == NOW else left.soon + (left.noticed if within == DUE else 0)
        if there < places.seats[k].gpus or r.state.nodes[node].closed:
            return False
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links, mask = r.scratch.leaves[places.links[k].leaf], places.links[k].mask
        free = links.now if within == NOW else links.soon
        if free & mask != mask:
            return False
    return True


@jit
def take(r: Round, places: Actions, row: int, within: int, late: bool) -> None:
    """Remove the places of a row from what is left; if `late`, also from what may be held beyond the bound of the reservation."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        left, gpus = r.scratch.nodes[places.seats[k].node], places.seats[k].gpus
        left.soon -= gpus
        free = gpus if within == NOW else min(gpus, left.now)  # a promise takes what is free first
        left.now -= free
        left.extra -= gpus if late else 0
        r.scratch.walk[0].free -= free
        r.scratch.walk[0].soon -= gpus
        r.scratch.walk[0].reach -= gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        links, mask = r.scratch.leaves[places.links[k].leaf], places.links[k].mask
        links.soon &= ~mask
        links.now &= ~mask
        if late:
            links.extra &= ~mask


@jit
def free_soon(r: Round, job: Any) -> None:
    """Count what a job holds, which this decision stops, among what is free soon."""
    r.scratch.walk[0].soon += job.gpus
    seat = job.seat
    while seat >= 0:
        r.scratch.nodes[r.state.seats[seat].node].soon += 1
        seat = r.state.seats[seat].next
    entry = job.link
    while entry >= 0:
        r.scratch.leaves[r.state.held_links[entry].leaf].soon |= r.state.held_links[entry].mask
        entry = r.state.held_links[entry].next
