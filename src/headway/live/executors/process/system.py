"""Calls to Linux for the shim and the executor: processes, control groups and the time. Standard library only."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process (prctl(2))."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def started_ticks(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot, which identifies it with its pid; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def each_process(about: str) -> Iterator[tuple[int, bytes]]:
    """Yield every process with the content of one of its files in /proc, unless it has ended or the file cannot be read."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/{about}", "rb") as file:
            yield int(name), file.read()


def descendants(root: int) -> list[int]:
    """Return all descendants of the process `root`."""
    children: dict[int, list[int]] = {}
    for pid, stat in each_process("stat"):
        children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(pid)
    below = [root]
    for pid in below:  # the list grows in this loop
        below += children.get(pid, ())
    return below[1:]


def members(groups: Iterable[str]) -> set[int]:
    """Return the processes of control groups, given as folders."""
    pids: set[int] = set()
    for folder in groups:
        with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.procs"), "rb") as file:
            pids.update(map(int, file.read().split()))
    return pids


def kill_members(groups: Sequence[str]) -> None:
    """Send SIGKILL to all processes of control groups. If the kernel can freeze or kill a group whole, none of them forks meanwhile."""
    _put(groups, "freezer.state", "FROZEN")  # version 1
    _put(groups, "cgroup.kill", "1")  # version 2, since Linux 5.14
    for pid in members(groups):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    _put(groups, "freezer.state", "THAWED")


def _put(groups: Sequence[str], name: str, text: str) -> None:
    """Write to this file of each control group that has it."""
    for folder in groups:
        with contextlib.suppress(OSError), open(os.path.join(folder, name), "r+b", buffering=0) as file:
            file.write(text.encode())


def out_of_memory(groups: Iterable[str]) -> bool:
    """Return whether the kernel killed a process of these control groups for lack of memory."""
    kills = [_count(folder, name, "oom_kill") for folder in groups for name in ("memory.events", "memory.oom_control")]
    if any(count is not None for count in kills):
        return any(kills)
    return any(_number(folder, "memory.failcnt") for folder in groups)  # before Linux 4.13: the limit was met


def refused_processes(groups: Iterable[str]) -> int:
    """Return the limit of processes of these control groups, if the kernel refused to start more than that; else 0."""
    full = [folder for folder in groups if _count(folder, "pids.events", "max")]
    return max((_number(folder, "pids.max") for folder in full), default=0)


def _count(folder: str, name: str, key: str) -> int | None:
    """Return the number after `key` in a file of lines such as `oom_kill 2`; None if there is none."""
    with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="ascii") as file:
        counts = dict(line.split() for line in file if len(line.split()) == 2)
        return int(counts[key]) if key in counts else None
    return None


def _number(folder: str, name: str) -> int:
    """Return the number in a file; 0 if there is none."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name), encoding="ascii") as file:
        return int(file.read())
    return 0


def marked(line: str, users: Container[int]) -> set[int]:
    """Return the processes of these users with this line in their environment; the environment of a dead process is empty."""
    pids = set()
    for pid, environment in each_process("environ"):
        with contextlib.suppress(OSError):
            if line.encode() in environment.split(b"\0") and os.stat(f"/proc/{pid}").st_uid in users:
                pids.add(pid)
    return pids


def stamp() -> dict[str, Any]:
    """Return the time now: by the monotonic clock of this boot, which the manager's clock follows, and by the wall clock."""
    boot = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"boot": boot, "monotonic": time.monotonic(), "wall": time.time()}
