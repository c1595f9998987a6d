"""Control groups, version 2: one tree for all controllers, and one file that kills all processes.

Documented in the kernel's Documentation/admin-guide/cgroup-v2.rst.
"""

import contextlib
from pathlib import Path

from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, PROCESSES, AttemptLimits, InUse
from headway.live.executors.process.cgroups.devices import can_deny, deny
from headway.live.executors.process.cgroups.folders import (
    get,
    limit_all_processes,
    limit_processes,
    members,
    put,
    remove_folder,
    tidy_folder,
)
from headway.live.executors.process.cgroups.v1 import LEAST_QUOTA_US, PERIOD_US

CONTROLLERS = {"memory": MEMORY, "cpu": CPUS, "pids": PROCESSES}
MANAGER = "manager"  # the manager's own group: a group with limited groups below it may not hold processes itself


class CgroupsV2:
    """Groups below `base`, the folder of this manager below `top`, the highest folder that the manager may change."""

    def __init__(self, top: Path, base: Path) -> None:
        self.base = base
        base.mkdir(parents=True, exist_ok=True)
        offered = get(top, "cgroup.controllers").split()
        self._make_way(top)
        for above in reversed([base, *(each for each in base.parents if each == top or top in each.parents)]):
            for controller in CONTROLLERS:
                if controller in offered:
                    with contextlib.suppress(OSError):
                        put(above, "cgroup.subtree_control", f"+{controller}")
        on = get(base, "cgroup.subtree_control").replace("+", "").split()
        self.controllers = [controller for controller in CONTROLLERS if controller in on]
        devices = {DEVICES} if can_deny() else set()
        self.enforced = frozenset({CONTROLLERS[name] for name in self.controllers} | devices)
        if "pids" in self.controllers:
            limit_all_processes(base)
        self.about = f"cgroups v2 with {', '.join([*self.controllers, *devices, 'cgroup.kill'])}"

    def _make_way(self, top: Path) -> None:
        """Move the processes of `top` into the group MANAGER; the root of the tree may keep its processes."""
        if not (top / "cgroup.type").exists():
            return
        own = top / MANAGER
        own.mkdir(exist_ok=True)
        for pid in members(top):
            with contextlib.suppress(OSError):
                put(own, "cgroup.procs", str(pid))

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """Make one folder, and return it."""
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        if limits.memory_bytes is not None and "memory" in self.controllers:
            put(folder, "memory.max", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # a kernel that does not count swap
                put(folder, "memory.swap.max", "0")
            with contextlib.suppress(OSError):  # before Linux 4.19
                put(folder, "memory.oom.group", "1")  # a gang without one of its processes cannot go on
        if limits.cpus is not None and "cpu" in self.controllers:
            put(folder, "cpu.max", f"{max(LEAST_QUOTA_US, round(limits.cpus * PERIOD_US))} {PERIOD_US}")
        if "pids" in self.controllers:
            limit_processes(folder, limits.processes)
        if limits.denied and DEVICES in self.enforced:
            deny(folder, limits.denied)
        return [str(folder)]

    def remove(self, name: str) -> bool:
        """Remove the group."""
        return remove_folder(self.base / name)

    def tidy(self, in_use: InUse) -> None:
        """Remove the unused groups."""
        tidy_folder(self.base, in_use)

    def close(self, in_use: InUse) -> None:
        """Remove the folder of this manager."""
        self.tidy(in_use)
        remove_folder(self.base)
