"""The wait receipt of a live job: every microsecond that it did not run, by cause of the closed list (core/receipts.py keeps it)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headway.core.events import NOT_WAITING, REASONS
from headway.core.receipts import receipt_us
from headway.job_state import JobState

if TYPE_CHECKING:
    from headway.live.state.cluster import ClusterState


def receipt(state: "ClusterState", row: int, now: float) -> dict[str, int]:
    """Microseconds by cause so far: of the whole time since submission in which the job did not run and had not ended."""
    spent = receipt_us(state.tables, state.engine.options, row, now)
    return {REASONS[code]: int(us) for code, us in enumerate(spent) if us and code != NOT_WAITING}


def waiting_order(jobs: Any) -> NDArray[np.int64]:
    """The rows of the jobs that wait, in the order of the policy."""
    waiting = np.nonzero(jobs["state"] == JobState.PENDING)[0]
    order: NDArray[np.int64] = waiting[np.lexsort((waiting, jobs["k2"][waiting], jobs["k1"][waiting]))]
    return order
