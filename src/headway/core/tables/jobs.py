"""The job table: one row per job. Kernels and policies read `job.column`; only `record` and `core/operations.py` write.

A row holds what a manager can know. What only a simulator knows (the work left) is NaN unless the policy is a declared oracle.
"""

from typing import Any, Final

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.events import WAIT_HELD
from headway.job_state import JobState

JOB: Final = np.dtype(
    [
        ("submit", "f8"),
        ("service", "f8"),  # GPU-seconds that decide the queue, as of `since`; a promotion resets it
        ("ran", "f8"),  # seconds run that decide the queue; reset with `service`
        ("waited", "f8"),  # seconds waited since the last reset
        ("total", "f8"),  # GPU-seconds in all: never reset
        ("pending", "f8"),  # seconds waited in all: never reset
        ("done", "f8"),  # work done, in seconds at the speed of the GPUs asked for (a job reports its progress)
        ("left", "f8"),  # work left, as of `since`; NaN unless the policy is an oracle
        ("rate", "f8"),  # speed of progress while running: 1 on the GPUs asked for, undisturbed
        ("since", "f8"),  # when the columns above were settled
        ("first", "f8"),  # when it was first started (infinity: never)
        ("started", "f8"),  # when the present attempt began to run
        ("queued", "f8"),  # when it last began to wait: submitted or preempted, but not resized
        ("end", "f8"),
        ("min_runtime", "f8"),  # seconds that an attempt runs before it may be preempted (infinity: it never is)
        ("turns", "f8"),  # the same as a multiple of what stopping and starting again costs the job
        ("save", "f8"),  # seconds from Stop to Stopped, as far as is known
        ("resume", "f8"),  # seconds from Start to the first headway, but for the first start
        ("limit", "f8"),  # seconds that it runs at most in all (infinity: not known)
        ("until", "f8"),  # when the notice is over that its borrowed GPUs are taken back (infinity: it has none)
        ("ready_by", "f8"),  # when the last notice is over that its promise depends on (-infinity: none)
        ("change_at", "f8"),  # the one valid timer of this job
        ("k1", "f8"),  # the policy's key as of the job's last event; decide derives those of running jobs that move
        ("k2", "f8"),
        # Seconds that it waits at most, per second that it is expected to run on: for links of its own, and for the fewest nodes.
        ("slice_wait", "f4"),
        ("whole_wait", "f4"),
        ("skew", "f4"),  # largest tensor / model size; NaN: not known
        ("asked", "i4"),  # GPUs asked for
        ("gpus", "i4"),  # GPUs it gets: as asked, unless the policy resizes jobs
        ("model", "i4"),  # row in the table of profiles; 0: not known
        ("attempt", "i4"),
        ("preemptions", "i4"),
        ("resizes", "i4"),
        ("migrations", "i4"),  # stops to run elsewhere, at the same size
        ("wasted", "i4"),  # attempts that ran for no time
        ("seat", "i4"),  # first seat held, -1: none
        ("link", "i4"),  # first entry of links held, -1: none
        ("promise", "i4"),  # its row among the promises, -1: none
        ("partner", "i4"),  # the job packed on the same GPUs, -1: none
        ("low", "i4"),  # the tree of waiting jobs: children before and after
        ("high", "i4"),
        ("notice_for", "i4"),  # the team that gets its GPUs when its notice is over
        ("notice_with", "i4"),  # the waiting job that its notice is for, if a job of that set will migrate; -1: none
        ("team", "i4"),  # its row in the table of teams; 0: the cluster, where there are none
        ("demand", "i4"),  # which nodes suit it, a row of `suits`; 0: any
        ("group", "i4"),  # its row in the table of groups; 0: none of its own
        ("row", "i4"),  # its own number: jobs are numbered in the order of submission
        ("level", "i1"),
        ("state", "i1"),
        ("resizing", "i1"),  # stopping to change size or place: not a preemption
        ("migrating", "i1"),  # from Migrate until its next Start
        ("freeing", "i1"),  # stopping, and its GPUs are then free
        ("displaced", "i1"),  # it lost its GPUs to another job last time
        ("held_for", "i1"),  # why it is kept from the engine while it is held: one of REASONS
        ("rings", "i1"),  # how often its timer has rung in a row, each time asking to ring at once
    ],
    align=True,
)


def job_table(n: int) -> NDArray[Any]:
    """`n` rows of jobs that have not been submitted yet."""
    jobs = np.zeros(n, JOB)
    for column in ("first", "change_at", "limit", "until"):
        jobs[column] = np.inf
    for column in ("left", "end", "skew"):
        jobs[column] = np.nan
    jobs["ready_by"] = -np.inf
    for column in ("seat", "link", "promise", "partner", "low", "high"):
        jobs[column] = -1
    jobs["rate"] = 1.0
    jobs["held_for"] = WAIT_HELD
    jobs["row"] = np.arange(n)
    return jobs


JOB_TYPE = typeof(job_table(1)[0])


@jit
def served(job: Any, now: float) -> float:
    """GPU-seconds attained by now, W*t of the paper."""
    return job.service + (now - job.since) * job.gpus * (job.state == JobState.RUNNING)


@jit
def ran(job: Any, now: float) -> float:
    """Seconds run by now."""
    return job.ran + (now - job.since) * (job.state == JobState.RUNNING)


@jit
def run_s(job: Any, now: float) -> float:
    """Seconds run by now in all attempts, at the size it has."""
    return job.total / job.gpus + (now - job.since) * (job.state == JobState.RUNNING)


@jit
def left(job: Any, now: float) -> float:
    """Seconds of work left now. For oracles only: NaN otherwise."""
    return job.left - (now - job.since) * job.rate * (job.state == JobState.RUNNING)


@jit
def settle(job: Any, now: float) -> None:
    """Bring the counters of a job up to now; done on the job's own events only."""
    elapsed = now - job.since
    job.since = now
    if job.state == JobState.RUNNING:
        job.service += elapsed * job.gpus
        job.total += elapsed * job.gpus
        job.ran += elapsed
        job.done += elapsed * job.rate
        job.left -= elapsed * job.rate
    elif job.state == JobState.PENDING:
        job.waited += elapsed
        job.pending += elapsed
