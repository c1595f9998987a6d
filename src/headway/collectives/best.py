"""Our scheduler: build plans at the exact limit, pre-simulate a handful, keep the best one.

Candidates, for each of a few numbers of chunks: the baseline and Themis under each discipline (so it never loses to
them), and plans whose data is shared among orders exactly as the limit asks, smallest first or as a mirror (see
`drafts_mirrored`). These come with equal chunks and with chunks that start small and grow: a dimension that no order
begins with waits for the first chunk to arrive, and a small one arrives early. Where we depart from Themis: orders are
not greedy, chunks may differ in size, and the simulator, not a rule, has the last word.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from headway.collectives.draft import Draft, Task, draft_by_queues, drafts_mirrored
from headway.collectives.limit import limit
from headway.collectives.published import baseline, themis
from headway.collectives.shares import Mix, optimal_mix
from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind, split_bytes
from headway.collectives.simulate.operations import INTRA

Ints = NDArray[np.int64]

# How chunks grow: the first is an eighth of the usual, each next one larger by this factor until it is usual. 1.3 was
# the best of 1.1 to 2 on the presets; with 8 and 1.3 the first nine chunks are smaller than the others.
GROWTH = 1.3
SMALLEST = 1 / 8
# A plan this close to the limit cannot be bettered noticeably: stop looking.
GOOD_ENOUGH = 0.9999
# Beyond this, more chunks gain nothing that can be measured; what others do is still compared at the number asked for.
MOST_USEFUL = 1024


def best(task: Task, most_chunks: int) -> Draft:
    """The fastest candidate; of equals the first, in a fixed sequence, so that all ranks choose alike."""
    counts = chunk_counts(task.size_bytes, most_chunks)
    draft_so_far = min((draft for count in counts for draft in _published(task, count)), key=_end)
    floor_ps = limit(task.topology, task.collective, task.size_bytes).limit_s * PS_PER_S
    mixes = dict.fromkeys(optimal_mix(task.topology, turn) for turn in range(len(task.topology.dimensions)))
    for count in (count for count in counts if count <= MOST_USEFUL):
        if floor_ps >= GOOD_ENOUGH * draft_so_far.end_ps:
            break
        draft_so_far = min(draft_so_far, *_at_the_limit(task, count, mixes), key=_end)
    return draft_so_far


def _end(draft: Draft) -> int:
    return draft.end_ps


def chunk_counts(size_bytes: int, most_chunks: int) -> list[int]:
    """The largest number allowed, then halves of it: fewer chunks wait less for latency."""
    count = min(most_chunks, size_bytes)
    return [count >> halvings for halvings in range(count.bit_length())]


def _published(task: Task, chunks: int) -> Iterator[Draft]:
    """What others do, with this number of chunks: with these among the candidates, we never lose to them."""
    yield baseline(task, "fifo", chunks)
    for intra in INTRA:
        yield themis(task, intra, chunks)


def _at_the_limit(task: Task, chunks: int, mixes: Iterable[Mix]) -> Iterator[Draft]:
    """Plans whose shares of orders are those of the limit, with this number of chunks."""
    if task.collective is CollectiveKind.ALL_TO_ALL:
        yield _rotating(task, chunks)
        return
    for mix in mixes:
        for growth in (1.0, GROWTH):
            parts, rs = share_out(mix, task.size_bytes, chunks, growth)
            yield draft_by_queues(task, parts, rs, "scf", "limit")
            yield from drafts_mirrored(task, parts, rs, "limit")


def _rotating(task: Task, chunks: int) -> Draft:
    """An all-to-all loads all dimensions whatever the order: let chunks begin on all of them in turn."""
    dims = len(task.topology.dimensions)
    rs = (np.arange(dims) + np.arange(chunks)[:, None]) % dims
    return draft_by_queues(task, split_bytes(task.size_bytes, chunks), rs, "fifo", "rotating")


def share_out(mix: Mix, size_bytes: int, chunks: int, growth: float) -> tuple[Ints, Ints]:
    """Chunks and their orders for a mix: bytes by share, orders interleaved evenly. With fewer chunks than orders, the
    smallest shares are dropped."""
    largest = sorted(mix, key=lambda part: -part[1])[:chunks]
    shares = np.array([share for _, share in largest])
    shares /= shares.sum()
    counts = apportion(shares, chunks)
    totals = _whole(shares, size_bytes, counts)
    parts, orders, middles = [], [], []
    for (order, _), count, total in zip(largest, counts.tolist(), totals.tolist(), strict=True):
        sizes = np.minimum(1.0, SMALLEST * growth ** np.arange(min(count, 40))) if growth > 1 else np.ones(count)
        weights = np.append(sizes, np.ones(count - len(sizes)))
        pieces = _whole(weights, total, np.ones(count, np.int64))
        parts.append(pieces)
        orders.append(np.tile(np.array(order, np.int64), (count, 1)))
        middles.append((np.cumsum(pieces) - pieces / 2) / total)
    sequence = np.argsort(np.concatenate(middles), kind="stable")
    return np.concatenate(parts)[sequence], np.concatenate(orders)[sequence]


def apportion(shares: NDArray[np.float64], seats: int) -> Ints:
    """`seats` whole numbers in proportion to `shares`, each at least 1; what rounding leaves goes to the largest
    chunks."""
    counts = 1 + np.floor(shares * (seats - len(shares))).astype(np.int64)
    for _ in range(seats - int(counts.sum())):
        counts[np.argmax(shares / counts)] += 1
    return counts


def _whole(weights: NDArray[np.float64], total: int, least: Ints) -> Ints:
    """Whole numbers in proportion to `weights` that add up to `total`, none below `least`."""
    spare = total - int(least.sum())
    parts: Ints = least + np.floor(weights / weights.sum() * spare).astype(np.int64)
    parts[-1] += total - int(parts.sum())
    return parts
