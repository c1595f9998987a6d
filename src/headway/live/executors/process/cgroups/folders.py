"""Reading and writing the files of a control group."""

import contextlib
import os
import signal
from pathlib import Path


def put(folder: Path, name: str, text: str) -> None:
    """Write one value; the kernel takes or refuses it whole."""
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def get(folder: Path, name: str) -> str:
    """One value; empty if it is not there."""
    try:
        return (folder / name).read_text(encoding="ascii")
    except OSError:
        return ""


def count(folder: Path, name: str, key: str) -> int:
    """The number after `key` in a file of lines such as `oom_kill 2`."""
    words = [line.split() for line in get(folder, name).splitlines()]
    return next((int(row[1]) for row in words if len(row) == 2 and row[0] == key), 0)


def members(folder: Path) -> list[int]:
    """The processes of a group."""
    return [int(line) for line in get(folder, "cgroup.procs").split()]


def kill_members(folder: Path) -> None:
    """Send SIGKILL to all that are there now."""
    for pid in members(folder):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def tidy_folder(base: Path) -> None:
    """Remove the empty groups below a folder; the kernel refuses the others."""
    with contextlib.suppress(OSError):
        for each in base.iterdir():
            if each.is_dir():
                remove_folder(each)


def remove_folder(folder: Path) -> bool:
    """Remove an empty group; whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
