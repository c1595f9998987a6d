"""Restarting: from a snapshot or from the journal; jobs that have left the memory are still shown, counted, explained and run again."""

import getpass
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.journal_edit import edited, ended_rows
from tests.quiet import Quiet
from tests.waiting import wait_for

from headway.client.job import JobQuery
from headway.cluster.named import cluster
from headway.core.tables.options import ServiceHistory
from headway.core.tables.state import State
from headway.live.errors import WrongState
from headway.live.executors import ENDED, STARTED, Launch, Report
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import recovery
from headway.live.manager.loop import recorder
from headway.live.manager.manager import Manager
from headway.live.manager.questions import NEWEST
from headway.live.state.engine import LiveEngine
from headway.live.store.snapshot import VERSION
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")


class AtOnce(Quiet):
    """Processes that end as soon as they are started: with the code that the job's name says."""

    def __init__(self) -> None:
        self.heard: list[Report] = []

    def open(self, wake: Any) -> None:
        self.wake = wake

    def start(self, launch: Launch) -> None:
        key, code = (launch.job, launch.attempt), int(launch.spec.name or 0)
        self.heard += [Report(STARTED, *key), Report(ENDED, *key, exit_code=code)]
        self.wake()

    def reports(self) -> list[Report]:
        found, self.heard = self.heard, []
        return found


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "KEPT_FINISHED", 10)
    monkeypatch.setattr(recorder, "ROWS_PER_SNAPSHOT", 60)


def opened(data: Path, policy: str = "fifo") -> Manager:
    executor: Any = AtOnce()
    manager = Manager(data, cluster("2x2"), policy, executor=executor)
    manager.start()
    return manager


def run(manager: Manager, count: int, **spec: Any) -> list[int]:
    ids = [manager.submit(JobSpec(run="true", **spec), ME)[0] for _ in range(count)]
    wait(manager)
    return ids


def wait(manager: Manager) -> None:
    wait_for(lambda: not manager._state.active)


def snapshots(data: Path) -> list[int]:
    with sqlite3.connect(data / "journal.db") as file:
        return [seq for (seq,) in file.execute("SELECT seq FROM snapshots ORDER BY seq")]


def test_finished_jobs_leave_the_memory_and_are_still_there(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    run(manager, 50)
    failed = run(manager, 5, name="3")
    run(manager, 50)
    assert len(manager._state.jobs) < 25
    assert len(manager._state.tables.jobs) == 1024
    assert manager.counts()["COMPLETED"] == 100
    assert manager.counts()["FAILED"] == 5
    first = manager.job(1)
    assert first is not None
    assert (first.state, first.exit_code, first.attempt) == ("COMPLETED", 0, 1)
    assert [view.job_id for view in manager.jobs(JobQuery(limit=1000))] == list(range(1, 106))
    assert [view.job_id for view in manager.jobs(JobQuery(states=frozenset({"FAILED"})))] == failed
    assert [view.job_id for view in manager.jobs(JobQuery(after_id=40, limit=3))] == [41, 42, 43]
    assert manager.explain(2).message == "it has ended: COMPLETED"
    assert manager.explain(2).wait_us == sum(manager.explain(2).receipt_us.values())
    assert len(manager.workload(0.0)) == 105
    rows = manager.history(replace(NEWEST, states=frozenset({"FAILED"})))
    assert [row.job_id for row in rows] == failed[::-1]
    assert {row.exit_code for row in rows} == {3}
    assert [row.job_id for row in rows] == [number for number, state in ended_rows(tmp_path) if state == "FAILED"]
    assert [row.job_id for row in manager.history(replace(NEWEST, limit=2))] == [105, 104]
    assert manager.history(JobQuery(user="somebody")) == []
    with pytest.raises(WrongState, match="job 1 has ended: it is COMPLETED"):
        manager.cancel(1)
    after = manager.submit(JobSpec(run="true", after=(1,)), ME)[0]
    wait(manager)
    assert manager.job(after).state == "COMPLETED"  # type: ignore[union-attr]
    assert manager.submit(JobSpec(run="true", after=(failed[0],)), ME) == [107]
    wait(manager)
    assert manager.job(107).state == "CANCELLED"  # type: ignore[union-attr]
    manager.stop()


def test_a_retired_job_is_run_again(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    tasks = manager.submit(JobSpec(run="true", array="0-3%2"), ME)
    run(manager, 40)
    assert not manager._state.arrays
    manager.requeue(tasks[1])
    wait(manager)
    view = manager.job(tasks[1])
    assert view is not None
    assert (view.state, view.attempt, view.array_index) == ("COMPLETED", 2, 1)
    assert manager.counts()["COMPLETED"] == 44
    run(manager, 40)
    manager.stop()
    again = opened(tmp_path)
    assert again.job(tasks[1]) == view
    again.stop()


@pytest.mark.parametrize("damage", ["none", "last", "all", "version", "policy"])
def test_a_restart_uses_the_snapshot_or_says_why_not(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "CHECKED_BYTES", 0)  # as if it were large
    manager = opened(tmp_path)
    run(manager, 60)
    held = manager.submit(JobSpec(run="true"), ME, "key")[0]
    wait(manager)
    manager.stop()
    before = list(manager._state.jobs.values())
    seqs = snapshots(tmp_path)
    assert len(seqs) == 2
    with sqlite3.connect(tmp_path / "journal.db") as file:
        if damage in ("last", "all"):
            file.execute(
                "UPDATE snapshots SET content = zeroblob(100) WHERE seq >= ?",
                (seqs[0] if damage == "all" else seqs[1],),
            )
    if damage == "version":
        with edited(tmp_path) as file:
            file.execute(f"UPDATE snapshots SET setting = replace(setting, '\"version\":{VERSION}', '\"version\":0')")
    again = opened(tmp_path, "best-effort" if damage == "policy" else "fifo")
    said = {
        "none": [],
        "last": [f"the snapshot at row {seqs[1]} of journal.db is damaged"],
        "all": [f"the snapshot at row {seq} of journal.db is damaged" for seq in seqs[::-1]],
        "version": ["of another version"],
        "policy": ["another policy (fifo)"],
    }[damage]
    assert len(again.warnings) == len(said)
    assert all(part in note for part, note in zip(said, again.warnings, strict=True))
    assert again.counts()["COMPLETED"] == 61
    assert list(again._state.jobs.values()) == before
    assert again.submit(JobSpec(run="true"), ME, "key") == [held]
    assert again.submit(JobSpec(run="true"), ME) == [held + 1]
    again.stop()


def test_the_receipt_of_an_ended_job_stays_the_same(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    (held,) = manager.submit(JobSpec(run="true", hold=True), ME)
    (cancelled,) = manager.submit(JobSpec(run="true", hold=True), ME)
    manager.release(held)
    manager.cancel(cancelled)
    wait(manager)
    for job in map(manager._state.jobs.get, (held, cancelled)):
        assert job is not None
        assert job.ended is not None
        times = [job.ended + 0.0123457 * i for i in range(200)]  # they round to microseconds in many ways
        receipts = [manager._state.receipt_us(job, now) for now in times]
        assert receipts == [receipts[0]] * 200
        assert receipts[0]["held"] > 0
    manager.stop()


def test_a_job_that_has_left_the_memory_is_explained_as_before(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    (held,) = manager.submit(JobSpec(run="true", hold=True), ME)
    (other,) = manager.submit(JobSpec(run="true"), ME)
    wait_for(lambda: manager.explain(other).message == "it has ended: COMPLETED")
    manager.release(held)
    wait(manager)
    before = manager.explain(held).receipt_us
    assert before["held"] > 0
    run(manager, 30)
    assert held not in manager._state.jobs
    assert manager.explain(held).receipt_us == before
    manager.stop()


def test_tables_of_a_snapshot_have_the_types_that_compiled_code_was_made_for(tmp_path: Path) -> None:
    """Otherwise the first decision of a process that starts from a snapshot fails; one that has decided before does not notice."""
    manager = opened(tmp_path)
    run(manager, 5)
    manager.stop()
    again = opened(tmp_path)
    assert snapshots(tmp_path)
    fresh = LiveEngine(cluster("2x2"), find_policy("fifo"), find_placement("consolidated"))
    pairs = zip(State._fields, again._state.tables, fresh.state, strict=True)
    for name, table, like in [
        *pairs,
        *zip(ServiceHistory._fields, again._state.engine.options.history, fresh.options.history, strict=True),
    ]:
        if name != "promises":
            assert table.dtype.isalignedstruct == like.dtype.isalignedstruct, name
    again.stop()
