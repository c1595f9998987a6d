"""Control groups, version 1: one tree per controller. `freezer` stops all processes while they are killed.

Documented in the kernel's Documentation/admin-guide/cgroup-v1.
"""

import contextlib
import os
from pathlib import Path

from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, PROCESSES, AttemptLimits, InUse
from headway.live.executors.process.cgroups.folders import (
    limit_all_processes,
    limit_processes,
    put,
    remove_folder,
    tidy_folder,
)

PERIOD_US = 100_000  # the kernel's default period of a CPU quota
LEAST_QUOTA_US = 1000  # the kernel refuses less
# The limit of each controller. The trees are independent: without a controller, only its own limit is not enforced.
CONTROLLERS = {"freezer": "", "memory": MEMORY, "cpu": CPUS, "devices": DEVICES, "pids": PROCESSES}


class CgroupsV1:
    """Groups below `bases`: a folder of this manager in the tree of every mounted controller."""

    def __init__(self, bases: dict[str, Path]) -> None:
        for base in bases.values():
            base.mkdir(parents=True, exist_ok=True)
        self.bases = {name: base for name, base in bases.items() if name != "devices" or _may_deny(base)}
        # Any tree finds processes; freezer only keeps them from forking meanwhile.
        self.enforced = frozenset(filter(None, map(CONTROLLERS.get, self.bases)))
        if "pids" in self.bases:
            limit_all_processes(self.bases["pids"])
        self.about = f"cgroups v1 with {', '.join(sorted(self.bases))}"

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """Make a folder in every tree, and return the folders."""
        folders = {controller: base / name for controller, base in self.bases.items()}
        for controller, folder in folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            self._limit(controller, folder, limits)
        return [str(folder) for folder in folders.values()]

    def _limit(self, controller: str, folder: Path, limits: AttemptLimits) -> None:
        if controller == "memory" and limits.memory_bytes is not None:
            put(folder, "memory.limit_in_bytes", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel that does not count swap
                put(folder, "memory.memsw.limit_in_bytes", str(limits.memory_bytes))
        elif controller == "cpu" and limits.cpus is not None:
            put(folder, "cpu.cfs_period_us", str(PERIOD_US))
            put(folder, "cpu.cfs_quota_us", str(max(LEAST_QUOTA_US, round(limits.cpus * PERIOD_US))))
        elif controller == "pids":
            limit_processes(folder, limits.processes)
        elif controller == "devices":
            for major, minor in limits.denied:
                put(folder, "devices.deny", f"c {major}:{minor} rwm")

    def remove(self, name: str) -> bool:
        """Remove the group from every tree."""
        gone = [remove_folder(base / name) for base in self.bases.values()]
        return all(gone)

    def tidy(self, in_use: InUse) -> None:
        """Remove the unused groups of every tree."""
        for base in self.bases.values():
            tidy_folder(base, in_use)

    def close(self, in_use: InUse) -> None:
        """Remove the folder of this manager from every tree."""
        self.tidy(in_use)
        for base in self.bases.values():
            remove_folder(base)


def _may_deny(base: Path) -> bool:
    """Return whether the manager may deny devices. Write access to the file is not enough: it takes CAP_SYS_ADMIN."""
    trial = base / f"trial-{os.getpid()}"
    try:
        trial.mkdir(exist_ok=True)
        put(trial, "devices.deny", "c 1:1 m")
    except OSError:
        return False
    finally:
        remove_folder(trial)
    return True
