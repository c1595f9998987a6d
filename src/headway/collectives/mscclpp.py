"""All-reduce plans as an execution plan of MSCCL++: what each rank sends, waits for and adds, in the order of the plan.

Sends are `pws` (put with signal) on port channels, which a proxy carries out, so one list keeps several links busy; arrivals are
`wait`; sums are `re` from scratch into the buffer, which is reduced in place. All lists follow one order in time that respects every
dependency, so no rank waits for ever. MSCCL++ cuts a buffer into equal chunks, here called units: a chunk of the plan is a whole
number of them, so unequal chunks are rounded to a grid. A phase on a dimension is written as a direct exchange within its groups.

The format is that of the executor of MSCCL++ (execution_plan.cc) at the end of 2025, and its limits are kept (`mscclpp_blocks`). We
have run it with an interpreter of our own (tests/unit/test_collective_export.py), not on GPUs.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.collectives.best import apportion
from headway.collectives.mscclpp_blocks import Dispatch, Event, Receipt, thread_blocks
from headway.collectives.plan import Plan, phases
from headway.collectives.simulate.cost import Collective
from headway.collectives.simulate.play import play
from headway.collectives.topology.model import Topology
from headway.collectives.wiring.plan import WiredPlan
from headway.errors import BadInput

# The grid that unequal chunks are rounded to, in parts of an average chunk, at least.
GRID = 4
# Puts of one plan: a file of some hundred megabytes.
MOST_PUTS = 500_000
# The executor counts in steps of this many bytes, a whole number of them in each unit, and offsets are 32 bits.
ALIGNED_BYTES = 16
MOST_OFFSET = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Put:
    """Units `first` to `first + count` of the buffer go from rank to rank, to be added or copied there; `lane` tells ways
    between the same two ranks apart."""

    source: int
    target: int
    first: int
    count: int
    adds: bool
    lane: str
    start_ps: int
    arrive_ps: int


def export_plan(plan: Plan, topology: Topology, name: str) -> str:
    """A plan for a topology as JSON."""
    _only_all_reduce(plan.collective)
    weights = _weights([chunk.bytes for chunk in plan.chunks])
    per_rank = sum((size - 1) for size in topology.sizes) * 2 * len(plan.chunks)
    if per_rank * topology.npus > MOST_PUTS:
        raise BadInput(
            f"the plan has {per_rank * topology.npus:,} puts for {topology.npus} ranks, and a file may have {MOST_PUTS:,}: "
            "export fewer chunks (--chunks) or a smaller network"
        )
    return _text(name, topology.npus, sum(weights) * topology.npus, list(_puts(plan, topology, weights)))


def export_wired(plan: WiredPlan, name: str) -> str:
    """A plan link by link as JSON."""
    _only_all_reduce(plan.collective)
    rows = zip(plan.transfers, plan.start_ps, plan.arrive_ps, strict=True)
    puts = [
        Put(one.source, one.target, one.chunk, 1, one.phase == "rs", "/".join(sorted(one.through)), start, arrive)
        for one, start, arrive in rows
    ]
    return _text(name, len(plan.wiring.ranks), len(plan.owners), puts)


def _only_all_reduce(collective: Collective) -> None:
    if collective is not Collective.ALL_REDUCE:
        raise BadInput(f"only an all-reduce is written for MSCCL++, and this is an {collective}: leave out --format")


def _weights(chunk_bytes: Sequence[int]) -> list[int]:
    """Chunks as whole numbers of units: 1 each if they are equal to a byte, else rounded to a grid of 2^n, so that usual
    sizes divide by it."""
    if max(chunk_bytes) - min(chunk_bytes) <= 1:
        return [1] * len(chunk_bytes)
    units = 1 << (GRID * len(chunk_bytes) - 1).bit_length()
    weights: list[int] = apportion(np.array(chunk_bytes) / sum(chunk_bytes), units).tolist()
    return weights


def _puts(plan: Plan, topology: Topology, weights: Sequence[int]) -> Iterator[Put]:
    """Every send of every rank. Inside a chunk, shards lie in the order of its dimensions, so each send is one range."""
    line, base, steps = play(plan, topology), 0, [math.prod(topology.sizes[:dim]) for dim in range(len(topology.sizes))]
    for number, chunk in enumerate(plan.chunks):
        spans = {}
        span = topology.npus * weights[number]
        for dim in chunk.rs:
            span //= topology.sizes[dim]
            spans[dim] = span
        for place, (kind, dim) in enumerate(phases(plan.collective, chunk)):
            finish = int(line.finish_ps[number, place])
            start = finish - int(line.latency_ps[number, place] + line.occupy_ps[number, place])
            before = chunk.rs[: chunk.rs.index(dim)]
            for rank in range(topology.npus):
                here = [rank // steps[axis] % topology.sizes[axis] for axis in range(len(steps))]
                outer = base + sum(here[axis] * spans[axis] for axis in before)
                for peer in range(topology.sizes[dim]):
                    if peer != here[dim]:
                        target = rank + (peer - here[dim]) * steps[dim]
                        first = outer + (peer if kind == "rs" else here[dim]) * spans[dim]
                        yield Put(rank, target, first, spans[dim], kind == "rs", f"{dim:02}", start, finish)
        base += topology.npus * weights[number]


class _Rank:
    """One rank's channels, remote buffers and list as they grow."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lanes: dict[tuple[int, str], int] = {}  # peer and lane: number of the channel
        self.buffers: dict[tuple[int, str], int] = {}  # peer and kind of buffer: number of the remote buffer
        self.events: list[Event] = []
        self.scratch = 0

    def send(self, put: Put, scratch_at: int) -> None:
        kind, index = ("s", scratch_at) if put.adds else ("i", put.first)
        buffer = self.buffers.setdefault((put.target, kind), len(self.buffers))
        self.events.append(Dispatch(self.lanes[put.target, put.lane], put.first, put.count, buffer, index))

    def receive(self, put: Put, scratch_at: int) -> None:
        place = scratch_at if put.adds else None
        self.events.append(Receipt(self.lanes[put.source, put.lane], put.first, put.count, place))

    def as_json(self, units: int) -> dict[str, Any]:
        blocks, semaphores = thread_blocks(self.number, len(self.lanes), self.events)
        return {
            "id": self.number,
            "input_chunks": units,
            "output_chunks": units,
            "scratch_chunks": self.scratch,
            "threadblocks": blocks,
            "channels": [{"channel_type": "port", "connected_to": [peer for peer, _ in self.lanes]}],
            "remote_buffers": [
                {"rank": peer, "type": kind, "access_channel_types": ["port"]} for peer, kind in self.buffers
            ],
            "semaphores": [{"init_value": 0}] * semaphores,
        }


def _text(name: str, ranks: int, units: int, puts: Sequence[Put]) -> str:
    gpus = [_Rank(number) for number in range(ranks)]
    # The same lanes in the same order on both sides: the executor pairs channels by it.
    for source, target, lane in sorted({(one.source, one.target, one.lane) for one in puts}):
        low, high = min(source, target), max(source, target)
        for here, there in ((low, high), (high, low)):
            gpus[here].lanes.setdefault((there, lane), len(gpus[here].lanes))
    slots = []
    for one in puts:
        slots.append(gpus[one.target].scratch if one.adds else 0)
        gpus[one.target].scratch += one.count if one.adds else 0
    # In time; what arrives at an instant comes before what starts then, for it may be what is sent on.
    moments = [(one.arrive_ps, 0, number) for number, one in enumerate(puts)]
    moments += [(one.start_ps, 1, number) for number, one in enumerate(puts)]
    for _, starts, number in sorted(moments):
        one = puts[number]
        if starts:
            gpus[one.source].send(one, slots[number])
        else:
            gpus[one.target].receive(one, slots[number])
    longest = max(units, *(gpu.scratch for gpu in gpus))
    plan = {
        "name": name,
        "collective": "allreduce",
        "protocol": "Simple",
        "inplace": True,
        "reuse_resources": False,
        "gpus": [gpu.as_json(units) for gpu in gpus],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNED_BYTES,
        "min_message_size": units * ALIGNED_BYTES,
        "max_message_size": MOST_OFFSET // longest // ALIGNED_BYTES * ALIGNED_BYTES * units,
    }
    return json.dumps(plan) + "\n"
