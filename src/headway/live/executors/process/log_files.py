"""The logs of an attempt: pipes carry the output of its ranks to files that have a cap and rotate. Used by the shim.

A file that reaches half of the cap is renamed to `NAME.1`, which replaces the one before; `NAME.at` then has the number of bytes before the
current file. While the disk is nearly full no log is written, so that the journal keeps its space. Standard library only.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Sequence

PART_BYTES = 1 << 16
LOG_CAP_BYTES = 100_000_000
# Space that logs leave free on the disk: bytes, or a share of a small disk.
FREE_BYTES, FREE_SHARE = 1 << 30, 0.05
# Free space is checked after this many bytes, and at this interval while nothing is written.
LOOK_BYTES, LOOK_S = 1 << 20, 1.0
# When all ranks have ended, the rest in the pipes is read for at most this time: another process may hold them open.
REST_S = 2.0


class LogFile:
    """One log; `copy` is the user's file for a copy, which is written while its disk has room."""

    def __init__(self, path: str, cap_bytes: int, copy: int | None = None) -> None:
        self.copy = copy
        self.path, self.half = path, max(1, cap_bytes // 2)
        self.handle, self.size, self.before = -1, 0, 0
        self.left_out = 0
        self._unchecked, self._looked_at = LOOK_BYTES, 0.0
        self._room = True
        self._open()

    def _open(self) -> None:
        self.handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self.handle).st_size

    def write(self, data: bytes) -> None:
        """Append data, and rotate as needed. Count the bytes for which the disk has no room; a later line in the log says how many."""
        self._copy(data)
        if not self._has_room(len(data)):
            self.left_out += len(data)
            return
        try:
            if self.left_out:
                words = f"\n[headway: {self.left_out} bytes are left out here: the disk was nearly full]\n"
                self.size += os.write(self.handle, words.encode())
                self.left_out = 0
            while data:
                if self.size >= self.half:
                    self._rotate()
                part = data[: self.half - self.size]
                done = os.write(self.handle, part)
                self.size, data = self.size + done, data[done:]
        except OSError:
            self.left_out += len(data)
            self._room, self._looked_at = False, time.monotonic()

    def _copy(self, data: bytes) -> None:
        """Write data to the user's file, if possible."""
        with contextlib.suppress(OSError):
            if self.copy is not None and _has_room(os.fstatvfs(self.copy)):
                while data:
                    data = data[os.write(self.copy, data) :]

    def _rotate(self) -> None:
        """Begin a new file. Readers wait while there is none, so that they never combine a file with another one's count."""
        os.rename(self.path, f"{self.path}.1")
        self.before += self.size
        self.size = 0
        count = os.open(f"{self.path}.at", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(count, b"%20d" % self.before)
        os.close(count)
        os.close(self.handle)
        self._open()

    def _has_room(self, size: int) -> bool:
        self._unchecked += size
        now = time.monotonic()
        if self._unchecked >= LOOK_BYTES if self._room else now - self._looked_at >= LOOK_S:
            self._room = _has_room(os.statvfs(os.path.dirname(self.path)))
            self._unchecked, self._looked_at = 0, now
        return self._room


def _has_room(disk: os.statvfs_result) -> bool:
    """Return whether enough of a disk is free."""
    return disk.f_bavail * disk.f_frsize > min(FREE_BYTES, int(disk.f_blocks * disk.f_frsize * FREE_SHARE))


class Pump(threading.Thread):
    """Copies the output of pipes to logs until all pipes are closed, or until `finish` has read the rest."""

    def __init__(self, pipes: Sequence[tuple[int, LogFile]]) -> None:
        super().__init__(name="logs", daemon=True)
        self._logs = dict(pipes)
        self._wake_out, self._wake_in = os.pipe()
        self._end: float | None = None

    def run(self) -> None:
        poll = select.poll()
        for pipe in (*self._logs, self._wake_out):
            poll.register(pipe, select.POLLIN)
        while self._logs:
            ready = poll.poll(None if self._end is None else 0)
            if self._end is not None and (
                not ready or ready == [(self._wake_out, select.POLLIN)] or time.monotonic() > self._end
            ):
                return
            for pipe, _ in ready:
                if pipe == self._wake_out:
                    poll.unregister(pipe)
                    continue
                data = b""
                with contextlib.suppress(OSError):
                    data = os.read(pipe, PART_BYTES)
                if data:
                    self._logs[pipe].write(data)
                else:
                    poll.unregister(pipe)
                    os.close(pipe)
                    del self._logs[pipe]

    def finish(self) -> None:
        """Read the rest in the pipes, for at most REST_S, and end the thread. All ranks have ended."""
        self._end = time.monotonic() + REST_S
        os.write(self._wake_in, b"\n")
        self.join(2 * REST_S)
