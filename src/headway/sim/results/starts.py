"""Text about a start: places, links, routing rule and collective plan, which of them the job waited for, and why it stopped waiting."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.events import NAMES, STARTED, STOPPED, SUBMITTED
from headway.iteration.plans import ALL_REDUCE_PLANS, Bandwidth, Shape, server_first, shape_of
from headway.placement.joint import LEAST_REST_S, LEAST_TURN_S
from headway.sim.run import Run

SECONDS = "{:,.0f} s"


class Starts:
    """Follows a journal from its first entry on; says of each Start what was decided."""

    def __init__(self, run: Run) -> None:
        jobs = len(run.workload)
        self.run, self.fabric = run, run.setting.network.fabric
        self.fewest = np.searchsorted(
            np.concatenate([[0], np.cumsum(np.sort(run.cluster.gpus)[::-1])]), np.arange(run.cluster.total + 1)
        )
        self.queued, self.since, self.ran = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)

    def follow(self, row: Any) -> None:
        """Take in an entry: since when the job waits, and for how long it ran before."""
        kind, j, now = int(row["kind"]), int(row["job"]), float(row["time"])
        if kind in (SUBMITTED, STOPPED):
            self.queued[j] = now
        if kind == STARTED:
            self.since[j] = now
        elif NAMES[kind] == "Stop":
            self.ran[j] += max(0.0, now - self.since[j])

    def told(self, row: Any, gpus: NDArray[Any], links: NDArray[Any]) -> dict[str, Any]:
        """The decision of a Start on these GPUs, with these links."""
        j, node_of = int(row["job"]), np.repeat(np.arange(len(self.run.cluster.gpus)), self.run.cluster.gpus)
        nodes, counts = np.unique(node_of[gpus % self.run.cluster.total], return_counts=True)
        leaf_of = self.fabric.server_leaf if self.fabric else np.zeros(len(self.run.cluster.gpus), np.int64)
        shape = shape_of(counts, leaf_of[nodes])
        facts: dict[str, Any] = {"nodes": len(nodes), "fewest_nodes": int(self.fewest[len(gpus)])}
        if self.fabric:
            facts["links"] = {
                self.fabric.leaf_name(int(one["leaf"])): [
                    up for up in range(self.fabric.uplinks) if int(one["mask"]) >> up & 1
                ]
                for one in links
            }
            facts["routing"] = self._routing(shape, len(links))
        facts |= self._plan(shape)
        return facts | {"why": self._why(j, float(row["time"]), facts, shape)}

    def _routing(self, shape: Shape, links: int) -> str:
        if links:
            return "isolated"
        return "below one leaf" if shape.leaves == 1 else self.run.setting.network.name

    def _plan(self, shape: Shape) -> dict[str, Any]:
        plan = self.run.setting.plan
        if plan not in ALL_REDUCE_PLANS or shape.each * shape.servers < 2:
            return {}
        inside, nic = (self.fabric.server_gbps, self.fabric.link_gbps) if self.fabric else (1000.0, 100.0)
        part = server_first(plan, shape, Bandwidth(inside, nic))
        return {"plan": {"collective": ALL_REDUCE_PLANS[plan], "server_first": round(float(part), 4)}}

    def _why(self, j: int, now: float, facts: dict[str, Any], shape: Shape) -> str:
        """In a sentence; how long it waited and would have waited at most, where it has a worse place than it could have had."""
        row, waited = self.run.jobs[j], now - self.queued[j]
        parts = []
        if facts["nodes"] > facts["fewest_nodes"]:
            more = f"spread over {facts['nodes']} nodes where {facts['fewest_nodes']} would do"
            parts.append(more + self._bound(row["whole_wait"], LEAST_TURN_S, j, waited))
        routing = facts.get("routing", "")
        if routing == "isolated":
            parts.append(f"isolated: its links on {shape.leaves} leaves are its own")
        elif routing == "below one leaf":
            parts.append("alone below one leaf: it needs no link above it")
        elif routing:
            parts.append(
                f"shared: its flows take links by {routing}" + self._bound(row["slice_wait"], LEAST_REST_S, j, waited)
            )
        return "; ".join(parts) or "on the fewest nodes"

    def _bound(self, wait: float, least: float, j: int, waited: float) -> str:
        if not self.run.placement.shares:
            return ""
        row = self.run.jobs[j]
        said = float(row["left"] + row["done"]) - self.ran[j]  # NaN: it does not report
        most = float(wait) * (said if said > 0.0 else max(least, self.ran[j]))
        return f", after a wait of {SECONDS.format(waited)} (it waits {SECONDS.format(most)} at most for better)"
