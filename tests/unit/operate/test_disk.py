"""A disk that jobs fill: nothing more is started, everybody is told, and the ends of jobs can still be written down."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.imagined import Virtual, Work
from tests.live_manager import one, until
from tests.waiting import gate, wait_for

from headway.cluster.named import cluster
from headway.job_state import JobState
from headway.live.errors import JournalFailed
from headway.live.manager import disk
from headway.live.manager.disk import Disk
from headway.live.manager.manager import Manager
from headway.live.state.records import JournalRow
from headway.live.state.site import Site

pytestmark = pytest.mark.xdist_group("live")
MB = 1_000_000


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 40 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("SKIPPED: only root may mount a small disk to fill")
    monkeypatch.setattr(disk, "RESERVE_BYTES", 8 * MB)
    monkeypatch.setattr(disk, "LOOK_S", 0.05)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def opened(small: Path) -> Iterator[Callable[[], Manager]]:
    made: list[Manager] = []

    def start() -> Manager:
        manager = Manager(small / "data", cluster("2x1"), "best-effort", site=Site(min_free_bytes=12 * MB))
        manager.start()
        made.append(manager)
        return manager

    yield start
    for manager in made:
        manager.stop(drain=True)


def wait_for_reserve(small: Path) -> None:
    """Wait until a manager, which looks at its disk now and then, has made its reserve."""
    reserve = small / "data" / "reserve"
    wait_for(lambda: reserve.exists() and reserve.stat().st_size == disk.RESERVE_BYTES)


def test_a_job_that_fills_the_disk_stops_others_from_starting(opened: Callable[[], Manager], small: Path) -> None:
    manager = opened()
    manager.drain("n001")
    wait_for_reserve(small)
    fills = one(manager, run=f"dd if=/dev/zero of={small}/filler bs=64k; true")  # until nothing is left
    assert until(manager, fills).state == "COMPLETED"
    wait_for(lambda: manager.trouble)
    assert "less than 12 MB are free on the disk of" in manager.trouble
    assert manager.trouble == manager.health().trouble
    assert not manager.health().ok
    wait_for(lambda: not (small / "data" / "reserve").exists())  # the journal has it
    waits = one(manager, run="true")  # accepted all the same
    wait_for(lambda: manager.explain(waits).reason == "node_down")
    assert "no job is started (make room there" in manager.explain(waits).message
    manager.stop()
    again = opened()
    wait_for(lambda: again.trouble)
    assert again.job(waits).state == "PENDING"  # type: ignore[union-attr]
    (small / "filler").unlink()
    assert until(again, waits).state == "COMPLETED"
    assert not again.trouble
    wait_for_reserve(small)
    assert [node.state for node in again.nodes()] == ["open", "drained"]  # what a person drained stays so


def test_a_node_that_is_resumed_while_the_disk_is_full_starts_nothing(
    opened: Callable[[], Manager], small: Path
) -> None:
    manager = opened()
    manager.drain("n000")
    wait_for_reserve(small)
    (small / "filler").write_bytes(bytes(24 * MB))
    wait_for(lambda: manager.trouble)
    waits = one(manager, run="true")
    manager.resume("n000")
    assert manager.job(waits).state == "PENDING"  # type: ignore[union-attr]
    assert {node.state for node in manager.nodes()} == {"drained"}
    (small / "filler").unlink()
    assert until(manager, waits).state == "COMPLETED"
    assert {node.state for node in manager.nodes()} == {"open"}


def test_a_manager_that_starts_on_a_full_disk_gives_up_what_is_kept_for_it(
    opened: Callable[[], Manager], small: Path
) -> None:
    first = opened()
    ran = one(first, run="true")
    assert until(first, ran).state == "COMPLETED"
    wait_for_reserve(small)
    first.stop()
    with pytest.raises(OSError, match="No space left"):
        (small / "filler").write_bytes(bytes(40 * MB))
    again = opened()
    assert not (small / "data" / "reserve").exists()
    assert again.job(ran).state == "COMPLETED"  # type: ignore[union-attr]


def test_a_folder_that_cannot_be_reached_does_not_stop_the_engine(tmp_path: Path) -> None:
    assert Disk(tmp_path / "gone", 100 * MB).look() == ""


def test_a_reserve_that_was_made_by_half_is_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "RESERVE_BYTES", MB)
    (tmp_path / "reserve").write_bytes(b"")  # whoever made it was killed
    Disk(tmp_path, MB).look()
    assert (tmp_path / "reserve").stat().st_size == MB


def test_a_snapshot_that_there_is_no_room_for_keeps_no_rows_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a round are small, and a snapshot is not."""
    monkeypatch.setattr("headway.live.manager.loop.recorder.ROWS_PER_SNAPSHOT", 10)
    world = Virtual([Work(float(i), {}, 5.0) for i in range(20)], "2x4", "fifo")
    refused, append = [0], world.kept.append

    def nearly_full(rows: list[JournalRow], finished: object = (), made: object = None) -> int:
        if made is None:
            return append(rows)
        refused[0] += 1
        assert refused[0] < 100, "nothing else is written either"
        raise JournalFailed("database or disk is full")

    monkeypatch.setattr(world.kept, "append", nearly_full)
    world.run()
    assert {job.final for job in world.state.jobs.values()} == {JobState.COMPLETED}
    assert refused[0]


def test_starts_do_not_flicker_around_the_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LOOK_S", 0.0)
    free = [0]
    watched = Disk(tmp_path, 100 * MB, lambda folder: free[0])
    said = []
    for free[0] in (101 * MB, 99 * MB, 105 * MB, 109 * MB, 111 * MB, 105 * MB, 99 * MB):
        said.append(bool(watched.look()))
    assert said == [False, True, True, True, False, False, True]


def test_a_job_runs_though_its_start_cannot_be_written_down_yet(tmp_path: Path) -> None:
    """On a full disk the shim died of it, and its ranks with it: a job that filled the disk at once was run again."""
    manager = Manager(tmp_path / "data", cluster("1x1"))
    manager.start()
    blocked = tmp_path / "data/runs/1/1/.ranks.json"  # what is written before it is renamed: a folder is in its place
    blocked.mkdir(parents=True)
    job = one(manager, run=f"touch {tmp_path}/ran; {gate(tmp_path / 'go')}")
    wait_for((tmp_path / "ran").exists)
    assert manager.job(job).state == "STARTING"
    blocked.rmdir()
    assert until(manager, job, "RUNNING").attempt == 1
    (tmp_path / "go").touch()
    assert (until(manager, job).state, until(manager, job).attempt) == ("COMPLETED", 1)
    manager.stop(drain=True)
