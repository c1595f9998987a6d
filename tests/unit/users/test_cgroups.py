"""Limits by control groups, for real where this machine has them, and what the executor makes of them; processes found whatever they do."""

import getpass
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.live_manager import one, opened
from tests.live_manager import until as finished
from tests.processes import is_dead
from tests.unit.users.groups import enter, nobody
from tests.waiting import PATIENCE_S, wait_for

from headway.live.executors import ENDED, STARTED, Launch, Report
from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, PROCESSES, AttemptLimits, Cgroups, NoCgroups
from headway.live.executors.process.cgroups.find import find_cgroups
from headway.live.executors.process.cgroups.v1 import CgroupsV1
from headway.live.executors.process.cgroups.v2 import CgroupsV2
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.gpus import limits_of, renumber
from headway.live.executors.process.system import kill_members, members, out_of_memory, refused_processes
from headway.live.jobfile.spec import job_spec
from headway.live.state.site import Site

pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cgroups]:
    """The groups of this machine, or a loud skip."""
    found = find_cgroups(tmp_path)
    if isinstance(found, NoCgroups):
        pytest.skip(f"SKIPPED: {found.about}")
    yield found
    for name in ("7-1", "8-1"):
        kill_members(found.make(name, AttemptLimits()))
        wait_for(lambda name=name: found.remove(name))  # type: ignore[misc]
    found.close(nobody)


def written(path: Path) -> str:
    """Return what is in the file, nothing before it is there."""
    return path.read_text() if path.exists() else ""


def test_a_process_is_found_and_killed_whatever_it_does(real: Cgroups, tmp_path: Path) -> None:
    folders = real.make("7-1", AttemptLimits())
    with enter(folders, f"env -i setsid sh -c 'echo $$ > {tmp_path}/child; sleep 600' & sleep 600") as leader:
        child = int(wait_for(lambda: written(tmp_path / "child")))
        assert {leader.pid, child} <= members(folders)
        kill_members(folders)
        wait_for(lambda: not members(folders))
    wait_for(lambda: real.remove("7-1"))
    assert not any(Path(folder).exists() for folder in folders)


def test_memory_is_bounded_and_said(real: Cgroups) -> None:
    if MEMORY not in real.enforced:
        pytest.skip(f"SKIPPED: {real.about}")
    folders = real.make("8-1", AttemptLimits(memory_bytes=50_000_000))
    with enter(folders, "exec python3 -c 'x = bytearray(200_000_000); print(len(x))'") as greedy:
        assert greedy.wait(PATIENCE_S) == -signal.SIGKILL
    assert out_of_memory(folders)
    folders = real.make("7-1", AttemptLimits(memory_bytes=500_000_000))
    with enter(folders, "exec python3 -c 'x = bytearray(200_000_000); print(len(x))'") as modest:
        assert modest.wait(PATIENCE_S) == 0
    assert not out_of_memory(folders)


def test_cpus_are_bounded(real: Cgroups) -> None:
    if CPUS not in real.enforced:
        pytest.skip(f"SKIPPED: {real.about}")
    burn = "from time import monotonic, process_time; began, before = monotonic(), process_time()\n"
    burn += "while monotonic() < began + 1: pass\nprint((process_time() - before) / (monotonic() - began))"
    folders = real.make("7-1", AttemptLimits(cpus=0.2))
    with enter(folders, f"exec python3 -c '{burn}'") as slow:
        share = float(slow.communicate(timeout=PATIENCE_S)[0])
    assert share < 0.5  # about 0.2; without a limit it would be 1, if nothing else ran here


def test_processes_are_bounded(real: Cgroups) -> None:
    if PROCESSES not in real.enforced:
        pytest.skip(f"SKIPPED: {real.about}")
    folders = real.make("7-1", AttemptLimits(processes=8))
    count = (
        "import os, time\nn = 0\ntry:\n  while os.fork(): n += 1\n  time.sleep(600)\nexcept BlockingIOError: print(n)"
    )
    with enter(folders, f"exec python3 -c '{count}'") as job:
        assert job.wait(PATIENCE_S) == 0
        assert refused_processes(folders) == 8
        kill_members(folders)
        assert job.communicate(timeout=PATIENCE_S)[0] == b"7\n"
    assert refused_processes(real.make("8-1", AttemptLimits())) == 0


def test_devices_are_denied(real: Cgroups) -> None:
    if DEVICES not in real.enforced:
        pytest.skip(f"SKIPPED: devices are not limited here: {real.about}")
    folders = real.make("7-1", AttemptLimits(denied=((1, 5),)))  # /dev/zero stands for a GPU of somebody else
    with enter(folders, "head -c 1 /dev/zero > /dev/null && echo zero; head -c 1 /dev/urandom | wc -c") as job:
        assert job.communicate(timeout=PATIENCE_S)[0].split() == [b"1"]


# ---- what the executor makes of them


class Watch:
    def __init__(self, executor: ProcessExecutor) -> None:
        self.executor, self.seen = executor, list[Report]()
        executor.open(lambda: None)

    def until(self, what: str, job: int) -> Report:
        def report() -> Report | None:
            self.seen += self.executor.reports()
            return next((each for each in self.seen if (each.what, each.job) == (what, job)), None)

        return wait_for(report, lambda: f"no {what} of {job} in {self.seen}")


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    made = Watch(ProcessExecutor(tmp_path / "data", poll_s=0.05))
    if isinstance(made.executor.cgroups, NoCgroups):
        made.executor.close()
        pytest.skip(f"SKIPPED: {made.executor.cgroups.about}")
    yield made
    made.executor.close()


def launch(run: str, job: int = 1, **spec: object) -> Launch:
    given = job_spec({"run": run, **spec})
    return Launch(job, 1, getpass.getuser(), given, tuple(range(given.gpus)), ("n0",) * given.gpus)


def test_a_job_that_takes_too_much_memory_is_killed_and_told(watch: Watch) -> None:
    if MEMORY not in watch.executor.cgroups.enforced:
        pytest.skip(f"SKIPPED: {watch.executor.cgroups.about}")
    hungry = "python3 -c 'x = bytearray(300_000_000)'"
    watch.executor.start(launch(hungry, 1, resources={"memory": 0.1}))
    watch.executor.start(launch(hungry, 2, resources={"memory": 1}))
    watch.executor.start(launch(hungry, 3, resources={"memory": 0.4}, num_nodes=2))  # 0.8 in all
    ended = watch.until(ENDED, 1)
    assert ended.exit_code
    assert "resources.memory" in ended.message
    assert (watch.until(ENDED, 2).exit_code, watch.until(ENDED, 2).message) == (0, "")
    assert watch.until(ENDED, 3).exit_code == 0


BOMB = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)"


def test_a_job_that_survives_the_death_of_its_process_says_so(tmp_path: Path) -> None:
    """Version 1 kills one process, version 2 all of them: either way the message says why."""
    manager = opened(tmp_path / "data")
    try:
        if MEMORY not in manager._state.enforced:
            pytest.skip("SKIPPED: memory is not limited here")
        job = one(manager, run="python3 -c 'x = bytearray(300_000_000)'; exit 0", resources={"memory": 0.1})
        view = finished(manager, job)
        assert "resources.memory" in view.message
        assert (view.state, view.exit_code) in [("COMPLETED", 0), ("FAILED", 137)]
        assert manager.history()[0].message == view.message
        quiet = finished(manager, one(manager, run="true"))
        assert (quiet.message, manager.history()[0].message) == ("", "")
    finally:
        manager.stop(drain=True)


def test_a_fork_bomb_stops_neither_the_manager_nor_other_jobs(watch: Watch, tmp_path: Path) -> None:
    if PROCESSES not in watch.executor.cgroups.enforced:
        pytest.skip(f"SKIPPED: {watch.executor.cgroups.about}")
    watch.executor.start(replace(launch(f"exec python3 -c '{BOMB}'", 1), max_processes=50))
    watch.until(STARTED, 1)
    folders = watch.executor.cgroups.make("1-1", AttemptLimits(processes=50))
    wait_for(lambda: refused_processes(folders) == 50)
    watch.executor.start(launch("for i in $(seq 100); do true & done; wait", 2))
    assert (watch.until(ENDED, 2).exit_code, watch.until(ENDED, 2).message) == (0, "")
    watch.executor.stop(1, 1, "SIGTERM", 0.0)
    assert "the job reached its limit of 50 processes and threads" in watch.until(ENDED, 1).message
    assert not members(folders)


def test_how_many_processes_an_attempt_may_have_by_default(tmp_path: Path) -> None:
    base = tmp_path / "pids/headway/abc"
    allowed = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    groups = CgroupsV1({"pids": base})
    groups.make("1-1", AttemptLimits())
    assert int((base / "1-1/pids.max").read_text()) == min(16_384, allowed // 4)
    assert int((base / "pids.max").read_text()) == int(0.75 * allowed)
    (tmp_path / "pids/pids.max").write_text("400\n")  # of a container, say
    CgroupsV1({"pids": base}).make("2-1", AttemptLimits())
    assert (base / "2-1/pids.max").read_text() == "100"
    assert (base / "pids.max").read_text() == "300"
    groups.make("3-1", AttemptLimits(processes=5000))
    assert (base / "3-1/pids.max").read_text() == "5000"


def test_a_limit_of_processes_that_is_not_enforced_is_noted() -> None:
    notes = Site(max_processes=100).notes(job_spec({"run": "x"}), frozenset({MEMORY, CPUS}))
    assert notes == (
        "the limit of 100 processes is not enforced here: the job may have more (`headway doctor` says why)",
    )
    assert Site(max_processes=100).notes(job_spec({"run": "x"}), frozenset({PROCESSES})) == ()
    assert Site().notes(job_spec({"run": "x"}), frozenset()) == ()


def test_what_hides_from_a_killed_shim_is_found_by_its_group(watch: Watch, tmp_path: Path) -> None:
    """A process with an empty environment in a session of its own: nothing but the group tells whose it is."""
    import json

    watch.executor.start(launch(f"env -i setsid sh -c 'echo $$ > {tmp_path}/hidden; exec sleep 600' & sleep 600"))
    watch.until(STARTED, 1)
    hidden = int(wait_for(lambda: written(tmp_path / "hidden")))
    os.kill(json.loads((tmp_path / "data/runs/1/1/shim.json").read_text())["pid"], signal.SIGKILL)
    assert watch.until(ENDED, 1).lost
    assert is_dead(hidden)
    assert not members(watch.executor.cgroups.make("1-1", AttemptLimits()))


def test_groups_are_gone_when_their_attempts_are(watch: Watch) -> None:
    watch.executor.start(launch("true", 1))
    watch.until(ENDED, 1)
    assert isinstance(watch.executor.cgroups, CgroupsV1 | CgroupsV2)
    cgroups = watch.executor.cgroups
    bases = cgroups.bases.values() if isinstance(cgroups, CgroupsV1) else [cgroups.base]
    wait_for(lambda: not any((base / "1-1").exists() for base in bases))


def test_what_a_job_may_use(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia10"):
        (tmp_path / name).write_text("")
    spec = job_spec({"run": "x", "num_nodes": 2, "resources": {"accelerators": 1, "cpus": 1.5, "memory": 2}})
    found = limits_of(Launch(1, 1, "me", spec, (2, 0), ("a", "b"), max_processes=9), tmp_path)
    assert found == AttemptLimits(cpus=3.0, memory_bytes=4_000_000_000, processes=9, denied=((195, 1), (195, 10)))
    assert limits_of(Launch(1, 1, "me", job_spec({"run": "x"}), (0,), ("a",)), tmp_path / "none") == AttemptLimits()
    ranks = [{"env": {"CUDA_VISIBLE_DEVICES": "2"}}, {"env": {"CUDA_VISIBLE_DEVICES": "0"}}]
    renumber(ranks, (2, 0))
    assert [rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["1", "0"]


def test_what_is_not_enforced_is_said(tmp_path: Path) -> None:
    executor = ProcessExecutor(tmp_path)
    executor.cgroups = NoCgroups("no cgroups are mounted: mount them")
    assert executor.warnings()[0].startswith(
        "not enforced: memory of jobs, cpus of jobs, processes of jobs; no cgroups are mounted"
    )
    assert executor.cgroups.enforced == frozenset()
    executor.cgroups = CgroupsV1({name: tmp_path / name for name in ("memory", "cpu", "freezer")})
    assert executor.warnings() == ["not enforced: processes of jobs; cgroups v1 with cpu, freezer, memory"]
