"""The order of jobs: a sorted list of jobs that hold GPUs, one search tree per class of waiting jobs, and heaps of times.

When one job of a class (core/classes.py) finds no place, no other of its class does, so a deep queue costs one step per class and not
one per job. The trees are treaps whose priorities are hashed job numbers: deterministic, balanced, O(log n).
Everything here is an index: it can be rebuilt from the job table.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.scratch import Round
from headway.core.tables.state import State
from headway.job_state import JobState


@jit
def before(jobs: Any, a: int, b: int) -> bool:
    """Return whether job a comes before job b: by key, then by number, which is the order of submission."""
    return (jobs[a].k1, jobs[a].k2, a) < (jobs[b].k1, jobs[b].k2, b)


# ---- the jobs that hold GPUs: a sorted list, as long as the cluster is large


@jit
def rank(state: State, j: int) -> int:
    """How many jobs with GPUs come before j."""
    low, high = 0, state.counts[0].running
    while low < high:
        middle = (low + high) >> 1
        if before(state.jobs, state.run[middle], j):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def add_running(state: State, j: int) -> None:
    """Insert a job that got GPUs."""
    k = rank(state, j)
    for i in range(state.counts[0].running, k, -1):
        state.run[i] = state.run[i - 1]
    state.run[k] = j
    state.counts[0].running += 1


@jit
def drop_running(state: State, j: int) -> None:
    """Take a job out; its key must still be the one that it was inserted with."""
    k = rank(state, j)
    assert state.run[k] == j
    state.counts[0].running -= 1
    for i in range(k, state.counts[0].running):
        state.run[i] = state.run[i + 1]


# ---- the same as a decision sees them: dynamic keys are derived again, in the scratch
# The order is total (first key, second key, number). The last decision's order is nearly the same, so sorting begins with it.


@jit
def sort_running(r: Round, key: Any) -> None:
    """Write the running jobs into `scratch.order`, by their keys now if keys are dynamic."""
    state, order, running, n = r.state, r.scratch.order, r.state.counts[0].running, 0
    if not r.options.dynamic_keys:
        for i in range(running):
            order[i] = state.run[i]
        return
    for i in range(running):
        r.scratch.jobs[state.run[i]].ordered = 0
    for i in range(max(0, min(r.scratch.walk[0].ordered, len(order)))):
        j = order[i]
        if 0 <= j < len(state.jobs):
            has_gpus = state.jobs[j].state == JobState.RUNNING or state.jobs[j].state == JobState.STARTING
            if has_gpus and not r.scratch.jobs[j].ordered:
                _insert_running(r, key, state.jobs[j], n)
                n += 1
    for i in range(running if n < running else 0):
        job = state.jobs[state.run[i]]
        if not r.scratch.jobs[job.row].ordered:
            _insert_running(r, key, job, n)
            n += 1
    r.scratch.walk[0].ordered = n


@jit
def _insert_running(r: Round, key: Any, job: Any, n: int) -> None:
    """Derive the key of a running job, and insert the job among the first n of the order."""
    keys, order, k = r.scratch.keys, r.scratch.order, n
    r.scratch.jobs[job.row].ordered = 1
    k1, k2 = key(job, r.scratch.walk[0].now, r.options)
    keys[job.row].k1, keys[job.row].k2 = k1, k2
    while k > 0:
        other = keys[order[k - 1]]
        if (other.k1, other.k2, order[k - 1]) < (k1, k2, job.row):
            break
        order[k] = order[k - 1]
        k -= 1
    order[k] = job.row


@jit
def key_now(r: Round, job: Any) -> tuple[float, float]:
    """Return the key of a job in this decision."""
    if r.options.dynamic_keys and job.state != JobState.PENDING:
        return r.scratch.keys[job.row].k1, r.scratch.keys[job.row].k2
    return job.k1, job.k2


@jit
def comes_before(r: Round, a: Any, b: Any) -> bool:
    """Return whether job a comes before job b in this decision, running or waiting."""
    return (key_now(r, a), a.row) < (key_now(r, b), b.row)


@jit
def rank_of(r: Round, job: Any) -> int:
    """Return how many running jobs come before a waiting one."""
    low, high = 0, r.state.counts[0].running
    while low < high:
        middle = (low + high) >> 1
        if comes_before(r, r.state.jobs[r.scratch.order[middle]], job):
            low = middle + 1
        else:
            high = middle
    return low


# ---- waiting jobs: one treap per class


@jit
def priority(j: int) -> int:
    """A fixed pseudo-random number per job (the finaliser of splitmix64), so that trees stay balanced."""
    x = np.uint64(j) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))  # type: ignore[return-value]


@jit
def _hang(state: State, c: int, parent: int, low: bool, j: int) -> None:
    """Make j a child of `parent`, or the root of class c."""
    if parent < 0:
        state.classes[c].root = j
    elif low:
        state.jobs[parent].low = j
    else:
        state.jobs[parent].high = j


@jit
def add_waiting(state: State, c: int, j: int) -> None:
    """Let j wait among class c."""
    if state.classes[c].root < 0:
        _open_class(state, c)
    insert(state, c, j)


@jit
def insert(state: State, c: int, j: int) -> None:
    """Descend to where j's priority puts it, then split what is below around j."""
    parent, low, node = -1, False, state.classes[c].root
    while node >= 0 and priority(node) >= priority(j):
        parent, low = node, before(state.jobs, j, node)
        node = state.jobs[node].low if low else state.jobs[node].high
    state.jobs[j].low = -1
    state.jobs[j].high = -1
    lesser, greater = -1, -1
    while node >= 0:
        if before(state.jobs, node, j):
            _hang(state, c, j if lesser < 0 else lesser, lesser < 0, node)
            lesser, node = node, state.jobs[node].high
        else:
            _hang(state, c, j if greater < 0 else greater, greater >= 0, node)
            greater, node = node, state.jobs[node].low
    if lesser >= 0:
        state.jobs[lesser].high = -1
    if greater >= 0:
        state.jobs[greater].low = -1
    _hang(state, c, parent, low, j)
    state.counts[0].waiting += 1


@jit
def drop_waiting(state: State, c: int, j: int) -> None:
    """Find j, then merge its two subtrees into its place."""
    parent, low, node = -1, False, state.classes[c].root
    while node != j:
        assert node >= 0
        parent, low = node, before(state.jobs, j, node)
        node = state.jobs[node].low if low else state.jobs[node].high
    a, b = state.jobs[j].low, state.jobs[j].high
    while a >= 0 and b >= 0:
        if priority(a) >= priority(b):
            _hang(state, c, parent, low, a)
            parent, low, a = a, False, state.jobs[a].high
        else:
            _hang(state, c, parent, low, b)
            parent, low, b = b, True, state.jobs[b].low
    _hang(state, c, parent, low, a if a >= 0 else b)
    state.counts[0].waiting -= 1
    if state.classes[c].root < 0:
        _close_class(state, c)


@jit
def first_waiting(state: State, c: int) -> int:
    """The first job of class c."""
    node = state.classes[c].root
    while state.jobs[node].low >= 0:
        node = state.jobs[node].low
    return node


@jit
def next_waiting(state: State, c: int, j: int) -> int:
    """The job of class c that follows j, or -1."""
    following, node = -1, state.classes[c].root
    while node >= 0:
        if before(state.jobs, j, node):
            following, node = node, state.jobs[node].low
        else:
            node = state.jobs[node].high
    return following


@jit
def _open_class(state: State, c: int) -> None:
    k = state.counts[0].classes
    while k > 0 and state.classes[k - 1].open > c:
        state.classes[k].open = state.classes[k - 1].open
        k -= 1
    state.classes[k].open = c
    state.counts[0].classes += 1


@jit
def _close_class(state: State, c: int) -> None:
    k = 0
    while state.classes[k].open != c:
        k += 1
    state.counts[0].classes -= 1
    for i in range(k, state.counts[0].classes):
        state.classes[i].open = state.classes[i + 1].open


@jit
def as_list(state: State, c: int) -> int:
    """Take all jobs out of class c: the first, with the next after each in `high` (rotations unroll the tree)."""
    first, last, node = -1, -1, state.classes[c].root
    while node >= 0:
        low = state.jobs[node].low
        if low >= 0:
            state.jobs[node].low = state.jobs[low].high
            state.jobs[low].high = node
            node = low
            continue
        if last < 0:
            first = node
        else:
            state.jobs[last].high = node
        last, node = node, state.jobs[node].high
        state.counts[0].waiting -= 1
    state.classes[c].root = -1
    return first


# ---- a heap of times


@jit
def push(heap: Any, n: int, at: float, what: int) -> None:
    """Add (at, what) to a heap of n entries; entries of equal time are ordered by `what`."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if (heap[up].at, heap[up].what) <= (at, what):
            break
        heap[i] = heap[up]
        i = up
    heap[i].at = at
    heap[i].what = what


@jit
def pop(heap: Any, n: int) -> None:
    """Remove the first of n entries."""
    n -= 1
    at, what, i = heap[n].at, heap[n].what, 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (heap[child + 1].at, heap[child + 1].what) < (heap[child].at, heap[child].what):
            child += 1
        if (at, what) <= (heap[child].at, heap[child].what):
            break
        heap[i] = heap[child]
        i = child
    heap[i].at = at
    heap[i].what = what
