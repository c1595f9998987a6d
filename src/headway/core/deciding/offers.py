"""Offers: the GPUs and links that a placement may choose from. They shrink as jobs are placed.

Contract: `open_offers` sets what is free now, free soon and under notice on every node. `finds_place` and `probe` call the placement
and leave its choice in the row being written, or nothing. `take` removes the places of a row from what is left.
"""

from typing import Any, Final

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.teams import is_below
from headway.core.keys import is_non_preemptible, min_runtime, resumes_in, time_left
from headway.core.order import priority
from headway.core.tables.actions import Actions, add_seat, forget
from headway.core.tables.options import EMPTIEST, RANDOM, Options
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
    """Set what is free now, free soon and under notice on every node and leaf, and the nodes that are reserved in advance."""
    state, walk, nodes, links, free, soon = r.state, r.scratch.walk[0], r.scratch.nodes, r.scratch.leaves, 0, 0
    for x in range(len(state.nodes)):
        node = state.nodes[x]
        nodes.open[x], nodes.now[x], nodes.soon[x] = not node.closed, node.free, node.free + node.stopping
        free += nodes.open[x] * nodes.now[x]
        soon += nodes.open[x] * nodes.soon[x]
    walk.free, walk.soon, walk.noticed = free, soon, 0
    for x in range(len(state.nodes) if len(state.teams) > NO_TEAMS else 0):
        nodes.noticed[x], nodes.booking[x] = 0, -1
    for x in range(len(state.leaves)):
        leaf = state.leaves[x]
        links.spine[x], links.now[x], links.soon[x] = leaf.spine, leaf.free, leaf.free | leaf.stopping
        links.noticed[x], links.taken[x] = 0, 0
    for x in range(len(state.nodes) if len(state.leaves) > 0 else 0):
        nodes.leaf[x] = state.nodes[x].leaf
    for i in range(state.counts[0].running if state.counts[0].notices > 0 else 0):
        if state.jobs[state.run[i]].until < np.inf:
            count_noticed(r, state.jobs[state.run[i]], 1)
    _open_reserved_nodes(r)


@jit
def _open_reserved_nodes(r: Round) -> None:
    """Set for each node the first advance reservation that is in force or to come."""
    booking = r.scratch.nodes.booking
    for i in range(len(r.state.bookings)):  # by their beginning
        node = r.state.bookings[i].node
        if r.state.bookings[i].end > r.scratch.walk[0].now and booking[node] < 0:
            booking[node] = i


@jit
def booking_of_others(r: Round, job: Any, node: int) -> int:
    """Return the first advance reservation of another team on a node that is in force or to come; -1: none."""
    bookings, first = r.state.bookings, r.scratch.nodes.booking[node]
    for i in range(first, len(bookings) if first >= 0 else -1):
        is_of_node = bookings[i].node == node and bookings[i].end > r.scratch.walk[0].now
        if is_of_node and not is_below(r, job.team, bookings[i].team):
            return i
    return -1


# ---- what jobs hold


@jit
def count_held(r: Round, job: Any, column: Any, sign: int) -> None:
    """Add the GPUs of a running job to a column of the nodes (1), or subtract them (-1)."""
    seat = job.seat
    while seat >= 0:
        column[r.state.seats[seat].node] += sign
        seat = r.state.seats[seat].next


@jit
def add_links(r: Round, job: Any, column: Any) -> None:
    """Add the links of a running job to a column of the leaves."""
    entry = job.link
    while entry >= 0:
        column[r.state.held_links[entry].leaf] |= r.state.held_links[entry].mask
        entry = r.state.held_links[entry].next


@jit
def count_noticed(r: Round, job: Any, sign: int) -> None:
    """Count a job's GPUs and links among those under notice (1), or no longer (-1)."""
    r.scratch.walk[0].noticed += sign * job.gpus
    count_held(r, job, r.scratch.nodes.noticed, sign)
    entry, noticed = job.link, r.scratch.leaves.noticed
    while entry >= 0:
        held = r.state.held_links[entry]
        noticed[held.leaf] = noticed[held.leaf] | held.mask if sign > 0 else noticed[held.leaf] & ~held.mask
        entry = held.next


@jit
def offer_held(r: Round, job: Any) -> None:
    """Offer what a running job holds too."""
    count_held(r, job, r.scratch.nodes.offer, 1)
    add_links(r, job, r.scratch.leaves.offer)


# ---- making an offer


@jit
def _links_left(links: Any, x: int, within: int) -> Any:
    """Return the links of a leaf that are left now, soon, or soon and under notice."""
    if within == NOW:
        return links.now[x]
    return (links.soon[x] | links.noticed[x]) & ~links.taken[x] if within == DUE else links.soon[x]


@jit
def offer(r: Round, within: int) -> None:
    """Offer what is left now, soon, or soon and under notice."""
    nodes, links = r.scratch.nodes, r.scratch.leaves
    for x in range(len(nodes.offer)):
        nodes.offer[x] = nodes.now[x] if within == NOW else nodes.soon[x] + (nodes.noticed[x] if within == DUE else 0)
    for x in range(len(links.offer)):
        links.offer[x] = _links_left(links, x, within)


@jit
def offer_places(r: Round, places: Actions, row: int, sign: int) -> None:
    """Offer the places of a row too (1), or no longer (-1)."""
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        r.scratch.nodes.offer[places.seats[k].node] += sign * places.seats[k].gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        leaf, mask, offered = places.links[k].leaf, places.links[k].mask, r.scratch.leaves.offer
        offered[leaf] = offered[leaf] | mask if sign > 0 else offered[leaf] & ~mask


@jit
def may_use(r: Round, job: Any, node: int) -> bool:
    """Return whether no advance reservation keeps a job that starts now from a node: it is of the team, or gone by the beginning."""
    if len(r.state.bookings) == 0:
        return True
    now, i = r.scratch.walk[0].now, booking_of_others(r, job, node)
    if i < 0:
        return True
    stays = time_left(job, now, r.options)
    if not is_non_preemptible(job, r.options):
        stays = min(stays, min_runtime(job, r.options))
    begin = r.state.bookings[i].begin
    return begin > now and now + resumes_in(job) + stays <= begin


@jit
def narrow_offer(r: Round, job: Any, late: bool, reserved: bool) -> int:
    """Take off the offer what the job may not use, and return the GPUs left on it.

    These are closed nodes, nodes that it is not eligible for or that have fewer GPUs left than it needs on each node, nodes of other
    teams' advance reservations (if `reserved`), and for a late job what the backfill reservation needs.
    """
    nodes, links, gpus, reserved = r.scratch.nodes, r.scratch.leaves, 0, reserved and len(r.state.bookings) > 0
    least, eligible = max(1, r.state.per_node[job.demand]), r.state.suits[job.demand]
    for x in range(len(nodes.offer)):
        offered = min(nodes.offer[x], nodes.extra[x]) if late else nodes.offer[x]
        usable = offered >= least and nodes.open[x] and eligible[x] and not (reserved and not may_use(r, job, x))
        nodes.offer[x] = offered if usable else 0
        nodes.shown[x] = nodes.offer[x]
        gpus += nodes.offer[x]
    for x in range(len(links.offer)):
        links.offer[x] &= links.extra[x] if late else ALL_LINKS
        links.shown[x] = links.offer[x]
    return gpus


# ---- asking the placement


@jit
def choose_place(r: Round, rules: Any, job: Any) -> bool:
    """Let the placement choose from the offer, and check its choice. True: it is in the row being written."""
    nodes, out, per_node = r.scratch.nodes, r.out, r.state.per_node[job.demand]
    if per_node > 0 and len(r.state.leaves) == 0:
        return _place_on_nodes(nodes, job, per_node, r.options, out)
    if per_node > 0 and job.gpus > per_node:
        for x in range(len(nodes.offer)):
            nodes.offer[x] = min(nodes.offer[x], per_node)
    placed = rules.place(nodes, r.scratch.leaves, r.state.fewest[job.demand], job, r.options, out)
    for k in range(out.rows[out.counts[0].rows].seat_at, out.counts[0].seats if per_node > 0 else 0):
        placed &= out.seats[k].gpus == per_node
    if not placed:
        forget(out)  # also what it added before it gave up
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
        if taken < 1 or taken > r.scratch.nodes.shown[node]:
            raise ValueError("the placement took GPUs of a node that were not on offer")
        gpus += taken
    if gpus != job.gpus:
        raise ValueError("the placement placed a job on the wrong number of GPUs")
    for k in range(out.rows[out.counts[0].rows].link_at, out.counts[0].links):
        leaf, mask = out.links[k].leaf, out.links[k].mask
        if leaf < 0 or leaf >= len(r.state.leaves) or mask & ~r.scratch.leaves.shown[leaf]:
            raise ValueError("the placement took links that were not on offer")


@jit
def probe(r: Round, rules: Any, job: Any, late: bool) -> bool:
    """Return whether the offer has a place for the job. True: it is in the row being written."""
    return narrow_offer(r, job, late, True) >= job.gpus and choose_place(r, rules, job)


@jit
def finds_place(r: Round, rules: Any, job: Any, within: int, late: bool) -> bool:
    """Return whether what is left has a place for the job. True: it is in the row being written."""
    walk = r.scratch.walk[0]
    if job.gpus > (walk.free if within == NOW else walk.soon + walk.noticed):
        return False
    offer(r, within)
    return probe(r, rules, job, late)


@jit
def fits_empty_nodes(r: Round, rules: Any, job: Any) -> bool:
    """Return whether advance reservations leave a place for the job, were all nodes empty."""
    if len(r.state.bookings) == 0:
        return True
    offer(r, SOON)
    for x in range(len(r.state.nodes)):
        r.scratch.nodes.offer[x] = r.state.nodes[x].gpus
    for i in range(r.state.counts[0].running):
        add_links(r, r.state.jobs[r.state.run[i]], r.scratch.leaves.offer)
    fits = probe(r, rules, job, False)
    forget(r.out)
    return fits


# ---- jobs that ask for N nodes with exactly K GPUs each (`per_node` of their constraints)
# Without leaf switches they are placed here for every placement, in the placement's order of nodes. With leaf switches the placement
# chooses from an offer of K GPUs per node, and a place without exactly K GPUs on each node counts as none (`choose_place`).


@jit
def _place_on_nodes(nodes: Any, job: Any, per_node: int, options: Options, out: Actions) -> bool:
    """Place a job on `per_node` GPUs of each of its nodes. Return False if too few nodes offer that many."""
    need, enough, most = job.gpus // per_node, 0, 0
    for x in range(len(nodes.offer)):
        enough += nodes.offer[x] >= per_node
        most = max(most, nodes.offer[x])
    if job.gpus % per_node != 0 or enough < need:
        return False
    if options.node_order == RANDOM:
        _draw_nodes(nodes, job, per_node, enough, options, out)
        return True
    for step in range(most - per_node + 1):
        level = most - step if options.node_order == EMPTIEST else per_node + step
        for x in range(len(nodes.offer)):
            if need > 0 and nodes.offer[x] == level:
                add_seat(out, x, per_node)
                need -= 1
    return True


@jit
def _draw_nodes(nodes: Any, job: Any, per_node: int, enough: int, options: Options, out: Actions) -> None:
    """Draw the nodes of a job, all choices equally likely, from the seed, the job and the attempt."""
    need, draw = job.gpus // per_node, priority(options.seed + 1) ^ priority(1000003 * job.row + job.attempt)
    for x in range(len(nodes.offer)):
        if nodes.offer[x] >= per_node:
            draw = priority(draw)
            if draw % enough < need:
                add_seat(out, x, per_node)
                need -= 1
            enough -= 1


# ---- what was given away


@jit
def is_left(r: Round, places: Actions, row: int, within: int) -> bool:
    """Return whether all places of a row are left."""
    nodes, links = r.scratch.nodes, r.scratch.leaves
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        x = places.seats[k].node
        left = nodes.now[x] if within == NOW else nodes.soon[x] + (nodes.noticed[x] if within == DUE else 0)
        if left < places.seats[k].gpus or not nodes.open[x]:
            return False
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        x, mask = places.links[k].leaf, places.links[k].mask
        if _links_left(links, x, within) & mask != mask:
            return False
    return True


@jit
def take(r: Round, places: Actions, row: int, late: bool) -> None:
    """Remove the places of a row from what is left, free GPUs first; if `late`, also from what may be held beyond the bound."""
    walk, nodes, links = r.scratch.walk[0], r.scratch.nodes, r.scratch.leaves
    for k in range(places.rows[row].seat_at, places.rows[row + 1].seat_at):
        x, gpus = places.seats[k].node, places.seats[k].gpus
        free = min(gpus, nodes.now[x])
        nodes.now[x] -= free
        nodes.soon[x] -= gpus
        nodes.extra[x] -= gpus if late else 0
        walk.free -= free
        walk.soon -= gpus
    for k in range(places.rows[row].link_at, places.rows[row + 1].link_at):
        x, mask = places.links[k].leaf, places.links[k].mask
        links.now[x] &= ~mask
        links.soon[x] &= ~mask
        links.taken[x] |= mask
        links.extra[x] &= ~mask if late else ALL_LINKS


@jit
def decided(r: Round, j: int) -> int:
    """Return the kind of this decision's action on job j, or -1; a promise that was kept is not an action."""
    row = r.scratch.jobs[j].action
    return int(r.out.rows[row].kind) if 0 <= row < r.out.counts[0].rows and r.out.rows[row].job == j else -1
