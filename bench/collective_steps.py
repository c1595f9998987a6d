"""Several chunks in flight, played a second time: plans as lists, every step of every phase on its own, in plain Python.

Shares nothing with the compiled simulator but plans and what a network is. A phase is P - 1 steps on a ring, log2 P on a switch, one
where all are connected, each with its bytes and its own delay; links serve other chunks while a step's delay lasts.

Run: python -m bench.collective_steps
"""

import heapq
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from headway.collectives.best import best
from headway.collectives.draft import Draft, Task
from headway.collectives.limit import limit
from headway.collectives.published import baseline, themis
from headway.collectives.simulate.cost import PS_PER_NS, PS_PER_S, CollectiveKind, ps_per_byte
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import PAPER

AR = CollectiveKind.ALL_REDUCE
SIZES = (10**7, 10**8, 10**9)
IN_FLIGHT = (1, 2, 4, 8, 16)
MAKERS: dict[str, Callable[[Task], Draft]] = {
    "baseline@64": lambda task: baseline(task, "fifo", 64),
    "themis-fifo@64": lambda task: themis(task, "fifo", 64),
    "themis-scf@64": lambda task: themis(task, "scf", 64),
    "best": lambda task: best(task, 256),
}


def step_bytes(dimension: Dimension, data: int, grows: bool) -> list[int]:
    """What each step of a phase sends, of `data` bytes at its larger end."""
    shard = -(-data // dimension.size)
    if dimension.kind is DimensionKind.FULLY_CONNECTED:
        return [(dimension.size - 1) * shard]
    if dimension.kind is DimensionKind.RING:
        return [shard] * (dimension.size - 1)
    sent, left = [], dimension.size
    while left > 1:
        sent.append((left // 2) * shard)
        left -= left // 2
    return sent[::-1] if grows else sent


class Player:
    """Lists by dimension, links, and the steps that are under way."""

    def __init__(self, draft: Draft, topology: Topology, in_flight: int) -> None:
        self.ops, self.dimensions, self.inverse = draft.ops, topology.dimensions, ps_per_byte(topology)
        self.lists = [draft.listed[first:end].tolist() for first, end in pairwise(draft.begins)]
        self.slots = [in_flight] * len(self.lists)
        self.link_free = [0.0] * len(self.lists)
        self.ready = {op for op in range(len(self.ops.dim)) if op % self.ops.phases == 0}
        self.to_send: dict[int, list[int]] = {}
        self.under_way: list[tuple[float, int]] = []
        self.now = 0.0

    def run_s(self) -> float:
        """The end of everything, in s."""
        for dim in range(len(self.lists)):
            self.start(dim)
        while self.under_way:
            self.now, op = heapq.heappop(self.under_way)
            if self.to_send[op]:
                self.send(op)
                continue
            self.slots[self.ops.dim[op]] += 1
            if (op + 1) % self.ops.phases:
                self.ready.add(op + 1)
            self.start(int(self.ops.dim[op]))
            self.start(int(self.ops.dim[min(op + 1, len(self.ops.dim) - 1)]))
        return self.now / PS_PER_S

    def start(self, dim: int) -> None:
        """What is next in the list, while it may start."""
        while self.lists[dim] and self.slots[dim] and self.lists[dim][0] in self.ready:
            op = self.lists[dim].pop(0)
            self.slots[dim] -= 1
            grows = op % self.ops.phases >= self.ops.phases // 2
            self.to_send[op] = step_bytes(self.dimensions[dim], int(self.ops.larger_bytes[op]), grows)
            self.send(op)

    def send(self, op: int) -> None:
        """The next step, as soon as the link is free."""
        dim = int(self.ops.dim[op])
        dimension = self.dimensions[dim]
        delay = dimension.latency_ns * PS_PER_NS * (2 if dimension.kind is DimensionKind.SWITCH else 1)
        self.link_free[dim] = max(self.now, self.link_free[dim]) + self.to_send[op].pop(0) * self.inverse[dim]
        heapq.heappush(self.under_way, (self.link_free[dim] + delay, op))


def both_s(make: Callable[[Task], Draft], topology: Topology, size: int, in_flight: int) -> tuple[float, float]:
    """The time of an all-reduce as the simulator has it, and as it is played here."""
    draft = make(Task(topology, AR, size, in_flight))
    return draft.end_ps / PS_PER_S, Player(draft, topology, in_flight).run_s()


def main() -> None:
    """How far the two are apart, and what several chunks in flight gain."""
    print("python -m bench.collective_steps")
    print("six networks, 10 MB to 1 GB: largest difference of the two, and mean utilisation at 10 / 100 / 1000 MB in %")
    for name, make in MAKERS.items():
        for in_flight in IN_FLIGHT:
            apart, used = 0.0, []
            for size in SIZES:
                both = [both_s(make, topology, size, in_flight) for topology in PAPER]
                apart = max(apart, *(abs(one / other - 1) for one, other in both))
                ideals = [limit(topology, AR, size).ideal_s for topology in PAPER]
                used.append(100 * np.mean([ideal / one for ideal, (one, _) in zip(ideals, both, strict=True)]))
            told = " / ".join(f"{value:.2f}" for value in used)
            print(f"{name:15} {in_flight:2} in flight   {apart:.1e}   {told}")


if __name__ == "__main__":
    main()
