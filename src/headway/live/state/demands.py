"""Constraints of live jobs: the row of each job in the engine's table of constraints, and the refusals."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.cluster.demands import ANY, Demand, check_possible, gpus_of, read_label, suiting
from headway.cluster.nodes import Cluster
from headway.live.errors import LimitReached
from headway.live.jobfile.spec import JobSpec
from headway.live.state.engine import LiveEngine

# Different constraints of active jobs. Every decision visits each constraint of waiting jobs.
MOST_DEMANDS: Final = 64


def _add(counts: Counter[Demand], demand: Demand, change: int) -> None:
    """Change the number of jobs of a constraint; remove the constraint at 0."""
    if demand:
        counts[demand] += change
        if not counts[demand]:
            del counts[demand]


class LiveDemands:
    """Rows of the constraints of jobs in memory. When all jobs of a row have left the memory, another constraint may take it."""

    def __init__(self, cluster: Cluster, engine: LiveEngine) -> None:
        self._cluster, self._engine = cluster, engine
        self.rows: dict[Demand, int] = {ANY: 0}
        self._stored: Counter[Demand] = Counter()  # jobs in memory
        self._active: Counter[Demand] = Counter()  # jobs that have not ended, or are about to be accepted

    def count(self, spec: JobSpec, change: int) -> None:
        """Change by `change` the number of active jobs with the constraint of `spec`."""
        _add(self._active, spec.demand, change)

    @property
    def crowded(self) -> bool:
        """Return whether there are MOST_DEMANDS rows or more, and some are only of jobs that have ended."""
        return len(self._stored) >= MOST_DEMANDS and len(self._stored) > len(self._active)

    def row_of(self, spec: JobSpec) -> int:
        """Return the row of a job that is added to memory; give a new constraint an unused row."""
        demand = spec.demand
        if demand not in self.rows:
            unused = [other for other in self.rows if other and other not in self._stored]
            row = self.rows.pop(unused[0]) if unused else len(self.rows)
            self.rows[demand] = row
            self._engine.set_demand(row, suiting(self._cluster, demand), demand.gpus_per_node)
        _add(self._stored, demand, 1)
        return self.rows[demand]

    def row_ahead(self, spec: JobSpec, engine: LiveEngine) -> int:
        """Return the row of a job of a forecast, on a copy of the engine."""
        demand = spec.demand
        if demand in self.rows:
            return self.rows[demand]
        engine.set_demand(len(self.rows), suiting(self._cluster, demand), demand.gpus_per_node)
        return len(self.rows)

    def forget(self, specs: Iterable[JobSpec]) -> None:
        """Remove jobs with these specs, which leave the memory."""
        for spec in specs:
            _add(self._stored, spec.demand, -1)

    def load(self, labels: Iterable[tuple[int, list[str]]], rows: NDArray[np.int32]) -> None:
        """Load the rows of an earlier manager on the same nodes; `rows` are the rows of the jobs in memory."""
        self.rows = {read_label(label): row for row, label in labels}
        demand_of_row = {row: demand for demand, row in self.rows.items()}
        self._stored = Counter(demand_of_row[row] for row in rows.tolist() if row)

    def move(self, cluster: Cluster) -> None:
        """Find the eligible nodes of all constraints on another cluster."""
        self._cluster = cluster
        for demand, row in self.rows.items():
            self._engine.set_demand(row, suiting(cluster, demand), demand.gpus_per_node)

    def label(self, row: int) -> list[str]:
        """Return the name of a row in the journal."""
        return next(demand.label for demand, mine in self.rows.items() if mine == row)

    def row_named(self, label: list[str]) -> int | None:
        """Return the row of a name in the journal; None if no job in memory has the constraint."""
        return self.rows.get(read_label(label))

    def check(self, spec: JobSpec) -> None:
        """Refuse a job for which too few nodes are eligible."""
        check_possible(self._cluster, spec.demand, spec.gpus)

    def check_count(self, spec: JobSpec) -> None:
        """Refuse a new constraint if active jobs have MOST_DEMANDS different ones already."""
        demand = spec.demand
        if demand and demand not in self._active and len(self._active) >= MOST_DEMANDS:
            raise LimitReached(
                f"constraints: jobs here ask for {MOST_DEMANDS} different kinds of nodes already, which is the most: "
                "use a constraint that another job has, or try again when some of them have ended"
            )

    def suits(self, spec: JobSpec) -> NDArray[np.bool_]:
        """Return which nodes are eligible for a job."""
        return suiting(self._cluster, spec.demand)


def lacks_nodes(spec: JobSpec, cluster: Cluster) -> bool:
    """Return whether a job could never start on a cluster: it is too large, or too few nodes are eligible."""
    return spec.gpus > gpus_of(cluster, spec.demand)
