"""The same slices by mixed-integer programming (SciPy's HiGHS): the fallback past the node budget, and the oracle of the tests.

Written from vClos's formulation, apart from `search`: l_a says leaf a is chosen, s_b spine b;
min sum idle_a l_a, sum l = m, sum s = n, l_a + s_b <= 1 for every busy link (a, b), l_a = 0 where free_a < n.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

TIME_LIMIT_S = 10.0  # ours: HiGHS needs 11 to 41 ms at 256 leaves x 32 spines, minutes on adversarial matrices


@dataclass(frozen=True, slots=True)
class Choice:
    """What the solver chose: leaves, spines and the objective."""

    leaves: tuple[int, ...]
    spines: tuple[int, ...]
    cost: int


class OutOfTime(Exception):
    """The solver met its time limit without an answer."""


@dataclass(slots=True)
class _Problem:
    """A programme over 0/1 variables: each row says that low <= sum of coefficient x variable <= high."""

    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    pair_low: float = (
        -np.inf
    )  # the low of a pair; any up to 0 means the same, but decides which of several optima is found
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        self.rows.append((row, low, high))

    def count(self, variables: Iterable[int], exactly: float) -> None:
        """So many of the variables are chosen."""
        self.add(dict.fromkeys(variables, 1.0), exactly, exactly)

    def exclude(self, one: int, other: int) -> None:
        """At most one of the two is chosen."""
        self.add({one: 1.0, other: 1.0}, self.pair_low, 1.0)

    def exclude_busy(self, masks: NDArray[np.uint64], first_leaf: int, first_spine: int, uplinks: int) -> None:
        """A leaf and a spine are not both chosen where the link between them is not free."""
        for leaf, mask in enumerate(masks.tolist()):
            for spine in range(uplinks):
                if not mask >> spine & 1:
                    self.exclude(first_leaf + leaf, first_spine + spine)

    def solve(self, limit_s: float) -> NDArray[np.float64] | None:
        """The best 0/1 vector, or None if there is none."""
        values = [value for row, _, _ in self.rows for value in row.values()]
        number = [i for i, (row, _, _) in enumerate(self.rows) for _ in row]
        column = [key for row, _, _ in self.rows for key in row]
        matrix = coo_array((values, (number, column)), shape=(len(self.rows), self.cost.size))
        answer = milp(
            self.cost,
            integrality=np.ones(self.cost.size, np.int64),
            bounds=Bounds(0, self.upper),
            constraints=LinearConstraint(matrix, [row[1] for row in self.rows], [row[2] for row in self.rows]),
            options={"time_limit": limit_s},
        )
        if answer.status == 2:
            return None
        if answer.status != 0 or answer.x is None:
            raise OutOfTime(f"the solver stopped after {limit_s} s: {answer.message}")
        return np.asarray(np.round(answer.x), np.float64)


def solve_equal(
    masks: NDArray[np.uint64],
    leaf_free: NDArray[np.int64],
    uplinks: int,
    width: int,
    leaves: int,
    limit_s: float = TIME_LIMIT_S,
) -> Choice | None:
    """The shape `leaves` x `width` with the fewest free GPUs, or None if it has no room."""
    spines = np.ones(uplinks)
    problem = _Problem(np.append(leaf_free, 0 * spines), np.append(leaf_free >= width, spines))
    problem.count(range(masks.size), leaves)
    return _choice(problem, masks, uplinks, width, limit_s)


def solve_padded(
    masks: NDArray[np.uint64],
    leaf_free: NDArray[np.int64],
    uplinks: int,
    width: int,
    gpus: int,
    limit_s: float = TIME_LIMIT_S,
) -> Choice | None:
    """The fewest leaves that share `width` spines and give `gpus` GPUs, at most `width` each; cost is the leaves."""
    spines = np.ones(uplinks)
    problem = _Problem(np.append(np.ones(masks.size), 0 * spines), np.append(leaf_free > 0, spines))
    problem.add(dict(enumerate(np.minimum(leaf_free, width).astype(float).tolist())), gpus, np.inf)
    return _choice(problem, masks, uplinks, width, limit_s)


def _choice(problem: _Problem, masks: NDArray[np.uint64], uplinks: int, width: int, limit_s: float) -> Choice | None:
    """Solve for `width` spines whose links to all chosen leaves are free."""
    total = masks.size
    problem.count(range(total, total + uplinks), width)
    problem.exclude_busy(masks, 0, total, uplinks)
    found = problem.solve(limit_s)
    if found is None:
        return None
    leaves, spines = np.nonzero(found[:total])[0], np.nonzero(found[total:])[0]
    return Choice(tuple(leaves.tolist()), tuple(spines.tolist()), int(problem.cost[leaves].sum()))


@dataclass(frozen=True, slots=True)
class PodChoice:
    """A slice across pods: leaves pod by pod, aggregation switches, and the cores of each of them."""

    leaves: tuple[int, ...]
    aggregations: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]


def solve_pods(
    masks: NDArray[np.uint64],
    core_free: NDArray[np.bool_],
    leaf_free: NDArray[np.int64],
    leaf_pod: NDArray[np.int64],
    shape: tuple[int, int, int],
    limit_s: float = TIME_LIMIT_S,
) -> PodChoice | None:
    """Three tiers: q pods x l leaves x n ranks, n aggregation switches, l cores of each, every link between them free.

    `core_free[pod, aggregation, core]`. Variables: pods, leaves, aggregation switches, cores of each of these.
    """
    pods_wanted, leaves_each, width = shape
    pods, uplinks, cores = core_free.shape
    at_leaf, at_agg = pods, pods + masks.size
    at_core = at_agg + uplinks
    size = at_core + uplinks * cores
    problem = _Problem(np.zeros(size), np.ones(size), pair_low=0.0)
    problem.cost[at_leaf:at_agg] = leaf_free
    problem.upper[at_leaf:at_agg] = leaf_free >= width
    problem.count(range(pods), pods_wanted)
    problem.count(range(at_agg, at_core), width)
    for pod in range(pods):
        inside = {at_leaf + int(leaf): 1.0 for leaf in np.nonzero(leaf_pod == pod)[0]}
        problem.add(inside | {pod: -float(leaves_each)}, 0.0, 0.0)
    for agg in range(uplinks):
        of_agg = {at_core + agg * cores + core: 1.0 for core in range(cores)}
        problem.add(of_agg | {at_agg + agg: -float(leaves_each)}, 0.0, 0.0)
    problem.exclude_busy(masks, at_leaf, at_agg, uplinks)
    for pod, agg, core in np.argwhere(~core_free).tolist():
        problem.exclude(pod, at_core + agg * cores + core)
    found = problem.solve(limit_s)
    if found is None:
        return None
    aggs = np.nonzero(found[at_agg:at_core])[0].tolist()
    taken = found[at_core:].reshape(uplinks, cores)
    return PodChoice(
        tuple(np.nonzero(found[at_leaf:at_agg])[0].tolist()),
        tuple(aggs),
        tuple(tuple(np.nonzero(taken[agg])[0].tolist()) for agg in aggs),
    )
