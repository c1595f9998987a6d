"""What a policy and a placement are: small values, whose functions the engine compiles.

A policy is a key: how one job sorts now, smallest first, and when that changes by itself. `key(job, now, options) -> (first, second)`
and `change(job, now, options) -> time` are expressions over the job's row. Ties go to the job submitted first.

A key is computed when something happens to its job, and again at the time that `change` gave then (infinity: never). Without `change` the
key of a waiting job stays as it was when it began to wait, however long that is; `moving` computes those of running jobs at every decision.
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
from headway.core.keys import never
from headway.core.tables.options import CHANGE_SIGNATURE, KEY_SIGNATURE, Options, history, options
from headway.core.tables.scratch import PLACE_SIGNATURE


@dataclass(frozen=True, slots=True)
class Policy:
    """When jobs run."""

    name: str
    key: Any
    change: Any = never
    preempts: bool = True
    blocks: bool = False  # head-of-line blocking
    reserves: bool = True  # keeps GPUs for the first waiting job that finds no place
    moving: bool = False  # keys of running jobs change as they run
    learns: bool = False  # keys change with the jobs that ended
    oracle: bool = False  # may read the work left, which only a simulator knows
    suspends: float | None = None  # seconds to suspend a job in memory and resume it there, where a policy does
    packs: bool = False
    migrates: bool = False
    quantum: float = np.inf
    limit: float = np.inf  # seconds that a job is taken to run at most, where it has no shorter limit
    requested: float = np.inf  # in simulation: jobs without a limit ask for this many times what they take
    turn: float = 0.0  # seconds a job runs at least before it may lose its GPUs
    least_turn: float = 0.0  # the same where turns follow from costs (`auto`), but for jobs that report their progress
    rent: float = 0.0  # a job stops others once it has waited for so many times the GPU-time that their stops cost
    clears: float = np.inf  # seconds that a job waits before smaller ones are moved out of its way
    reports: bool = False  # reads the work left of jobs that report their progress
    thresholds: tuple[float, ...] = ()
    promote: float = np.inf
    samples: NDArray[np.float64] | None = None  # a given distribution of GPU-seconds, for policies that learn
    fits: bool = False  # the thresholds are fitted to the jobs that ended; until there are enough, they are as given
    plotted: bool = False
    # An elastic policy resizes jobs. Given once what it may know, it makes allot(state, scratch, now), which sets `want` there:
    # see policies/optimus.py.
    allot: Callable[..., Any] | None = None

    def options(self, jobs: int, **placement: Any) -> Options:
        """The options of a run of so many jobs under this policy."""
        names = ("preempts", "blocks", "reserves", "moving", "learns", "fits", "plotted", "packs", "migrates")
        return options(
            thresholds=np.array([*self.thresholds, np.inf]),
            promote=float(self.promote),
            quantum=float(self.quantum),
            min_runtime=float(self.turn),
            limit=float(self.limit),
            rent=float(self.rent),
            clears=float(self.clears),
            elastic=self.allot is not None,
            history=history(self.samples, jobs) if self.learns else history(np.zeros(0)),
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
    needs_fabric: bool = False  # reserves links
    knows_leaves: bool = False  # places by leaves, without reserving their links
    shares: bool = False  # reserves links where that is worth waiting for; other jobs share what is left
    patience: float = 0.0  # a job waits for links of its own at most so many times what sharing is expected to cost it
    spread_patience: float = 0.0  # and for the fewest nodes at most so many times what spreading is
    rewires: bool = False  # reserves ports of a fabric with optical switches; circuits follow from them


@cache
def key_function(function: Callable[..., Any]) -> Any:
    """Compile a policy's key; one that numba cannot compile is called back from compiled code, slower."""
    return _compiled(function, KEY_SIGNATURE, _call_back_key)


@cache
def change_function(function: Callable[..., Any]) -> Any:
    """Compile a policy's change in the same way."""
    return _compiled(function, CHANGE_SIGNATURE, _call_back_change)


@cache
def place_function(function: Callable[..., Any]) -> Any:
    """Compile a placement in the same way."""
    return _compiled(function, PLACE_SIGNATURE, _call_back_place)


def _compiled(function: Any, signature: Any, call_back: Callable[..., Any]) -> Any:
    if isinstance(function, Kernel) and function.signature == signature:
        return function.entry
    if isinstance(function, Dispatcher) and signature in function.nopython_signatures:
        return function
    try:
        return jit(signature)(getattr(function, "py_func", function)).entry
    except (NumbaError, TypeError, AttributeError):
        return call_back(function)


def _call_back_key(function: Callable[..., Any]) -> Any:
    def pair(job: Any, now: float, given: Options) -> tuple[float, float]:
        first, second = function(job, now, given)
        return float(first), float(second)

    @njit(KEY_SIGNATURE)
    def key(job: Any, now: float, given: Options) -> tuple[float, float]:
        with objmode(first="float64", second="float64"):
            first, second = pair(job, now, given)
        return first, second

    return key


def _call_back_change(function: Callable[..., Any]) -> Any:
    @njit(CHANGE_SIGNATURE)
    def change(job: Any, now: float, given: Options) -> float:
        with objmode(at="float64"):
            at = float(function(job, now, given))
        return at

    return change


def _call_back_place(function: Callable[..., Any]) -> Any:
    @njit(PLACE_SIGNATURE)
    def place(nodes: Any, leaves: Any, fewest: Any, job: Any, given: Options, out: Any) -> bool:
        with objmode(placed="boolean"):
            placed = bool(function(nodes, leaves, fewest, job, given, out))
        return placed

    return place
