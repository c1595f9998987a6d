"""Plans for a wiring: greedy, link by link, against a deadline that is lowered towards the bound.

The method, in the manner of TACOS (MICRO'24): the all-gather is grown in time, and at every instant each idle hop, the
quickest first, takes the rarest chunk that its target lacks. Each rank receives each chunk once, so each chunk spreads
along a tree; a tree of the transposed network reversed reduces, so a reduce-scatter is the mirror image in time of an
all-gather, and an all-reduce is both: all of the first and then the second, or piece by piece, so that the second half
of one piece overlaps with the first half of the next, which pays where a link is missing in both. Where we depart from
TACOS: there is no randomness, and nothing starts that would arrive after a deadline, which keeps slow links from holding
up the end; several deadlines and numbers of chunks are tried, and the quickest plan is kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.collectives.schedulers import ROUNDING
from headway.collectives.simulate.cost import MOST_BYTES, PS_PER_BYTE_AT_1_GBPS, PS_PER_S, CollectiveKind, split_bytes
from headway.collectives.simulate.operations import LONGEST_PS
from headway.errors import BadInput
from headway_wiring import kernels
from headway_wiring.bound import Cut, bound
from headway_wiring.exchange import PIECES as PIECES_OF_MESSAGES
from headway_wiring.exchange import exchange_bound_s, exchanged
from headway_wiring.kernels import NEVER, Ways
from headway_wiring.model import Wiring
from headway_wiring.packed import packed
from headway_wiring.plan import Send, WiredPlan, timed
from headway_wiring.ways import ways_of

Ints = NDArray[np.int64]

# Deadlines between the bound (0) and what is reached without one (1).
DEADLINES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
# Chunks per rank: more fill links better and wait more for latency.
COUNTS = (1, 2, 4, 8)
# An all-reduce may also run in this many pieces, one after the other.
PIECES = (4, 16)
# Numbers of trees of a packed all-reduce.
PACKED = (16, 64, 128)
# Chunks x ranks of one plan, above which fewer chunks are tried.
MOST_SENDS = 60_000


def plan_wiring(wiring: Wiring, collective: CollectiveKind, size_bytes: int, chunks: int | None = None) -> WiredPlan:
    """The quickest plan found; `chunks` per rank and piece, chosen if left out."""
    ranks = len(wiring.ranks)
    if not ranks <= size_bytes <= MOST_BYTES:
        raise BadInput(f"a collective of {size_bytes} bytes: {ranks} ranks need {ranks} or more, at most {MOST_BYTES}")
    if chunks is not None and not 1 <= chunks <= min(size_bytes // ranks, MOST_SENDS * 4 // ranks**2):
        most = min(size_bytes // ranks, MOST_SENDS * 4 // ranks**2)
        raise BadInput(f"{chunks} chunks per rank: give at least 1 and here at most {most}")
    slowest = min((link.link_gbps for link in wiring.links), default=1.0)
    if 2.0 * size_bytes * ranks * PS_PER_BYTE_AT_1_GBPS / slowest > LONGEST_PS:
        raise BadInput(f"this {collective} on {wiring.name!r} could take months: check its size and the slowest link")
    usual = [
        count for count in COUNTS if count == 1 or (count * ranks**2 <= MOST_SENDS and count * ranks <= size_bytes)
    ]
    least = bound(wiring, collective, size_bytes)
    if collective is CollectiveKind.ALL_TO_ALL:
        if chunks is not None:
            raise BadInput(
                "an all-to-all has one chunk per pair of ranks, cut as it suits: leave out the number of chunks"
            )
        return _exchange(wiring, size_bytes, least)
    candidates = [
        one for count in ([chunks] if chunks else usual) for one in _made(wiring, collective, size_bytes, count)
    ]
    if collective is CollectiveKind.ALL_REDUCE and chunks is None:
        candidates += [packed(wiring, trees) for trees in PACKED if trees <= size_bytes and trees * ranks <= MOST_SENDS]
    quickest = min(
        (timed(wiring, collective, size_bytes, *trees) for trees in candidates), key=lambda plan: plan.time_s
    )
    if collective is not CollectiveKind.ALL_REDUCE:
        # Shards are whole bytes: the bound is that of what all ranks have alike.
        alike = size_bytes // len(quickest.owners) * len(quickest.owners)
        least = replace(least, time_s=least.time_s * alike / size_bytes)
    return _held_against(quickest, least)


def _held_against(plan: WiredPlan, least: Cut) -> WiredPlan:
    """The plan with its bound, which is proven: a time below it is an error of the model, never a good plan."""
    if plan.time_s < least.time_s * (1 - ROUNDING):
        raise ArithmeticError(f"a plan of {plan.time_s} s on {plan.wiring.name}, below its bound of {least.time_s} s")
    return replace(plan, bound=least)


def _exchange(wiring: Wiring, size_bytes: int, least: Cut) -> WiredPlan:
    """The quickest all-to-all over numbers of pieces; the bound is the stronger of cuts and hops."""
    plans, ranks = [], len(wiring.ranks)
    for pieces in PIECES_OF_MESSAGES:
        if pieces == 1 or (pieces * ranks**2 <= MOST_SENDS // 4 and pieces * ranks <= size_bytes):
            owners, sends, busy = exchanged(wiring, pieces)
            plans.append(timed(wiring, CollectiveKind.ALL_TO_ALL, size_bytes, owners, sends))
            hops_s = exchange_bound_s(wiring, size_bytes, busy)
            least = Cut(hops_s, (wiring.ranks,), least.leaving) if hops_s > least.time_s else least
    return _held_against(min(plans, key=lambda plan: plan.time_s), least)


def _made(
    wiring: Wiring, collective: CollectiveKind, size_bytes: int, count: int
) -> Iterator[tuple[list[int], list[Send]]]:
    """The trees of each half, in the order in which they are urgent."""
    ranks = len(wiring.ranks)
    reduces = collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    gathers = collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)
    rs = _mirrored(_gathered(wiring.transposed(), size_bytes, count)) if reduces else []
    ag = _gathered(wiring, size_bytes, count) if gathers else []
    owners = list(range(ranks)) * count
    yield owners, [*rs, *ag]
    if not (reduces and gathers):
        return
    for pieces in PIECES:
        cut = count * pieces
        if cut * ranks <= size_bytes and cut * ranks**2 <= MOST_SENDS:
            yield owners * pieces, _piecewise(rs, ag, ranks, count, pieces)


def _piecewise(rs: list[Send], ag: list[Send], ranks: int, count: int, pieces: int) -> list[Send]:
    """Piece after piece, each as it was planned: idle links go on with the next."""
    return [replace(one, chunk=piece * count * ranks + one.chunk) for piece in range(pieces) for one in [*rs, *ag]]


def _gathered(wiring: Wiring, size_bytes: int, count: int) -> list[Send]:
    """The quickest all-gather over deadlines, with `count` chunks per rank; neighbouring chunks belong to different ranks,
    so that ties between equally rare ones spread over owners."""
    ranks, (ways, through) = len(wiring.ranks), ways_of(wiring)
    least = bound(wiring, CollectiveKind.ALL_GATHER, size_bytes)
    parts, owners = split_bytes(size_bytes, ranks * count), np.tile(np.arange(ranks), count)
    sends = _quickest(ways, owners, parts, ranks, round(least.time_s * PS_PER_S))
    hops = ways.hops[sends["hop"]]
    columns = (sends["chunk"], hops["source"], hops["target"], sends["hop"])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Send("ag", chunk, source, target, through[hop]) for chunk, source, target, hop in rows]


def _quickest(ways: Ways, owners: Ints, parts: Ints, ranks: int, least_ps: int) -> NDArray[Any]:
    """The sends of the quickest try: first without a deadline, then with some below what that reached."""
    best, _ = kernels.spread(ways, owners, parts, ranks, NEVER)
    reached_ps = int(best["arrive_ps"].max())
    for part in DEADLINES:
        deadline_ps = least_ps + round(part * (reached_ps - least_ps))
        sends, made = kernels.spread(ways, owners, parts, ranks, deadline_ps)
        if made == len(sends) and sends["arrive_ps"].max() < best["arrive_ps"].max():
            best = sends
    found: NDArray[Any] = best
    return found


def _mirrored(gather: list[Send]) -> list[Send]:
    """The reduce-scatter that an all-gather on the transposed network is when time runs backwards."""
    return [Send("rs", one.chunk, one.target, one.source, one.through[::-1]) for one in reversed(gather)]
