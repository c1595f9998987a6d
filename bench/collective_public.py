"""The public simulator's behaviour, written down a second time, step by step; our times with latencies beside it.

ASTRA-sim 1.0 cannot be had where this runs, but its source can be read (astra-sim/astra-sim, `astra-sim/system`, and
astra-sim/astra-network-analytical). This is what it does with one collective, from that reading and in plain Python; nothing
here is shared with `headway.collectives` but the description of a network:

- a queue per dimension, one chunk in service; a chunk that ends a phase joins its next queue, then the queue that it
  left serves its next, then the one it joined starts if it was idle;
- fifo joins the tail. smallest-chunk-first passes what is strictly smaller (so it overtakes equals), where the size is the
  larger end of a phase; a chunk with one phase to come after this one joins the tail whatever its size;
- a phase is its messages: P - 1 on a ring, log2 P halving (reduce-scatter) or doubling (all-gather) on a switch, P - 1 at once
  where all are connected; each takes whole nanoseconds, latency (twice on a switch) plus bytes over bandwidth; sizes are
  whole bytes, rounded down; an NPU takes a time of its own before, between and after messages, and more where it reduces;
- Themis's load trackers start at zero, count MiB over bandwidth relative to that of the first dimension, sort stably from
  the order of the last chunk, and fall back to the default order below a sixteenth of a chunk.

It is held against the nine times of ASTRA-sim 1.0 that we have, at latency 0, and then our times against it. Our model has
no time of the NPU's own and counts picoseconds, so errors are told for its clock as well as for theirs.

Run: python -m bench.collective_public
"""

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from bench.random_topologies import BANDWIDTH_GBPS, LATENCIES_NS

from headway.collectives.draft import Task, draft_by_queues
from headway.collectives.published import LIKE_THE_PUBLIC_CODE, themis_orders
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind, latencies_ps, split_bytes
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import PAPER, PRESETS

GB = 10**9
CHUNKS = 64
MIB = 1_048_576
BITS = 8
NS_PER_S, PS_PER_S = 1e9, 1e12
# ASTRA-sim 1.0, latency 0, 64 chunks, 1 GB, in ms: baseline, fifo, scf as in the public code.
MEASURED = {
    "2D-SW_SW": (12.502, 9.042, 8.250),
    "3D-SW_SW_SW_homo": (18.752, 7.764, 6.935),
    "3D-SW_SW_SW_hetero": (9.377, 5.823, 5.779),
}
METHODS = ("baseline", "fifo", "scf-public")
NETWORKS, SEED = 300, 14
# Halving-doubling is defined for powers of two.
POWERS = (2, 4, 8, 16, 32)


class Times(NamedTuple):
    """What an NPU takes to hand a message over and to reduce what it received, and whether messages take whole ns."""

    hand_over_ns: int
    reduce_ns: int
    whole_ns: bool


# Ours: nothing, and picoseconds. The public clock counts ns.
LIKE_OURS = Times(0, 0, False)
WHOLE_NS = Times(0, 0, True)
# What the runs that we have were made with is not known. Their baselines take 2 us more than the bytes do, or 31 ns a chunk,
# and these give that.
FITTED = Times(1, 6, True)
# The public sample files, and a memory without a model.
SAMPLES = Times(10, 30, True)


@dataclass(slots=True, eq=False)
class Phase:
    """One pass over one dimension: from `before` to `after` bytes, `lasts_ns` from service to end."""

    dim: int
    before: int
    after: int
    lasts_ns: float


@dataclass(slots=True, eq=False)
class Chunk:
    """A chunk and the phases that it has not begun to queue for."""

    to_come: list[Phase]
    now: Phase | None = None
    served: bool = False


class Passes:
    """The phases that a network takes, in ns."""

    def __init__(self, topology: Topology, times: Times) -> None:
        self.dimensions, self.times = topology.dimensions, times

    def reduce_scatter(self, dim: int, data: int) -> Phase:
        """Halve, pass on or send directly, and reduce what comes."""
        kept = data // self.dimensions[dim].size
        return Phase(dim, data, kept, self._lasts_ns(dim, self._messages(dim, data, kept, True), self.times.reduce_ns))

    def all_gather(self, dim: int, data: int) -> Phase:
        """The way back."""
        lasts_ns = self._lasts_ns(dim, self._messages(dim, data, data, False), 0)
        return Phase(dim, data, data * self.dimensions[dim].size, lasts_ns)

    def all_reduce(self, dim: int, data: int) -> Phase:
        """Both in one service, as on the baseline's last dimension."""
        down = self.reduce_scatter(dim, data)
        up = self.all_gather(dim, down.after)
        return Phase(dim, data, data, down.lasts_ns + up.lasts_ns - self.times.hand_over_ns)

    def chunk(self, order: list[int], data: int, fused: bool) -> Chunk:
        """A chunk with its phases; `fused` on the last dimension of its order, as the baseline does it."""
        found, left = list[Phase](), data
        for place, dim in enumerate(order):
            last = fused and place == len(order) - 1
            found.append(self.all_reduce(dim, left) if last else self.reduce_scatter(dim, left))
            left = found[-1].after
        for dim in order[::-1][fused:]:
            found.append(self.all_gather(dim, left))
            left = found[-1].after
        return Chunk(found)

    def _messages(self, dim: int, data: int, shard: int, halving: bool) -> list[int]:
        """What one NPU sends, message after message (where all are connected: one of those that go at once)."""
        dimension = self.dimensions[dim]
        if dimension.kind is DimensionKind.FULLY_CONNECTED:
            return [shard]
        if dimension.kind is DimensionKind.RING:
            return [shard] * (dimension.size - 1)
        steps = dimension.size.bit_length() - 1
        return [data >> (1 + step) if halving else data << step for step in range(steps)]

    def _lasts_ns(self, dim: int, messages: list[int], reduce_ns: int) -> float:
        dimension = self.dimensions[dim]
        bytes_per_ns = dimension.link_gbps / BITS
        if dimension.kind is DimensionKind.FULLY_CONNECTED:
            bytes_per_ns /= dimension.size - 1
        switch = dimension.kind is DimensionKind.SWITCH
        each = [(1 + switch) * dimension.latency_ns + size / bytes_per_ns for size in messages]
        sent = sum(map(int, each)) if self.times.whole_ns else sum(each)
        # On a switch nothing is reduced after the last message of a phase.
        return sent + (1 + len(messages)) * self.times.hand_over_ns + (len(messages) - switch) * reduce_ns


@dataclass(slots=True)
class Tracker:
    """Themis's loads by dimension, in the order in which the last chunk left them."""

    topology: Topology
    loads: list[tuple[float, int]] = field(default_factory=list)

    def order(self, chunk: int) -> list[int]:
        """The dimensions of the next chunk's reduce-scatter, and its load added."""
        dims = self.topology.dimensions
        self.loads = sorted(self.loads or [(0.0, dim) for dim in range(len(dims))], key=lambda one: one[0])
        least = dims[self.loads[0][1]]
        spread = self.loads[-1][0] - self.loads[0][0]
        speed = least.link_gbps / dims[0].link_gbps
        if int(spread * speed * least.size / (least.size - 1) * MIB) < chunk // 16:
            self.loads.sort(key=lambda one: one[1])
        left, added = chunk, []
        for load, dim in self.loads:
            size, speed = dims[dim].size, dims[dim].link_gbps / dims[0].link_gbps
            added.append((load + left / MIB * (size - 1) / size / speed, dim))
            left //= size
        self.loads = added
        return [dim for _, dim in added]


class Network:
    """Queues by dimension, and what ends when."""

    def __init__(self, dims: int, smallest_first: bool) -> None:
        self.queues: list[list[Chunk]] = [[] for _ in range(dims)]
        self.smallest_first = smallest_first
        self.ends: list[tuple[float, int, Chunk]] = []
        self.now_ns, self.count = 0.0, 0

    def run(self, chunks: list[Chunk]) -> float:
        """The end of the last chunk, in ns."""
        for chunk in chunks:
            self.go_on(chunk)
        while self.ends:
            self.now_ns, _, chunk = heapq.heappop(self.ends)
            self.go_on(chunk)
        return self.now_ns

    def go_on(self, chunk: Chunk) -> None:
        """Leave a queue, join the next one, and see who is served in both."""
        left = chunk.now
        if left:
            self.queues[left.dim].remove(chunk)
        if chunk.to_come:
            chunk.now, chunk.served = chunk.to_come.pop(0), False
            self.join(self.queues[chunk.now.dim], chunk)
        if left:
            self.serve(left.dim)
        if chunk.now and chunk.now is not left:
            self.serve(chunk.now.dim)

    def join(self, queue: list[Chunk], chunk: Chunk) -> None:
        """Behind those in service; then at the tail, or in front of the first that is not smaller."""
        place = len(queue)
        if self.smallest_first and len(chunk.to_come) != 1:
            waiting = (
                number for number, other in enumerate(queue) if not other.served and _size(other) >= _size(chunk)
            )
            place = next(waiting, len(queue))
        queue.insert(place, chunk)

    def serve(self, dim: int) -> None:
        """Start the first in the queue if nobody is in service."""
        queue = self.queues[dim]
        if queue and not any(chunk.served for chunk in queue):
            chunk = queue[0]
            assert chunk.now
            chunk.served, self.count = True, self.count + 1
            heapq.heappush(self.ends, (self.now_ns + chunk.now.lasts_ns, self.count, chunk))


def _size(chunk: Chunk) -> int:
    assert chunk.now
    return max(chunk.now.before, chunk.now.after)


def public_s(topology: Topology, size: int, method: str, times: Times = LIKE_OURS) -> float:
    """How long the public simulator takes for an all-reduce of a size that 64 chunks divide."""
    data, tracker, passes = size // CHUNKS, Tracker(topology), Passes(topology, times)
    default = list(range(len(topology.dimensions)))
    baseline = method == "baseline"
    orders = [default if baseline else tracker.order(data) for _ in range(CHUNKS)]
    chunks = [passes.chunk(order, data, baseline) for order in orders]
    return Network(len(default), method == "scf-public").run(chunks) / NS_PER_S


def ours_s(topology: Topology, size: int, intra: str, at_delays: bool) -> float:
    """Our time, with load trackers that start at zero, or at the fixed delays as they once did."""
    task, parts = Task(topology, CollectiveKind.ALL_REDUCE, size, 1), split_bytes(size, CHUNKS)
    delays = latencies_ps(topology, task.collective).astype(np.float64)
    orders = themis_orders(topology, task.collective, parts, delays if at_delays else np.zeros_like(delays))
    return draft_by_queues(task, parts, orders, intra, "themis").end_ps / PS_PER_S


def drawn(rng: np.random.Generator) -> tuple[Topology, int]:
    """A network of 2 to 4 dimensions with latencies, and a size: 16 MB to 1 GB in 64 chunks of whole NPUs."""
    dimensions = []
    for _ in range(int(rng.integers(2, 5))):
        kind = list(DimensionKind)[int(rng.integers(len(DimensionKind)))]
        link_gbps = round(float(np.exp(rng.uniform(*np.log(BANDWIDTH_GBPS)))))
        dimensions.append(Dimension(kind, int(rng.choice(POWERS)), link_gbps, float(rng.choice(LATENCIES_NS))))
    topology = Topology("drawn", tuple(dimensions))
    whole = CHUNKS * topology.npus
    wanted = int(np.exp(rng.uniform(np.log(16e6), np.log(1e9))))
    return topology, max(1, wanted // whole) * whole


def errors(topology: Topology, size: int, intra: str, times: Times) -> tuple[float, float]:
    """Our error in % with trackers at zero, and with trackers at the delays."""
    theirs = public_s(topology, size, intra, times)
    zero, delays = (100 * (ours_s(topology, size, intra, at_delays) / theirs - 1) for at_delays in (False, True))
    return zero, delays


def main() -> None:
    """Against the nine measured times; then ours against this, on the paper's and on drawn networks."""
    print("python -m bench.collective_public")
    print(f"1 GB, 64 chunks, latency 0, ms: ASTRA-sim 1.0 / the rewriting with {FITTED} / ours")
    for name, measured in MEASURED.items():
        topology, told = PRESETS[name].without_latency(), []
        for method, one in zip(METHODS, measured, strict=True):
            scheduler, intra = ("baseline", None) if method == "baseline" else ("themis", method)
            ours = schedule(topology, GB, scheduler=scheduler, intra=intra, chunks=CHUNKS).time_s
            told.append(f"{method} {one:.3f} / {1e3 * public_s(topology, GB, method, FITTED):.3f} / {1e3 * ours:.3f}")
        print(f"{name:20} {', '.join(told)}")
    for times in (LIKE_OURS, WHOLE_NS, FITTED, SAMPLES):
        print(f"with latencies, {times}: our error in %, trackers at zero (at the fixed delays)")
        for size in (GB // 10, GB):
            for intra in LIKE_THE_PUBLIC_CODE:
                found = [(topology.name, *errors(topology, size, intra, times)) for topology in PAPER]
                print(f"{size / 1e6:g} MB {intra}: " + ", ".join(f"{name} {a:+.2f} ({b:+.2f})" for name, a, b in found))
        _drawn_networks(times)


def _drawn_networks(times: Times) -> None:
    rng = np.random.default_rng(SEED)
    networks = [drawn(rng) for _ in range(NETWORKS)]
    print(f"{NETWORKS} drawn networks, seed {SEED}: |error| in %       50 %    95 %    99 %    most")
    for intra in LIKE_THE_PUBLIC_CODE:
        table = np.abs([errors(topology, size, intra, times) for topology, size in networks])
        for label, column in (("trackers at zero", table[:, 0]), ("at the delays", table[:, 1])):
            told = "".join(f"{value:8.2f}" for value in np.percentile(column, [50, 95, 99, 100]))
            print(f"{intra:12} {label:26} {told}")


if __name__ == "__main__":
    main()
