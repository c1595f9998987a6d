"""gandiva: time-slicing (Xiao et al., OSDI'18, section 3): jobs run for a time slice each, in the order in which their last slices ended.

When the cluster is full, a job is packed on the GPUs of another of the same size; a pair that makes less headway than one job alone is
separated after a time slice, and its models are not packed again. A job spread over nodes migrates to fewer nodes when they are free.
"""

from typing import Any

from headway.core.protocols import Policy
from headway.core.tables.options import Options
from headway.job_state import JobState
from headway.policies import Quantum

TIME_SLICE_S = 60.0  # section 3.1
SUSPEND_S = 1.0  # to suspend a job in memory and resume it, at most: section 3.1


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By the moment at which a job began to wait; one that runs began at the end of its turn."""
    if job.state == JobState.PENDING:
        return job.queued, 0.0
    return job.started + options.quantum, 0.0


SUMMARY = "time-slicing with packing and migration"


def make(quantum: Quantum = TIME_SLICE_S) -> Policy:
    """Return the policy; a job runs for at least one quantum."""
    return Policy(
        "gandiva",
        key,
        dynamic_keys=True,
        reserves=False,
        packs=True,
        migrates=True,
        quantum=quantum,
        min_runtime=quantum,
        suspends=SUSPEND_S,
    )
