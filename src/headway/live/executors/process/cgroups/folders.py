"""Reading and writing the files of a control group."""

import contextlib
import os
import time
from pathlib import Path

from headway.live.executors.process.cgroups import InUse

# At this age, an empty group of another manager is unused: a job enters its group within milliseconds, or after its prolog.
LEFT_AFTER_S = 3600.0
# Processes and threads of one attempt: about three times an estimate of training on 8 GPUs (8 ranks with 8 loaders each, 64 threads in
# each). Podman allows 2,048 per container (podman-run, --pids-limit); Kubernetes has no default (concepts/policy/pid-limiting).
MOST_PROCESSES = 16_384
# A small machine: shares of what it allows, for one attempt and for all of them together. The manager needs a part as well.
ATTEMPT_SHARE, JOBS_SHARE = 0.25, 0.75


def put(folder: Path, name: str, text: str) -> None:
    """Write one value; the kernel takes or refuses it whole."""
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def get(folder: Path, name: str) -> str:
    """Return one value; empty if the file cannot be read."""
    try:
        return (folder / name).read_text(encoding="ascii")
    except OSError:
        return ""


def machine_processes(folder: Path) -> int:
    """Return how many processes the machine, and the control groups above this folder, allow."""
    limits = [get(Path("/proc/sys/kernel"), name) for name in ("pid_max", "threads-max")]
    limits += [get(above, "pids.max") for above in folder.parents]
    return min(int(limit) for limit in [*limits, str(2**22)] if limit.strip().isdigit())


def limit_processes(folder: Path, limit: int | None) -> None:
    """Limit the processes and threads of one attempt, by default to what suits the machine."""
    put(folder, "pids.max", str(limit or min(MOST_PROCESSES, int(ATTEMPT_SHARE * machine_processes(folder.parent)))))


def limit_all_processes(base: Path) -> None:
    """Limit the processes and threads of all attempts together, so that the manager can still start some."""
    put(base, "pids.max", str(int(JOBS_SHARE * machine_processes(base))))


def members(folder: Path) -> list[int]:
    """Return the processes of a group."""
    return [int(line) for line in get(folder, "cgroup.procs").split()]


def tidy_folder(base: Path, in_use: InUse) -> None:
    """Remove the empty groups below a folder, and old empty groups of other data folders. The kernel refuses groups with processes.

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
    """Remove an empty group; return whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
