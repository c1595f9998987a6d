"""All-reduces by packed trees: each chunk is added up along one tree to its root and handed out along another.

Chunk by chunk, the pair of trees is chosen that raises the loads of the links least, measured by the sum of a high power
of their busy times, which is close to their maximum; then every chunk is taken out and placed again, some times over.
Roots are free: a rank behind a slow link owns nothing. Run one after the other without a pause, the chunks take about as
long as the most loaded link; what is lost is the way of one chunk. Trees are grown as by Prim, the cheapest hop first:
not the cheapest trees of a directed graph, but nearly.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from headway_wiring.model import Wiring
from headway_wiring.plan import Send
from headway_wiring.ways import ways_of

# The power that stands for the maximum; larger ones see nothing but the worst link.
POWER = 8
# How many times every chunk is placed again.
ROUNDS = 2
# Roots that are tried for a chunk, in turn from those with the most bandwidth; fewer where trees are large.
MOST_ROOTS = 8
RANKS_OF_ROOTS = 128


class PackedLinks:
    """Hops as parts of trees and ways, and how busy their links are."""

    def __init__(self, wiring: Wiring) -> None:
        ways, self.through = ways_of(wiring)
        self.ranks = len(wiring.ranks)
        self.ends = list(zip(ways.hops["source"].tolist(), ways.hops["target"].tolist(), strict=True))
        begins, stops = ways.hops["link_at"].tolist(), ways.hops["link_end"].tolist()
        self.links = [ways.links[begin:stop] for begin, stop in zip(begins, stops, strict=True)]
        self.span = np.array([1 / link.link_gbps for link in wiring.links])
        self.span /= self.span.mean()
        self.busy = np.zeros(len(wiring.links))
        self.out: list[list[int]] = [[] for _ in range(self.ranks)]
        self.into: list[list[int]] = [[] for _ in range(self.ranks)]
        for hop, (source, target) in enumerate(self.ends):
            self.out[source].append(hop)
            self.into[target].append(hop)

    def costs(self, scale: float) -> list[float]:
        """What each hop would add to the sum of powers."""
        grown = (self.busy + self.span) / scale
        added = grown**POWER - (self.busy / scale) ** POWER
        return [float(added[links].sum()) for links in self.links]

    def use(self, hops: Sequence[int], sign: int) -> None:
        for hop in hops:
            self.busy[self.links[hop]] += sign * self.span[self.links[hop]]

    def strongest(self) -> list[int]:
        """Ranks by the lesser of what they can send and receive."""
        speed = [1 / self.span[self.links[hop]].max() for hop in range(len(self.links))]
        power = [
            min(sum(speed[hop] for hop in self.out[r]), sum(speed[hop] for hop in self.into[r]))
            for r in range(self.ranks)
        ]
        return sorted(range(self.ranks), key=lambda rank: -power[rank])

    def tree(self, root: int, costs: Sequence[float], reduces: bool) -> list[int]:
        """Hops from the root outwards; for a reduction, hops that lead towards it."""
        near, far = (self.into, 0) if reduces else (self.out, 1)
        joined, hops = {root}, []
        heap = [(costs[hop], hop) for hop in near[root]]
        heapq.heapify(heap)
        while heap:
            _, hop = heapq.heappop(heap)
            rank = self.ends[hop][far]
            if rank not in joined:
                joined.add(rank)
                hops.append(hop)
                for more in near[rank]:
                    heapq.heappush(heap, (costs[more], more))
        return hops


def packed(wiring: Wiring, chunks: int) -> tuple[list[int], list[Send]]:
    """The root of each chunk, and all sends, the first chunk first."""
    links = PackedLinks(wiring)
    strongest = links.strongest()
    tried = max(2, min(MOST_ROOTS, len(strongest), RANKS_OF_ROOTS // len(strongest)))
    trees: list[tuple[int, list[int], list[int]]] = []
    for number in range(chunks * (1 + ROUNDS)):
        at = number % chunks
        if number >= chunks:
            links.use(trees[at][1] + trees[at][2], -1)
        scale = float(max(links.busy.max(), links.span.max()))
        costs = links.costs(scale)
        roots = [strongest[(number + turn) % len(strongest)] for turn in range(tried)]
        candidates = [(root, links.tree(root, costs, True), links.tree(root, costs, False)) for root in roots]
        best = min(candidates, key=lambda one: sum(costs[hop] for hop in one[1] + one[2]))
        links.use(best[1] + best[2], 1)
        if number < chunks:
            trees.append(best)
        else:
            trees[at] = best
    sends = []
    for chunk, (_, inwards, outwards) in enumerate(trees):
        sends += [_send("rs", chunk, hop, links) for hop in reversed(inwards)]
        sends += [_send("ag", chunk, hop, links) for hop in outwards]
    return [root for root, _, _ in trees], sends


def _send(phase: str, chunk: int, hop: int, links: PackedLinks) -> Send:
    return Send(phase, chunk, *links.ends[hop], links.through[hop])
