"""The folder of an attempt: how it is made, its journal, its lock, and the notice for its job."""

import contextlib
import fcntl
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.live.executors.common import whole_files

LAUNCH = "launch.json"  # written before the first rank begins; its field `journal` names the journal of the attempt
NOTICE = "notice.json"


def make_folder(folder: Path, files: Mapping[str, str], mode: int = 0o700) -> None:
    """Make the folder of an attempt with `own`, where the job writes, and `files`, which are not for the job; OSError if the disk is full.

    With mode 0711, other users reach their own files by name, and cannot list the folder.
    """
    (folder / "own").mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (folder, folder.parent):
        path.chmod(mode)
    for name, text in files.items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)


@contextlib.contextmanager
def locked_launch(folder: Path, content: Mapping[str, Any]) -> Iterator[int]:
    """Write launch.json, and yield a descriptor that locks it. Processes that inherit it keep the lock."""
    aside = folder / f".{LAUNCH}"
    handle = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json.dumps(content).encode())
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(aside, folder / LAUNCH)
        yield handle
    finally:
        os.close(handle)


def lock(folder: Path) -> int:
    """Return a descriptor that locks launch.json; BlockingIOError if another process has the lock."""
    handle = os.open(folder / LAUNCH, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def alive(folder: Path) -> bool:
    """Return whether a process has the lock of launch.json."""
    try:
        os.close(lock(folder))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def journal_of(folder: Path) -> str | None:
    """Return the identity of the journal that an attempt belongs to; None: there is no such attempt; "" if launch.json is damaged."""
    if not (folder / LAUNCH).exists():
        return None
    return str((whole_files.read(str(folder), LAUNCH) or {}).get("journal", ""))


def attempts_in(runs: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield job, attempt and folder of each attempt in the folder of runs."""
    for folder in sorted(runs.glob("*/*")):
        if folder.name.isdigit() and folder.parent.name.isdigit() and (folder / LAUNCH).exists():
            yield int(folder.parent.name), int(folder.name), folder


def set_aside(folder: Path) -> Path:
    """Rename the folder of an attempt of a lost journal, so that its number can be used again; return the new path."""
    places = (folder.with_name(f"{folder.name}.before-{number}") for number in itertools.count(1))
    return folder.rename(next(place for place in places if not place.exists()))


def write_notice(folder: Path, until: float | None) -> None:
    """Write when the GPUs of an attempt are taken back, by the wall clock, or remove the notice. The job reads it (runtime.notice)."""
    if until is None:
        (folder / NOTICE).unlink(missing_ok=True)
        return
    aside = folder / f".{NOTICE}"
    aside.write_text(json.dumps({"until": until}), encoding="ascii")
    aside.chmod(0o644)
    aside.rename(folder / NOTICE)
