"""`headway steer` on a real Slurm: jobs are ordered by attained service, and everything can be taken back, also after a crash."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_cluster import SlurmCluster, wait_until

from headway.slurm.commands import Commands
from headway.slurm.requests import Request
from headway.slurm.steering.journal import SteeringFolder
from headway.slurm.steering.steer import Steering, steer, undo

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]


def queue(slurm: SlurmCluster) -> list[str]:
    """Every waiting job: number, nice value, priority, held or not."""
    rows = slurm.ask("squeue", "-h", "-t", "PD", "-S", "i", "-o", "%i %y %Q %r").splitlines()
    return [row.replace("Priority", "").replace("Resources", "").replace("None", "").strip() for row in rows]


def order(slurm: SlurmCluster) -> list[str]:
    """Names of the waiting jobs as Slurm would start them."""
    return slurm.ask("squeue", "-h", "-t", "PD", "-S", "-p", "-o", "%j").split()


@pytest.fixture
def busy(slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """All GPUs are used by jobs named old; jobs named old, new and odd wait, in this order, one of them with a nice value of its own."""
    slurm.ask("sbatch", "--job-name=old", "--nodes=4", "--gres=gpu:4", "--wrap", "sleep 600")
    wait_until(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%j") == "old", "the GPUs are not used")
    for name in ("old", "new", "odd"):
        nice = ["--nice=7"] if name == "odd" else []
        slurm.ask("sbatch", f"--job-name={name}", *nice, "--nodes=2", "--gres=gpu:4", "--wrap", "sleep 600")
    slurm.ask("sbatch", "--job-name=cpu", "--wrap", "sleep 600", "--nodes=4", "--exclusive")
    wait_until(lambda: len(queue(slurm)) == 4, "the jobs do not wait")
    yield slurm
    slurm.ask("scancel", "--user=root")
    slurm.wait_idle()


def test_jobs_are_ordered_by_service_and_undone(busy: SlurmCluster, tmp_path: Path) -> None:
    before = queue(busy)
    assert order(busy)[:2] == ["old", "new"]
    given = {**os.environ, "HEADWAY_DATA": str(tmp_path)}

    def headway(*words: str) -> dict[str, object]:
        done = subprocess.run(
            [*HEADWAY, "steer", "--slurm", *words, "--json"],
            env=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    planned = headway("--dry-run", "--by", "name", "--thresholds", "1")
    assert queue(busy) == before, "a dry run changes something"
    done = headway("--once", "--by", "name", "--thresholds", "1")
    assert done["changed"] == planned["changed"]
    assert order(busy) == ["new", "cpu", "odd", "old"]  # odd keeps its own nice value
    again = headway("--once", "--by", "name", "--thresholds", "1")
    assert again["changed"] == {}, "a second round changes something"
    headway("--once", "--by", "name", "--thresholds", "1", "--hold")
    assert any("JobHeldAdmin" in row for row in queue(busy))
    headway("--undo")
    assert queue(busy) == before
    assert headway("--undo")["restored"] == []


class Crash(Exception):
    """Stands for the end of the process."""


class Mortal(Commands):
    """Dies with the n-th request: before it is sent, or after."""

    def __init__(self, lives: int, before: bool) -> None:
        super().__init__(json=False)
        self.lives, self.before = lives, before

    def send(self, request: Request) -> str:
        """Send, or die."""
        self.lives -= 1
        if self.lives == 0 and self.before:
            raise Crash
        answer = super().send(request)
        if self.lives == 0:
            raise Crash
        return answer


def test_a_crash_half_way_is_undone(busy: SlurmCluster, tmp_path: Path) -> None:
    before = queue(busy)
    how = Steering([1.0], "user", holds=True)
    for lives in (1, 2, 3):
        for early in (True, False):
            folder = tmp_path / f"{lives}{early}"
            with pytest.raises(Crash):
                steer(Mortal(lives, early), SteeringFolder(folder), how)
            with contextlib.suppress(Crash):  # the undoing dies too, unless there is nothing to undo yet
                undo(Mortal(1, early), SteeringFolder(folder))
            assert not undo(Commands(json=False), SteeringFolder(folder)).refused
            assert queue(busy) == before


def test_what_somebody_else_changed_since_stays(busy: SlurmCluster, tmp_path: Path) -> None:
    folder, door = SteeringFolder(tmp_path), Commands(json=False)
    steer(door, folder, Steering([1.0], "user"))
    job = queue(busy)[0].split()[0]
    busy.ask("scontrol", "update", f"JobId={job}", "Nice=42")
    undo(door, folder)
    assert queue(busy)[0].split()[1] == "42"
    assert [row.split()[1] for row in queue(busy)[1:]] == ["0", "7", "0"]


def test_advice_on_a_real_queue(slurm: SlurmCluster) -> None:
    """Jobs that ended in Slurm, replayed: only looks."""
    slurm.ask("sbatch", "--job-name=quick", "--gres=gpu:4", "--wrap", "sleep 2", "--array=0-7")
    wait_until(lambda: not slurm.ask("squeue", "-h", "-n", "quick"), "the jobs do not end")
    done = subprocess.run(
        [*HEADWAY, "advise", "--slurm", "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["jobs"] >= 8
    assert "squeue" in found["source"]
    assert {change["policy"] for change in found["changes"]} == {"headway", "2d-las"}
    assert all(change["mean_jct_s"] > 1.0 for change in found["changes"])


def test_steering_may_begin_on_an_empty_queue(
    slurm: SlurmCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whether priorities are small or at the top of their range is seen when the first job waits."""
    folder, door, how = SteeringFolder(tmp_path), Commands(json=False), Steering([1.0], "name")
    assert steer(door, folder, how).waiting == 0
    busy = request.getfixturevalue("busy")
    wait_until(lambda: steer(door, folder, how).queues == {0: 2, 1: 1}, "nothing is attained")
    assert order(busy) == ["new", "cpu", "odd", "old"]
    undo(door, folder)
    assert [row.split()[1] for row in queue(busy)] == ["0", "0", "7", "0"]
