"""The wait receipt: every microsecond that a job did not run, by cause of the closed list. Whole numbers, so it sums exactly.

The causes are read off the state after every decision and hold until the next one, so the receipt follows from the journal alone.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headway.core.events import NOT_WAITING, REASONS, WAIT_FRAGMENTATION, WAIT_GPUS, WAIT_PREEMPTED
from headway.core.reasons import why_waiting
from headway.job_state import JobState
from headway.live.records import BLOCKER_REASONS, Blocker

if TYPE_CHECKING:
    from headway.live.state import ClusterState

MICROSECONDS = 1_000_000
NODE_DOWN = REASONS.index("node_down")
CODES = {blocker: REASONS.index(name) for blocker, name in BLOCKER_REASONS.items()}


def microseconds(time: float) -> int:
    """A moment in whole microseconds."""
    return round(time * MICROSECONDS)


class Receipts:
    """For each job: the cause now, since when it holds, and how long each cause has held in total."""

    def __init__(self, room: int) -> None:
        self.cause = np.zeros(room, np.int8)
        self.since_us = np.zeros(room, np.int64)
        self.spent_us = np.zeros((room, len(REASONS)), np.int64)
        self.blocked = np.zeros(room, np.int8)  # the first cause that keeps the job from the engine
        self.preempted = np.zeros(room, np.bool_)  # it lost its GPUs to another job last time

    def make_room(self, jobs: int) -> None:
        """Make sure that there are at least so many rows."""
        if jobs <= len(self.cause):
            return
        more = Receipts(max(jobs, 2 * len(self.cause)))
        n = len(self.cause)
        for name in ("cause", "since_us", "spent_us", "blocked", "preempted"):
            getattr(more, name)[:n] = getattr(self, name)
            setattr(self, name, getattr(more, name))

    def block(self, row: int, blockers: Blocker) -> None:
        """Let the job wait for the first of these (none: for the engine)."""
        self.blocked[row] = next((code for blocker, code in CODES.items() if blockers & blocker), NOT_WAITING)

    def begin(self, row: int, submitted: float) -> None:
        """Begin the receipt of an accepted job: it waits for GPUs until the first decision gives the real cause."""
        self.cause[row], self.since_us[row] = WAIT_GPUS, microseconds(submitted)

    def settle(self, state: "ClusterState", now: float) -> None:
        """After a decision, count the time so far for the old causes, and note the new ones."""
        causes = why_now(state)
        n = len(causes)
        changed = np.nonzero(causes != self.cause[:n])[0]
        if len(changed) == 0:
            return
        now_us = microseconds(now)
        self.spent_us[changed, self.cause[changed]] += np.maximum(0, now_us - self.since_us[changed])
        self.since_us[changed] = np.maximum(self.since_us[changed], now_us)
        self.cause[changed] = causes[changed]

    def of(self, row: int, now: float) -> dict[str, int]:
        """Microseconds by cause so far."""
        spent = self.spent_us[row].copy()
        spent[self.cause[row]] += max(0, microseconds(now) - int(self.since_us[row]))
        return {REASONS[code]: int(us) for code, us in enumerate(spent) if us and code != NOT_WAITING}

    def wait_us(self, row: int, submitted: float, now: float) -> int:
        """The whole wait so far: all the time since submission in which the job did not run and had not ended."""
        ran = int(self.spent_us[row, NOT_WAITING])
        last = max(microseconds(now), int(self.since_us[row]))
        if self.cause[row] == NOT_WAITING:
            ran += last - int(self.since_us[row])
        return last - microseconds(submitted) - ran


def why_now(state: "ClusterState") -> NDArray[np.int8]:
    """The cause of every job's wait now, with blockers and closed nodes taken into account."""
    n = len(state.jobs)
    tables: Any = state.tables._replace(jobs=state.tables.jobs[:n])
    why, jobs, nodes = why_waiting(tables), tables.jobs, tables.nodes
    open_gpus = int(nodes["gpus"][nodes["closed"] == 0].sum())
    why[(why == WAIT_PREEMPTED) & ~state.receipts.preempted[:n]] = WAIT_GPUS  # it failed, was held or requeued
    if state.engine.options.blocks:
        behind = waiting_order(jobs)[1:]
        why[behind[why[behind] == WAIT_FRAGMENTATION]] = WAIT_GPUS  # room would do, but nobody overtakes
    for_room = (why == WAIT_GPUS) | (why == WAIT_FRAGMENTATION) | (why == WAIT_PREEMPTED)
    why[for_room & (jobs["gpus"] > open_gpus) & (jobs["state"] == JobState.PENDING)] = NODE_DOWN
    why[jobs["state"] == JobState.FUTURE] = WAIT_GPUS
    blocked = state.receipts.blocked[:n]
    return np.where(blocked != NOT_WAITING, blocked, why).astype(np.int8)


def waiting_order(jobs: Any) -> NDArray[np.int64]:
    """The rows of the jobs that wait, in the order of the policy."""
    waiting = np.nonzero(jobs["state"] == JobState.PENDING)[0]
    order: NDArray[np.int64] = waiting[np.lexsort((waiting, jobs["k2"][waiting], jobs["k1"][waiting]))]
    return order
