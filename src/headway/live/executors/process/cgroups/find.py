"""Find the control groups that this manager may use."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from headway.live.executors.process.cgroups import Cgroups, NoCgroups, v1
from headway.live.executors.process.cgroups.folders import get
from headway.live.executors.process.cgroups.v1 import CgroupsV1
from headway.live.executors.process.cgroups.v2 import CgroupsV2

OURS = "headway"
# systemd marks a group that it has handed over (Delegate=yes) with one of these.
DELEGATED = ("user.delegate", "trusted.delegate")


@dataclass(frozen=True, slots=True)
class Mounted:
    """The mount points of version 2, and of every controller of version 1."""

    unified: Path | None
    controllers: dict[str, Path]


def mounted(mountinfo: str) -> Mounted:
    """Read /proc/self/mountinfo: `... mount-point options ... - type source super-options`."""
    unified: Path | None = None
    controllers: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if len(words) < 5 or len(kind) < 3:
            continue
        place = Path(words[4].replace("\\040", " "))
        if kind[0] == "cgroup2":
            unified = place
        elif kind[0] == "cgroup":
            controllers |= {name: place for name in kind[2].split(",") if name in v1.CONTROLLERS}
    return Mounted(unified, controllers)


def find_cgroups(data: Path, proc: Path = Path("/proc/self")) -> Cgroups:
    """Return the groups for the manager of a data folder, or NoCgroups with the reason and a fix."""
    where = mounted(get(proc, "mountinfo"))
    instance = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]
    if where.unified is not None and "memory" in get(where.unified, "cgroup.controllers").split():
        top = own_group(where.unified, get(proc, "cgroup"))
        try:
            return CgroupsV2(top, top / OURS / instance if top == where.unified else top / instance)
        except OSError as error:
            why = f"{top} cannot be written ({error.strerror})"
            return NoCgroups(why, "run the manager as a systemd unit with Delegate=yes")
    if where.controllers:
        try:
            return CgroupsV1({name: tree / OURS / instance for name, tree in where.controllers.items()})
        except OSError as error:
            return NoCgroups(f"cgroups v1 cannot be written ({error.strerror})", "run the manager as root")
    return NoCgroups("no cgroups are mounted", "mount them, or in a container share those of the machine")


def own_group(unified: Path, membership: str) -> Path:
    """Return the group that systemd delegated to this manager, or the root of the tree, which only root may change."""
    for line in membership.splitlines():
        if line.startswith("0::"):
            own = unified / line[3:].strip().lstrip("/")
            # The manager may run in a group below the delegated one (DelegateSubgroup=).
            return next((group for group in (own, own.parent) if group != unified and _delegated(group)), unified)
    return unified


def _delegated(group: Path) -> bool:
    for name in DELEGATED:
        try:
            if os.getxattr(group, name) == b"1":
                return True
        except OSError:
            continue
    return False
