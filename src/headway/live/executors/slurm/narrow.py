"""Nodes with GPUs but too few CPUs, or too little memory, for a job that was sent there: it is taken back, and placed elsewhere.

Placements count GPUs. That does for jobs that take the CPUs and the memory that go with their GPUs; one that asks for more may be sent to
where it cannot start. Slurm would let it wait, and the next decision would send it there again. So the free GPUs of such a node are
withheld for a while, in which the job is placed on another node or waits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from headway.slurm.snapshot import Share, SlurmJob, SlurmSnapshot

WAIT_S = 10.0  # Slurm may take so long to see that those who were there before have ended
SHUT_S = 30.0  # longer than a manager waits before it tries again


class Narrow:
    """What is free on each node, which jobs cannot start for want of it, and which nodes are shut for that."""

    def __init__(self) -> None:
        self.wait_s = WAIT_S
        self._free: dict[str, Share] = {}
        self._since: dict[
            int, float
        ] = {}  # when a Slurm job was first seen to lack something, and in every poll after that
        self._times: Counter[int] = Counter()  # that a job was taken back: each time it is given twice as long
        self._shut: dict[str, float] = {}

    def look(self, snapshot: SlurmSnapshot) -> None:
        """See what jobs leave free; what a job holds that is about to end counts as free."""
        held: dict[str, list[Share]] = {}
        for job in snapshot.jobs.values():
            for name, share in job.shares.items() if job.holds and job.state != "COMPLETING" else ():
                held.setdefault(name, []).append(share)
        self._free = {
            node.name: Share(
                cpus=node.cpus - sum(share.cpus for share in held.get(node.name, ())),
                memory_mb=node.memory_mb - sum(share.memory_mb for share in held.get(node.name, ())),
            )
            for node in snapshot.nodes
        }
        self._since = {job: since for job, since in self._since.items() if job in snapshot.jobs}

    def lacks(self, number: int, job: SlurmJob, asked: Mapping[str, str], now: float) -> str:
        """What a Slurm job lacks where it was sent, and for long enough; empty: nothing. `number` is Headway's, `asked` its options."""
        short = self._short(asked) if job.could_start else {}
        if not short:
            self._since.pop(job.id, None)
            return ""
        if now - self._since.setdefault(job.id, now) < self.wait_s * 2.0 ** self._times[number]:
            return ""
        self._times[number] += 1
        self.shut(short, now)
        return "; ".join(short.values())

    def started(self, number: int) -> None:
        """All parts of a job of Headway's run: what it lacked before is over."""
        del self._times[number]

    def shut(self, nodes: Iterable[str], now: float) -> None:
        """Nothing more is sent there for a while."""
        self._shut |= dict.fromkeys(nodes, now + SHUT_S)

    def words(self, now: float) -> str:
        """For those who ask why a job waits."""
        names = ", ".join(sorted(self.shut_nodes(now)))
        return (
            f"a job asks for more CPUs or memory than is free on {names}: nothing is sent there for a moment"
            if names
            else ""
        )

    def shut_nodes(self, now: float) -> frozenset[str]:
        """The nodes that are shut."""
        self._shut = {name: until for name, until in self._shut.items() if until > now}
        return frozenset(self._shut)

    def _short(self, asked: Mapping[str, str]) -> dict[str, str]:
        cpus, memory_mb, reasons = int(asked.get("cpus-per-task", 0)), int(asked.get("mem", 0)), {}
        for name in asked.get("nodelist", "").split(","):
            free = self._free.get(name)
            if free is not None and cpus > free.cpus:
                reasons[name] = f"{name} has {max(0, free.cpus)} of the {cpus} CPUs free that it asks for there"
            elif free is not None and memory_mb > free.memory_mb:
                reasons[name] = f"{name} has {max(0, free.memory_mb)} of the {memory_mb} MB free that it asks for there"
        return reasons
