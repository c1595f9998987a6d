"""The compiled loops of a wiring: spreading chunks greedily over idle hops, and running transfers that wait for each other."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# A way from rank to rank: directly or through switches; `links[link_at:link_end]` are what it occupies.
HOP: Final = np.dtype(
    [
        ("source", "i4"),
        ("target", "i4"),
        ("link_at", "i4"),
        ("link_end", "i4"),
        ("ps_per_byte", "f8"),
        ("latency_ps", "i8"),
    ]
)
SEND: Final = np.dtype([("hop", "i4"), ("chunk", "i4"), ("start_ps", "i8"), ("end_ps", "i8"), ("arrive_ps", "i8")])
# A transfer that waits for others; `next_op[next_at:next_end]` are those that wait for it.
MOVE: Final = np.dtype(
    [
        ("hop", "i4"),
        ("needs", "i4"),
        ("next_at", "i4"),
        ("next_end", "i4"),
        ("bytes", "i8"),
        ("start_ps", "i8"),
        ("end_ps", "i8"),
        ("arrive_ps", "i8"),
    ]
)
jit = njit(cache=True, error_model="numpy")
NEVER: Final = 1 << 62
# Spans are rounded up to whole picoseconds; what is whole already stays.
EXACT: Final = 1 - 1e-12


class Ways(NamedTuple):
    """The hops of a wiring, quickest first, with their links."""

    hops: NDArray[Any]
    links: Ints
    ps_per_byte: Floats  # of every link in `links`
    link_count: int


@jit
def spread(ways: Ways, owners: Ints, chunk_bytes: Ints, ranks: int, deadline_ps: int) -> tuple[NDArray[Any], int]:
    """Send every chunk from its owner to all ranks; returns the sends in the order of their starts and how many there are.

    A hop starts nothing that would arrive after the deadline: a slow link is left alone when a quick one will do. Fewer
    sends than needed come back if the deadline cannot be met in this way.
    """
    chunks = len(owners)
    sends = np.empty(chunks * (ranks - 1), SEND)
    told = np.zeros((ranks, chunks), np.bool_)  # has it, or it is on its way
    has = np.zeros((ranks, chunks), np.bool_)
    holders = np.ones(chunks, np.int64)
    for chunk in range(chunks):
        told[owners[chunk], chunk] = True
        has[owners[chunk], chunk] = True
    free_ps, landed, made, now = np.zeros(ways.link_count, np.int64), np.zeros(len(sends), np.bool_), 0, 0
    while made < len(sends) and now < NEVER:
        for number in range(len(ways.hops)):
            hop = ways.hops[number]
            if _idle(ways, hop.link_at, hop.link_end, free_ps, now):
                chunk = _rarest(has[hop.source], told[hop.target], holders)
                if chunk >= 0:
                    end = now + np.int64(np.ceil(chunk_bytes[chunk] * hop.ps_per_byte * EXACT))
                    if end + hop.latency_ps <= deadline_ps:
                        sends[made].hop, sends[made].chunk = number, chunk
                        sends[made].start_ps, sends[made].end_ps = now, end
                        sends[made].arrive_ps = end + hop.latency_ps
                        made += 1
                        told[hop.target, chunk] = True
                        holders[chunk] += 1
                        _occupy(ways, number, chunk_bytes[chunk], free_ps, now)
        now = _next_event(sends, made, free_ps, now)
        for sent in range(made):
            if not landed[sent] and sends[sent].arrive_ps <= now:
                landed[sent] = True
                has[ways.hops[sends[sent].hop].target, sends[sent].chunk] = True
    return sends, made


@jit
def _idle(ways: Ways, begin: int, end: int, free_ps: Ints, now: int) -> bool:
    busy = 0
    for at in range(begin, end):
        busy += free_ps[ways.links[at]] > now
    return busy == 0


@jit
def _occupy(ways: Ways, number: int, size: int, free_ps: Ints, now: int) -> None:
    """Each link of a hop is busy for its own time: a quick one before a slow one serves others meanwhile."""
    for at in range(ways.hops[number].link_at, ways.hops[number].link_end):
        free_ps[ways.links[at]] = now + np.int64(np.ceil(size * ways.ps_per_byte[at] * EXACT))


@jit
def _rarest(has: NDArray[np.bool_], told: NDArray[np.bool_], holders: Ints) -> int:
    """Of the chunks that one rank has and the other lacks, that which the fewest hold; -1 if there is none."""
    best = -1
    for chunk in range(len(holders)):
        if has[chunk] and not told[chunk] and (best < 0 or holders[chunk] < holders[best]):
            best = chunk
    return best


@jit
def _next_event(sends: NDArray[Any], made: int, free_ps: Ints, now: int) -> int:
    """When the next link falls idle or the next send arrives."""
    first = NEVER
    for link in range(len(free_ps)):
        if now < free_ps[link] < first:
            first = free_ps[link]
    for sent in range(made):
        if now < sends[sent].arrive_ps < first:
            first = sends[sent].arrive_ps
    return first


@jit
def run(ways: Ways, moves: NDArray[Any], next_op: Ints) -> int:
    """Run transfers that are listed by urgency: whenever links fall idle, the most urgent that may use them starts.

    Fills in when each starts, ends and arrives, and returns how many could run.
    """
    free_ps, waiting = np.zeros(ways.link_count, np.int64), moves["needs"].copy()
    ready, flying = np.empty(len(moves), np.int64), np.empty(len(moves), np.int64)
    ran, up, able, now = 0, 0, 0, 0
    for number in range(len(moves)):
        if waiting[number] == 0:
            ready[able] = number
            able += 1
    while True:
        kept = 0
        for place in range(able):
            number = ready[place]
            hop = ways.hops[moves[number].hop]
            if _idle(ways, hop.link_at, hop.link_end, free_ps, now):
                end = now + np.int64(np.ceil(moves[number].bytes * hop.ps_per_byte * EXACT))
                moves[number].start_ps, moves[number].end_ps = now, end
                moves[number].arrive_ps = end + hop.latency_ps
                flying[up] = number
                up, ran = up + 1, ran + 1
                _occupy(ways, moves[number].hop, moves[number].bytes, free_ps, now)
            else:
                ready[kept] = number
                kept += 1
        able = kept
        soonest = NEVER
        for place in range(up):
            soonest = min(soonest, moves[flying[place]].arrive_ps)
        for link in range(ways.link_count):
            if now < free_ps[link] < soonest:
                soonest = free_ps[link]
        if soonest == NEVER:
            return ran
        now, place = soonest, 0
        while place < up:
            number = flying[place]
            if moves[number].arrive_ps > now:
                place += 1
                continue
            up -= 1
            flying[place] = flying[up]
            for at in range(moves[number].next_at, moves[number].next_end):
                waiting[next_op[at]] -= 1
                if waiting[next_op[at]] == 0:
                    able = _insert(ready, able, next_op[at])


@jit
def _insert(ready: Ints, able: int, number: int) -> int:
    """Put a transfer among those that are ready, which stay sorted; returns how many there are."""
    place = able
    while place > 0 and ready[place - 1] > number:
        ready[place] = ready[place - 1]
        place -= 1
    ready[place] = number
    return able + 1
