"""What jobs of a live cluster ask of nodes: which row of the engine's table of demands a job has, and what is refused."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from headway.cluster.demands import ANY, Demand, check_possible, demand_of, gpus_of, suiting
from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.io.units import counted
from headway.live.engine import LiveEngine
from headway.live.jobfile.spec import JobSpec
from headway.live.records import Job

if TYPE_CHECKING:
    from headway.live.state import ClusterState

MOST_DEMANDS: Final = 64  # that jobs in memory may have at once: every decision looks at each that has waiting jobs


def asked_by(spec: JobSpec) -> Demand:
    """What a job asks of its nodes."""
    return demand_of(spec.resources.type, spec.constraints)


class LiveDemands:
    """Rows of the demands that jobs in memory have. A row that no job has any more is given to another demand."""

    def __init__(self, cluster: Cluster, engine: LiveEngine) -> None:
        self._cluster, self._engine = cluster, engine
        self.rows: dict[Demand, int] = {ANY: 0}
        self._jobs: Counter[int] = Counter()  # in memory, by row
        self._active: Counter[Demand] = Counter()  # of these, the jobs that have not ended

    def count(self, spec: JobSpec, change: int) -> None:
        """A job has become active, or no longer is."""
        if demand := asked_by(spec):
            self._active[demand] += change

    @property
    def crowded(self) -> bool:
        """Whether there are as many demands as may be, though of some only jobs are in memory that have ended."""
        if len(self.rows) <= MOST_DEMANDS:
            return False
        used = [demand for demand, row in self.rows.items() if demand and self._jobs[row]]
        return len(used) >= MOST_DEMANDS and not all(self._active[demand] for demand in used)

    def row_of(self, spec: JobSpec) -> int:
        """The row of a job that is taken into memory."""
        demand = asked_by(spec)
        if demand not in self.rows:
            unused = [other for other, row in self.rows.items() if other and not self._jobs[row]]
            row = self.rows.pop(unused[0]) if unused else len(self.rows)
            self.rows[demand] = row
            self._engine.set_demand(row, suiting(self._cluster, demand))
        self._jobs[self.rows[demand]] += 1
        return self.rows[demand]

    def row_ahead(self, spec: JobSpec, engine: LiveEngine) -> int:
        """The row of a job that is only imagined, on a copy of the engine."""
        demand = asked_by(spec)
        if demand in self.rows:
            return self.rows[demand]
        engine.set_demand(len(self.rows), suiting(self._cluster, demand))
        return len(self.rows)

    def forget(self, specs: Iterable[JobSpec]) -> None:
        """Jobs with these specs leave the memory."""
        self._jobs.subtract(self.rows[asked_by(spec)] for spec in specs)

    def load(self, labels: Iterable[tuple[int, list[str]]], rows: NDArray[np.int32]) -> None:
        """Go on with the rows of an earlier manager on the same nodes, which its tables have; `rows` are those of the jobs in memory."""
        self.rows = {Demand(label[0], tuple(label[1:])): row for row, label in labels}
        self._jobs = Counter(rows.tolist())

    def move(self, cluster: Cluster) -> None:
        """The nodes have changed, or what they have: look which suit."""
        self._cluster = cluster
        for demand, row in self.rows.items():
            self._engine.set_demand(row, suiting(cluster, demand))

    def label(self, row: int) -> list[str]:
        """How the journal names a row."""
        return next(demand.label for demand, mine in self.rows.items() if mine == row)

    def row_named(self, label: list[str]) -> int | None:
        """The row of what the journal names; None: no job in memory has it."""
        return self.rows.get(Demand(label[0], tuple(label[1:])))

    def check(self, spec: JobSpec) -> None:
        """Refuse a job that no nodes suit, and one more demand than the engine should tell apart."""
        demand = asked_by(spec)
        check_possible(self._cluster, demand, spec.gpus)
        if (
            demand not in self.rows
            and sum(bool(self._jobs[row]) for other, row in self.rows.items() if other) >= MOST_DEMANDS
        ):
            raise BadInput(
                f"constraints: jobs here ask for {MOST_DEMANDS} different kinds of nodes already, which is the most: "
                "use a constraint that others have, or submit it when theirs have ended"
            )

    def suits(self, spec: JobSpec) -> NDArray[np.bool_]:
        """Which nodes suit a job."""
        return suiting(self._cluster, asked_by(spec))


def lacks_nodes(spec: JobSpec, cluster: Cluster) -> bool:
    """Whether a job that was accepted could never start on a cluster: it is too large, or no nodes suit it any more."""
    return spec.gpus > gpus_of(cluster, asked_by(spec))


# ---- words, for those who ask why a job waits


def on_nodes(state: "ClusterState", job: Job) -> str:
    """` on nodes with a100 (2 of 4 nodes)`; empty: any node will do."""
    demand = asked_by(job.spec)
    if not demand:
        return ""
    count, nodes = int(state.demands.suits(job.spec).sum()), len(state.cluster.nodes)
    return f" on nodes with {demand} ({count} of {counted(nodes, 'node')})"


def meets(state: "ClusterState", job: Job, names: Iterable[str]) -> bool:
    """Whether some of these nodes suit a job."""
    suits = state.demands.suits(job.spec)
    return any(suits[state.cluster.nodes.index(name)] for name in names)
