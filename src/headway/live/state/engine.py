"""The engine of a live cluster: its tables grow as jobs arrive."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.nodes import Cluster
from headway.core.compiler.mistakes import explained
from headway.core.engine import Decision, Engine, Event, Recorded
from headway.core.events import ENDED, START, SUBMITTED
from headway.core.operations import (
    admit,
    copied,
    grow,
    grow_groups,
    grow_history,
    refit_thresholds,
    set_bookings,
    set_demand,
    set_team,
)
from headway.core.protocols import Placement, Policy
from headway.core.tables.compact import without_rows
from headway.core.tables.options import ServiceHistory
from headway.core.tables.state import State, new_state
from headway.core.tables.teams import Team
from headway.errors import BadInput
from headway.io.units import counted
from headway.live.measures import QUICK, Histogram

NEAR = 16  # if no job of a size can be placed, sizes that differ by less than this are tried
FIRST_ROOM = 1024  # rows of the first job table; a full table is doubled


def _check_fabric(cluster: Cluster, policy: Policy, placement: Placement) -> None:
    """Refuse a placement that needs links which are unknown here, or whose links packed jobs would share."""
    if placement.needs_fabric and (not cluster.links or placement.rewires):
        have = "has no optical switches that are known here" if placement.rewires else "has none that is known here"
        raise BadInput(f"placement {placement.name!r} needs a fabric, and cluster {cluster.name} {have}")
    if (placement.needs_fabric or (placement.shares and cluster.links)) and policy.packs:
        raise BadInput(
            f"policy {policy.name!r} puts two jobs on one GPU, where {placement.name} could not keep them apart"
        )


def _leaves(cluster: Cluster, placement: Placement) -> dict[str, Any]:
    """Return the columns about switches, if the placement uses them."""
    if not cluster.leaves or not (placement.needs_fabric or placement.knows_leaves):
        return {}
    links = cluster.links or (0,) * (max(cluster.leaves) + 1)
    return {"links": np.array(links, np.uint64), "node_leaf": np.array(cluster.leaves, np.int64)}


class LiveEngine(Engine):
    """The engine, with room for jobs to come."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        placement: Placement,
        teams: Sequence[Team] = (),
        queue_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if policy.requested < np.inf:
            plans = "backfill plans with the time limits of jobs, or with backfill?limit=8h for those without"
            raise BadInput(
                f"policy {policy.name!r} asks for a multiple of what jobs take, which only a simulator knows: live, {plans}"
            )
        if policy.oracle or policy.allot is not None:
            knows = "reads the work left, which only a simulator knows"
            why = knows if policy.oracle else "resizes jobs, which real jobs cannot"
            others = "headway, tiresias-l, 2d-las, las, gittins, tiresias-g, gandiva, fifo, backfill or best-effort"
            raise BadInput(f"policy {policy.name!r} {why}: run {others}")
        _check_fabric(cluster, policy, placement)
        state = new_state(
            FIRST_ROOM,
            np.array(cluster.gpus),
            slots=2 if policy.packs else 1,
            teams=teams,
            **_leaves(cluster, placement),
        )
        options = policy.options(FIRST_ROOM, by_class=placement.by_class, pack_limit=placement.pack_limit, seed=0)
        options = options._replace(teams=len(state.teams), **queue_options)
        # A limit of the policy is in each job's own, which ends with the job's grace (ClusterState.known).
        super().__init__(state, options._replace(limit=np.inf, node_order=placement.node_order), policy, placement)
        self.spent = Histogram(QUICK)  # seconds of each decision
        reserves = placement.needs_fabric or placement.shares
        self.uplinks = max((links.bit_count() for links in cluster.links), default=0) if reserves else 0
        self.shares = placement.shares  # if true, only jobs that ask for links of their own wait for them
        self._empty: Callable[[], LiveEngine] = lambda: LiveEngine(cluster, policy, placement)
        # Answers of `_could_have`, by size, GPUs per node and eligible nodes.
        self._placeable: dict[tuple[int, int, bytes], bool] = {}
        self.placement_name = placement.name

    def record(self, event: Recorded, now: float) -> None:
        """Record one fact or action. An error of the policy becomes one line."""
        if event.kind == ENDED:
            self._make_room_for_sample()
        with explained():
            super().record(event, now)

    def decide(self, now: float) -> Decision:
        """Return the decision, and measure its duration."""
        began = perf_counter()
        with explained():
            decision = super().decide(now)
        self.spent.add(perf_counter() - began)
        return decision

    def own_facts(self, wake: float, now: float) -> list[int]:
        """Return the engine's own facts. An error of the policy becomes one line."""
        with explained():
            return super().own_facts(wake, now)

    def why_never(self, gpus: int, suits: NDArray[np.bool_], per_node: int = 0) -> str:
        """Return why a job could never have links of its own on eligible nodes, if placements reserve links; empty: it could."""
        if self.uplinks == 0 or self._could_have(gpus, suits, per_node):
            return ""
        if per_node and self._could_have(gpus, suits, 0):
            nodes = counted(gpus // per_node, "node")
            return (
                f"num_nodes: placement {self.placement_name} does not place {nodes} with {counted(per_node, 'GPU')} each: "
                "ask for whole nodes, or leave num_nodes out"
            )
        total = int(self.state.nodes["gpus"].sum())
        smaller, larger = range(gpus - 1, max(0, gpus - NEAR), -1), range(gpus + 1, min(total, gpus + NEAR) + 1)
        nearest = [next((size for size in sizes if self._could_have(size, suits, 0)), 0) for sizes in (smaller, larger)]
        near = " or ".join(str(size) for size in nearest if size) or "another number"
        return f"no slice of the fabric has {gpus} GPUs and links of its own: ask for {near}"

    def _could_have(self, gpus: int, suits: NDArray[np.bool_], per_node: int) -> bool:
        """Return whether a job of this size is placed on the empty cluster, if it waits for links of its own."""
        case = (gpus, per_node, suits.tobytes())
        if case not in self._placeable:
            empty = self._empty()
            empty.set_demand(1, suits, per_node)
            admit(empty.state, 0, submit=0.0, gpus=gpus, slice_wait=np.inf, whole_wait=np.inf, demand=1)
            empty.record(Event(SUBMITTED, 0), 0.0)
            self._placeable[case] = any(action.kind == START for action in empty.decide(0.0).actions)
        return self._placeable[case]

    def make_room(self, jobs: int) -> None:
        """Make sure that the tables have at least `jobs` rows."""
        if jobs > len(self.state.jobs):
            self._use(grow(self.state, max(jobs, 2 * len(self.state.jobs))), self.options.history)

    def book(self, bookings: NDArray[Any], now: float) -> None:
        """Replace the table of advance reservations."""
        self._use(set_bookings(self.state, bookings, now), self.options.history)

    def set_team(self, row: int, team: Team) -> None:
        """Set a row of the table of teams."""
        self._use(set_team(self.state, row, team), self.options.history)

    def set_demand(self, row: int, suits: NDArray[np.bool_], per_node: int = 0) -> None:
        """Set the eligible nodes of a constraint, and its GPUs per node (0: any)."""
        self._use(set_demand(self.state, row, suits, per_node), self.options.history)

    def _make_room_for_sample(self) -> None:
        """Make room for one more sample: the history keeps samples longer than the tables keep rows."""
        past = self.options.history
        used = int(past.counts["fitted"][0] + past.counts["new"][0])
        if past.counts["grows"][0] and used + 1 >= len(past.samples):
            self._use(self.state, grow_history(past, 2 * used + 2))

    def make_room_for_groups(self, rows: int) -> None:
        """Make sure that the table of groups has at least `rows` rows."""
        past = self.options.history
        if rows > len(past.groups):
            self._use(self.state, grow_groups(past, 2 * rows))

    def retire(self, keep: NDArray[np.int64]) -> None:
        """Keep only these rows of the job table, in this order."""
        self.state = without_rows(self.state, keep)

    def move(self, state: State) -> None:
        """Replace the tables by tables of the same jobs on other nodes."""
        self._use(state, self.options.history)

    def load(self, state: State, past: ServiceHistory) -> None:
        """Load the tables and the history of an earlier manager; fit thresholds to the history."""
        self._use(state, past)
        if self.options.fits:
            refit_thresholds(past, self.options.thresholds)

    def copy_for(self, jobs: int) -> "LiveEngine":
        """Return a copy for forecasts, with tables of its own and exactly this number of rows for jobs."""
        other = copy(self)
        other.spent = Histogram(QUICK)
        state = copied(self.state) if jobs <= len(self.state.jobs) else grow(copied(self.state), jobs)
        past = copied(self.options.history)
        past = grow_history(past, int(past.counts["fitted"][0] + past.counts["new"][0]) + 2 * jobs + 1)
        other.options = self.options._replace(thresholds=self.options.thresholds.copy())
        other._use(state._replace(jobs=state.jobs[:jobs]), past)
        return other

    def _use(self, state: State, past: ServiceHistory) -> None:
        self.state = state
        self.options = self.options._replace(history=past, teams=len(state.teams), demands=len(state.suits))
        self.make_scratch()
