"""Control groups, version 1 and 2 behind one interface: they limit the processes of a job, and find them. Imports nothing else.

An attempt has its own group, named by job and attempt, below one folder per manager. Its ranks enter the group before they become their
user, so that all processes that they start are in it, whatever these do to their parents, sessions or environment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CPUS, MEMORY, DEVICES, PROCESSES = "cpus", "memory", "devices", "processes"
InUse = Callable[[str], bool]  # whether the group of that name is that of an attempt that has not ended


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """The limits of an attempt in all (None: no limit). `denied` has (major, minor) of character devices."""

    cpus: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None  # and threads; None: the default of this machine
    denied: tuple[tuple[int, int], ...] = ()


class Cgroups(Protocol):
    """The groups of one manager."""

    enforced: frozenset[str]  # of the four limits above
    about: str  # one line: the version and the controllers, or why there are none

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """Make a group with these limits (as far as they can be enforced), and return the folders to enter. OSError if it fails."""

    def remove(self, name: str) -> bool:
        """Remove a group; False if it is not empty yet: a process that was killed takes a moment to leave."""

    def tidy(self, in_use: InUse) -> None:
        """Remove all groups that are empty and not in use, such as those of attempts that ended while no manager ran."""

    def close(self, in_use: InUse) -> None:
        """Do as `tidy`, and remove the folder of this manager unless groups are left in it."""


class NoCgroups:
    """No control groups: no limit is enforced. `why` and `fix` are for the operator."""

    enforced: frozenset[str] = frozenset()

    def __init__(self, why: str, fix: str = "") -> None:
        self.why, self.fix = why, fix
        self.about = f"{why}: {fix}" if fix else why

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """Return no folders."""
        return []

    def remove(self, name: str) -> bool:
        """Return True."""
        return True

    def tidy(self, in_use: InUse) -> None:
        """Do nothing."""

    def close(self, in_use: InUse) -> None:
        """Do nothing."""
