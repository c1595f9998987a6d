"""The identity of a class of jobs: jobs of one class find places alike and wait for the same reason.

A class is (GPUs, wants few nodes or not, model if jobs share GPUs, team, constraints), written as one number. Everything that
encodes or decodes this number is here.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.tables.options import Options


class ClassSizes(NamedTuple):
    """The options that the number of a class depends on."""

    pack_limit: float
    models: int
    teams: int
    demands: int


class _Sized(Protocol):
    """Options or ClassSizes."""

    @property
    def pack_limit(self) -> float:
        """Skew above which a job wants few nodes."""

    @property
    def models(self) -> int:
        """Models that tell jobs apart."""

    @property
    def teams(self) -> int:
        """Rows of the table of teams."""

    @property
    def demands(self) -> int:
        """Rows of the table of constraints."""


def kind_count(gpus: int, models: int) -> int:
    """Return the number of classes per team and set of constraints, on a cluster with this many GPUs."""
    return (2 * gpus + 2) * models


@jit
def class_of(job: Any, options: Options) -> int:
    """Return the class of a job."""
    kind = (2 * job.gpus + (job.skew > options.pack_limit)) * options.models + job.model % options.models
    return (kind * options.teams + job.team) * options.demands + job.demand


def classes_of(jobs: NDArray[Any], options: _Sized) -> NDArray[np.int64]:
    """Return the classes of many jobs."""
    skewed = jobs["skew"] > options.pack_limit
    kinds = (2 * jobs["gpus"].astype(np.int64) + skewed) * options.models + jobs["model"] % options.models
    classes: NDArray[np.int64] = (kinds * options.teams + jobs["team"]) * options.demands + jobs["demand"]
    return classes


def split_class(c: int, options: _Sized) -> tuple[int, int, int]:
    """Return the kind of the jobs of class c (GPUs, few nodes, model), their team and their constraints."""
    rest, demand = divmod(c, options.demands)
    kind, team = divmod(rest, options.teams)
    return kind, team, demand


def join_class(kind: int, team: int, demand: int, options: _Sized) -> int:
    """Return the class of jobs of a kind, a team and constraints; the inverse of `split_class`."""
    return (kind * options.teams + team) * options.demands + demand


@jit
def gpus_of(c: int, options: Options) -> int:
    """Return the GPUs of each job of class c."""
    return c // (2 * options.models * options.teams * options.demands)


def renumbered(classes: NDArray[Any], before: tuple[int, int, int], after: tuple[int, int, int]) -> NDArray[np.int64]:
    """Return the numbers of classes in a table of other size; a size is (kinds, teams, constraints)."""
    numbers: NDArray[np.int64] = np.ravel_multi_index(np.unravel_index(classes, before), after).astype(np.int64)
    return numbers
