"""All-to-alls on a wiring: every message along a way of its own, chosen so that no link is overloaded.

Source by source, messages take the ways that raise the loads of the links least (as in `packed`), and then again, some
times over. Urgent is what has the farthest to go.

The bound is the dual of that choice: give every link any length; messages cannot travel less than the distances between
their ends, and links cannot carry more than length x bandwidth in all. So T >= sum of bytes x distance / sum of length x
bandwidth, whatever the lengths. We take hops, times, and the prices of the routing itself, soft and sharp, which are the
best lengths when the routing is.
"""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.collectives.limit import BITS_PER_BYTE, BPS_PER_GBPS
from headway_wiring.model import Wiring
from headway_wiring.packed import POWER, PackedLinks
from headway_wiring.plan import Send

Floats = NDArray[np.float64]

ROUNDS = 4
# Each message is cut into this many parts, which may take different ways.
PIECES = (1, 2, 4)


def exchanged(wiring: Wiring, pieces: int) -> tuple[list[int], list[Send], Floats]:
    """The sources of all messages, their sends, the farthest first, and how busy each link is."""
    links = PackedLinks(wiring)
    routes: dict[tuple[int, int], list[list[int]]] = {}
    for turn in range(ROUNDS * pieces):
        for source in range(links.ranks):
            key = source, turn % pieces
            links.use([hop for way in routes.pop(key, []) for hop in way], -1)
            routes[key] = _routes(links, source)
            links.use([hop for way in routes[key] for hop in way], 1)
    flat = [(source, way) for (source, _), ways in sorted(routes.items()) for way in ways]
    owners = [source for source, _ in flat]
    steps = [
        (place - len(way), chunk, place, hop) for chunk, (_, way) in enumerate(flat) for place, hop in enumerate(way)
    ]
    steps.sort(key=lambda step: step[:3])
    sends = [Send("a2a", chunk, *links.ends[hop], links.through[hop]) for _, chunk, _, hop in steps]
    return owners, sends, links.busy


def _routes(links: PackedLinks, source: int) -> list[list[int]]:
    """The cheapest way from one rank to each other, as hops."""
    costs = links.costs(float(max(links.busy.max(), links.span.max())))
    reached, came = _distances(links, source, costs)
    routes = []
    for target in range(links.ranks):
        if target != source:
            way, rank = [], target
            while rank != source:
                way.append(came[rank])
                rank = links.ends[came[rank]][0]
            routes.append(way[::-1])
    assert all(np.isfinite(reached))
    return routes


def _distances(links: PackedLinks, source: int, costs: Sequence[float]) -> tuple[list[float], list[int]]:
    """How far every rank is, and the hop by which it is reached."""
    reached, came = [float("inf")] * links.ranks, [-1] * links.ranks
    reached[source] = 0.0
    heap = [(0.0, source)]
    while heap:
        far, rank = heapq.heappop(heap)
        if far > reached[rank]:
            continue
        for hop in links.out[rank]:
            target = links.ends[hop][1]
            if far + costs[hop] < reached[target]:
                reached[target], came[target] = far + costs[hop], hop
                heapq.heappush(heap, (reached[target], target))
    return reached, came


def exchange_bound_s(wiring: Wiring, size_bytes: int, busy: Floats) -> float:
    """No all-to-all is quicker: the best of some choices of lengths."""
    links, rates = (
        PackedLinks(wiring),
        np.array([link.link_gbps for link in wiring.links]) * BPS_PER_GBPS / BITS_PER_BYTE,
    )
    prices = [(busy / busy.max()) ** power / rates for power in (POWER - 1, 4 * POWER, 16 * POWER)]
    best = 0.0
    for lengths in (np.ones(len(rates)), 1 / rates, *prices):
        costs = [float(lengths[parts].sum()) for parts in links.links]
        apart = sum(sum(_distances(links, source, costs)[0]) for source in range(links.ranks))
        best = max(best, apart * size_bytes / links.ranks / float((lengths * rates).sum()))
    return best
