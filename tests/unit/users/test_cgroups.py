"""Limits by control groups, for real where this machine has them, and what the executor makes of them; processes found whatever they do."""

import getpass
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import is_dead
from tests.unit.users.groups import enter, nobody
from tests.waiting import PATIENCE_S, wait_for

from headway.live.executors import ENDED, STARTED, Launch, Report
from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, Cgroups, Limits, NoCgroups
from headway.live.executors.process.cgroups.find import find_cgroups
from headway.live.executors.process.cgroups.v1 import CgroupsV1
from headway.live.executors.process.cgroups.v2 import CgroupsV2
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.gpus import limits_of, renumber
from headway.live.jobfile.spec import job_spec

pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cgroups]:
    """The groups of this machine, or a loud skip."""
    found = find_cgroups(tmp_path)
    if isinstance(found, NoCgroups):
        pytest.skip(f"SKIPPED: {found.about}")
    yield found
    for name in ("7-1", "8-1"):
        found.kill(name)
        wait_for(lambda name=name: found.remove(name))  # type: ignore[misc]
    found.close(nobody)


def written(path: Path) -> str:
    """Return what is in the file, nothing before it is there."""
    return path.read_text() if path.exists() else ""


def test_a_process_is_found_and_killed_whatever_it_does(real: Cgroups, tmp_path: Path) -> None:
    folders = real.make("7-1", Limits())
    with enter(folders, f"env -i setsid sh -c 'echo $$ > {tmp_path}/child; sleep 600' & sleep 600") as leader:
        child = int(wait_for(lambda: written(tmp_path / "child")))
        assert {leader.pid, child} <= set(real.processes("7-1"))
        real.kill("7-1")
        wait_for(lambda: real.processes("7-1") == [])
    wait_for(lambda: real.remove("7-1"))
    assert not any(Path(folder).exists() for folder in folders)
    assert real.processes("7-1") == []


def test_memory_is_bounded_and_said(real: Cgroups) -> None:
    if MEMORY not in real.enforced:
        pytest.skip(f"SKIPPED: {real.about}")
    folders = real.make("8-1", Limits(memory_bytes=50_000_000))
    with enter(folders, "exec python3 -c 'x = bytearray(200_000_000); print(len(x))'") as greedy:
        assert greedy.wait(PATIENCE_S) == -signal.SIGKILL
    assert real.out_of_memory("8-1")
    folders = real.make("7-1", Limits(memory_bytes=500_000_000))
    with enter(folders, "exec python3 -c 'x = bytearray(200_000_000); print(len(x))'") as modest:
        assert modest.wait(PATIENCE_S) == 0
    assert not real.out_of_memory("7-1")


def test_cpus_are_bounded(real: Cgroups) -> None:
    if CPUS not in real.enforced:
        pytest.skip(f"SKIPPED: {real.about}")
    burn = "from time import monotonic, process_time; began, before = monotonic(), process_time()\n"
    burn += "while monotonic() < began + 1: pass\nprint((process_time() - before) / (monotonic() - began))"
    folders = real.make("7-1", Limits(cpus=0.2))
    with enter(folders, f"exec python3 -c '{burn}'") as slow:
        share = float(slow.communicate(timeout=PATIENCE_S)[0])
    assert share < 0.5  # about 0.2; without a limit it would be 1, if nothing else ran here


def test_devices_are_denied(real: Cgroups) -> None:
    if DEVICES not in real.enforced:
        pytest.skip(f"SKIPPED: devices are not limited here: {real.about}")
    folders = real.make("7-1", Limits(denied=((1, 5),)))  # /dev/zero stands for a GPU of somebody else
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
    if MEMORY not in watch.executor.enforced:
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


def test_what_hides_from_a_killed_shim_is_found_by_its_group(watch: Watch, tmp_path: Path) -> None:
    """A process with an empty environment in a session of its own: nothing but the group tells whose it is."""
    import json

    watch.executor.start(launch(f"env -i setsid sh -c 'echo $$ > {tmp_path}/hidden; exec sleep 600' & sleep 600"))
    watch.until(STARTED, 1)
    hidden = int(wait_for(lambda: written(tmp_path / "hidden")))
    os.kill(json.loads((tmp_path / "data/runs/1/1/shim.json").read_text())["pid"], signal.SIGKILL)
    assert watch.until(ENDED, 1).lost
    assert is_dead(hidden)
    assert watch.executor.cgroups.processes("1-1") == []


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
    found = limits_of(Launch(1, 1, "me", spec, (2, 0), ("a", "b")), tmp_path)
    assert found == Limits(cpus=3.0, memory_bytes=4_000_000_000, denied=((195, 1), (195, 10)))
    assert limits_of(Launch(1, 1, "me", job_spec({"run": "x"}), (0,), ("a",)), tmp_path / "none") == Limits()
    ranks = [{"env": {"CUDA_VISIBLE_DEVICES": "2"}}, {"env": {"CUDA_VISIBLE_DEVICES": "0"}}]
    renumber(ranks, (2, 0))
    assert [rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["1", "0"]


def test_what_is_not_enforced_is_said(tmp_path: Path) -> None:
    executor = ProcessExecutor(tmp_path)
    executor.cgroups = NoCgroups("no cgroups are mounted: mount them")
    assert executor.not_enforced.startswith("not enforced: memory of jobs, cpus of jobs; no cgroups are mounted")
    assert executor.enforced == frozenset()
    executor.cgroups = CgroupsV1({name: tmp_path / name for name in ("memory", "cpu", "freezer")})
    assert "memory" not in executor.not_enforced
