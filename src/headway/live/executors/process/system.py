"""What the shim and the executor ask of Linux: processes, the time, and files that appear whole. Standard library only."""

import contextlib
import ctypes
import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any


def prctl(option: int, value: int) -> None:
    """Set something about this process."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot, which identifies it together with its pid; None if it is gone or dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def each_process(about: str) -> Iterator[tuple[int, bytes]]:
    """Every process, with one of its files in /proc; those that are gone meanwhile, or are not ours to read, are left out."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/{about}", "rb") as file:
            yield int(name), file.read()


def descendants(root: int) -> list[int]:
    """All processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, stat in each_process("stat"):
        children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(pid)
    below = [root]
    for pid in below:  # it grows meanwhile
        below += children.get(pid, ())
    return below[1:]


def members(groups: Iterable[str]) -> set[int]:
    """The processes of control groups, by their folders."""
    found: set[int] = set()
    for folder in groups:
        with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.procs"), "rb") as file:
            found.update(map(int, file.read().split()))
    return found


def stamp() -> dict[str, Any]:
    """When it is now: by the monotonic clock of this boot, which the manager's clock follows, and by the wall clock."""
    boot = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"boot": boot, "monotonic": time.monotonic(), "wall": time.time()}


def write(folder: str, name: str, content: dict[str, Any], durable: bool = False) -> None:
    """Write aside, for nobody else to read, then rename; `durable` also survives the loss of power."""
    aside = os.path.join(folder, f".{name}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.rename(aside, os.path.join(folder, name))
    if durable:
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def read(folder: str, name: str) -> dict[str, Any] | None:
    """What a file says; None if it is not there, or not whole."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
            return content
    except (OSError, ValueError):
        return None
