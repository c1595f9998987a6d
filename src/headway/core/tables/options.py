"""The options of a run as plain values, which kernels and policies read."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from headway.core.compiler.tables import by_address
from headway.core.tables.groups import GROUP_TYPE, group_table
from headway.core.tables.jobs import JOB_TYPE
from headway.core.tables.teams import NO_TEAMS

# Which nodes a job gets that asks for N nodes with K GPUs each: those with the fewest GPUs on offer, with the most, or any.
FULLEST: Final = 0
EMPTIEST: Final = 1
RANDOM: Final = 2
NO_DEMANDS: Final = 1  # rows of a table of demands in which every node suits every job


@by_address
class ServiceHistory(NamedTuple):
    """What is known of the jobs that have ended: their GPU-seconds (or those of a given file), sorted, and the Gittins curve over them; and
    by group what the policy keeps. Only `record` writes it.
    """

    samples: NDArray[np.float64]
    curve: NDArray[Any]  # CORNER rows, one more than samples; see core/history.py
    counts: NDArray[Any]  # one row of HISTORY_COUNT
    groups: NDArray[Any]  # core/tables/groups.py; the first row is for all jobs


# fitted: samples of the curve; new: samples after them that are not in it yet; grows: whether samples are added as jobs end
HISTORY_COUNT = np.dtype([("fitted", "i8"), ("new", "i8"), ("grows", "i8")])
# sum: of the first i samples; reach: the curve's x at sample i; hull: the next corner of its upper hull
CORNER = np.dtype([("sum", "f8"), ("reach", "f8"), ("hull", "i8")])


@by_address
class Options(NamedTuple):
    """The options of a policy, all of them for every policy: one compiled engine serves all."""

    history: ServiceHistory
    thresholds: NDArray[np.float64]  # upper bounds of the queues in GPU-seconds; the last is infinity
    parameters: NDArray[np.float64]  # of the policy's own (`Policy.parameters`)
    promote: float = np.inf  # PROMOTEKNOB: waited >= promote * ran lifts a job to the first queue
    quantum: float = np.inf  # decide at multiples of this too (infinity: only on events)
    min_runtime: float = 0.0  # seconds a started job runs before it may be preempted
    limit: float = np.inf  # seconds that a job runs at most, where a policy plans with that
    rent: float = 0.0  # a job preempts others once it has waited for this multiple of the GPU-time that this costs
    weighs: bool = False  # asks the policy whether stopping others is worth it
    remembers: bool = False  # tells the policy of jobs that end
    defragment_after: float = np.inf  # seconds that a job waits before smaller jobs are migrated to free whole nodes
    preempts: bool = True
    reserves: bool = True  # keeps GPUs for the first waiting job that finds no place
    head_of_line_blocking: bool = False  # no job passes the first one that does not fit
    dynamic_keys: bool = False  # keys of running jobs change as they run
    learns: bool = False  # keys change with the jobs that ended
    fits: bool = False  # the thresholds are fitted to the jobs that ended
    plotted: bool = False  # Gittins index as plotted in the slides instead of as printed
    packs: bool = False  # may put two jobs on one GPU
    migrates: bool = False  # moves a scattered job together when there is room
    elastic: bool = False  # resizes jobs
    teams: int = NO_TEAMS  # rows of the table of teams; jobs of one class have one of them
    demands: int = NO_DEMANDS  # rows of the table of demands; jobs of one class have one of them
    notice: float = 0.0  # seconds from Notify until borrowed GPUs are taken back
    half_life: float = np.inf  # seconds after which past usage of a team counts half; infinity: it does not count
    horizon: float = 1.0  # seconds for which the GPUs that a team uses now count in its share
    models: int = 1  # that tell jobs apart where two share a GPU; 1 elsewhere
    by_class: bool = True  # the placement treats jobs of one class (GPUs, skewed or not) alike
    pack_limit: float = np.inf  # skew above which a job wants the fewest nodes
    node_order: int = FULLEST  # which nodes a job with a given number of GPUs per node gets first
    seed: int = 0


def history(samples: NDArray[np.float64] | None = None, room: int = 1) -> ServiceHistory:
    """A history with the given samples (fixed), or an empty one with room for the jobs that will end."""
    n = room + 1 if samples is None else len(samples) + 1
    empty = ServiceHistory(np.zeros(n), np.zeros(n, CORNER), np.array([(0, 0, 1)], HISTORY_COUNT), group_table(1))
    if samples is not None:
        empty.samples[: len(samples)] = np.sort(samples)
        empty.counts[0] = (0, len(samples), 0)
    return empty


def options(**given: Any) -> Options:
    """Options with their defaults: no queues, no quantum, preemptive."""
    defaults: dict[str, Any] = {
        "history": history(np.zeros(0)),
        "thresholds": np.array([np.inf]),
        "parameters": np.zeros(0),
    }
    return Options(**defaults | given)


# What would be stopped, or migrated, for a waiting job, all together; see Policy.preempt_at.
RELEASE_COST: Final = np.dtype(
    [
        ("jobs", "i8"),
        ("moves", "i8"),  # of these, jobs that migrate
        ("gpus", "i8"),  # that they hold
        ("gpu_s", "f8"),  # GPU-seconds that stopping all of them and starting them again takes
        ("save", "f8"),  # seconds until the last has stopped
        ("k1", "f8"),  # the key of the first of them in the order
        ("k2", "f8"),
    ]
)

OPTIONS_TYPE = typeof(options())
RELEASE_COST_TYPE = typeof(np.zeros(1, RELEASE_COST)[0])
KEY_SIGNATURE = types.UniTuple(types.float64, 2)(JOB_TYPE, types.float64, OPTIONS_TYPE)
CHANGE_SIGNATURE = types.float64(JOB_TYPE, types.float64, OPTIONS_TYPE)
PREEMPT_AT_SIGNATURE = types.float64(JOB_TYPE, RELEASE_COST_TYPE, types.float64, OPTIONS_TYPE)
ENDED_SIGNATURE = types.void(JOB_TYPE, types.float64, GROUP_TYPE, OPTIONS_TYPE)
KEY_TYPE = types.FunctionType(KEY_SIGNATURE)
CHANGE_TYPE = types.FunctionType(CHANGE_SIGNATURE)
PREEMPT_AT_TYPE = types.FunctionType(PREEMPT_AT_SIGNATURE)
