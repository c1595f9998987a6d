"""On a real Slurm that keeps accounts (slurmdbd, MariaDB) and orders jobs by many factors: the history of `advise`, and `steer`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.slurm_cluster import SlurmCluster, started
from tests.waiting import PATIENCE_S, wait_for

from headway.slurm.advising.history import history
from headway.slurm.commands import Commands
from headway.slurm.requests import Call, Request
from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering.journal import SteeringFolder
from headway.slurm.steering.steer import Steering, steer, undo

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
# The partition outweighs age and size: main counts a hundredth of urgent.
MULTIFACTOR = """
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=100
PriorityWeightPartition=1000000
"""
URGENT = ("scontrol", "create", "PartitionName=urgent", "Nodes=ALL", "PriorityJobFactor=100")
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/")


@pytest.fixture(scope="module")
def counted() -> Iterator[SlurmCluster]:
    """Two nodes of two GPUs; nobody has an account there like anybody else."""
    cluster = started(2, 2, more=MULTIFACTOR, accounts="gres/gpu", users=("nobody",))
    cluster.ask(*URGENT)
    os.environ["SLURM_CONF"] = str(cluster.conf)
    yield cluster
    del os.environ["SLURM_CONF"]
    cluster.stop()


@pytest.fixture
def empty(counted: SlurmCluster) -> Iterator[SlurmCluster]:
    """Nothing runs and nothing waits, before and after; slurmctld has not died meanwhile."""
    yield counted
    died = counted.crashed()
    counted.ask("scancel", "--user=root")
    counted.ask("scancel", "--user=nobody")
    counted.wait_idle()
    assert not died, counted.last_words()


def submit(
    slurm: SlurmCluster, name: str, gpus: int, seconds: float | str, *more: str, as_who: tuple[str, ...] = ()
) -> int:
    how = ("--parsable", f"--job-name={name}", f"--gres=gpu:{gpus}", *more)
    return int(slurm.ask(*as_who, "sbatch", *how, "--wrap", f"sleep {seconds}").split(";")[0])


def states(slurm: SlurmCluster, job: int) -> list[str]:
    """The state of every run of a job, by the accounts."""
    how = ("--allocations", "--duplicates", "--noheader", "--parsable2", f"--jobs={job}")
    return [line.split()[0] for line in slurm.ask("sacct", *how, "--format=State").splitlines()]


def test_the_history_is_that_of_the_accounts(empty: SlurmCluster) -> None:
    """Jobs of two users: over two nodes, an array, cancelled, requeued, without GPUs, with a bar in the name."""
    since = time.time() - 1.0
    wide = submit(empty, "wide", 2, 2.0, "--nodes=2", "--time=7", as_who=NOBODY)
    odd = submit(empty, "a|b", 1, 1.0)
    array = submit(empty, "array", 1, 0.5, "--array=0-2")
    plain = int(empty.ask("sbatch", "--parsable", "--wrap", "true"))
    again = submit(empty, "again", 1, "$(( SLURM_RESTART_COUNT ? 3 : 600 ))", "--requeue")
    dropped = submit(empty, "dropped", 1, 600.0)
    wait_for(lambda: states(empty, again) == ["RUNNING"] and states(empty, dropped) == ["RUNNING"], "they do not run")
    empty.ask("scontrol", "requeue", str(again))
    empty.ask("scancel", str(dropped))
    ended = {wide: ["COMPLETED"], odd: ["COMPLETED"], array: ["COMPLETED"] * 3, plain: ["COMPLETED"]}
    ended |= {dropped: ["CANCELLED"], again: ["REQUEUED", "COMPLETED"]}
    wait_for(lambda: {job: states(empty, job) for job in ended} == ended, "not all end")

    jobs, source = history(Commands(), since)
    assert source == "sacct"
    by_id: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        by_id.setdefault(job.id, []).append(job)
    (found,) = by_id[wide]
    assert (found.name, found.user, found.gpus, found.node_count, found.limit_s) == ("wide", "nobody", 4, 2, 420.0)
    assert since < found.submitted <= found.started
    assert 2.0 <= found.ended - found.started < PATIENCE_S
    assert [(job.name, job.gpus, job.state) for job in by_id[odd]] == [("a|b", 1, "COMPLETED")]
    assert sum(job.name == "array" for job in jobs) == 3
    assert {job.state for job in by_id[array]} == {"COMPLETED"}
    assert [job.gpus for job in by_id[plain]] == [0]
    assert [job.state for job in by_id[again]] == ["PREEMPTED", "COMPLETED"]
    assert all(job.ended >= job.started > 0 for job in by_id[again])
    assert [job.state for job in by_id[dropped]] == ["CANCELLED"]

    done = subprocess.run(
        [*HEADWAY, "advise", "--slurm", "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["source"], said["jobs"]) == ("sacct", 6)
    assert {group["name"] for group in said["changes"][0]["users"]} == {"root", "nobody"}
    assert any("2 jobs still running, cancelled or requeued" in line for line in said["caveats"])


class AsNobody(Commands):
    """Slurm's commands, run by an account that is not root."""

    def __init__(self) -> None:
        super().__init__(nices=True)

    def render(self, request: Request) -> Call:
        """The same command of another user."""
        return replace(super().render(request), user="nobody")


def waiting(slurm: SlurmCluster) -> dict[str, tuple[int, int]]:
    """Nice value and priority of every waiting job, by name."""
    rows = slurm.ask("squeue", "-h", "-t", "PD", "-o", "%j %y %Q").splitlines()
    return {name: (int(nice), int(priority)) for name, nice, priority in map(str.split, rows)}


def nices(slurm: SlurmCluster) -> dict[str, int]:
    return {name: nice for name, (nice, _) in waiting(slurm).items()}


@pytest.fixture
def queue(empty: SlurmCluster) -> SlurmCluster:
    """All GPUs are used; three jobs wait, one with a nice value of its own."""
    submit(empty, "long", 2, 600.0, "--nodes=2")
    wait_for(lambda: empty.ask("squeue", "-h", "-t", "R", "-o", "%j") == "long", "the GPUs are not used")
    submit(empty, "long", 2, 600.0)
    submit(empty, "new", 2, 600.0)
    submit(empty, "odd", 2, 600.0, "--nice=7")
    wait_for(lambda: len(waiting(empty)) == 3, "the jobs do not wait")
    return empty


def test_steering_under_many_factors_is_undone(queue: SlurmCluster, tmp_path: Path) -> None:
    how, folder, door = Steering([1.0], "name", holds=True), SteeringFolder(tmp_path), Commands(nices=True)
    before = nices(queue)
    wait_for(lambda: steer(door, folder, how).queues == {0: 2, 1: 1}, "nothing is attained")
    after = waiting(queue)
    assert after["new"][1] > after["odd"][1] > 100_000
    assert after["long"][1] == 0, "it is not held"
    assert steer(door, folder, how).changed == {}
    assert not undo(door, folder).refused
    assert nices(queue) == before == {"long": 0, "new": 0, "odd": 7}
    wait_for(lambda: all(0 < priority < 100_000 for _, priority in waiting(queue).values()), "one is held")


def test_queues_stay_apart_when_larger_priorities_come(queue: SlurmCluster, tmp_path: Path) -> None:
    """A partition, a share or an age may come to count far more than all that was seen when steering began."""
    how, folder, door = Steering([1.0], "name"), SteeringFolder(tmp_path), Commands(nices=True)
    wait_for(lambda: steer(door, folder, how).queues == {0: 2, 1: 1}, "nothing is attained")
    queue.ask("scontrol", "update", "JobId=" + number_of(queue, "long"), "Partition=urgent")
    wait_for(lambda: waiting(queue)["long"][1] > 900_000, "the partition does not count")
    assert waiting(queue)["long"][1] > waiting(queue)["new"][1]
    steer(door, folder, how)
    assert waiting(queue)["long"][1] < waiting(queue)["odd"][1] < waiting(queue)["new"][1]
    assert steer(door, folder, how).changed == {}
    assert not undo(door, folder).refused
    assert nices(queue) == {"long": 0, "new": 0, "odd": 7}


def number_of(slurm: SlurmCluster, name: str) -> str:
    """The waiting job of that name."""
    return slurm.ask("squeue", "-h", "-t", "PD", "-n", name, "-o", "%i")


def test_who_may_steer(queue: SlurmCluster, tmp_path: Path) -> None:
    """An ordinary account may not raise jobs, and is told so; an operator may."""
    how, door = Steering([1.0], "name"), AsNobody()
    before = nices(queue)
    wait_for(lambda: steer(door, SteeringFolder(tmp_path / "user"), how).queues[1] == 1, "nothing is attained")
    done = steer(door, SteeringFolder(tmp_path / "user"), how)
    refused = done.refused
    assert done.changed == {}
    assert len(refused) == 2
    assert all("Invalid user id" in why for why in refused.values()), refused
    assert nices(queue) == before
    said = queue.ask("sacctmgr", "--immediate", "modify", "user", "nobody", "set", "adminlevel=Operator")
    assert "Modified users" in said
    folder = SteeringFolder(tmp_path / "operator")
    wait_for(lambda: not steer(door, folder, how).refused, "an operator may not steer")
    assert nices(queue) != before
    assert not undo(door, folder).refused
    assert nices(queue) == before


def parts(slurm: SlurmCluster, job: str) -> list[str]:
    """State, nice value and whether it is held, of every part of a heterogeneous job."""
    rows = slurm.ask("squeue", "-h", "-S", "i", "-j", job, "-o", "%T %y %Q").splitlines()
    return [
        f"{state} {nice} {'held' if priority == '0' else ''}".strip() for state, nice, priority in map(str.split, rows)
    ]


def test_a_heterogeneous_job_is_held_released_and_started_as_one(queue: SlurmCluster, tmp_path: Path) -> None:
    """Also the part that asks for no GPU; and after it was requeued, what its parts attained is attained by both."""
    folder, door, how = SteeringFolder(tmp_path / "name"), Commands(nices=True), Steering([1.0], "name", holds=True)
    queue.ask("scancel", number_of(queue, "long"))  # Slurm gives each part a node of its own
    given = ("--parsable", "--requeue", "--job-name=long")
    job = queue.ask("sbatch", *given, ":", "--gres=gpu:2", "--wrap", "sleep 600")
    ran = ("squeue", "-h", "-t", "R", "-n", "long", "-o", "%M")
    wait_for(lambda: queue.ask(*ran) > "0:02", "it does not run")  # Slurm tells times in whole seconds
    assert steer(door, folder, how).queues == {0: 2, 1: 1}
    assert parts(queue, job) == ["PENDING 0 held"] * 2
    for name in ("new", "odd"):
        queue.ask("scancel", f"--name={name}")
    queue.ask("scancel", "--name=long", "--state=RUNNING")
    wait_for(lambda: "long" not in queue.ask("squeue", "-h", "-t", "R,CG", "-o", "%j"), "the GPUs are not free")
    assert parts(queue, job) == ["PENDING 0 held"] * 2
    wait_for(lambda: len(steer(door, folder, how).released) == 2, "not all parts are released")
    wait_for(lambda: parts(queue, job) == ["RUNNING 0"] * 2, "the parts do not start")
    assert not undo(door, folder).refused

    folder, how = SteeringFolder(tmp_path / "job"), Steering([0.001, 1e9], "job")
    wait_for(lambda: steer(door, folder, how).queues == {0: 0, 1: 0, 2: 0}, "something waits")
    queue.ask("scontrol", "requeue", job)
    wait_for(lambda: parts(queue, job) == ["PENDING 0"] * 2, "it is not requeued")
    assert steer(door, folder, how).queues == {0: 0, 1: 1, 2: 0}
    assert parts(queue, job) == ["PENDING -100000"] * 2
    assert not undo(door, folder).refused
    assert parts(queue, job) == ["PENDING 0"] * 2


def test_without_slurmdbd_what_slurmctld_remembers_is_read(empty: SlurmCluster) -> None:
    """The last test: the accounts are gone after it."""
    empty.kill("slurmdbd")
    since = time.time() - 1.0
    job = submit(empty, "quick", 1, 1.0)
    jobs, source = history(Commands(), since)
    assert "slurmdbd, which has the accounts, does not answer" in source
    assert job in {each.id for each in jobs}
