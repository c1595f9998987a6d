"""Nodes shared with others: what an executor reports of them is in the ledger, in the journal, and in a state rebuilt from it."""

import getpass
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import wait_for

from headway.cluster.named import cluster
from headway.core.operations import set_withheld, withheld
from headway.core.tables.state import new_state
from headway.live.executors import NodeReport
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.state.learn import replay

pytestmark = pytest.mark.xdist_group("live")


class Sharing(ProcessExecutor):
    """Processes on nodes that others use too, as a test says."""

    news: Sequence[NodeReport] = ()
    said = ""
    asked = 0

    def node_reports(self) -> list[NodeReport]:
        """What the test said last."""
        self.asked += 1
        return [NodeReport(f"n{k:03d}") for k in range(2) if not self.news] + list(self.news)

    def remarks(self) -> list[str]:
        """Return the remark of the test."""
        return [self.said] if self.said else []


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[Manager, Sharing]]:
    """Two nodes of four."""
    executor = Sharing(tmp_path, poll_s=0.1)
    manager = Manager(tmp_path, cluster("2x4"), executor=executor)
    manager.start()
    yield manager, executor
    executor.news = ()
    manager.stop(drain=True)


def say(manager: Manager, executor: Sharing, *news: NodeReport) -> None:
    """Report this of the nodes, and wait until the manager has taken it in: it asks again only after that."""
    executor.news, before = news, executor.asked

    def taken_in() -> bool:
        manager._world.wake()
        return executor.asked >= before + 2

    wait_for(taken_in)


def free(manager: Manager) -> list[tuple[int, str]]:
    return [(node.free, node.state) for node in manager.nodes()]


def test_what_others_use_is_not_given_out(shared: tuple[Manager, Sharing], tmp_path: Path) -> None:
    manager, executor = shared
    say(manager, executor, NodeReport("n000", taken=3), NodeReport("n001", away="drained in Slurm: fan"))
    wait_for(lambda: free(manager) == [(1, "open"), (4, "drained")])
    executor.said = "others use 3 GPUs"
    two = manager.submit(
        job_spec({"run": "sleep 600", "resources": {"accelerators": 2}, "preemption": {"grace": 0}}), getpass.getuser()
    )[0]
    one = manager.submit(job_spec({"run": "sleep 600", "preemption": {"grace": 0}}), getpass.getuser())[0]
    wait_for(lambda: manager.job(one).state == "RUNNING")  # type: ignore[union-attr]
    assert manager.explain(two).message.endswith(". others use 3 GPUs")
    assert manager.job(two).state == "PENDING"  # type: ignore[union-attr]
    # Others are quicker than we thought: what we gave out stays ours, the rest is theirs.
    say(manager, executor, NodeReport("n000", taken=4), NodeReport("n001", away="drained in Slurm: fan"))
    assert free(manager)[0] == (0, "open")
    say(manager, executor, NodeReport("n000", taken=4), NodeReport("n001"))
    wait_for(lambda: manager.job(two).state == "RUNNING")  # type: ignore[union-attr]
    assert manager.job(two).nodes == ("n001",)  # type: ignore[union-attr]
    manager.cancel(one)
    wait_for(lambda: withheld(manager._state.tables).tolist() == [4, 0])
    say(manager, executor, NodeReport("n000"), NodeReport("n001"))
    wait_for(lambda: free(manager)[0] == (4, "open"))
    manager.cancel(two)
    wait_for(lambda: [each[0] for each in free(manager)] == [4, 4])
    assert {row.kind for row in manager.events(0)} >= {"Away", "Back", "Taken"}
    again = Manager(tmp_path / "other", cluster("2x4"), executor=executor)
    replay(again._state, (row for row in manager.events(0) if not row.job))
    np.testing.assert_array_equal(again._state.tables.nodes["closed"], manager._state.tables.nodes["closed"])
    np.testing.assert_array_equal(again._state.tables.seats["holder"], manager._state.tables.seats["holder"])
    again._journal.close()


def test_what_a_job_gives_back_may_be_for_others(shared: tuple[Manager, Sharing], monkeypatch) -> None:
    """An executor that asks now and then says so once: the GPUs are others' as soon as the job that held them is over."""
    manager, executor = shared
    spec = job_spec({"run": "sleep 600", "resources": {"accelerators": 4}, "preemption": {"grace": 0}})
    first = manager.submit(spec, getpass.getuser())[0]
    wait_for(lambda: manager.job(first).state == "RUNNING")  # type: ignore[union-attr]
    news = [[NodeReport("n000", taken=4), NodeReport("n001", away="down")]]
    monkeypatch.setattr(executor, "node_reports", lambda: news.pop() if news else [])
    manager._world.wake()
    wait_for(lambda: free(manager) == [(0, "open"), (4, "drained")])
    second = manager.submit(spec, getpass.getuser())[0]
    manager.cancel(first)
    wait_for(lambda: withheld(manager._state.tables).tolist() == [4, 0])
    assert "Start" not in [row.kind for row in manager.events(0) if row.job == second]
    manager.cancel(second)


def test_a_node_that_a_person_drained_stays_drained(shared: tuple[Manager, Sharing]) -> None:
    manager, executor = shared
    manager.drain("n000")
    say(manager, executor, NodeReport("n000", away="down"), NodeReport("n001"))
    say(manager, executor, NodeReport("n000"), NodeReport("n001"))
    assert free(manager)[0][1] == "drained"
    manager.resume("n000")
    wait_for(lambda: free(manager)[0][1] == "open")


@pytest.mark.parametrize("slots", [1, 2])
def test_withheld_gpus_are_counted(slots: int) -> None:
    state = new_state(4, np.array([4, 2]), slots=slots)
    set_withheld(state, {0: 3, 1: 1}, 5.0)
    assert withheld(state).tolist() == [3, 1]
    assert (state.nodes["free"].tolist(), int(state.counts["free_gpus"][0])) == ([1, 1], 2)
    assert state.fewest[0, :3].tolist() == [0, 1, 2]
    set_withheld(state, {0: 1, 1: 0}, 6.0)
    assert (state.nodes["free"].tolist(), withheld(state).tolist()) == ([3, 2], [1, 0])
    set_withheld(state, {0: 0}, 7.0)
    fresh = new_state(4, np.array([4, 2]), slots=slots)
    assert (state.seats == fresh.seats).all()
    assert (state.fewest == fresh.fewest).all()
    with pytest.raises(AssertionError):
        set_withheld(state, {1: 3}, 8.0)
