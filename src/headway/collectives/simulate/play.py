"""Playing a plan: every dimension works through its list, and one NPU stands for all (Themis, section 5).

`play` replays a plan on a topology, perhaps not the one it was made for: a degraded dimension has less bandwidth, and a
straggler slows every group that it is in. In the symmetric model the slowest member sets the pace of its group, and
every chunk meets it, so a straggler slows all dimensions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.collectives.plan import CollectivePlan
from headway.collectives.simulate import kernels
from headway.collectives.simulate.cost import PS_PER_S
from headway.collectives.simulate.operations import Operations, operations, slots
from headway.collectives.simulate.steps import Steps, run_lists_by_steps, starts_by_steps
from headway.collectives.topology.model import Topology
from headway.errors import BadInput

Ints = NDArray[np.int64]


class Sending(NamedTuple):
    """When links were sending: for which operation (phases of one chunk after the other), until when, and for how long."""

    op: Ints
    until_ps: Ints
    occupy_ps: Ints


@dataclass(frozen=True, slots=True)
class PhaseTimeline:
    """When every phase of every chunk ended (chunks x phases), for how long it held its link, and what links did."""

    dims: Ints
    finish_ps: Ints
    occupy_ps: Ints
    latency_ps: Ints
    sent_bytes: Ints
    sending: Sending

    @property
    def time_s(self) -> float:
        """The end of the last phase."""
        return int(self.finish_ps.max()) / PS_PER_S

    def busy_s(self, dim: int) -> float:
        """How long the links of a dimension were sending."""
        return int(self.occupy_ps[self.dims == dim].sum()) / PS_PER_S

    def bytes_on(self, dim: int) -> int:
        """What one NPU sent on a dimension."""
        return int(self.sent_bytes[self.dims == dim].sum())


def timeline(ops: Operations, progress: NDArray[Any], fine: Steps | None = None) -> PhaseTimeline:
    """A run in the shape of chunks x phases; `fine` are its steps, if it was played step by step."""
    finish, occupy, latency = progress["finish_ps"], ops.rows["occupy_ps"], ops.rows["latency_ps"]
    sending = Sending(ops.chains.all, finish - latency, occupy)
    if fine:
        sending = Sending(np.repeat(ops.chains.all, np.diff(fine.begins)), fine.until_ps, fine.occupy_ps)
    phases = [column.reshape(-1, ops.phases) for column in (ops.dim, finish, occupy, latency, ops.sent_bytes)]
    return PhaseTimeline(phases[0], phases[1], phases[2], phases[3], phases[4], sending)


def play(plan: CollectivePlan, topology: Topology, in_flight: int = 1) -> PhaseTimeline:
    """Replay a plan in the simulator; its time is exactly what the scheduler reported for the same topology."""
    if len(plan.lists) != len(topology.dimensions):
        raise BadInput(
            f"the plan is for {len(plan.lists)} dimensions and topology {topology.name!r} has "
            f"{len(topology.dimensions)}: use the topology that the plan was made for"
        )
    chunk_bytes, rs, ag = plan.orders()
    ops = operations(topology, plan.collective, chunk_bytes, rs, ag)
    return timeline(ops, *run_lists(ops, *plan.listed(), slots(topology, in_flight)))


def run_lists(ops: Operations, listed: Ints, begins: Ints, slots: Ints) -> tuple[NDArray[Any], Steps | None]:
    """The progress of every operation under fixed lists; where a dimension has several in flight, step by step, and the steps too."""
    fine = None
    if slots.max() > 1:
        progress, ran, fine = run_lists_by_steps(ops, listed, begins, slots)
    else:
        progress, ran = kernels.run_lists(ops.rows, ops.chains.next_op, listed, begins, slots)
    if ran < len(progress):
        raise BadInput(f"the plan's lists contradict its orders: {len(progress) - ran} operations could never start")
    return progress, fine


def run_queues(ops: Operations, rank: Ints, bid: Ints, slots: Ints) -> tuple[NDArray[Any] | None, Ints]:
    """The order in which operations start when queues decide; all are released at time 0. With one slot each, their progress too."""
    if slots.max() > 1:
        return None, starts_by_steps(ops, rank, bid, slots)
    ops.rows["rank"], ops.rows["bid"] = rank, bid
    progress, sequence = kernels.run_queues(ops.rows, ops.chains.next_op, ops.chains.all, slots)
    return progress, sequence


def lists_of(ops: Operations, sequence: Ints, dims: int) -> tuple[Ints, Ints]:
    """One list per dimension from the order of the starts, flat, and where each begins."""
    by_dim = np.argsort(ops.dim[sequence], kind="stable")
    counts = np.bincount(ops.dim, minlength=dims)
    return sequence[by_dim], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def impaired(topology: Topology, degraded: Mapping[int, float], straggler: float = 1.0) -> Topology:
    """The network as it is today: some dimensions at a fraction of their bandwidth, one NPU slower by a factor."""
    for dim, fraction in degraded.items():
        if not 0 <= dim < (count := len(topology.dimensions)):
            raise BadInput(f"there is no dimension {dim + 1} to degrade: {topology.name!r} has {count}")
        if not 0 < fraction <= 1:
            raise BadInput(f"a degraded bandwidth of {fraction:g} of the whole: it must be above 0 and at most 1")
    if straggler < 1:
        raise BadInput(f"a straggler slower by {straggler:g}: the factor must be 1 or more")
    changed = []
    for number, old in enumerate(topology.dimensions):
        link_gbps = old.link_gbps * degraded.get(number, 1.0) / straggler
        changed.append(replace(old, link_gbps=link_gbps, latency_ns=old.latency_ns * straggler))
    return replace(topology, dimensions=tuple(changed))


def utilisation_over_time(line: PhaseTimeline, topology: Topology, bins: int) -> NDArray[np.float64]:
    """The share of each dimension's bandwidth in use, in equal slices of time (dimensions x bins)."""
    end = max(1, int(line.finish_ps.max()))
    edges = np.linspace(0, end, bins + 1)
    used = np.zeros((len(topology.dimensions), bins))
    sending = line.sending
    for dim in range(len(topology.dimensions)):
        mine = line.dims.ravel()[sending.op] == dim
        for low, high in zip((sending.until_ps - sending.occupy_ps)[mine], sending.until_ps[mine], strict=True):
            used[dim] += np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)
    return used / (end / bins)
