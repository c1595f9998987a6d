"""An attempt by its folder: whether it is alive, whose it is, when it last did something, and how its processes are found and ended."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Container
from pathlib import Path
from typing import Any

from headway.live.executors import Stamp
from headway.live.executors.process.cgroups import Cgroups
from headway.live.executors.process.system import each_process, read, stamp

SWEEP_S = 5.0  # a process that does not die of SIGKILL in this time hangs in the kernel


def group_name(job: int, attempt: int) -> str:
    """The name of its control group."""
    return f"{job}-{attempt}"


def alive(folder: Path) -> bool:
    """Whether the shim (or the manager, about to start it) holds the attempt's lock."""
    try:
        handle = os.open(folder / "launch.json", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def started_by(folder: Path) -> str | None:
    """The identity of the journal that it belongs to; None: there is no such attempt."""
    if not (folder / "launch.json").exists():
        return None
    return str((read(str(folder), "launch.json") or {}).get("journal", ""))


def strays(runs: Path, watched: Container[tuple[int, int]]) -> list[str]:
    """Attempts that run though nobody watches them, each in one line for the operator."""
    found = []
    for folder in sorted(runs.glob("*/*")):
        job, attempt = folder.parent.name, folder.name
        if job.isdigit() and attempt.isdigit() and (int(job), int(attempt)) not in watched and alive(folder):
            pid = (read(str(folder), "shim.json") or {}).get("pid")
            end = f" (process {pid}); `kill -9 {pid}` ends it" if pid else ""
            found.append(f"job {job} still runs, and its GPUs count as free here, because the journal lost it{end}")
    return found


def sweep(cgroups: Cgroups, folder: str, name: str) -> None:
    """Kill what a lost attempt left behind, and see it gone: everybody in its control group, or with its mark in the environment."""
    end, mark = time.monotonic() + SWEEP_S, f"HEADWAY_RUN={folder}".encode()
    while (left := [*cgroups.processes(name), *_marked(mark)]) and time.monotonic() < end:
        cgroups.kill(name)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _marked(mark: bytes) -> list[int]:
    """Processes with this line in their environment; a dead process that nobody has reaped has an empty one."""
    return [pid for pid, environment in each_process("environ") if mark in environment.split(b"\0")]


def when(content: dict[str, Any]) -> Stamp | None:
    """When it happened, by what the shim wrote; shims of earlier versions did not."""
    at = content.get("at")
    return Stamp(str(at["boot"]), float(at["monotonic"]), float(at["wall"])) if isinstance(at, dict) else None


def last_sign(folder: Path) -> dict[str, Any] | None:
    """When an attempt that was lost while nobody watched last wrote anything; None: never."""
    if not folder.is_dir():
        return None
    now, last = stamp(), 0.0
    for path in (folder, *folder.iterdir(), folder / "own" / "report.json"):
        with contextlib.suppress(OSError):
            last = max(last, path.stat().st_mtime)
    ago_s = max(0.0, now["wall"] - last)
    return {"boot": now["boot"], "monotonic": now["monotonic"] - ago_s, "wall": last}
