"""Reading and writing the files of a control group."""

import contextlib
import os
import time
from pathlib import Path

from headway.live.executors.process.cgroups import InUse

# An empty group of another manager is nobody's at this age: a job enters its own within milliseconds, but for its prolog.
LEFT_AFTER_S = 3600.0


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


def members(folder: Path) -> list[int]:
    """The processes of a group."""
    return [int(line) for line in get(folder, "cgroup.procs").split()]


def tidy_folder(base: Path, in_use: InUse) -> None:
    """Remove the empty groups below a folder; the kernel refuses the others. Also what managers of other data folders left long ago.

    The group of an attempt is empty until its ranks have started, and yet in use.
    """
    groups = [group for group in _below(base) if not in_use(group.name)]
    for each in _below(base.parent):
        if each != base:
            groups += [group for group in _below(each) if _age_s(group) > LEFT_AFTER_S]
    for group in groups:
        remove_folder(group)


def _below(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [each for each in folder.iterdir() if each.is_dir()]
    return []


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def remove_folder(folder: Path) -> bool:
    """Remove an empty group; whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
