"""Capacity of Slurm's nodes for Headway: without nodes that are down, drained or reserved, GPUs of other Slurm jobs, and lost GPUs."""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set

from headway.live.executors import NodeReport
from headway.slurm.snapshot import AWAY, RESERVED, Share, SlurmNode, SlurmSnapshot

POLLS = 3  # a job that starts or ends while Slurm is asked looks like a lost GPU in one of them


class Lost:
    """GPUs that Slurm counts as used while none of its jobs holds them, as after a crash of slurmctld: nothing starts there."""

    def __init__(self) -> None:
        self._seen: deque[dict[str, int]] = deque(maxlen=POLLS)

    def look(self, snapshot: SlurmSnapshot) -> dict[str, int]:
        """The lost GPUs by node, if there are any in all of the last polls."""
        held: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            if job.holds:
                for name, share in job.shares.items():
                    held[name] += share.gpus
        self._seen.append({node.name: node.gpus_used - held[node.name] for node in snapshot.nodes})
        if len(self._seen) < POLLS:
            return {}
        least = {name: min(seen.get(name, 0) for seen in self._seen) for name in self._seen[-1]}
        return {name: lost for name, lost in least.items() if lost > 0}


def node_reports(
    snapshot: SlurmSnapshot,
    names: Iterable[str],
    ours: Set[int],
    options: Mapping[str, str],
    lost: Mapping[str, int] | None = None,
    shut: Set[str] = frozenset(),
) -> list[NodeReport]:
    """How each of Headway's nodes is: away and why, and the GPUs that others use there or that are lost. `ours`: Headway's Slurm jobs.

    Nodes that are `shut` have none for anybody.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    own, taken = own_gpus(snapshot, ours), Counter(taken_gpus(snapshot, ours))
    taken.update(lost or {})
    taken |= {name: nodes[name].gpus - own[name] for name in shut if name in nodes}
    reports, partition, reservation = [], options.get("partition"), options.get("reservation", "")
    for name in names:
        node = nodes.get(name)
        if node is None:
            reports.append(NodeReport(name, "Slurm no longer knows it"))
        elif partition and node.partitions and partition not in node.partitions:
            reports.append(NodeReport(name, f"it left the partition {partition}", taken[name]))
        else:
            reports.append(NodeReport(name, _why_away(node, reservation), taken[name]))
    return reports


def _why_away(node: SlurmNode, reservation: str) -> str:
    """Why nothing can be started on a node; empty: it can. Who submits to a reservation may use its nodes, while it is in force."""
    if reservation and not RESERVED & set(node.state):
        return f"the reservation {reservation} is not in force"
    if not AWAY & set(node.state) - (RESERVED if reservation else set()):
        return ""
    return f"{'+'.join(node.state).lower()} in Slurm{f': {node.reason}' if node.reason else ''}"


def own_gpus(snapshot: SlurmSnapshot, ours: Set[int]) -> Counter[str]:
    """GPUs of each node that Headway's jobs hold."""
    gpus: Counter[str] = Counter()
    for job in snapshot.jobs.values():
        if job.holds and job.id in ours:
            gpus.update({name: share.gpus for name, share in job.shares.items()})
    return gpus


def taken_gpus(snapshot: SlurmSnapshot, ours: Set[int]) -> dict[str, int]:
    """GPUs of each node that jobs of others hold, or that are of no use without the CPUs and the memory that some job holds, even ours."""
    held, own = dict[str, list[Share]](), own_gpus(snapshot, ours)
    for job in snapshot.jobs.values():
        if job.holds:
            for name, share in job.shares.items():
                held.setdefault(name, []).append(share)
    return {
        node.name: _gpus(node, held[node.name]) - own[node.name]
        for node in snapshot.nodes
        if node.name in held and node.gpus
    }


def _gpus(node: SlurmNode, shares: list[Share]) -> int:
    """A job of ours gets the CPUs and the memory that go with its GPUs: what lacks either is of no use."""
    gpus = sum(share.gpus for share in shares)
    spare = [gpus]
    if node.cpus >= node.gpus:
        spare.append(math.ceil(sum(share.cpus for share in shares) * node.gpus / node.cpus))
    if node.memory_mb >= node.gpus:
        spare.append(math.ceil(sum(share.memory_mb for share in shares) * node.gpus / node.memory_mb))
    return min(node.gpus, max(spare))
