"""The cluster may change between two managers: jobs on what remains go on, others are stopped and run again."""

from pathlib import Path

import numpy as np
import pytest
from tests.live_manager import ME, opened
from tests.waiting import wait_for

from headway.cluster.named import cluster
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import recovery
from headway.live.manager.manager import Manager
from headway.live.state.cluster import ClusterState
from headway.live.store.journal import Journal
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

POLICY = "tiresias-l?threshold=100"
pytestmark = pytest.mark.xdist_group("live")


def gpus(manager: Manager, job: int) -> tuple[int, ...]:
    return manager._state.jobs[job].seats


def whole(manager: Manager) -> None:
    """The ledger adds up: what is free and what jobs hold is all there is."""
    tables, total = manager._state.tables, manager.cluster.total
    held = [gpu for job in manager._state.active_jobs() for gpu in job.seats]
    assert len(held) == len(set(held))
    assert tables.nodes["gpus"].sum() == total
    assert tables.nodes["free"].sum() == total - len(held) == tables.counts["free_gpus"][0]
    assert sorted(np.nonzero(tables.seats["holder"] >= 0)[0].tolist()) == sorted(held)


def same_as_the_journal(manager: Manager) -> None:
    """What the journal tells without a snapshot is the state that wrote it."""
    journal = Journal(manager.data)
    journal.commit(lambda connection: connection.execute("DELETE FROM snapshots"))
    rules = find_policy(POLICY), find_placement("consolidated")
    again = recovery.restore(lambda before: ClusterState(before or cluster("1x1"), *rules), journal)[0]
    journal.close()
    n = len(again.jobs)
    assert again.cluster.gpus == manager._state.cluster.gpus
    assert again.jobs == manager._state.jobs
    for name in ("nodes", "seats", "fewest", "classes", "spent", "counts"):
        assert getattr(again.tables, name).tobytes() == getattr(manager._state.tables, name).tobytes(), name
    before, after = manager._state.tables.jobs[:n], again.tables.jobs[:n]
    assert all(after[column].tobytes() == before[column].tobytes() for column in before.dtype.names)


def test_a_cluster_that_grows_keeps_its_jobs(tmp_path: Path) -> None:
    manager = opened(tmp_path, "2x4", POLICY)
    jobs = [manager.submit(JobSpec(run="sleep 600", resources={"accelerators": n}), ME)[0] for n in (3, 4)]  # type: ignore[arg-type]
    waits = manager.submit(JobSpec(run="sleep 600", resources={"accelerators": 8}), ME)[0]  # type: ignore[arg-type]
    wait_for(lambda: manager.counts()["RUNNING"] == 2)
    before = [gpus(manager, job) for job in jobs]
    manager.stop()
    again = opened(tmp_path, "2x8", POLICY)
    wait_for(lambda: again.counts()["RUNNING"] == 3)
    assert [gpus(again, job) for job in jobs] == before
    assert [view.attempt for view in again.jobs()] == [1, 1, 1]
    assert again.nodes()[0].gpus == 8
    whole(again)
    for job in (*jobs, waits):
        again.cancel(job)
    wait_for(lambda: again.counts()["CANCELLED"] == 3)
    whole(again)
    again.stop()
    same_as_the_journal(again)


def test_jobs_on_gpus_that_are_gone_run_again_and_too_large_ones_wait(tmp_path: Path) -> None:
    manager = opened(tmp_path, "2x2", POLICY)
    stays, goes = (
        manager.submit(JobSpec(run="sleep 600", resources={"accelerators": 2}, preemption={"grace": 1}), ME)[0]  # type: ignore[arg-type]
        for _ in range(2)
    )
    large = manager.submit(JobSpec(run="true", num_nodes=2, resources={"accelerators": 2}), ME)[0]  # type: ignore[arg-type]
    small = manager.submit(JobSpec(run="true"), ME)[0]
    wait_for(lambda: manager.counts()["RUNNING"] == 2)
    if 3 in gpus(manager, stays):
        stays, goes = goes, stays
    manager.stop()
    again = opened(tmp_path, "1x2+1x1", POLICY)
    wait_for(lambda: again.job(goes).attempt == 2)  # type: ignore[union-attr]
    assert again.job(stays).state == "RUNNING"  # type: ignore[union-attr]
    assert again.job(stays).attempt == 1  # type: ignore[union-attr]
    wait_for(lambda: again.job(small).state == "COMPLETED")  # type: ignore[union-attr]
    assert again.job(large).reason == "node_down"  # type: ignore[union-attr]
    message = "it needs 2 nodes with 2 GPUs each, and the cluster, which has changed, has 1 such node"
    assert again.explain(large).message == message
    whole(again)
    again.cancel(stays)
    wait_for(lambda: again.job(goes).state == "RUNNING")  # type: ignore[union-attr]
    again.cancel(goes)
    wait_for(lambda: again.counts()["CANCELLED"] == 2)
    again.stop()
    same_as_the_journal(again)
    last = opened(tmp_path, "2x2", POLICY)
    wait_for(lambda: last.job(large).state == "COMPLETED")  # type: ignore[union-attr]
    whole(last)
    last.stop()
    same_as_the_journal(last)


def test_a_job_all_of_whose_gpus_are_gone_waits_again(tmp_path: Path) -> None:
    """The manager ended with a traceback, and could not be started on the smaller cluster."""
    manager = opened(tmp_path, "2x2", POLICY)
    resources = {"accelerators": 2}
    jobs = [manager.submit(JobSpec(run="sleep 600", resources=resources), ME)[0] for _ in range(2)]  # type: ignore[arg-type]
    wait_for(lambda: manager.counts()["RUNNING"] == 2)
    goes = next(job for job in jobs if 3 in gpus(manager, job))
    manager.stop()
    again = opened(tmp_path, "1x2", POLICY)
    wait_for(lambda: again.job(goes).state == "PENDING")  # type: ignore[union-attr]
    assert again.counts()["RUNNING"] == 1
    whole(again)
    for job in jobs:
        again.cancel(job)
    wait_for(lambda: again.counts()["CANCELLED"] == 2)
    whole(again)
    again.stop()
    same_as_the_journal(again)


def test_nodes_keep_their_gpus_by_name_where_there_are_several_machines(tmp_path: Path) -> None:
    from headway.cluster.nodes import Cluster
    from headway.live.state.turnover import GONE, moved_gpus

    before, after = Cluster("", ("a", "b", "c"), (2, 2, 1)), Cluster("", ("c", "b"), (2, 1))
    assert moved_gpus(before, after, False).tolist() == [GONE, GONE, 2, GONE, 0]
    assert moved_gpus(before, after, True).tolist() == [0, 1, 2, GONE, GONE]
