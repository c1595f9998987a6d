"""Fragmentation of a run, as vClos measures it: 1 - sum(U_i / U*_i dt_i) / sum dt_i over the times between events.

U is the number of GPUs held; U* the number held if the waiting jobs were added in order by GPU count alone. The order is that of
submission; a policy with head-of-line blocking stops at the first that does not fit, others skip it. 0: no GPU idle for want of a place.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.events import ENDED, PACK, START, STOPPED, SUBMITTED
from headway.errors import BadInput
from headway.sim.run import Run


@jit
def _could_hold(
    waiting: NDArray[np.bool_], first: int, last: int, gpus: NDArray[np.int64], free: int, blocks: bool
) -> int:
    """GPUs that waiting jobs first to last - 1 would take, by count alone."""
    taken = 0
    for j in range(first, last):
        if not waiting[j]:
            continue
        if gpus[j] <= free - taken:
            taken += gpus[j]
        elif blocks:
            break
        if taken == free:
            break
    return taken


@jit(allocates=True)
def _lost(entries: Any, gpus: NDArray[np.int64], total: int, blocks: bool, code: NDArray[np.int64]) -> float:
    """The mean over time of 1 - U / U*. `code` lists Submitted, Start, Pack, Stopped, Ended."""
    waiting = np.zeros(gpus.size, np.bool_)
    held, first, last, lost, span, ratio, now = 0, 0, 0, 0.0, 0.0, 1.0, entries[0].time
    for i in range(len(entries)):
        if entries[i].time > now:
            while first < last and not waiting[first]:
                first += 1
            could = held + _could_hold(waiting, first, last, gpus, total - held, blocks)
            ratio = held / could if could > 0 else 1.0
            lost += (1.0 - ratio) * (entries[i].time - now)
            span += entries[i].time - now
            now = entries[i].time
        kind, j = entries[i].kind, entries[i].job
        if kind == code[0] or kind == code[3]:
            waiting[j] = True
            last, first = max(last, j + 1), min(first, j)
            held -= gpus[j] if kind == code[3] else 0
        elif kind == code[1] or kind == code[2]:
            waiting[j] = False
            held += gpus[j]
        elif kind == code[4]:
            held -= gpus[j]
    return lost / span if span > 0 else 0.0


def fragmentation(run: Run) -> float:
    """Of a run whose journal was kept, under a policy that does not resize jobs."""
    if not len(run.entries) or run.policy.allot is not None:
        raise BadInput(
            "fragmentation is read from the journal of a run with jobs of fixed sizes: simulate with keep_journal=True"
        )
    code = np.array([SUBMITTED, START, PACK, STOPPED, ENDED])
    gpus = run.jobs["gpus"].astype(np.int64)
    return float(_lost(run.entries, gpus, run.cluster.total, run.policy.head_of_line_blocking, code))
