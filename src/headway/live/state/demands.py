"""Constraints of live jobs: the row of each job in the engine's table of constraints, and the refusals."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.cluster.demands import ANY, Demand, check_possible, demand_of, gpus_of, read_label, suiting
from headway.cluster.nodes import Cluster
from headway.io.units import counted
from headway.live.errors import WrongState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.engine import LiveEngine
from headway.live.state.records import Job

if TYPE_CHECKING:
    from headway.live.state.cluster import ClusterState

T = TypeVar("T")
# That jobs in memory may have at once: every decision looks at each that has waiting jobs. A user may have as many as are left for the
# others, so that no one has more than half; the first of each is accepted until there are twice as many (decision 0116).
MOST_DEMANDS: Final = 64


def asked_by(spec: JobSpec) -> Demand:
    """Return the constraint of a job."""
    return demand_of(spec.resources.type, spec.constraints, spec.gpus, spec.num_nodes or 0)


def _add(counts: Counter[T], name: T, change: int) -> None:
    """Count; who has come to nothing is forgotten."""
    counts[name] += change
    if not counts[name]:
        del counts[name]


class LiveDemands:
    """Rows of the demands that jobs in memory have. A row that no job has any more is given to another demand."""

    def __init__(self, cluster: Cluster, engine: LiveEngine) -> None:
        self._cluster, self._engine = cluster, engine
        self.rows: dict[Demand, int] = {ANY: 0}
        self._jobs: Counter[int] = Counter()  # in memory, by row
        self._used = 0  # rows that some of them have, but for that of jobs that ask for nothing
        self._active: Counter[tuple[str, Demand]] = Counter()  # jobs that have not ended, or are about to be accepted
        self._of_user: Counter[str] = Counter()  # demands of these
        self._users: Counter[Demand] = Counter()  # users of each

    def count(self, spec: JobSpec, user: str, change: int) -> None:
        """So many jobs of a user have become active, or no longer are."""
        if not (demand := asked_by(spec)):
            return
        had, have = self._active[user, demand], self._active[user, demand] + change
        _add(self._active, (user, demand), change)
        if bool(had) != bool(have):
            _add(self._of_user, user, 1 if have else -1)
            _add(self._users, demand, 1 if have else -1)

    @property
    def crowded(self) -> bool:
        """Whether there are as many demands as may be, though of some only jobs are in memory that have ended."""
        return self._used >= MOST_DEMANDS and self._used > len(self._users)

    def row_of(self, spec: JobSpec) -> int:
        """The row of a job that is taken into memory."""
        demand = asked_by(spec)
        if demand not in self.rows:
            unused = [other for other, row in self.rows.items() if other and not self._jobs[row]]
            row = self.rows.pop(unused[0]) if unused else len(self.rows)
            self.rows[demand] = row
            self._engine.set_demand(row, suiting(self._cluster, demand), demand.gpus_per_node)
        row = self.rows[demand]
        self._used += row > 0 and not self._jobs[row]
        self._jobs[row] += 1
        return row

    def row_ahead(self, spec: JobSpec, engine: LiveEngine) -> int:
        """The row of a job that is only imagined, on a copy of the engine."""
        demand = asked_by(spec)
        if demand in self.rows:
            return self.rows[demand]
        engine.set_demand(len(self.rows), suiting(self._cluster, demand), demand.gpus_per_node)
        return len(self.rows)

    def forget(self, specs: Iterable[JobSpec]) -> None:
        """Jobs with these specs leave the memory."""
        for row in [self.rows[asked_by(spec)] for spec in specs]:
            self._jobs[row] -= 1
            self._used -= row > 0 and not self._jobs[row]

    def load(self, labels: Iterable[tuple[int, list[str]]], rows: NDArray[np.int32]) -> None:
        """Go on with the rows of an earlier manager on the same nodes, which its tables have; `rows` are those of the jobs in memory."""
        self.rows = {read_label(label): row for row, label in labels}
        self._jobs = Counter(rows.tolist())
        self._used = len(self._jobs.keys() - {0})

    def move(self, cluster: Cluster) -> None:
        """The nodes have changed, or what they have: look which suit."""
        self._cluster = cluster
        for demand, row in self.rows.items():
            self._engine.set_demand(row, suiting(cluster, demand), demand.gpus_per_node)

    def label(self, row: int) -> list[str]:
        """How the journal names a row."""
        return next(demand.label for demand, mine in self.rows.items() if mine == row)

    def row_named(self, label: list[str]) -> int | None:
        """The row of what the journal names; None: no job in memory has it."""
        return self.rows.get(read_label(label))

    def check(self, spec: JobSpec) -> None:
        """Refuse a job that no nodes suit."""
        check_possible(self._cluster, asked_by(spec), spec.gpus)

    def check_share(self, spec: JobSpec, user: str) -> None:
        """Refuse one more demand than the engine should tell apart, and one more than a user may have beside others."""
        demand, own, have = asked_by(spec), self._of_user[user], max(self._used, len(self._users))
        if not demand or self._users[demand]:
            return
        if demand not in self.rows and have >= (MOST_DEMANDS if own else 2 * MOST_DEMANDS):
            raise WrongState(
                f"constraints: jobs here ask for {have} different kinds of nodes already, which is the most: "
                "use a constraint that others have, or try again when theirs have ended"
            )
        unused = MOST_DEMANDS - len(self._users)
        if own and own >= unused:
            raise WrongState(
                f"constraints: jobs of {user} ask for {counted(own, 'different kind')} of nodes already, and {max(0, unused)} more "
                "are left for everybody: use a constraint that one of them has, or try again when some of them have ended"
            )

    def suits(self, spec: JobSpec) -> NDArray[np.bool_]:
        """Which nodes suit a job."""
        return suiting(self._cluster, asked_by(spec))


def lacks_nodes(spec: JobSpec, cluster: Cluster) -> bool:
    """Whether a job that was accepted could never start on a cluster: it is too large, or no nodes suit it any more."""
    return spec.gpus > gpus_of(cluster, asked_by(spec))


# ---- words, for those who ask why a job waits


def on_nodes(state: "ClusterState", job: Job) -> str:
    """Return ` on nodes with a100 (2 of 4 nodes)`; empty: the job needs no GPU type or feature."""
    demand = asked_by(job.spec)
    if not str(demand):
        return ""
    count, nodes = int(state.demands.suits(job.spec).sum()), len(state.cluster.nodes)
    return f" on nodes with {demand} ({count} of {counted(nodes, 'node')})"


def nodes_wanted(spec: JobSpec, gpu: str) -> str:
    """Return `2 nodes with 8 free GPUs each` (`gpu`: a free GPU), or `one node with 8 free GPUs`; empty: the job leaves it open."""
    if not (each := asked_by(spec).gpus_per_node):
        return ""
    gpus = counted(each, gpu)
    return f"one node with {gpus}" if spec.num_nodes == 1 else f"{spec.num_nodes} nodes with {gpus} each"


def nodes_words(
    state: "ClusterState", job: Job, reason: str, numbers: Mapping[str, float], message: str, change: list[str]
) -> tuple[str, list[str]]:
    """Return why a job with a given number of nodes waits, and what would change that; other reasons stay as they are."""
    needs, where, ahead = nodes_wanted(job.spec, "free GPU"), on_nodes(state, job), int(numbers["jobs_ahead"])
    if reason == "node_down" and not state.low_disk:
        closed = [
            state.cluster.nodes[x]
            for x in np.flatnonzero((state.tables.nodes["closed"] == 1) & state.demands.suits(job.spec))
        ]
        drained = f"{', '.join(closed[:8])} {'is' if len(closed) == 1 else 'are'} drained"
        return f"it needs {nodes_wanted(job.spec, 'GPU')}{where}, and too few nodes take jobs: {drained}", change
    blocked = state.engine.options.head_of_line_blocking and ahead > 0
    if blocked or reason not in ("gpus", "preempted", "fragmentation"):
        return message, change
    count, again = int(numbers["nodes_with_gpus"]), "it was preempted and " if reason == "preempted" else "it "
    has = f"{count} node has" if count == 1 else f"{count or 'no'} {'nodes have' if count else 'node has'}"
    jobs = f"{counted(ahead, 'job')} {'is' if ahead == 1 else 'are'} ahead of it"
    change = [one for one in change if "strict=no" not in one]  # more nodes would not help
    return f"{again}needs {needs}{where}, and {has} that many; {jobs}", change


def meets(state: "ClusterState", job: Job, names: Iterable[str]) -> bool:
    """Whether some of these nodes suit a job."""
    suits = state.demands.suits(job.spec)
    return any(suits[state.cluster.nodes.index(name)] for name in names)
