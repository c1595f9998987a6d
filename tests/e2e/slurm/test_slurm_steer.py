"""`headway steer` on a real Slurm: jobs are ordered by attained service, and everything can be taken back, also after a crash."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.slurm_cluster import SlurmCluster
from tests.waiting import PATIENCE_S, wait_for

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
    wait_for(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%j") == "old", "the GPUs are not used")
    for name in ("old", "new", "odd"):
        nice = ["--nice=7"] if name == "odd" else []
        slurm.ask("sbatch", f"--job-name={name}", *nice, "--nodes=2", "--gres=gpu:4", "--wrap", "sleep 600")
    slurm.ask("sbatch", "--job-name=cpu", "--wrap", "sleep 600", "--nodes=4", "--exclusive")
    wait_for(lambda: len(queue(slurm)) == 4, "the jobs do not wait")
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
            timeout=PATIENCE_S,
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
    wait_for(lambda: "BeginTime" in str(queue(busy)), "nothing is held")
    headway("--undo")
    assert queue(busy) == before
    assert headway("--undo")["restored"] == []


def split_job(slurm: SlurmCluster, first: list[str], second: list[str]) -> str:
    """Submit a heterogeneous job: the parts that start together."""
    return slurm.ask("sbatch", "--parsable", *first, ":", *second, "--wrap", "sleep 600")


class Crash(Exception):
    """Stands for the end of the process."""


class Mortal(Commands):
    """Dies with the n-th request: before it is sent, or after."""

    def __init__(self, lives: int, before: bool) -> None:
        super().__init__(nices=True)
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
    dry_run, unused = replace(how, dry_run=True), SteeringFolder(tmp_path / "unused")
    attained = {0: 0, 1: 3}  # all jobs are in the second queue: their user has attained a GPU-second
    wait_for(lambda: steer(Commands(nices=True), unused, dry_run).queues == attained, "no GPU-second is attained")
    for lives in (1, 2, 3):
        for early in (True, False):
            folder = tmp_path / f"{lives}{early}"
            with pytest.raises(Crash):
                steer(Mortal(lives, early), SteeringFolder(folder), how)
            with contextlib.suppress(Crash):  # the undoing dies too, unless there is nothing to undo yet
                undo(Mortal(1, early), SteeringFolder(folder))
            assert not undo(Commands(nices=True), SteeringFolder(folder)).refused
            assert queue(busy) == before


def test_what_somebody_else_changed_since_stays(busy: SlurmCluster, tmp_path: Path) -> None:
    folder, door = SteeringFolder(tmp_path), Commands(nices=True)
    steer(door, folder, Steering([1.0], "user"))
    job = queue(busy)[0].split()[0]
    busy.ask("scontrol", "update", f"JobId={job}", "Nice=42")
    undo(door, folder)
    assert queue(busy)[0].split()[1] == "42"
    assert [row.split()[1] for row in queue(busy)[1:]] == ["0", "7", "0"]


def test_advice_on_a_real_queue(slurm: SlurmCluster) -> None:
    """Jobs that ended in Slurm, replayed: only looks."""
    slurm.ask("sbatch", "--job-name=quick", "--gres=gpu:4", "--wrap", "sleep 2", "--array=0-7")
    wait_for(lambda: not slurm.ask("squeue", "-h", "-n", "quick"), "the jobs do not end")
    done = subprocess.run(
        [*HEADWAY, "advise", "--slurm", "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
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
    folder, door, how = SteeringFolder(tmp_path), Commands(nices=True), Steering([1.0], "name")
    assert steer(door, folder, how).waiting == 0
    busy = request.getfixturevalue("busy")
    wait_for(lambda: steer(door, folder, how).queues == {0: 2, 1: 1}, "nothing is attained")
    assert order(busy) == ["new", "cpu", "odd", "old"]
    undo(door, folder)
    assert [row.split()[1] for row in queue(busy)] == ["0", "0", "7", "0"]


def nices(slurm: SlurmCluster, name: str) -> list[str]:
    """Nice values of all jobs of a name, tasks of arrays one by one."""
    return slurm.ask("squeue", "-h", "-r", "-S", "i", "-n", name, "-o", "%y").split()


def numbers(slurm: SlurmCluster, names: str) -> list[int]:
    """The waiting jobs of these names, parts of heterogeneous jobs by their own numbers."""
    return sorted(map(int, slurm.ask("squeue", "-h", "-t", "PD", "-n", names, "-o", "%A").split()))


def test_requeued_jobs_and_tasks_of_arrays_have_their_own_values_again(busy: SlurmCluster, tmp_path: Path) -> None:
    """Slurm counts a requeued job as submitted anew, and gives a task of an array that starts a number of its own."""
    folder, door, how = SteeringFolder(tmp_path), Commands(nices=True), Steering([1.0], "user")
    common = ["--nodes=1", "--gres=gpu:1", "--requeue", "--nice=3", "--wrap", "sleep 600"]
    busy.ask("sbatch", "--job-name=array", "--array=0-1", *common)
    busy.ask("sbatch", "--job-name=plain", *common)
    wait_for(lambda: steer(door, folder, how).queues == {0: 0, 1: 5}, "nothing is attained")
    steered = nices(busy, "plain")
    assert steered != ["3"]
    assert nices(busy, "array") == steered * 2
    for name in ("old", "new", "odd", "cpu"):
        busy.ask("scancel", f"--name={name}")
    runs = dict.fromkeys(("array", "plain"), "")
    for name in runs:
        wait_for(lambda name=name: busy.ask("squeue", "-h", "-t", "R", "-n", name), f"{name} does not start")
        runs[name] = busy.ask("squeue", "-h", "-t", "R", "-n", name, "-o", "%A").split()[0]
        busy.ask("scontrol", "requeue", runs[name])
    again = ",".join(runs.values())
    wait_for(lambda: busy.ask("squeue", "-h", "-t", "PD", "-j", again, "-o", "%T").count("PENDING") == 2, "no requeue")
    steer(door, folder, how)
    assert steer(door, folder, how).changed == {}
    assert (nices(busy, "plain"), nices(busy, "array")) == (steered, steered * 2), "values drift"
    assert not undo(door, folder).refused
    assert (nices(busy, "plain"), nices(busy, "array")) == (["3"], ["3", "3"])


def test_a_job_that_its_user_holds_stays_held(busy: SlurmCluster, tmp_path: Path) -> None:
    """Under priority/basic Slurm releases a job whose nice value is set."""
    folder, door = SteeringFolder(tmp_path), Commands(nices=True)
    new, odd = (busy.ask("squeue", "-h", "-t", "PD", "-n", name, "-o", "%i") for name in ("new", "odd"))
    busy.ask("scontrol", "uhold", new)
    before = queue(busy)
    wait_for(lambda: steer(door, folder, Steering([1.0], "user")).queues == {0: 0, 1: 3}, "nothing is attained")
    assert [row for row in queue(busy) if row.startswith(f"{new} ")] == [f"{new} 0 0 JobHeldUser"]
    assert not undo(door, folder).refused
    assert queue(busy) == before
    steer(door, folder, Steering([1.0], "user"))
    busy.ask("scontrol", "uhold", odd)
    refused = undo(door, folder).refused
    assert list(refused) == [int(odd)]
    assert "undo again when it is released" in refused[int(odd)]
    assert "JobHeldUser" in next(row for row in queue(busy) if row.startswith(f"{odd} "))
    busy.ask("scontrol", "release", odd)
    assert not undo(door, folder).refused
    assert nices(busy, "odd") == ["7"]


def test_of_two_changes_a_crash_may_cut_off_the_second(busy: SlurmCluster, tmp_path: Path) -> None:
    before, folder, door = queue(busy), SteeringFolder(tmp_path), Commands(nices=True)
    wait_for(lambda: steer(door, folder, Steering([1.0], "user")).queues == {0: 0, 1: 3}, "nothing is attained")
    with pytest.raises(Crash):  # the next queue is on disk, and was not set
        steer(Mortal(1, before=True), folder, Steering([1.0, 1.5], "user"))
    assert not undo(door, SteeringFolder(tmp_path)).refused
    assert queue(busy) == before


def test_who_is_held_and_released_keeps_place_and_value(busy: SlurmCluster, tmp_path: Path) -> None:
    """Jobs of the first queue come and go: later ones are held meanwhile, also with a nice value of their own, and nothing else changes."""
    folder, door, how = SteeringFolder(tmp_path), Commands(nices=True), Steering([1.0], "name", holds=True)
    busy.ask("sbatch", "--job-name=old", "--nice=9", "--nodes=2", "--gres=gpu:4", "--wrap", "sleep 600")
    for name in ("new", "odd"):
        busy.ask("scancel", f"--name={name}")
    runs = busy.ask("squeue", "-h", "-t", "R", "-n", "old", "-o", "%i")
    first = ("--job-name=first", f"--dependency=afterany:{runs}", "--gres=gpu:1", "--wrap", "true")
    waits = busy.ask("sbatch", "--parsable", *first)
    before = queue(busy)
    wait_for(lambda: steer(door, folder, how).queues == {0: 1, 1: 2}, "nothing is attained")
    assert steer(door, folder, how).held == (), "what depends on another cannot start: nobody is held for it"
    steered = queue(busy)
    busy.ask("scontrol", "update", f"JobId={waits}", "Dependency=")
    wait_for(lambda: len(steer(door, folder, how).held) == 2, "later queues are not held")
    busy.ask("scancel", waits)
    wait_for(lambda: len(steer(door, folder, how).released) == 2, "later queues are not released")
    wait_for(lambda: queue(busy) == [row for row in steered if not row.startswith(f"{waits} ")], "something changed")
    assert not undo(door, folder).refused
    assert queue(busy) == [row for row in before if not row.startswith(f"{waits} ")]


def test_a_heterogeneous_job_is_steered_as_one(busy: SlurmCluster, tmp_path: Path) -> None:
    """Its first part has no GPUs, its second another name; each has its own nice value again when steering is undone, after any crash."""
    split_job(busy, ["--job-name=old", "--nice=3"], ["--job-name=other", "--gres=gpu:4", "--nice=5"])
    wait_for(lambda: len(queue(busy)) == 6, "the parts do not wait")
    before, door, how = queue(busy), Commands(nices=True), Steering([1.0], "name", holds=True)
    folder = SteeringFolder(tmp_path / "whole")
    wait_for(lambda: steer(door, folder, Steering([1.0], "name")).queues == {0: 2, 1: 2}, "nothing is attained")
    assert nices(busy, "old,other")[1:] == ["10000000", "10000003", "10000005"]
    assert sorted(steer(door, folder, how).held) == numbers(busy, "old,other")
    wait_for(lambda: str(queue(busy)).count("BeginTime") == 3, "not all are held")
    assert steer(door, folder, how).changed == {}
    assert not undo(door, folder).refused
    assert queue(busy) == before
    for lives in (1, 2, 3, 4, 5):
        with pytest.raises(Crash):
            steer(Mortal(lives, before=False), SteeringFolder(tmp_path / str(lives)), how)
        assert not undo(door, SteeringFolder(tmp_path / str(lives))).refused
        assert queue(busy) == before


def test_a_part_that_its_user_holds_stays_held(busy: SlurmCluster, tmp_path: Path) -> None:
    """And the other part of the heterogeneous job is left alone meanwhile, since neither starts without the other."""
    first = split_job(busy, ["--job-name=one", "--gres=gpu:1"], ["--job-name=one", "--gres=gpu:2"])
    busy.ask("scontrol", "uhold", f"{first}+1")
    before, folder, door = queue(busy), SteeringFolder(tmp_path), Commands(nices=True)
    wait_for(lambda: steer(door, folder, Steering([1.0], "user", holds=True)).queues == {0: 0, 1: 4}, "no service")
    assert queue(busy)[-2:] == before[-2:]
    assert "JobHeldUser" in before[-1]
    busy.ask("scontrol", "release", f"{first}+1")
    steer(door, folder, Steering([1.0], "user"))
    assert len(set(nices(busy, "one"))) == 1
    busy.ask("scontrol", "uhold", f"{first}+1")
    assert [*undo(door, folder).refused] == [int(first) + 1]
    assert nices(busy, "one") == ["0", "10000000"]
    assert "JobHeldUser" in queue(busy)[-1]
