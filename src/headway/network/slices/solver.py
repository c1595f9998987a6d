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

Masks = NDArray[np.uint64]
Counts = NDArray[np.int64]
TIME_LIMIT_S = 10.0  # ours: HiGHS needs 11 to 41 ms at 256 leaves x 32 spines, minutes on adversarial matrices


@dataclass(frozen=True, slots=True)
class SliceChoice:
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
    # The low of a pair; any up to 0 means the same, but decides which of several optima is found.
    pair_low: float = -np.inf
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def count(self, variables: Iterable[int], exactly: float) -> None:
        """So many of the variables are chosen."""
        self.rows.append((dict.fromkeys(variables, 1.0), exactly, exactly))

    def each(self, owner: int, count: int, variables: Iterable[int]) -> None:
        """So many of the variables are chosen if the owner is, otherwise none."""
        self.rows.append((dict.fromkeys(variables, 1.0) | {owner: -float(count)}, 0.0, 0.0))

    def exclude(self, one: int, other: int) -> None:
        """At most one of the two is chosen."""
        self.rows.append(({one: 1.0, other: 1.0}, self.pair_low, 1.0))

    def exclude_busy(self, masks: Masks, first_leaf: int, first_spine: int, uplinks: int) -> None:
        """A leaf and a spine are not both chosen where the link between them is not free."""
        for leaf, mask in enumerate(masks.tolist()):
            for spine in range(uplinks):
                if not mask >> spine & 1:
                    self.exclude(first_leaf + leaf, first_spine + spine)

    def solve(self) -> NDArray[np.float64] | None:
        """The best 0/1 vector, or None if there is none."""
        rows, low, high = zip(*self.rows, strict=True)
        number = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        column, values = zip(*(entry for row in rows for entry in row.items()), strict=True)
        matrix = coo_array((values, (number, column)), shape=(len(rows), self.cost.size))
        answer = milp(
            self.cost,
            integrality=np.ones(self.cost.size, np.int64),
            bounds=Bounds(0, self.upper),
            constraints=LinearConstraint(matrix, low, high),
            options={"time_limit": TIME_LIMIT_S},
        )
        if answer.status == 2:
            return None
        if answer.status != 0 or answer.x is None:
            raise OutOfTime(f"the solver stopped after {TIME_LIMIT_S} s: {answer.message}")
        return np.asarray(np.round(answer.x), np.float64)


def solve_equal(masks: Masks, leaf_free: Counts, uplinks: int, width: int, leaves: int) -> SliceChoice | None:
    """The shape `leaves` x `width` with the fewest free GPUs, or None if it has no room."""
    problem = _Problem(np.append(leaf_free, np.zeros(uplinks)), np.append(leaf_free >= width, np.ones(uplinks)))
    problem.count(range(masks.size), leaves)
    return _choice(problem, masks, width)


def solve_padded(masks: Masks, leaf_free: Counts, uplinks: int, width: int, gpus: int) -> SliceChoice | None:
    """The fewest leaves that share `width` spines and give `gpus` GPUs, at most `width` each; cost is the leaves."""
    cost = np.append(np.ones(masks.size), np.zeros(uplinks))
    problem = _Problem(cost, np.append(leaf_free > 0, np.ones(uplinks)))
    gpus_by_leaf = dict(enumerate(np.minimum(leaf_free, width).astype(float).tolist()))
    problem.rows.append((gpus_by_leaf, gpus, np.inf))
    return _choice(problem, masks, width)


def _choice(problem: _Problem, masks: Masks, width: int) -> SliceChoice | None:
    """Solve for `width` spines whose links to all chosen leaves are free."""
    total = masks.size
    problem.count(range(total, problem.cost.size), width)
    problem.exclude_busy(masks, 0, total, problem.cost.size - total)
    solution = problem.solve()
    if solution is None:
        return None
    leaves, spines = np.nonzero(solution[:total])[0], np.nonzero(solution[total:])[0]
    return SliceChoice(tuple(leaves.tolist()), tuple(spines.tolist()), int(problem.cost[leaves].sum()))


@dataclass(frozen=True, slots=True)
class PodChoice:
    """A slice across pods: leaves pod by pod, aggregation switches, and the cores of each of them."""

    leaves: tuple[int, ...]
    aggregations: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]


def solve_pods(
    masks: Masks, core_free: NDArray[np.bool_], leaf_free: Counts, leaf_pod: Counts, shape: tuple[int, int, int]
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
        problem.each(pod, leaves_each, (at_leaf + np.nonzero(leaf_pod == pod)[0]).tolist())
    for agg in range(uplinks):
        problem.each(at_agg + agg, leaves_each, range(at_core + agg * cores, at_core + (agg + 1) * cores))
    problem.exclude_busy(masks, at_leaf, at_agg, uplinks)
    for pod, agg, core in np.argwhere(~core_free).tolist():
        problem.exclude(pod, at_core + agg * cores + core)
    solution = problem.solve()
    if solution is None:
        return None
    aggs = np.nonzero(solution[at_agg:at_core])[0].tolist()
    taken = solution[at_core:].reshape(uplinks, cores)
    return PodChoice(
        tuple(np.nonzero(solution[at_leaf:at_agg])[0].tolist()),
        tuple(aggs),
        tuple(tuple(np.nonzero(taken[agg])[0].tolist()) for agg in aggs),
    )
