"""The compiled inner loops: operations on shared resources, as queues decide or as fixed lists say.

An operation occupies its resource's link for `occupy_ps`, then takes `latency_ps` more before its successors may go on.
A resource is a dimension of the network (or the processor, in a training iteration); up to `slots` operations may be in
flight on it, so that the latency of one hides behind the bytes of another. Time is in whole picoseconds: a tie is a tie
on every machine, and every rank that plans alone gets the same plan (Themis, section 4.4).

All NPUs do the same thing at the same time, so one NPU stands for all: the cost does not grow with their number.
"""

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@jit
def run_queues(
    resource: Ints,
    occupy_ps: Ints,
    latency_ps: Ints,
    rank: Ints,
    bid: Ints,
    needs: Ints,
    next_at: Ints,
    next_op: Ints,
    release_ps: Ints,
    arrivals: Ints,
    slots: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Run operations through one queue per resource; returns start, finish and the order of the starts.

    A queue is kept in order: a newcomer passes nobody whose `rank` is at most its own `bid`. An operation joins when
    its `needs` predecessors are done and its release time has come; `arrivals` is the operations by release time.
    Simultaneous events are taken one by one, arrivals first, then ends by operation number, as the public
    implementation does.
    """
    n = len(resource)
    start, finish = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    missing, behind = needs.copy(), np.full(n, -1, np.int64)
    sequence = np.empty(n, np.int64)
    # Per resource: first and last in the queue, the highest rank in it, and when the link is free.
    queue = np.full((len(slots), 3), -1, np.int64)
    link_free, free = np.zeros(len(slots), np.int64), slots.copy()
    flying = np.empty(slots.sum(), np.int64)
    arrived = in_flight = started = 0
    while True:
        done = _first_to_finish(flying[:in_flight], finish)
        arriving = arrived < n and (done < 0 or release_ps[arrivals[arrived]] <= finish[flying[done]])
        if arriving:
            op = arrivals[arrived]
            now = release_ps[op]
            arrived += 1
            if missing[op] > 0:
                continue
            _join(op, queue[resource[op]], behind, rank, bid)
        elif done >= 0:
            op = flying[done]
            now = finish[op]
            in_flight -= 1
            flying[done] = flying[in_flight]
            free[resource[op]] += 1
            for at in range(next_at[op], next_at[op + 1]):
                follower = next_op[at]
                missing[follower] -= 1
                if missing[follower] == 0 and release_ps[follower] <= now:
                    _join(follower, queue[resource[follower]], behind, rank, bid)
        else:
            return start, finish, sequence[:started]
        # The dimension that became free chooses first, then those that its followers joined.
        last = next_at[op] if arriving else next_at[op + 1]
        for at in range(next_at[op] - 1, last):
            r = resource[op] if at < next_at[op] else resource[next_op[at]]
            while free[r] > 0 and queue[r, 0] >= 0:
                chosen = queue[r, 0]
                queue[r, 0] = behind[chosen]
                free[r] -= 1
                start[chosen] = now
                link_free[r] = max(link_free[r], now) + occupy_ps[chosen]
                finish[chosen] = link_free[r] + latency_ps[chosen]
                flying[in_flight] = chosen
                in_flight += 1
                sequence[started] = chosen
                started += 1


@jit
def _first_to_finish(flying: Ints, finish: Ints) -> int:
    """Where in `flying` the operation stands that ends first (of several, the one with the lowest number); -1 if none
    flies."""
    best = -1
    for place in range(len(flying)):
        op = flying[place]
        if best < 0 or finish[op] < finish[flying[best]] or (finish[op] == finish[flying[best]] and op < flying[best]):
            best = place
    return best


@jit
def _join(op: int, queue: Ints, behind: Ints, rank: Ints, bid: Ints) -> None:
    """Put an operation into a queue: behind everybody whose rank is at most its bid, up to the first who is not."""
    previous, here = np.int64(-1), queue[0]
    if here >= 0 and queue[2] <= bid[op]:
        previous, here = queue[1], np.int64(-1)
    while here >= 0 and rank[here] <= bid[op]:
        previous, here = here, behind[here]
    queue[2] = rank[op] if queue[0] < 0 else max(queue[2], rank[op])
    behind[op] = here
    if here < 0:
        queue[1] = op
    if previous < 0:
        queue[0] = op
    else:
        behind[previous] = op


@jit
def run_lists(
    listed: Ints,
    list_at: Ints,
    occupy_ps: Ints,
    latency_ps: Ints,
    needs: Ints,
    next_at: Ints,
    next_op: Ints,
    release_ps: Ints,
    slots: Ints,
) -> tuple[Ints, Ints, int]:
    """Run operations strictly in the order of one list per resource; returns start, finish and how many could run.

    Nothing overtakes: an operation waits for its predecessors and for the one before it in its list to have started.
    The times do not depend on the order in which this loop visits the lists, which is why any interleaving on real
    machines completes. Fewer operations run than were listed only if the lists contradict the predecessors.
    """
    n = len(occupy_ps)
    resources = len(slots)
    start, finish = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    ready = release_ps.copy()
    missing = needs.copy()
    place = list_at[:-1].copy()
    latest = np.zeros(resources, np.int64)
    link_free = np.zeros(resources, np.int64)
    slot_free = np.zeros((resources, slots.max()), np.int64)
    ran, before = 0, -1
    while ran != before:
        before = ran
        for r in range(resources):
            while place[r] < list_at[r + 1] and missing[listed[place[r]]] == 0:
                op = listed[place[r]]
                place[r] += 1
                slot = np.argmin(slot_free[r, : slots[r]])
                start[op] = max(ready[op], latest[r], slot_free[r, slot])
                latest[r] = start[op]
                link_free[r] = max(link_free[r], start[op]) + occupy_ps[op]
                finish[op] = link_free[r] + latency_ps[op]
                slot_free[r, slot] = finish[op]
                ran += 1
                for at in range(next_at[op], next_at[op + 1]):
                    follower = next_op[at]
                    missing[follower] -= 1
                    ready[follower] = max(ready[follower], finish[op])
    return start, finish, ran


@jit
def themis_orders(chunk_bytes: Ints, sizes: Ints, ps_per_byte: Floats, loads_ps: Floats) -> Ints:
    """Themis's greedy pass (section 4.2): one order of reduce-scatter per chunk; the tracker `loads_ps` is updated in
    place.

    Least loaded dimension first, because the first phase carries the most data. The sort is stable and starts from the
    previous chunk's order: breaking ties by index instead costs up to 20 %. The tracker counts whole bytes, rounded
    down as the data shrinks, as the public implementation does: on balanced networks loads nearly tie, and it matters.
    """
    n, dims = len(chunk_bytes), len(sizes)
    orders = np.empty((n, dims), np.int64)
    order = np.arange(dims)
    for chunk in range(n):
        # Insertion keeps the sequence of equals, and an order of a few dimensions is nearly sorted already.
        for place in range(1, dims):
            dim, here = order[place], place
            while here > 0 and loads_ps[order[here - 1]] > loads_ps[dim]:
                order[here] = order[here - 1]
                here -= 1
            order[here] = dim
        least = order[0]
        spread_ps = loads_ps[order[-1]] - loads_ps[least]
        # The threshold: if a sixteenth of a chunk on the least loaded dimension would even out the loads, keep the
        # default.
        sixteenth = chunk_bytes[chunk] / 16 * (sizes[least] - 1) / sizes[least]
        if spread_ps < sixteenth * ps_per_byte[least]:
            order[:] = np.arange(dims)
        data = chunk_bytes[chunk]
        for dim in order:
            loads_ps[dim] += data * (sizes[dim] - 1) / sizes[dim] * ps_per_byte[dim]
            data //= sizes[dim]
        orders[chunk] = order
    return orders
