"""Several chunks in flight: every phase step by step.

With one chunk in flight a phase is one block of bytes and one delay: nothing else uses its link, so it does not matter where in the
phase the delays are. With more, links serve other chunks while a step's delay lasts, so a phase is played as its steps: P - 1 equal ones
on a ring, log2 P that halve (or, in an all-gather, double) on a switch, one where all are connected. A link serves steps as they
become ready. An all-to-all sends its messages back to back, so its phases stay whole.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.collectives.simulate import kernels
from headway.collectives.simulate.cost import CollectiveKind, steps
from headway.collectives.simulate.kernels import OPERATION
from headway.collectives.simulate.operations import Chains, Operations, chains
from headway.collectives.topology.model import Dimension, DimensionKind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# A phase of more steps (a longer ring) is played as this many equal ones, and with very many chunks as fewer.
MOST_STEPS = 64
MOST_ROWS = 4_000_000
# A step after the first goes on before anything waits: its chunk holds its place on the dimension until the phase ends.
FIRST_OF_ALL = -1


class Steps(NamedTuple):
    """The steps of operations, flat: those of operation i are `begins[i]` to `begins[i + 1]`. `until_ps`: when each has left its link."""

    begins: Ints
    occupy_ps: Ints
    latency_ps: Ints
    until_ps: Ints


def steps_of(ops: Operations) -> Steps:
    """What each step of each phase takes; together exactly what the phase does."""
    most = max(1, min(MOST_STEPS, MOST_ROWS // len(ops.dim)))
    grows = _grows(ops)
    parts = {
        (dim, growing): _parts(dimension, ops.collective, growing, most)
        for dim, dimension in enumerate(ops.topology.dimensions)
        for growing in (False, True)
    }
    counts = np.array([len(parts[dim, False]) for dim in range(len(ops.topology.dimensions))])[ops.dim]
    begins = np.concatenate([[0], np.cumsum(counts)])
    occupy, latency = np.empty(begins[-1], np.int64), np.empty(begins[-1], np.int64)
    for (dim, growing), shares in parts.items():
        mine = np.flatnonzero((ops.dim == dim) & (grows == growing))
        places = begins[mine][:, None] + np.arange(len(shares))
        occupy[places] = _cut(ops.rows["occupy_ps"][mine], np.cumsum(shares))
        latency[places] = _cut(ops.rows["latency_ps"][mine], np.arange(1, len(shares) + 1) / len(shares))
    return Steps(begins, occupy, latency, np.zeros_like(occupy))


def _grows(ops: Operations) -> NDArray[np.bool_]:
    """Which phases belong to an all-gather."""
    if ops.collective is CollectiveKind.ALL_REDUCE:
        return ops.chains.to_come < ops.phases // 2
    return np.full(len(ops.dim), ops.collective is CollectiveKind.ALL_GATHER)


@lru_cache(maxsize=1024)
def _parts(dimension: Dimension, collective: CollectiveKind, growing: bool, most: int) -> Floats:
    """The share of a phase's bytes that each of its steps sends."""
    count = min(most, 1 if collective is CollectiveKind.ALL_TO_ALL else steps(dimension, collective))
    if dimension.kind is not DimensionKind.SWITCH or count == 1:
        return np.full(count, 1 / count)
    sent, remaining = list[int](), dimension.size
    while remaining > 1:
        sent.append(remaining // 2)
        remaining -= remaining // 2
    return np.array(sent[::-1] if growing else sent) / sum(sent)


def _cut(whole: Ints, until: Floats) -> Ints:
    """Every number in parts that add up to it: `until` is the share of all parts up to each."""
    edges = np.rint(whole[:, None] * until).astype(np.int64)
    edges[:, -1] = whole
    return np.diff(edges, prepend=0)


def starts_by_steps(ops: Operations, rank: Ints, bid: Ints, slots: Ints) -> Ints:
    """The order in which operations start when queues decide, step by step."""
    fine = steps_of(ops)
    rows, links = stepped(ops, fine, rank, bid)
    _, sequence = kernels.run_queues(rows, links.next_op, links.all, slots)
    number = np.full(len(rows), -1, np.int64)
    number[fine.begins[:-1]] = np.arange(len(ops.dim))
    started: Ints = number[sequence]
    return started[started >= 0]


def stepped(ops: Operations, fine: Steps, rank: Ints, bid: Ints) -> tuple[NDArray[Any], Chains]:
    """One row per step as the kernel takes it, and the chains of steps: one per chunk, each of the same length."""
    chunks = len(ops.dim) // ops.phases
    links = chains(chunks, int(fine.begins[-1]) // chunks)
    rows = links.raw.copy().view(OPERATION)
    rows["resource"] = np.repeat(ops.dim, np.diff(fine.begins))
    rows["occupy_ps"], rows["latency_ps"] = fine.occupy_ps, fine.latency_ps
    rows["rank"] = rows["bid"] = FIRST_OF_ALL
    rows["rank"][fine.begins[:-1]], rows["bid"][fine.begins[:-1]] = rank, bid
    return rows, links


def run_lists_by_steps(ops: Operations, listed: Ints, begins: Ints, slots: Ints) -> tuple[NDArray[Any], int, Steps]:
    """The progress of every operation under fixed lists, how many could run, and when each step left its link."""
    fine = steps_of(ops)
    progress, ran = kernels.run_lists_by_steps(ops.rows, ops.chains.next_op, kernels.Lists(listed, begins, slots), fine)
    return progress, int(ran), fine
