"""Limits per job, and finding its processes, by the kernel's control groups: version 1 and 2 behind one interface. Imports nothing else.

An attempt has a group of its own, named by job and attempt, below one folder per manager. Its ranks enter the group before they become
their user, so that everything they start is in it, whatever it does to its parents, sessions or environment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CPUS, MEMORY, DEVICES, PROCESSES = "cpus", "memory", "devices", "processes"
InUse = Callable[[str], bool]  # whether the group of that name is that of an attempt that has not ended


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """What an attempt may use in all; None: as much as there is. Denied devices are (major, minor) of character devices."""

    cpus: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None  # and threads; None: the default of this machine
    denied: tuple[tuple[int, int], ...] = ()


class Cgroups(Protocol):
    """The groups of one manager."""

    enforced: frozenset[str]  # of the four limits above
    about: str  # in one line: what is there, or why nothing is

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """Make a group with these limits (as far as they can be enforced), and return the folders to enter. OSError if it fails."""

    def remove(self, name: str) -> bool:
        """Remove a group; False if it is not empty yet: a process that was killed takes a moment to leave."""

    def tidy(self, in_use: InUse) -> None:
        """Remove all groups that are empty and not in use, such as those of attempts that ended while no manager ran."""

    def close(self, in_use: InUse) -> None:
        """Also remove the folder of this manager, unless there are groups left in it."""


class NoCgroups:
    """Nothing is enforced, and why; processes are found by other means."""

    enforced: frozenset[str] = frozenset()

    def __init__(self, why: str, fix: str = "") -> None:
        self.why, self.fix = why, fix
        self.about = f"{why}: {fix}" if fix else why

    def make(self, name: str, limits: AttemptLimits) -> list[str]:
        """No folders to enter."""
        return []

    def remove(self, name: str) -> bool:
        """Nothing to do."""
        return True

    def tidy(self, in_use: InUse) -> None:
        """Nothing to do."""

    def close(self, in_use: InUse) -> None:
        """Nothing to do."""
