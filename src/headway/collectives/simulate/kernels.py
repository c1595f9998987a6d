"""The compiled inner loops: operations on shared resources, as queues decide or as fixed lists say.

An operation occupies its resource's link for `occupy_ps`, then takes `latency_ps` more before its successors may go on.
A resource is a dimension of the network (or the processor, in a training iteration); up to `slots` operations may be in
flight on it, so that the latency of one hides behind the bytes of another. Time is in whole picoseconds: a tie is a tie
on every machine, and every rank that plans alone gets the same plan (Themis, section 4.4).

All NPUs do the same thing at the same time, so one NPU stands for all: the cost does not grow with their number.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


# An operation as the kernels take it; `next_op[next_at:next_end]` are its successors.
OPERATION: Final = np.dtype(
    [
        ("resource", "i4"),
        ("needs", "i4"),  # how many predecessors it has
        ("next_at", "i4"),
        ("next_end", "i4"),
        ("occupy_ps", "i8"),
        ("latency_ps", "i8"),
        ("rank", "i8"),  # in the queue of its resource
        ("bid", "i8"),  # it passes nobody whose rank is at most this
        ("release_ps", "i8"),
    ]
)
PROGRESS: Final = np.dtype([("start_ps", "i8"), ("finish_ps", "i8"), ("missing", "i4"), ("behind", "i4")])
QUEUE: Final = np.dtype(
    [
        ("first", "i8"),
        ("last", "i8"),
        ("highest", "i8"),  # rank in the queue
        ("free", "i8"),  # slots
        ("link_free_ps", "i8"),
    ]
)
COUNT: Final = np.dtype([("flying", "i8"), ("started", "i8")])


class _Run(NamedTuple):
    """Queues at work."""

    operations: NDArray[Any]
    progress: NDArray[Any]  # by operation: `missing` predecessors, and who is `behind` it in its queue
    queues: NDArray[Any]  # by resource
    flying: Ints
    sequence: Ints  # the order of the starts
    counts: NDArray[Any]  # one row


@jit
def _new_run(operations: NDArray[Any], slots: Ints) -> _Run:
    n, queues = len(operations), np.empty(len(slots), QUEUE)
    for r in range(len(slots)):
        queues[r].first = -1
        queues[r].last = -1
        queues[r].highest = -1
        queues[r].free = slots[r]
        queues[r].link_free_ps = 0
    flying, sequence, counts = np.empty(slots.sum(), np.int64), np.empty(n, np.int64), np.zeros(1, COUNT)
    return _Run(operations, _no_progress(operations), queues, flying, sequence, counts)


@jit
def _no_progress(operations: NDArray[Any]) -> NDArray[Any]:
    progress = np.empty(len(operations), PROGRESS)
    for op in range(len(operations)):
        progress[op].start_ps = -1
        progress[op].finish_ps = -1
        progress[op].missing = operations[op].needs
        progress[op].behind = -1
    return progress


@jit
def run_queues(operations: NDArray[Any], next_op: Ints, arrivals: Ints, slots: Ints) -> tuple[NDArray[Any], Ints]:
    """Run operations through one queue per resource; returns the progress of each and the order of the starts.

    A queue is kept in order: a newcomer passes nobody whose `rank` is at most its `bid`. An operation joins when
    its `needs` predecessors are done and its release time has come; `arrivals` is the operations by release time.
    Simultaneous events are taken one by one, arrivals first, then ends by operation number, as the public
    implementation does.
    """
    run, arrived = _new_run(operations, slots), 0
    progress = run.progress
    while True:
        done = _first_to_finish(run)
        at_ps = progress[run.flying[done]].finish_ps if done >= 0 else 0
        arriving = arrived < len(arrivals) and (done < 0 or operations[arrivals[arrived]].release_ps <= at_ps)
        if arriving:
            op = arrivals[arrived]
            now = operations[op].release_ps
            arrived += 1
            if progress[op].missing > 0:
                continue
            _join(run, op)
        elif done >= 0:
            op, now = run.flying[done], at_ps
            _land(run, done)
            for at in range(operations[op].next_at, operations[op].next_end):
                follower = next_op[at]
                progress[follower].missing -= 1
                if progress[follower].missing == 0 and operations[follower].release_ps <= now:
                    _join(run, follower)
        else:
            return progress, run.sequence[: run.counts[0].started]
        # The dimension that became free chooses first, then those that its followers joined.
        _start_next(run, operations[op].resource, now)
        if not arriving:
            for at in range(operations[op].next_at, operations[op].next_end):
                _start_next(run, operations[next_op[at]].resource, now)


@jit
def _start_next(run: _Run, resource: int, now: int) -> None:
    """Start operations from the front of a queue while the resource has free slots."""
    queue, count = run.queues[resource], run.counts[0]
    while queue.free > 0 and queue.first >= 0:
        op = queue.first
        queue.first = run.progress[op].behind
        queue.free -= 1
        queue.link_free_ps = max(queue.link_free_ps, now) + run.operations[op].occupy_ps
        run.progress[op].start_ps = now
        run.progress[op].finish_ps = queue.link_free_ps + run.operations[op].latency_ps
        run.flying[count.flying] = op
        count.flying += 1
        run.sequence[count.started] = op
        count.started += 1


@jit
def _land(run: _Run, place: int) -> None:
    """The operation at this place in `flying` ends."""
    count, op = run.counts[0], run.flying[place]
    count.flying -= 1
    run.flying[place] = run.flying[count.flying]
    run.queues[run.operations[op].resource].free += 1


@jit
def _first_to_finish(run: _Run) -> int:
    """Where in `flying` the operation stands that ends first (of several, the lowest number); -1 if none flies."""
    best, earliest, lowest = -1, 0, 0
    for place in range(run.counts[0].flying):
        op = run.flying[place]
        finish = run.progress[op].finish_ps
        if best < 0 or finish < earliest or (finish == earliest and op < lowest):
            best, earliest, lowest = place, finish, op
    return best


@jit
def _join(run: _Run, op: int) -> None:
    """Put an operation into its queue: behind everybody whose rank is at most its bid, up to the first who is not."""
    queue = run.queues[run.operations[op].resource]
    rank, bid = run.operations[op].rank, run.operations[op].bid
    previous, here = -1, queue.first
    if here >= 0 and queue.highest <= bid:
        previous, here = queue.last, -1
    while here >= 0 and run.operations[here].rank <= bid:
        previous, here = here, run.progress[here].behind
    queue.highest = rank if queue.first < 0 else max(queue.highest, rank)
    run.progress[op].behind = here
    if here < 0:
        queue.last = op
    if previous < 0:
        queue.first = op
    else:
        run.progress[previous].behind = op


@jit
def run_lists(
    operations: NDArray[Any], next_op: Ints, listed: Ints, list_at: Ints, slots: Ints
) -> tuple[NDArray[Any], int]:
    """Run every resource through its fixed list; returns the progress of each operation and how many could run.

    Nothing overtakes: an operation waits for its predecessors and for the one before it in its list to have started.
    The times do not depend on the order in which this loop visits the lists, which is why any interleaving on real
    machines completes. Fewer operations run than were listed only if the lists contradict the predecessors.
    """
    resources, progress = len(slots), _no_progress(operations)
    ready, place = np.zeros(len(operations), np.int64), list_at[:-1].copy()
    latest, link_free = np.zeros(resources, np.int64), np.zeros(resources, np.int64)
    slot_free = np.zeros((resources, slots.max()), np.int64)
    ran, before = 0, -1
    while ran != before:
        before = ran
        for r in range(resources):
            while place[r] < list_at[r + 1] and progress[listed[place[r]]].missing == 0:
                op = listed[place[r]]
                place[r] += 1
                slot = np.argmin(slot_free[r, : slots[r]])
                latest[r] = max(ready[op], latest[r], slot_free[r, slot])
                link_free[r] = max(link_free[r], latest[r]) + operations[op].occupy_ps
                progress[op].start_ps = latest[r]
                progress[op].finish_ps = link_free[r] + operations[op].latency_ps
                slot_free[r, slot] = progress[op].finish_ps
                ran += 1
                for at in range(operations[op].next_at, operations[op].next_end):
                    follower = next_op[at]
                    progress[follower].missing -= 1
                    ready[follower] = max(ready[follower], progress[op].finish_ps)
    return progress, ran


class Lists(NamedTuple):
    """What every resource runs, in this order, and how many operations it may have in flight."""

    listed: Ints
    list_at: Ints
    slots: Ints


class _Flight(NamedTuple):
    """Lists at work, step by step."""

    place: Ints  # in the list of each resource
    free: Ints  # slots of each resource
    link_free_ps: Ints
    step: Ints  # of each operation: the next to be sent
    flying: Ints
    total: Ints  # how many fly


@jit
def run_lists_by_steps(operations: NDArray[Any], next_op: Ints, lists: Lists, steps: Any) -> tuple[NDArray[Any], int]:
    """The same where operations are sent step by step, and their links serve others during the delay of a step.

    Operations start in the order of their list, as slots come free; a link serves steps as they become ready. Until an operation is
    done, its `finish_ps` is the end of the step that flies.
    """
    progress = _no_progress(operations)
    resources = len(lists.slots)
    flight = _Flight(
        lists.list_at[:-1].copy(),
        lists.slots.copy(),
        np.zeros(resources, np.int64),
        steps.begins[:-1].copy(),
        np.empty(lists.slots.sum(), np.int64),
        np.zeros(1, np.int64),
    )
    ran, now = 0, 0
    for r in range(resources):
        _start_listed(operations, progress, lists, steps, flight, r, now)
    while flight.total[0] > 0:
        first = 0
        for other in range(1, flight.total[0]):
            end, best = progress[flight.flying[other]].finish_ps, progress[flight.flying[first]].finish_ps
            if end < best or (end == best and flight.flying[other] < flight.flying[first]):
                first = other
        op = flight.flying[first]
        now, r = progress[op].finish_ps, operations[op].resource
        if flight.step[op] < steps.begins[op + 1]:
            _send_step(progress, steps, flight, op, r, now)
            continue
        flight.total[0] -= 1
        flight.flying[first] = flight.flying[flight.total[0]]
        flight.free[r] += 1
        ran += 1
        for at in range(operations[op].next_at, operations[op].next_end):
            progress[next_op[at]].missing -= 1
        _start_listed(operations, progress, lists, steps, flight, r, now)
        for at in range(operations[op].next_at, operations[op].next_end):
            _start_listed(operations, progress, lists, steps, flight, operations[next_op[at]].resource, now)
    return progress, ran


@jit
def _start_listed(
    operations: NDArray[Any], progress: NDArray[Any], lists: Lists, steps: Any, flight: _Flight, r: int, now: int
) -> None:
    """Start what is next in a list while it waits for nothing and there is a slot."""
    while flight.free[r] > 0 and flight.place[r] < lists.list_at[r + 1]:
        op = lists.listed[flight.place[r]]
        if progress[op].missing > 0:
            return
        flight.place[r] += 1
        flight.free[r] -= 1
        progress[op].start_ps = now
        flight.flying[flight.total[0]] = op
        flight.total[0] += 1
        _send_step(progress, steps, flight, op, r, now)


@jit
def _send_step(progress: NDArray[Any], steps: Any, flight: _Flight, op: int, r: int, now: int) -> None:
    step = flight.step[op]
    flight.step[op] += 1
    flight.link_free_ps[r] = max(flight.link_free_ps[r], now) + steps.occupy_ps[step]
    steps.until_ps[step] = flight.link_free_ps[r]
    progress[op].finish_ps = flight.link_free_ps[r] + steps.latency_ps[step]


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
