"""How much of the data takes which order, so that every dimension carries exactly its part at the limit.

The most even loads (see `limit`) lie in the base polytope of each block. Any point of it is a mix of at most as many
orders as the block has dimensions; we find one by peeling: take an order that agrees with every set that is already
full, move away from its corner until another set fills up, and go on from there. No solver is needed, and the same mix
comes out on every machine.
"""

import numpy as np
from numpy.typing import NDArray

from headway.collectives.limit import TOLERANCE, Block, blocks, bytes_per_s, first_bytes, order_loads, sets
from headway.collectives.topology.model import Topology

Floats = NDArray[np.float64]
Mix = tuple[tuple[tuple[int, ...], float], ...]


def optimal_mix(topology: Topology, turn: int = 0) -> Mix:
    """Orders and their shares (adding up to 1) that reach the limit; `turn` picks among the many such mixes.

    The mix prefers orders that begin with dimension `turn`, then the next: pre-simulation shows which is best.
    """
    mix: Mix = (((), 1.0),)
    data = 1.0
    for block in blocks(topology):
        mix = _in_sequence(mix, _peel(topology, block, data, turn))
        for dim in block.dims:
            data /= topology.dimensions[dim].size
    return mix


def _peel(topology: Topology, block: Block, data: float, turn: int) -> Mix:
    """A mix of orders of the block's dimensions whose loads are `level` on each, given `data` bytes per byte
    arriving."""
    dims = np.array(block.dims)
    count = len(dims)
    sizes = tuple(topology.dimensions[dim].size for dim in block.dims)
    point = block.level * bytes_per_s(topology)[dims] / data
    members = sets(count)
    most = first_bytes(np.array(sizes, np.float64), members)
    wish = np.roll(np.arange(count), -turn)
    mix: list[tuple[tuple[int, ...], float]] = []
    rest = 1.0
    # Once full, a set stays full: rounding must not free it again. Each turn fills one more, so the loop ends.
    full = most - members @ point <= TOLERANCE * count
    while True:
        order = _agreeing_order(members[full], wish)
        corner = order_loads(sizes, order)
        away = members @ (point - corner)
        grows = (away > TOLERANCE) & ~full
        named = tuple(int(dims[place]) for place in order)
        if not grows.any():
            mix.append((named, rest))
            return tuple((order, share) for order, share in mix if share > TOLERANCE)
        steps = np.full(len(members), np.inf)
        steps[grows] = np.maximum(most - members @ point, 0.0)[grows] / away[grows]
        step = float(steps.min())
        full |= steps <= step * (1 + TOLERANCE)
        mix.append((named, rest * step / (1 + step)))
        rest /= 1 + step
        point = point + step * (point - corner)


def _agreeing_order(full: NDArray[np.bool_], wish: NDArray[np.int64]) -> tuple[int, ...]:
    """An order in which each of a growing chain of full sets comes first; inside the gaps, as wished."""
    order: list[int] = []
    for members in full[np.argsort(full.sum(axis=1), kind="stable")]:
        if all(members[dim] for dim in order):
            order += [int(dim) for dim in wish if members[dim] and dim not in order]
    return (*order, *(int(dim) for dim in wish if dim not in order))


def _in_sequence(first: Mix, then: Mix) -> Mix:
    """Data that took an order of `first` goes on with one of `then`, both shares kept and as few pairs as possible."""
    pairs: list[tuple[tuple[int, ...], float]] = []
    ends = np.cumsum([share for _, share in first]), np.cumsum([share for _, share in then])
    begin, i, j = 0.0, 0, 0
    while i < len(first) and j < len(then):
        end = float(min(ends[0][i], ends[1][j]))
        if end - begin > TOLERANCE:
            pairs.append((first[i][0] + then[j][0], end - begin))
        begin = max(begin, end)
        i, j = i + (ends[0][i] <= end + TOLERANCE), j + (ends[1][j] <= end + TOLERANCE)
    total = sum(share for _, share in pairs)
    return tuple((order, share / total) for order, share in pairs)
