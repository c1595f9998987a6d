"""The same slices by mixed-integer programming (SciPy's HiGHS): the fallback past the node budget, and the oracle.

Written from vClos's formulation, apart from `search`: l_a says leaf a is chosen, s_b spine b;
min sum idle_a l_a, sum l = m, sum s = n, l_a + s_b <= 1 for every busy link (a, b), l_a = 0 where free_a < n.
"""

from dataclasses import dataclass

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


def _busy_rows(masks: NDArray[np.uint64], uplinks: int) -> coo_array:
    """One row l_a + s_b <= 1 for every link that is not free."""
    busy = [(leaf, spine) for leaf, mask in enumerate(masks) for spine in range(uplinks) if not int(mask) >> spine & 1]
    row = np.repeat(np.arange(len(busy)), 2)
    column = np.array([[leaf, masks.size + spine] for leaf, spine in busy], np.int64).reshape(-1)
    return coo_array((np.ones(row.size), (row, column)), shape=(len(busy), masks.size + uplinks))


def _solve(
    cost: NDArray[np.float64], upper: NDArray[np.float64], rows: list[LinearConstraint], limit_s: float
) -> NDArray[np.float64] | None:
    """The best 0/1 vector, or None if there is none."""
    answer = milp(
        cost,
        integrality=np.ones(cost.size, np.int64),
        bounds=Bounds(0, upper),
        constraints=rows,
        options={"time_limit": limit_s},
    )
    if answer.status == 2:
        return None
    if answer.status != 0 or answer.x is None:
        raise OutOfTime(f"the solver stopped after {limit_s} s: {answer.message}")
    return np.asarray(np.round(answer.x), np.float64)


def _sum_of(first: int, last: int, size: int) -> NDArray[np.float64]:
    row = np.zeros(size)
    row[first:last] = 1
    return row


def solve_equal(
    masks: NDArray[np.uint64],
    leaf_free: NDArray[np.int64],
    uplinks: int,
    width: int,
    leaves: int,
    limit_s: float = TIME_LIMIT_S,
) -> Choice | None:
    """The shape `leaves` x `width` with the fewest free GPUs, or None if it has no room."""
    total = masks.size
    upper = np.concatenate([(leaf_free >= width).astype(float), np.ones(uplinks)])
    rows = [
        LinearConstraint(_sum_of(0, total, total + uplinks), leaves, leaves),
        LinearConstraint(_sum_of(total, total + uplinks, total + uplinks), width, width),
    ]
    busy = _busy_rows(masks, uplinks)
    if busy.shape[0]:
        rows.append(LinearConstraint(busy, -np.inf, 1))
    found = _solve(np.concatenate([leaf_free.astype(float), np.zeros(uplinks)]), upper, rows, limit_s)
    return None if found is None else _choice(found, total, leaf_free)


def solve_padded(
    masks: NDArray[np.uint64],
    leaf_free: NDArray[np.int64],
    uplinks: int,
    width: int,
    gpus: int,
    limit_s: float = TIME_LIMIT_S,
) -> Choice | None:
    """The fewest leaves that share `width` spines and give `gpus` GPUs, at most `width` each; cost is the leaves."""
    total = masks.size
    given = np.minimum(leaf_free, width).astype(float)
    upper = np.concatenate([(leaf_free > 0).astype(float), np.ones(uplinks)])
    rows = [
        LinearConstraint(np.concatenate([given, np.zeros(uplinks)]), gpus, np.inf),
        LinearConstraint(_sum_of(total, total + uplinks, total + uplinks), width, width),
    ]
    busy = _busy_rows(masks, uplinks)
    if busy.shape[0]:
        rows.append(LinearConstraint(busy, -np.inf, 1))
    found = _solve(np.concatenate([np.ones(total), np.zeros(uplinks)]), upper, rows, limit_s)
    return None if found is None else _choice(found, total, np.ones(total, np.int64))


def _choice(found: NDArray[np.float64], total: int, cost: NDArray[np.int64]) -> Choice:
    leaves = np.nonzero(found[:total])[0]
    return Choice(tuple(map(int, leaves)), tuple(map(int, np.nonzero(found[total:])[0])), int(cost[leaves].sum()))


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
    rows: list[tuple[dict[int, float], float, float]] = [
        (dict.fromkeys(range(pods), 1.0), pods_wanted, pods_wanted),
        ({at_agg + agg: 1.0 for agg in range(uplinks)}, width, width),
    ]
    for pod in range(pods):
        inside = {at_leaf + int(leaf): 1.0 for leaf in np.nonzero(leaf_pod == pod)[0]}
        rows.append((inside | {pod: -float(leaves_each)}, 0.0, 0.0))
    for agg in range(uplinks):
        of_agg = {at_core + agg * cores + core: 1.0 for core in range(cores)}
        rows.append((of_agg | {at_agg + agg: -float(leaves_each)}, 0.0, 0.0))
    for leaf, mask in enumerate(masks):
        rows += [({at_leaf + leaf: 1.0, at_agg + a: 1.0}, 0.0, 1.0) for a in range(uplinks) if not int(mask) >> a & 1]
    for pod, agg, core in np.argwhere(~core_free):
        rows.append(({int(pod): 1.0, at_core + int(agg) * cores + int(core): 1.0}, 0.0, 1.0))
    matrix = coo_array(
        (
            [value for row, _, _ in rows for value in row.values()],
            ([i for i, (row, _, _) in enumerate(rows) for _ in row], [key for row, _, _ in rows for key in row]),
        ),
        shape=(len(rows), size),
    )
    bounds = LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
    cost, upper = np.zeros(size), np.ones(size)
    cost[at_leaf:at_agg] = leaf_free
    upper[at_leaf:at_agg] = leaf_free >= width
    found = _solve(cost, upper, [bounds], limit_s)
    if found is None:
        return None
    aggs = [agg for agg in range(uplinks) if found[at_agg + agg]]
    core_taken = found[at_core:].reshape(uplinks, cores)
    return PodChoice(
        tuple(leaf for leaf in range(masks.size) if found[at_leaf + leaf]),
        tuple(aggs),
        tuple(tuple(map(int, np.nonzero(core_taken[agg])[0])) for agg in aggs),
    )
