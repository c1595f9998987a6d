"""Why each waiting job waits, read off the state after a decision. One code of the closed list in core/events.py per job."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.events import (
    NOT_WAITING,
    WAIT_FRAGMENTATION,
    WAIT_GPUS,
    WAIT_ISOLATION,
    WAIT_PREEMPTED,
    WAIT_STOPPING,
)
from headway.core.tables.state import State
from headway.job_state import JobState


def why_waiting(state: State) -> NDArray[np.int8]:
    """The reason of every job: stopping (for it), gpus, preempted, or fragmentation (enough are free, but not together)."""
    jobs: Any = state.jobs
    free = int(state.nodes["free"][state.nodes["closed"] == 0].sum())
    waits = jobs["state"] == JobState.PENDING
    lost = np.where(jobs["attempt"] > 0, WAIT_PREEMPTED, WAIT_GPUS)
    scattered = WAIT_ISOLATION if len(state.leaves) else WAIT_FRAGMENTATION
    why = np.where(jobs["gpus"] <= free, scattered, lost)
    if state.counts["stopping"][0]:
        promises = state.promises.rows["job"][: int(state.promises.counts["rows"][0])]
        why[promises[jobs["promise"][promises] == np.arange(len(promises))]] = WAIT_STOPPING
    why = np.where(waits, why, NOT_WAITING)
    why[jobs["state"] == JobState.STOPPING] = WAIT_STOPPING
    return why.astype(np.int8)
