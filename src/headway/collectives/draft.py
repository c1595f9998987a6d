"""A draft: a plan as arrays, with the times it would take. Drafts are cheap: a hundred are made and one is kept."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.collectives.plan import CollectivePlan, plan_from_arrays
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.simulate.operations import Operations, operations, queue_keys, slots
from headway.collectives.simulate.play import PhaseTimeline, lists_of, run_lists, run_queues, timeline
from headway.collectives.simulate.steps import Steps
from headway.collectives.topology.model import Topology

Ints = NDArray[np.int64]

# How the mirrored reduce-scatter ranks its phases: as they come, largest data first, smallest data first.
MIRRORED = (0, -1, 1)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be planned, and how many chunks a dimension may have in flight."""

    topology: Topology
    collective: CollectiveKind
    size_bytes: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Draft:
    """Chunks, orders and lists as arrays, and when everything runs. `maker` and `intra` say how it was made."""

    maker: str
    intra: str
    chunk_bytes: Ints
    rs: Ints
    listed: Ints
    begins: Ints
    ops: Operations
    progress: NDArray[Any]  # of every operation
    fine: Steps | None = None  # if it was played step by step

    @property
    def end_ps(self) -> int:
        """When the last operation ends."""
        return int(self.progress["finish_ps"].max())

    def plan(self) -> CollectivePlan:
        """The value that is shown, written and executed."""
        return plan_from_arrays(self.ops.collective, self.chunk_bytes, self.rs, self.listed, self.begins)

    def timeline(self) -> PhaseTimeline:
        """When every phase of every chunk runs."""
        return timeline(self.ops, self.progress, self.fine)


def draft_by_queues(task: Task, chunk_bytes: Ints, rs: Ints, intra: str, maker: str, fused: int = -1) -> Draft:
    """Let queues decide inside each dimension, and write down what they did as lists.

    `fused` names the place in a chunk's chain whose phase goes to the front of its queue: the baseline's all-gather on
    the last dimension follows its reduce-scatter at once.
    """
    topology = task.topology
    ops = operations(topology, task.collective, chunk_bytes, rs, rs[:, ::-1])
    rank, bid = queue_keys(intra, ops)
    if fused >= 0:
        rank, bid = rank.copy(), bid.copy()
        rank[fused :: ops.phases] = bid[fused :: ops.phases] = -1
    room = slots(topology, task.in_flight)
    progress, sequence = run_queues(ops, rank, bid, room)
    listed, begins = lists_of(ops, sequence, len(topology.dimensions))
    fine = None
    if progress is None:
        progress, fine = run_lists(ops, listed, begins, room)
    return Draft(maker, intra, chunk_bytes, rs, listed, begins, ops, progress, fine)


def drafts_mirrored(task: Task, chunk_bytes: Ints, rs: Ints, maker: str) -> Iterator[Draft]:
    """Schedule the reduce-scatter, and run the all-gather as its mirror image in time; one draft per rule in
    `MIRRORED`.

    A reduce-scatter starts with large phases on every dimension and ends with tiny ones, so if large phases go first no
    dimension idles before the very end. Its mirror starts with the tiny ones and ends with all dimensions together.
    What bandwidth is lost, is lost in the middle, where phases are short. Which rule is best depends on the network.
    """
    topology, back = task.topology, rs[:, ::-1]
    half = operations(topology, CollectiveKind.REDUCE_SCATTER, chunk_bytes, rs, back)
    whole = operations(topology, task.collective, chunk_bytes, rs, back)
    room = slots(topology, task.in_flight)
    for rule in MIRRORED:
        rank = half.larger_bytes * rule
        _, sequence = run_queues(half, rank, rank, room)
        listed, begins = lists_of(half, sequence, len(topology.dimensions))
        listed, begins = _with_mirror(task.collective, listed, begins, whole.phases, half.phases)
        times = run_lists(whole, listed, begins, room)
        yield Draft(maker, "mirrored", chunk_bytes, rs, listed, begins, whole, *times)


def _with_mirror(collective: CollectiveKind, listed: Ints, begins: Ints, phases: int, half: int) -> tuple[Ints, Ints]:
    """A reduce-scatter's lists turned into those of the whole collective, whose chunks have `phases` instead of
    `half`."""
    if collective is CollectiveKind.REDUCE_SCATTER:
        return listed, begins
    chunk, place = listed // half, listed % half
    first, mirror = chunk * phases + place, (chunk + 1) * phases - 1 - place
    pieces = []
    for begin, end in itertools.pairwise(begins):
        pieces += [first[begin:end]] if collective is CollectiveKind.ALL_REDUCE else []
        pieces.append(mirror[begin:end][::-1])
    return np.concatenate(pieces), begins * (phases // half)
