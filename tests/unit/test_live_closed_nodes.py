"""A node takes jobs if no operator drained it, the executor does not report it away, and the disk has room."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.live_manager import ended, one, opened, until
from tests.waiting import gate, wait_for

from headway.cluster.named import cluster
from headway.cluster.nodes import Cluster
from headway.live.executors import NodeReport
from headway.live.manager import lifecycle
from headway.live.manager.loop.opening import opened as opening
from headway.live.manager.loop.recorder import Recorder
from headway.live.manager.steps import Note, Steps
from headway.live.state.cluster import ClusterState
from headway.live.state.learn import replay
from headway.live.store.snapshot import capture, load
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

NODES = ("n000", "n001", "n002")
FULL = "less than 1 MB are free"
RULES = {"policy": "fifo", "placement": "consolidated"}


def empty() -> ClusterState:
    return ClusterState(cluster("3x1"), find_policy("fifo"), find_placement("consolidated"))


class Nodes:
    """Three nodes, and the steps that close and open them."""

    def __init__(self) -> None:
        self.state = empty()
        self.recorder = Recorder(self.state, 0.0)

    def take(self, steps: Steps) -> None:
        self.recorder.apply(steps, 0.0)

    def operator(self, kind: str, node: str) -> None:
        self.take(iter([Note(kind, data={"node": node})]))

    def reported(self, away: Sequence[str] = ()) -> None:
        reports = [NodeReport(node, away="down" if node in away else "") for node in NODES]
        self.take(lifecycle.nodes_reported(self.state, reports))

    def disk(self, low: str) -> None:
        self.take(lifecycle.disk_checked(self.state, low))

    def opened(self, on: Cluster) -> None:
        self.take(opening(self.state, on, RULES, False))

    def closed(self) -> list[str]:
        """The nodes that take no jobs; a snapshot and the journal have the same."""
        loaded, replayed = empty(), empty()
        load(loaded, capture(self.state)())
        replay(replayed, self.recorder.round.rows)
        for again in (loaded, replayed):
            assert again.tables.nodes["closed"].tolist() == self.state.tables.nodes["closed"].tolist()
            assert (again.drained, again.away) == (self.state.drained, self.state.away)
            assert (again.low_disk, again.closing) == (self.state.low_disk, self.state.closing)
        shut = self.state.tables.nodes["closed"].tolist()
        return [name for name, closed in zip(self.state.cluster.nodes, shut, strict=True) if closed]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_a_drained_node_stays_drained_when_it_is_away_and_back(nodes: Nodes) -> None:
    nodes.operator("Drained", "n000")
    nodes.reported(away=["n000", "n001"])
    nodes.reported()
    assert nodes.closed() == ["n000"]


def test_a_node_that_is_resumed_while_it_is_away_takes_no_jobs(nodes: Nodes) -> None:
    nodes.operator("Drained", "n000")
    nodes.reported(away=["n000"])
    nodes.operator("Resumed", "n000")
    assert nodes.closed() == ["n000"]
    nodes.reported()
    assert nodes.closed() == []


def test_room_on_the_disk_opens_no_node_that_is_away_or_drained(nodes: Nodes) -> None:
    nodes.operator("Drained", "n000")
    nodes.reported(away=["n001"])
    nodes.disk(FULL)
    assert nodes.closed() == list(NODES)
    nodes.disk("")
    assert nodes.closed() == ["n000", "n001"]
    nodes.reported()
    assert nodes.closed() == ["n000"]


def test_a_node_that_comes_back_while_the_disk_is_full_takes_jobs_once_there_is_room(nodes: Nodes) -> None:
    nodes.reported(away=["n001"])
    nodes.disk(FULL)
    nodes.reported()
    assert nodes.closed() == list(NODES)
    nodes.disk("")
    assert nodes.closed() == []


def test_a_node_that_goes_away_while_the_disk_is_full_stays_away(nodes: Nodes) -> None:
    nodes.disk(FULL)
    nodes.reported(away=["n001"])
    nodes.disk("")
    assert nodes.closed() == ["n001"]


def test_no_node_takes_jobs_while_the_manager_closes(nodes: Nodes) -> None:
    nodes.reported(away=["n001"])
    nodes.operator("Drained", "n002")
    nodes.take(iter([Note("Closing")]))
    nodes.reported()
    nodes.operator("Resumed", "n002")
    assert nodes.closed() == list(NODES)
    nodes.opened(cluster("3x1"))
    assert nodes.closed() == []


def test_a_drained_node_stays_drained_when_it_leaves_the_cluster_and_returns(nodes: Nodes) -> None:
    nodes.operator("Drained", "n002")
    nodes.opened(cluster("2x1"))
    assert nodes.closed() == []
    nodes.opened(cluster("3x1"))
    assert nodes.closed() == ["n002"]


def test_a_drained_node_stays_drained_after_its_last_job_and_a_restart(tmp_path: Path) -> None:
    manager = opened(tmp_path, "1x1")
    job = one(manager, run=gate(tmp_path / "go"))
    until(manager, job, "RUNNING")
    manager.drain("n000")
    assert [node.state for node in manager.nodes()] == ["draining"]
    (tmp_path / "go").touch()
    assert ended(manager, job) == "COMPLETED"
    waits = one(manager, run="true")
    manager.settle()
    assert [node.state for node in manager.nodes()] == ["drained"]
    manager.stop()
    again = opened(tmp_path, "1x1")
    assert [node.state for node in again.nodes()] == ["drained"]
    assert until(again, waits, "PENDING").attempt == 1
    again.resume("n000")
    assert ended(again, waits) == "COMPLETED"
    wait_for(lambda: again.nodes()[0].state == "open")
    again.stop()
