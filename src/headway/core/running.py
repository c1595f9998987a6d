"""The running jobs in order, as a decision sees them. Where keys move as jobs run, they are derived here, not in the state.

The order is total (first key, second key, number), so it does not depend on the order that it is sorted from: the last decision's, which
is almost the same.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.record import current_key
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State


@jit
def list_by_key(state: State, options: Options, key: Any, scratch: Scratch, now: float) -> None:
    """Write the running jobs with their keys now into `scratch.order`: an insertion sort of a list that is almost sorted."""
    walk, order = scratch.walk[0], scratch.order
    walk.decision += 1
    for i in range(state.counts[0].running):
        j = state.run[i]
        scratch.jobs[j].listed = -walk.decision
        scratch.jobs[j].k1, scratch.jobs[j].k2 = current_key(state.jobs[j], now, options, key)
    n = 0
    for i in range(walk.ordered):  # those of the last decision that still run, in its order
        if scratch.jobs[order[i]].listed == -walk.decision:
            _insert(scratch, n, order[i])
            n += 1
    for i in range(state.counts[0].running):  # then the others
        if scratch.jobs[state.run[i]].listed == -walk.decision:
            _insert(scratch, n, state.run[i])
            n += 1
    walk.ordered = n


@jit
def _insert(scratch: Scratch, n: int, j: int) -> None:
    """Put job j where it belongs among the first n of the order."""
    mine, order, k = scratch.jobs[j], scratch.order, n
    mine.listed = scratch.walk[0].decision
    while k > 0:
        other = scratch.jobs[order[k - 1]]
        if other.k1 < mine.k1 or (
            other.k1 == mine.k1 and (other.k2 < mine.k2 or (other.k2 == mine.k2 and order[k - 1] < j))
        ):
            break
        order[k] = order[k - 1]
        k -= 1
    order[k] = j


@jit
def moved_key(options: Options, scratch: Scratch, job: Any) -> tuple[float, float]:
    """The key of a running job in this decision."""
    if options.moving:
        return scratch.jobs[job.row].k1, scratch.jobs[job.row].k2
    return job.k1, job.k2


@jit
def runs_before(state: State, options: Options, scratch: Scratch, j: int, waiting: int) -> bool:
    """Whether the running job j comes before a waiting one."""
    first, second = moved_key(options, scratch, state.jobs[j])
    other = state.jobs[waiting]
    if first != other.k1:
        return first < other.k1
    if second != other.k2:
        return second < other.k2
    return j < waiting


@jit
def rank_of(state: State, options: Options, scratch: Scratch, order: Any, waiting: int) -> int:
    """How many running jobs come before a waiting one."""
    low, high = 0, state.counts[0].running
    while low < high:
        middle = (low + high) >> 1
        if runs_before(state, options, scratch, order[middle], waiting):
            low = middle + 1
        else:
            high = middle
    return low
