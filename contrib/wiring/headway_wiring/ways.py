"""The hops of a wiring: from rank to rank, directly or through switches."""

from functools import lru_cache

import numpy as np

from headway.collectives.simulate.cost import PS_PER_BYTE_AT_1_GBPS, PS_PER_NS
from headway_wiring.kernels import HOP, Ways
from headway_wiring.model import Wiring

# Ways of equal length through switches between two ranks; they take turns by the numbers of the ranks.
MOST_WAYS = 4


@lru_cache(maxsize=16)
def ways_of(wiring: Wiring) -> tuple[Ways, list[tuple[str, ...]]]:
    """All hops from rank to rank, the quickest first and then by the distance of their numbers, and the switches that each
    goes through."""
    ranks, place = len(wiring.ranks), {name: number for number, name in enumerate(wiring.vertices)}
    out: list[list[tuple[int, int]]] = [[] for _ in place]
    for number, link in enumerate(wiring.links):
        out[place[link.source]].append((place[link.target], number))
    listed = []
    for source in range(ranks):
        for target, paths in _paths(out, source, ranks).items():
            turn = (source + target) % len(paths)
            for path in (paths[turn:] + paths[:turn])[:MOST_WAYS]:
                links = [wiring.links[number] for number in path]
                slowest = PS_PER_BYTE_AT_1_GBPS / min(link.link_gbps for link in links)
                latency_ps = round(sum(link.latency_ns for link in links) * PS_PER_NS)
                listed.append((slowest, (target - source) % ranks, source, target, latency_ps, path))
    listed.sort(key=lambda hop: hop[:4])
    hops = np.zeros(len(listed), HOP)
    flat: list[int] = []
    for row, (slowest, _, source, target, latency_ps, path) in zip(hops, listed, strict=True):
        row["source"], row["target"], row["ps_per_byte"], row["latency_ps"] = source, target, slowest, latency_ps
        row["link_at"], row["link_end"] = len(flat), len(flat) + len(path)
        flat += path
    through = [tuple(wiring.links[number].target for number in path[:-1]) for *_, path in listed]
    rates = np.array([PS_PER_BYTE_AT_1_GBPS / wiring.links[number].link_gbps for number in flat])
    return Ways(hops, np.array(flat, np.int64), rates, len(wiring.links)), through


def _paths(out: list[list[tuple[int, int]]], source: int, ranks: int) -> dict[int, list[tuple[int, ...]]]:
    """The shortest ways from a rank to others through switches only, as numbers of links."""
    paths: dict[int, list[tuple[int, ...]]] = {}
    seen = {source}
    front: list[tuple[int, tuple[int, ...]]] = [(source, ())]
    while front:
        grown: list[tuple[int, tuple[int, ...]]] = []
        reached: dict[int, list[tuple[int, ...]]] = {}
        for vertex, path in front:
            for target, number in out[vertex]:
                if target in seen:
                    continue
                longer = (*path, number)
                if target < ranks:
                    reached.setdefault(target, []).append(longer)
                elif len(grown) < MOST_WAYS * len(out):
                    grown.append((target, longer))
        paths |= reached
        seen |= set(reached) | {vertex for vertex, _ in grown}
        front = grown
    return paths
