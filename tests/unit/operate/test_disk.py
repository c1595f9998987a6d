"""A disk that jobs fill: nothing more is started, everybody is told, and the ends of jobs can still be written down."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live_manager import one, until, wait_for

from headway.cluster.named import cluster
from headway.live.manager import Manager
from headway.live.operation import disk
from headway.live.operation.disk import Disk
from headway.live.operation.site import Site

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


def test_a_job_that_fills_the_disk_stops_others_from_starting(opened: Callable[[], Manager], small: Path) -> None:
    manager = opened()
    manager.drain("n001")
    fills = one(manager, run=f"dd if=/dev/zero of={small}/filler bs=64k; true")  # until nothing is left
    assert until(manager, fills).state == "COMPLETED"
    wait_for(lambda: manager.trouble)
    assert "less than 12 MB are free on the disk of" in manager.trouble
    assert manager.trouble == manager.health().trouble
    assert not manager.health().ok
    assert not (small / "data" / "reserve").exists()  # the journal has it
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
    wait_for((small / "data" / "reserve").exists)
    assert [node.state for node in again.nodes()] == ["open", "drained"]  # what a person drained stays so


def test_starts_do_not_flicker_around_the_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LOOK_S", 0.0)
    free = [0]
    watched = Disk(tmp_path, 100 * MB, lambda folder: free[0])
    said = []
    for free[0] in (101 * MB, 99 * MB, 105 * MB, 109 * MB, 111 * MB, 105 * MB, 99 * MB):
        said.append(bool(watched.look()))
    assert said == [False, True, True, True, False, False, True]
