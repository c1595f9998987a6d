"""Control groups of version 2, as files and for real where this machine can mount them; and which tree of groups is found and used."""

import contextlib
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.users.groups import enter, nobody
from tests.waiting import PATIENCE_S, wait_for

from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, AttemptLimits, NoCgroups
from headway.live.executors.process.cgroups.devices import program
from headway.live.executors.process.cgroups.find import find_cgroups, mounted, own_group
from headway.live.executors.process.cgroups.v1 import CgroupsV1
from headway.live.executors.process.cgroups.v2 import CgroupsV2
from headway.live.executors.process.system import kill_members, members, out_of_memory, refused_processes

pytestmark = pytest.mark.xdist_group("live")


def tree(top: Path, controllers: str = "cpuset cpu io memory pids") -> None:
    """What the kernel shows of a group that was handed over."""
    top.mkdir(parents=True)
    (top / "cgroup.controllers").write_text(controllers + "\n")
    (top / "cgroup.type").write_text("domain\n")
    (top / "cgroup.procs").write_text("41\n42\n")


def test_version_2_writes_what_the_kernel_documents(tmp_path: Path) -> None:
    top = tmp_path / "system.slice/headway.service"
    tree(top)
    # On a tree of plain files the last write to subtree_control stands; the kernel adds them up.
    groups = CgroupsV2(top, top / "abc")
    assert (top / "cgroup.subtree_control").read_text() == "+pids"
    assert (top / "manager/cgroup.procs").read_text() == "42"  # the manager makes way
    groups.controllers = ["memory", "cpu", "pids"]
    folders = groups.make("12-3", AttemptLimits(cpus=1.5, memory_bytes=2_000_000_000, processes=300))
    folder = top / "abc/12-3"
    assert folders == [str(folder)]
    assert (folder / "memory.max").read_text() == "2000000000"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "memory.oom.group").read_text() == "1"
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "pids.max").read_text() == "300"
    (folder / "pids.events").write_text("max 2\n")
    assert refused_processes(folders) == 300
    (folder / "cgroup.kill").write_text("")
    kill_members(folders)
    assert (folder / "cgroup.kill").read_text() == "1"
    assert not out_of_memory(folders)
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n")
    assert out_of_memory(folders)
    free = groups.make("13-1", AttemptLimits())
    assert not (Path(free[0]) / "memory.max").exists()


def test_version_2_says_which_controllers_it_has(tmp_path: Path) -> None:
    tree(tmp_path / "top", "cpu io")
    groups = CgroupsV2(tmp_path / "top", tmp_path / "top/abc")
    assert groups.enforced - {DEVICES} == {CPUS}
    assert "memory" not in groups.about


@pytest.fixture
def unified(tmp_path: Path) -> Iterator[Path]:
    """The real tree of version 2: mounted for the test where the machine has not mounted it, or a loud skip."""
    where = mounted(Path("/proc/self/mountinfo").read_text()).unified
    own = tmp_path / "unified"
    if where is None:
        own.mkdir()
        mount = ["mount", "-t", "cgroup2", "none", str(own)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("SKIPPED: no cgroup2 tree is mounted, and only root may mount one")
    found = where or own
    if not os.access(found, os.W_OK):
        pytest.skip("SKIPPED: no cgroup2 tree that this user may write")
    yield found
    if where is None:
        subprocess.run(["umount", str(own)], check=True)


def test_version_2_makes_way_and_turns_controllers_on_for_real(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes no limits below a group that holds processes: these are moved first. With whichever controller version 1 left."""
    free = (unified / "cgroup.controllers").read_text().split()
    if not free:
        pytest.skip("SKIPPED: version 1 has all controllers: limits of version 2 cannot be tried here")
    monkeypatch.setattr("headway.live.executors.process.cgroups.v2.CONTROLLERS", {free[0]: free[0]})
    (unified / "cgroup.subtree_control").write_text(f"+{free[0]}")
    top = unified / f"headway-test-{os.getpid()}"
    top.mkdir()
    with enter([str(top)], "exec sleep 600") as manager:
        wait_for(lambda: (top / "cgroup.procs").read_text().split() == [str(manager.pid)])
        groups = CgroupsV2(top, top / "abc")
        try:
            assert groups.controllers == [free[0]]
            assert (top / "manager/cgroup.procs").read_text().split() == [str(manager.pid)]
            assert free[0] in (Path(groups.make("1-1", AttemptLimits())[0]) / "cgroup.controllers").read_text().split()
        finally:
            groups.close(nobody)
            manager.kill()
    for folder in (top / "manager", top):
        wait_for(lambda folder=folder: not os.rmdir(folder) if not (folder / "cgroup.procs").read_text() else False)  # type: ignore[misc]
    with contextlib.suppress(OSError):  # others may use it by now
        (unified / "cgroup.subtree_control").write_text(f"-{free[0]}")


def test_version_2_ends_what_forks_without_end_for_real(unified: Path) -> None:
    groups = CgroupsV2(unified, unified / f"headway-test-{os.getpid()}")
    try:
        forks = "f() { sleep 0.02; f & sleep 0.02; }; for i in 1 2 3; do f & done; exec sleep 600"
        folders = groups.make("3-1", AttemptLimits())
        with enter(folders, forks) as leader:
            wait_for(lambda: len(members(folders)) > 6)
            kill_members(folders)
            assert leader.wait(PATIENCE_S) == -signal.SIGKILL
            wait_for(lambda: not members(folders))
        wait_for(lambda: groups.remove("3-1"))
    finally:
        groups.close(nobody)


def test_version_2_kills_and_hides_devices_for_real(unified: Path) -> None:
    """The unified tree takes groups also where version 1 has the controllers."""
    groups = CgroupsV2(unified, unified / f"headway-test-{os.getpid()}")
    if DEVICES in groups.enforced:
        denied = AttemptLimits(denied=((1, 5), (1, 8)))  # /dev/zero and /dev/random stand for GPUs of others
        tries = "for d in zero random urandom null; do head -c 0 /dev/$d && echo $d; done"
        with enter(groups.make("2-1", denied), tries) as job:
            assert job.communicate(timeout=PATIENCE_S)[0].split() == [b"urandom", b"null"]
        wait_for(lambda: groups.remove("2-1"))
    try:
        folders = groups.make("1-1", AttemptLimits())
        with enter(folders, "setsid sleep 600 & sleep 600") as leader:
            wait_for(lambda: len(members(folders)) >= 3)
            kill_members(folders)
            assert leader.wait(PATIENCE_S) == -signal.SIGKILL
        wait_for(lambda: groups.remove("1-1"))
        assert not (groups.base / "1-1").exists()
    finally:
        groups.close(nobody)
    assert not groups.base.exists()


def test_the_program_that_hides_devices_is_what_the_kernel_documents() -> None:
    """Played by hand: kind, major and minor in registers 2 to 4, jumps counted from the next step."""
    code = program([(195, 1), (195, 300)])
    steps = [struct.unpack("<BBhi", code[at : at + 8]) for at in range(0, len(code), 8)]

    def answer(kind: int, major: int, minor: int) -> int:
        context, registers, at = {0: 7 << 16 | kind, 4: major, 8: minor}, [0] * 5, 0
        while True:
            operation, which, offset, value = steps[at]
            to, at = which & 15, at + 1
            if operation == 0x61:
                registers[to] = context[offset]
            elif operation == 0x57:
                registers[to] &= value
            elif operation == 0xB7:
                registers[to] = value
            elif operation == 0x95:
                return registers[0]
            elif operation == 0x05 or registers[to] != value:
                at += offset

    assert [answer(2, 195, minor) for minor in (0, 1, 2, 300, 255)] == [1, 0, 1, 0, 1]
    assert [answer(1, 195, 1), answer(2, 1, 1), answer(2, 1, 195)] == [1, 1, 1]


# ---- which tree of groups is used


MOUNTS = """\
25 20 0:22 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
31 20 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 20 0:29 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory
33 20 0:30 / /sys/fs/cgroup/with\\040space rw - cgroup cgroup rw,freezer
40 20 0:40 / / rw - ext4 /dev/sda rw
"""


def test_the_trees_are_found_in_mountinfo() -> None:
    found = mounted(MOUNTS)
    assert found.unified == Path("/sys/fs/cgroup/unified")
    assert found.controllers == {
        "cpu": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "memory": Path("/sys/fs/cgroup/memory"),
        "freezer": Path("/sys/fs/cgroup/with space"),
    }


def test_which_tree_is_used_and_why_not(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    none = find_cgroups(tmp_path, proc)
    assert isinstance(none, NoCgroups)
    assert "mount them" in none.about
    assert none.enforced == frozenset()
    assert none.make("1-1", AttemptLimits(cpus=1)) == []
    one = tmp_path / "one"
    one.mkdir()
    (proc / "mountinfo").write_text(f"1 1 0:1 / {one} rw - cgroup cgroup rw,memory\n")
    found = find_cgroups(tmp_path, proc)
    assert isinstance(found, CgroupsV1)
    assert found.enforced == {MEMORY}
    (tmp_path / "two").write_text("")
    (proc / "mountinfo").write_text(f"1 1 0:1 / {tmp_path}/two rw - cgroup cgroup rw,memory\n")
    refused = find_cgroups(tmp_path, proc)
    assert isinstance(refused, NoCgroups)
    assert "as root" in refused.about
    tree(tmp_path / "unified")
    (proc / "mountinfo").write_text(f"1 1 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n")
    (proc / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    both = find_cgroups(tmp_path, proc)
    assert isinstance(both, CgroupsV2)
    assert both.base.parent == tmp_path / "unified/headway"  # the session was not handed over to us


def test_a_group_that_systemd_handed_over_is_used(tmp_path: Path) -> None:
    service = tmp_path / "system.slice/headway.service"
    (service / "manager").mkdir(parents=True)
    try:
        os.setxattr(service, "user.delegate", b"1")
    except OSError:
        pytest.skip("SKIPPED: this file system has no attributes")
    assert own_group(tmp_path, "0::/system.slice/headway.service\n") == service
    assert own_group(tmp_path, "1:memory:/x\n0::/system.slice/headway.service/manager\n") == service
    assert own_group(tmp_path, "0::/system.slice\n") == tmp_path
