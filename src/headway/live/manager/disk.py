"""Free space on the journal's disk, which jobs may fill.

Below a floor no job is started, so that only running jobs use more space. When the disk is full, a reserve file is removed, so that the
journal can still record the ends of jobs. A quota per user would be better, but only the operator can set one.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOK_S: Final = 2.0  # between two checks
RESERVE: Final = "reserve"
RESERVE_BYTES: Final = 64 * 1024 * 1024  # the ends of some hundred thousand jobs
MORE: Final = 1.1  # jobs start again when this multiple of the floor is free


def free_bytes(folder: Path) -> int:
    """Return the bytes that the manager can still write to a folder."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class Disk:
    """Watches the free space of a folder's disk."""

    def __init__(self, folder: Path, least_bytes: int, free: Callable[[Path], int] = free_bytes) -> None:
        self.folder, self.least_bytes, self._free = folder, least_bytes, free
        self.reserve = folder / RESERVE
        self._looked, self._low = -LOOK_S, False

    def look(self) -> str:
        """Return why no job is started; empty if the disk has room."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            with contextlib.suppress(OSError):  # the folder cannot be reached: the health check of the journal says so
                self._compare(self._free(self.folder))
        least = f"{self.least_bytes / 1e6:,.0f} MB"
        fix = "make room there, or serve with another --min-free"
        return (
            f"less than {least} are free on the disk of {self.folder}: no job is started ({fix})" if self._low else ""
        )

    def _compare(self, free: int) -> None:
        self._low = free < self.least_bytes * (MORE if self._low else 1.0)
        if free < RESERVE_BYTES // 8:
            self.give_up_reserve()
        elif not self._low and free > self.least_bytes + RESERVE_BYTES:
            self._keep_reserve()

    def _keep_reserve(self) -> None:
        """Make the reserve, or complete one that a killed manager left unfinished."""
        if self.reserve.exists() and self.reserve.stat().st_size >= RESERVE_BYTES:
            return
        with contextlib.suppress(OSError):  # if there is no reserve, a full disk stops the journal sooner
            descriptor = os.open(self.reserve, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)

    def give_up_reserve(self) -> None:
        """Remove the reserve file, so that the journal can use its space."""
        with contextlib.suppress(OSError):
            self.reserve.unlink()
