"""How fast slices are found: one allocation on states reached by random arrivals and departures.

    python -m bench.fabric

Bounds to hold: 256 leaves x 32 spines mean under 1 ms, worst under 10 ms; 1,024 leaves x 64 spines worst under 20 ms.
Times are CPU time of this thread, so a busy machine does not count. HiGHS on a sample of the same states gives the
machine-independent ratio.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from headway.network.fabric.model import Fabric, Ocs
from headway.network.slices.circuits import find_circuits
from headway.network.slices.colouring import BLOCKED, new_circuits, remove_job
from headway.network.slices.padded import find_padded
from headway.network.slices.room import PLACED, UNDECIDED, UNPROVEN, new_room, survey
from headway.network.slices.solver import solve_equal
from headway.network.slices.vclos import NODE_BUDGET, equal_shape, find_slice, tightest_first

# Two mixes: Helios-like (vClos's evaluation: mostly small, powers of two), and one where every job spans leaves and
# few sizes are powers of two, which tangles the links most.
MIXES = {
    "helios-like": ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], [32, 14, 12, 14, 10, 8, 5, 3, 1, 1]),
    "spanning": ([36, 40, 48, 60, 64, 72, 80, 96, 100, 120, 128, 144, 200, 256, 384, 512], [1] * 16),
}


class Run:
    """Arrivals and departures on one fabric; `held` are the jobs on it."""

    def __init__(self, leaves: int, servers: int, gpus: int, uplinks: int, seed: int) -> None:
        leaf_of = np.repeat(np.arange(leaves), servers)
        self.room = new_room(np.full(leaf_of.size, gpus), leaf_of, np.full(leaves, (1 << uplinks) - 1, np.uint64))
        self.rng = np.random.default_rng(seed)
        self.held: list[tuple[Any, ...]] = []

    def states(self, find: Callable[..., Any], mix: str, count: int) -> tuple[list[float], Counter[int], int]:
        """Time `count` allocations; a job that finds no room makes a random one leave."""
        sizes, weights = MIXES[mix]
        times, statuses, most = [], Counter[int](), 0
        odds = np.array(weights) / sum(weights)
        room = self.room
        for gpus in self.rng.choice(sizes, count, p=odds):
            start = time.thread_time_ns()
            status, entries, _, visited = find(room, gpus, 0, NODE_BUDGET)
            times.append((time.thread_time_ns() - start) / 1e6)
            statuses[status] += 1
            most = max(most, visited)
            if entries:
                seats, links = room.seats[:entries].copy(), room.leaves["taken"].copy()
                room.servers["free"][seats["server"]] -= seats["gpus"]
                room.leaves["links"] &= ~links
                self.held.append((seats, links))
            elif self.held:
                seats, links = self.held.pop(int(self.rng.integers(len(self.held))))
                room.servers["free"][seats["server"]] += seats["gpus"]
                room.leaves["links"] |= links
        return times, statuses, most


def allocation(leaves: int, servers: int, uplinks: int, count: int) -> None:
    """One table: both searches on both mixes."""
    for find in (find_slice, find_padded):
        for mix in MIXES:
            run = Run(leaves, servers, 8, uplinks, 1)
            run.states(find, mix, 20)  # compiles
            times, statuses, most = run.states(find, mix, count)
            name = "vclos" if find is find_slice else "vclos-padded"
            print(
                f"{leaves:>5} x {uplinks:<3} {name:<13} {mix:<12} {count:>6} states  mean {np.mean(times):6.3f} ms  "
                f"worst {max(times):6.3f} ms  placed {statuses[PLACED] / count:4.0%}  most nodes {most:>4}  "
                f"undecided {statuses[UNDECIDED] + statuses[UNPROVEN]}"
            )


def against_highs(count: int) -> None:
    """The same shapes by the search and by HiGHS on states of the spanning mix."""
    run = Run(256, 4, 8, 32, 2)
    run.states(find_slice, "spanning", 400)
    chosen = np.empty(256, np.int64)
    equal_shape(tightest_first(run.room.leaves), 8, 2, NODE_BUDGET, chosen)  # compiles
    ours = theirs = 0.0
    agree = 0
    for _ in range(count):
        run.states(find_slice, "spanning", 10)
        survey(run.room)
        table = run.room.leaves
        width, leaves = int(run.rng.choice([8, 12, 16, 24])), int(run.rng.integers(2, 9))
        start = time.thread_time()
        found, cost, *_ = equal_shape(tightest_first(table), width, leaves, NODE_BUDGET, chosen)
        middle = time.thread_time()
        oracle = solve_equal(table["links"], table["free"], 32, width, leaves)
        theirs += time.thread_time() - middle
        ours += middle - start
        agree += (oracle.cost if oracle else None) == (cost if found else None)
    print(f"HiGHS on {count} of these shapes: {theirs / count * 1e3:.1f} ms mean, {theirs / ours:.0f} times the search; "
          f"{agree} of {count} agree in feasibility and cost")  # fmt: skip


def circuits(leaves: int, count: int) -> None:
    """OCS-vClos on the Helios-like mix."""
    rng = np.random.default_rng(3)
    leaf_of = np.repeat(np.arange(leaves), 4)
    room = new_room(np.full(leaf_of.size, 8), leaf_of, np.zeros(leaves, np.uint64))
    fabric = Fabric("optical", "leaf-spine", tuple(leaf_of.tolist()), 8, leaves // 2, ocs=Ocs(32, 2))
    table, free = new_circuits(fabric), room.servers["free"]
    sizes, weights = MIXES["helios-like"]
    held: list[tuple[Any, ...]] = []
    times, moved, blocked = [], [], 0
    for job, gpus in enumerate(rng.choice(sizes, count, p=np.array(weights) / sum(weights))):
        start = time.thread_time_ns()
        case, entries, _, shifted = find_circuits(room, table, gpus, 0, job)
        times.append((time.thread_time_ns() - start) / 1e6)
        blocked += case == BLOCKED
        if entries:
            seats = room.seats[:entries].copy()
            free[seats["server"]] -= seats["gpus"]
            held.append((job, seats))
            if case > 1:
                moved.append(shifted)
        elif held:
            gone, seats = held.pop(int(rng.integers(len(held))))
            free[seats["server"]] += seats["gpus"]
            remove_job(table, gone)
    print(
        f"{leaves:>5} x 32 OCS  ocs-vclos     helios-like  {count:>6} states  mean {np.mean(times[20:]):6.3f} ms  worst "
        f"{max(times[20:]):6.3f} ms  of {len(moved)} admissions over several leaves {np.mean(np.array(moved) == 0):.0%} "
        f"moved nothing, mean {np.mean(moved):.2f} circuits; blocked {blocked}"
    )


def main() -> None:
    """Print every table."""
    print("python -m bench.fabric")
    start = time.process_time()
    allocation(256, 4, 32, 10_000)
    allocation(1024, 8, 64, 10_000)
    circuits(16, 10_000)
    circuits(256, 10_000)
    against_highs(40)
    print(f"CPU {time.process_time() - start:.1f} s in all")


if __name__ == "__main__":
    main()
