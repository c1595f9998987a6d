"""What survives: submissions, state, running jobs, clocks; and what is refused when the disk does not play along."""

import os
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests import live_manager
from tests.live_manager import ME, ended
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.cluster.named import cluster
from headway.live.errors import AlreadyServed, JournalFailed, WrongState
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import clock, recovery
from headway.live.manager.clock import Clock
from headway.live.manager.manager import Manager
from headway.live.state.cluster import ClusterState
from headway.live.store.folder_lock import folder_lock
from headway.live.store.journal import Journal
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def opened(data: Path, policy: str = "tiresias-l?threshold=0.2") -> Manager:
    return live_manager.opened(data, "2x2", policy)


def replayed(data: Path, policy: str = "tiresias-l?threshold=0.2") -> ClusterState:
    """The state that the journal tells."""
    journal = Journal(data)
    try:
        journal.commit(lambda connection: connection.execute("DELETE FROM snapshots"))
        return recovery.restore(lambda before: fresh(policy), journal)[0]
    finally:
        journal.close()


def fresh(policy: str) -> ClusterState:
    return ClusterState(cluster("2x2"), find_policy(policy), find_placement("consolidated"))


def assert_same(one: ClusterState, other: ClusterState) -> None:
    """Job table, ledger, queues, records and receipts, number by number."""
    a, b = one.tables, other.tables
    for name in a.jobs.dtype.names or ():
        assert np.array_equal(a.jobs[name], b.jobs[name], equal_nan=a.jobs[name].dtype.kind == "f"), name
    for name in ("gpus", "free", "stopping", "closed"):
        assert np.array_equal(a.nodes[name], b.nodes[name])
    assert np.array_equal(a.seats, b.seats)
    assert np.array_equal(a.fewest, b.fewest)
    assert a.counts.tobytes() == b.counts.tobytes()
    assert one.jobs == other.jobs
    assert one.active == other.active
    assert a.classes.tobytes() == b.classes.tobytes()
    assert a.spent.tobytes() == b.spent.tobytes()
    assert a.receipts.tobytes() == b.receipts.tobytes()


def test_the_state_equals_the_replayed_journal(data: Path) -> None:
    manager = opened(data)
    for i in range(6):
        resources = {"accelerators": 1 + i % 2}
        manager.submit(JobSpec(run="sleep 0.4", resources=resources, preemptible=i % 3 != 0), ME)  # type: ignore[arg-type]
    manager.submit(JobSpec(run="exit 1", array="0-3%1"), ME)
    held = manager.submit(JobSpec(run="sleep 9"), ME)[0]
    manager.hold(held)
    manager.drain("n001")
    wait_for(lambda: manager.counts()["COMPLETED"])
    manager.resume("n001")
    wait_for(lambda: any(row.kind == "Start" and row.data["places"][0][0] == 1 for row in manager.events(0)))
    manager.stop()
    assert_same(manager._state, replayed(data))
    again = opened(data)
    for job in range(1, 11):
        ended(again, job)
    again.cancel(held)
    again.stop()
    assert_same(again._state, replayed(data))
    assert again._state.tables.nodes["free"].sum() == 4


def test_a_manager_that_stops_its_jobs_writes_down_that_its_nodes_are_closed(data: Path) -> None:
    """The nodes were closed without a row of the journal, so the state differed from the one that the journal tells."""
    manager = opened(data)
    job = manager.submit(JobSpec(run="sleep 600"), ME)[0]
    manager.drain("n001")
    wait_for(lambda: manager.counts()["RUNNING"])
    manager.stop(drain=True)
    assert_same(manager._state, replayed(data))
    again = opened(data)
    assert [node.state for node in again.nodes()] == ["open", "drained"]
    again.cancel(job)
    again.stop()
    assert_same(again._state, replayed(data))


def test_running_jobs_outlive_the_manager_and_are_adopted(data: Path, tmp_path: Path) -> None:
    manager = opened(data)
    go, out = tmp_path / "go", tmp_path / "out"
    job = manager.submit(JobSpec(run=f"echo begin >> {out}; {gate(tmp_path / 'last')}; echo end >> {out}; exit 5"), ME)[
        0
    ]
    quick = manager.submit(JobSpec(run=f"{gate(go)}; exit 6"), ME)[0]
    wait_for(lambda: manager.counts()["RUNNING"] == 2)
    manager.stop()
    go.touch()  # the quick one ends while nobody watches
    wait_for((data / f"runs/{quick}/1/exit.json").exists)
    again = opened(data)
    (tmp_path / "last").touch()
    assert ended(again, quick) == ended(again, job) == "FAILED"
    views = again.job(job), again.job(quick)
    assert [(view.exit_code, view.attempt) for view in views if view] == [(5, 1), (6, 1)]
    assert out.read_text() == "begin\nend\n"
    ran = [view.ended_at - view.started_at for view in views]  # type: ignore[union-attr,operator]
    assert [view.service_gpu_s for view in views] == pytest.approx(ran, abs=0.01)  # type: ignore[union-attr]
    again.stop()


def test_a_stop_that_was_journalled_is_carried_out_by_the_next_manager(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = opened(data)
    job = manager.submit(JobSpec(run="sleep 600"), ME)[0]
    wait_for(lambda: manager.counts()["RUNNING"])
    monkeypatch.setattr(manager._executor, "stop", lambda *given: None)  # as if it died before the signal
    manager.cancel(job)
    manager.stop()
    again = opened(data)
    assert ended(again, job) == "CANCELLED"
    again.stop()


def test_a_start_that_was_journalled_but_not_carried_out_is_run_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = opened(data)
    monkeypatch.setattr(manager._executor, "start", lambda launch: None)
    job = manager.submit(JobSpec(run=f"echo x >> {tmp_path}/out"), ME)[0]
    wait_for(lambda: manager.counts()["STARTING"])
    manager.stop()
    again = opened(data)
    assert ended(again, job) == "COMPLETED"
    view = again.job(job)
    assert view is not None
    assert view.attempt == 2
    assert (tmp_path / "out").read_text() == "x\n"
    again.stop()


def test_the_same_key_gives_the_same_jobs(data: Path) -> None:
    manager = opened(data)
    first = manager.submit(JobSpec(run="true", array="0-2"), ME, "k")
    assert manager.submit(JobSpec(run="true", array="0-2"), ME, "k") == first
    with pytest.raises(WrongState, match="another job"):
        manager.submit(JobSpec(run="false"), ME, "k")
    manager.stop()
    again = opened(data)
    assert again.submit(JobSpec(run="true", array="0-2"), ME, "k") == first
    assert len(again.jobs()) == 3
    again.stop()


def test_many_clients_share_a_flush_and_none_is_lost(data: Path) -> None:
    manager = opened(data, "fifo")
    blocker = manager.submit(JobSpec(run="sleep 600", num_nodes=2, resources={"accelerators": 2}), ME)[0]  # type: ignore[arg-type]
    ids: list[int] = []

    def client() -> None:
        for _ in range(40):
            ids.extend(manager.submit(JobSpec(run="true"), ME))

    before = manager.metrics()["headway_journal_commits_total"]
    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(2, 322))
    assert manager.metrics()["headway_journal_commits_total"] - before < 320
    manager.cancel(blocker)
    manager.stop(drain=True)
    with sqlite3.connect(data / "journal.db") as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (321,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_second_manager_of_a_folder_is_refused(data: Path) -> None:
    manager = opened(data)
    with pytest.raises(AlreadyServed, match="another manager serves"):
        Manager(data, cluster("2x2"))
    manager.stop()
    opened(data).stop()


def test_deleting_the_lock_file_lets_no_second_manager_in(data: Path) -> None:
    manager = opened(data)
    (data / "lock").unlink()
    with pytest.raises(AlreadyServed, match="another manager serves"):
        Manager(data, cluster("2x2"))
    with pytest.raises(AlreadyServed), folder_lock(data):
        pass
    manager.stop()
    opened(data).stop()


def test_nobody_else_can_lock_the_folder(data: Path) -> None:
    """Whoever may read a folder may lock it, and keep the manager out."""
    data.mkdir(exist_ok=True)
    data.chmod(0o755)
    opened(data).stop()
    assert stat.S_IMODE(data.stat().st_mode) == 0o711


@pytest.fixture(params=["full", "read-only"])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str, list[list[str]]]]:
    """A data folder on a disk of its own that can be filled up or made read-only, and the commands that break and mend it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True).returncode
    ):
        pytest.skip("SKIPPED: only root may mount a small disk to fill")
    if request.param == "full":
        commands = [
            ["sh", "-c", f"dd if=/dev/zero of={folder}/filler bs=64k 2>/dev/null; true"],
            ["rm", f"{folder}/filler"],
        ]
    else:
        commands = [["mount", "-o", "remount,ro", str(folder)], ["mount", "-o", "remount,rw", str(folder)]]
    yield folder / "data", request.param, commands
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_broken_disk_gives_a_clear_error_and_no_false_acknowledgement(
    broken: tuple[Path, str, list[list[str]]],
) -> None:
    data, kind, (break_it, mend_it) = broken
    manager = opened(data)
    good = manager.submit(JobSpec(run="true"), ME)
    assert ended(manager, good[0]) == "COMPLETED"
    runs = manager.submit(JobSpec(run="sleep 600"), ME)
    held = manager.submit(JobSpec(run="true", after=tuple(runs)), ME)[0]
    live_manager.until(manager, runs[0], "RUNNING", true=lambda view: view.level == 1)
    manager.settle()  # or the engine's own rows fail first: that the job started, and that it passed the threshold
    if kind == "full":
        subprocess.run(break_it, check=True)
    else:
        manager._journal._connection.execute("PRAGMA query_only = 1")  # a mount in use refuses to become read-only
    acknowledged: list[int] = []

    def submit_until_refused() -> None:
        for _ in range(10_000):  # what is left of the disk holds a few
            acknowledged.extend(manager.submit(JobSpec(run="true", name="x" * 200), ME))

    def ask_until_refused() -> None:
        for _ in range(1000):
            manager.cancel(held)
            manager.requeue(held)

    with pytest.raises(JournalFailed, match=r"cannot be written .*nothing was accepted"):
        submit_until_refused()
    # On a full disk the engine may be retrying rows of the accepted jobs: it has not begun what is asked then.
    refused = "not done yet|nothing was accepted" if kind == "full" else "not done yet"
    with pytest.raises(JournalFailed, match=rf"cannot be written .*({refused})"):
        ask_until_refused()
    assert manager.trouble
    if kind == "full":
        subprocess.run(mend_it, check=True)
    else:
        manager._journal._connection.execute("PRAGMA query_only = 0")
    after = manager.submit(JobSpec(run="true"), ME)
    assert ended(manager, after[0]) == "COMPLETED"
    assert not manager.trouble
    manager.stop(drain=True)
    state = replayed(data)
    assert set(acknowledged) | set(after) | set(good) <= set(state.jobs)
    assert len(state.jobs) == len(acknowledged) + 4


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalFailed, match="data folder"):
        Manager(tmp_path / "file" / "data", cluster("1x1"))


def test_clocks_that_jump_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock is read once; the offset outlives the manager; a reboot never goes back."""

    def resumed(saved: str | None, last: float, monotonic: float, wall: float, boot: str) -> Clock:
        monkeypatch.setattr(clock, "boot_id", lambda: boot)
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: monotonic, time=lambda: wall))
        return clock.resume_clock(saved, last)

    first = resumed(None, 0.0, 50.0, 1000.0, "a")
    assert first() == 1000.0
    for wall in (0.0, 999_999.0):  # set back and forth while no manager ran
        assert resumed(first.saved(), 1005.0, 60.0, wall, "a")() == 1010.0
    assert resumed(first.saved(), 1005.0, 1.0, 900.0, "b")() == 1005.0


def test_a_wall_clock_that_jumps_does_not_touch_service(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    manager = opened(data)
    job = manager.submit(JobSpec(run=gate(data / "go")), ME)[0]
    live_manager.until(manager, job, "RUNNING")
    for jump in (86_400.0, -86_400.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        manager.settle()
    (data / "go").touch()
    assert ended(manager, job) == "COMPLETED"
    view = manager.job(job)
    assert view is not None
    assert 0.0 < view.service_gpu_s < 2 * PATIENCE_S  # a day is far more
    manager.stop()
    again = opened(data)
    assert abs(again.clock() - real()) < 60
    again.stop()


def test_a_policy_that_raises_stops_the_manager_and_loses_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising.py").write_text(
        "class Raising:\n    def key(self, job, now, options):\n        return {0: 0, 1: 0}[int(job['gpus'])], 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    manager = opened(data, "raising:Raising")
    job = manager.submit(JobSpec(run="true", resources={"accelerators": 2}), ME)[0]  # type: ignore[arg-type]
    failure = manager.wait_for_failure()
    manager.stop()
    assert "KeyError: 2" in failure
    assert "raising.py, line 3" in failure
    after = opened(data)
    assert ended(after, job) == "COMPLETED"
    after.stop()
    assert after.wait_for_failure() == ""
