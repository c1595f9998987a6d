"""The interfaces of policies and placements: small values whose functions the engine compiles.

A policy is a key: how one job sorts now, smallest first, and when that changes by itself. `key(job, now, options) -> (first, second)`
and `change(job, now, options) -> time` are expressions over the job's row. Ties go to the job submitted first.

A key is computed when something happens to its job, and again at the time that `change` gave then (infinity: never). Without `change` the
key of a waiting job stays as it was when it began to wait. `dynamic_keys` computes the keys of running jobs at every decision.

`preempt_at(job, stops, now, options) -> time` says when preempting other jobs for a waiting one pays for itself. A policy may also keep
numbers by group of jobs (`group`: by user, say): `ended(job, now, group, options)` brings a row of them up to date when a job has ended.
Keys read the rows as `options.history.groups[job.group]`, and that for all jobs as `options.history.groups[0]`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit, objmode
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from headway.core.compiler.jit import Kernel, jit
from headway.core.keys import never, rented
from headway.core.tables.groups import EVERY, group_table
from headway.core.tables.options import (
    CHANGE_SIGNATURE,
    ENDED_SIGNATURE,
    FULLEST,
    KEY_SIGNATURE,
    PREEMPT_AT_SIGNATURE,
    Options,
    history,
    options,
)
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.job_state import JobState

GROUPED_BY = ("user", "name", "model", "queue", "gpus")  # what may be known of jobs that belong together


@dataclass(frozen=True, slots=True)
class Policy:
    """When jobs run."""

    name: str
    key: Any
    change: Any = never
    preempt_at: Any = (
        rented  # when preempting a set of jobs (core/tables/options.py: RELEASE_COST) for a waiting one pays for itself
    )
    ended: Any = None  # brings the row of a group up to date, called for the job's own group and for all jobs (core/tables/groups.py)
    group: tuple[str, ...] = ()  # jobs belong together that have these of GROUPED_BY in common
    preempts: bool = True
    head_of_line_blocking: bool = False  # no job passes the first one that does not fit
    reserves: bool = True  # keeps GPUs for the first waiting job that finds no place
    dynamic_keys: bool = False  # keys of running jobs change as they run
    learns: bool = False  # keys change with the jobs that ended
    oracle: bool = False  # may read the work left, which only a simulator knows
    suspends: float | None = None  # seconds to suspend a job in memory and resume it there, where a policy does
    packs: bool = False
    migrates: bool = False
    quantum: float = np.inf
    limit: float = np.inf  # seconds that a job is taken to run at most, where it has no shorter limit
    requested: float = np.inf  # in simulation: jobs without a limit ask for this many times what they take
    min_runtime: float = 0.0  # seconds that a job runs before it may be preempted
    auto_min_runtime: float = (
        0.0  # the least `min_runtime` that `auto` gives a job, unless the job reports its progress
    )
    rent: float = 0.0  # for the default `preempt_at` (core/keys.py: rented)
    defragment_after: float = np.inf  # seconds that a job waits before smaller jobs are migrated to free whole nodes
    reports: bool = False  # reads the work left of jobs that report their progress
    thresholds: tuple[float, ...] = ()
    promote: float = np.inf
    samples: NDArray[np.float64] | None = None  # a given distribution of GPU-seconds, for policies that learn
    fits: bool = False  # the thresholds are fitted to the jobs that ended; until there are enough, they are as given
    plotted: bool = False
    parameters: tuple[
        float, ...
    ] = ()  # numbers of the policy's own, which its functions read as `options.parameters[i]`
    # An elastic policy resizes jobs. Given once what it may know, it makes allot(state, scratch, now), which sets `want` there:
    # see policies/optimus.py.
    allot: Callable[..., Any] | None = None

    def options(self, jobs: int, groups: int = 1, **placement: Any) -> Options:
        """Return the options of a run of `jobs` jobs in `groups` groups under this policy."""
        past = history(self.samples, jobs) if self.learns else history(np.zeros(0))
        names = (
            "preempts",
            "head_of_line_blocking",
            "reserves",
            "dynamic_keys",
            "learns",
            "fits",
            "plotted",
            "packs",
            "migrates",
        )
        return options(
            thresholds=np.array([*self.thresholds, np.inf]),
            parameters=np.array(self.parameters, np.float64),
            promote=float(self.promote),
            quantum=float(self.quantum),
            min_runtime=float(self.min_runtime),
            limit=float(self.limit),
            rent=float(self.rent),
            weighs=self.preempt_at is not rented or self.rent > 0.0,
            remembers=self.ended is not None,
            defragment_after=float(self.defragment_after),
            elastic=self.allot is not None,
            history=past._replace(groups=group_table(groups)),
            **{name: getattr(self, name) for name in names},
            **placement,
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where jobs run. `place` is described at PLACE_SIGNATURE (core/tables/scratch.py)."""

    name: str
    place: Any
    by_class: bool = True  # treats all jobs of one size (and skew) alike
    pack_limit: float = np.inf
    node_order: int = FULLEST  # which nodes a job with a given number of GPUs per node gets first
    needs_fabric: bool = False  # reserves links
    knows_leaves: bool = False  # places by leaves, without reserving their links
    shares: bool = False  # reserves links where that is worth waiting for; other jobs share what is left
    patience: float = 0.0  # longest wait for links of its own, as a multiple of the expected cost of sharing
    spread_patience: float = 0.0  # longest wait for the fewest nodes, as a multiple of the expected cost of spreading
    rewires: bool = False  # reserves ports of a fabric with optical switches; circuits follow from them


@cache
def key_function(function: Callable[..., Any]) -> Any:
    """Compile a policy's key; one that numba cannot compile is called back from compiled code, slower."""
    return _compiled(function, KEY_SIGNATURE, _call_back_key)


@cache
def change_function(function: Callable[..., Any], ended: Callable[..., Any] | None = None) -> Any:
    """Compile a policy's change in the same way and, where it wants to be told of ends, that too: a change that is asked about a job that
    has ended tells the policy, once for its group and once for all jobs.
    """
    if ended is None:
        return _compiled(function, CHANGE_SIGNATURE, _call_back_change)
    change = _linkable(function, CHANGE_SIGNATURE, _call_back_change)
    return _with_ends(change, _linkable(ended, ENDED_SIGNATURE, _call_back_ended))


@cache
def preempt_at_function(function: Callable[..., Any]) -> Any:
    """Compile a policy's preempt_at in the same way."""
    return _compiled(function, PREEMPT_AT_SIGNATURE, _call_back_preempt_at)


@cache
def place_function(function: Callable[..., Any]) -> Any:
    """Compile a placement in the same way."""
    return _compiled(function, PLACE_SIGNATURE, _call_back_place)


def _compiled(function: Any, signature: Any, call_back: Callable[..., Any]) -> Any:
    """Return the compiled function that Python calls, or that is passed as a value."""
    compiled = _linkable(function, signature, call_back)
    return compiled.entry if isinstance(compiled, Kernel) else compiled


def _linkable(function: Any, signature: Any, call_back: Callable[..., Any]) -> Any:
    """Return what other compiled code calls: a kernel, not its `entry`, which may come from disk as machine code alone."""
    if isinstance(function, Dispatcher) and signature in function.nopython_signatures:
        return function
    same = isinstance(function, Kernel) and function.signature == signature
    kernel = function if same else jit(signature)(getattr(function, "py_func", function))
    try:
        kernel.entry  # noqa: B018 - compiles it
    except (NumbaError, TypeError, AttributeError):
        return call_back(function)
    return kernel


def _with_ends(change: Any, ended: Any) -> Any:
    def follow(job: Any, now: float, options: Options) -> float:
        if job.state != JobState.COMPLETED:
            return change(job, now, options)
        if job.group != EVERY:
            options.history.groups[job.group].jobs += 1
            ended(job, now, options.history.groups[job.group], options)
        options.history.groups[EVERY].jobs += 1
        ended(job, now, options.history.groups[EVERY], options)
        return np.inf

    kernel = jit(CHANGE_SIGNATURE)(follow)
    return kernel.entry if kernel.stored_layer else njit(CHANGE_SIGNATURE)(follow)  # a user's functions are not stored


def readable(options: Options) -> Options:
    """Options whose rows of groups Python reads as compiled code does: `groups[0].jobs`."""
    return options._replace(history=options.history._replace(groups=options.history.groups.view(np.recarray)))


def _call_back_key(function: Callable[..., Any]) -> Any:
    def pair(job: Any, now: float, options: Options) -> tuple[float, float]:
        first, second = function(job, now, readable(options))
        return float(first), float(second)

    @njit(KEY_SIGNATURE)
    def key(job: Any, now: float, options: Options) -> tuple[float, float]:
        with objmode(first="float64", second="float64"):
            first, second = pair(job, now, options)
        return first, second

    return key


def _call_back_change(function: Callable[..., Any]) -> Any:
    @njit(CHANGE_SIGNATURE)
    def change(job: Any, now: float, options: Options) -> float:
        with objmode(at="float64"):
            at = float(function(job, now, readable(options)))
        return at

    return change


def _call_back_preempt_at(function: Callable[..., Any]) -> Any:
    @njit(PREEMPT_AT_SIGNATURE)
    def preempt_at(job: Any, stops: Any, now: float, options: Options) -> float:
        with objmode(at="float64"):
            at = float(function(job, stops, now, readable(options)))
        return at

    return preempt_at


def _call_back_ended(function: Callable[..., Any]) -> Any:
    def tell(job: Any, now: float, row: int, options: Options) -> None:
        read = readable(options)
        function(job, now, read.history.groups[row], read)  # the row itself: Python would get a copy of `group`

    @njit(ENDED_SIGNATURE)
    def ended(job: Any, now: float, group: Any, options: Options) -> None:
        row = group.row
        with objmode():
            tell(job, now, row, options)

    return ended


def _call_back_place(function: Callable[..., Any]) -> Any:
    @njit(PLACE_SIGNATURE)
    def place(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Any) -> bool:
        with objmode(placed="boolean"):
            placed = bool(function(nodes, leaves, fewest, job, options, out))
        return placed

    return place
