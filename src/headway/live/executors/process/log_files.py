"""The logs of an attempt: what its ranks write goes through pipes into files that have a cap and rotate. Used by the shim.

A file that has half of the cap becomes `NAME.1` (the one before it is gone), so the newest part is always there; `NAME.at` says then how
many bytes went before the current file. While the disk is nearly full nothing is written: a job that prints too much loses its words, not
the journal its room. Standard library only.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Sequence

PART_BYTES = 1 << 16
LOG_CAP_BYTES = 100_000_000
# Left free on the disk: this much, or this share of a small disk.
FREE_BYTES, FREE_SHARE = 1 << 30, 0.05
# Free space is checked after this many bytes, and at least this often while nothing is written.
LOOK_BYTES, LOOK_S = 1 << 20, 1.0
# What is still in the pipes when all ranks are gone is read within this time; somebody else may hold them open.
REST_S = 2.0


class LogFile:
    """One log, newest part last; `also` is a file of the user's own that gets a copy, as long as its disk has room."""

    def __init__(self, path: str, cap_bytes: int, also: int | None = None) -> None:
        self.also = also
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
        """Append, rotating as needed; what there is no room for is counted, and said later."""
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
        """Write to the user's own file; whatever is wrong with it is the user's business."""
        with contextlib.suppress(OSError):
            if self.also is not None and _has_room(os.fstatvfs(self.also)):
                while data:
                    data = data[os.write(self.also, data) :]

    def _rotate(self) -> None:
        """While there is no current file, readers wait: they never see one with the count of another."""
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
    """Whether enough of a disk is free."""
    return disk.f_bavail * disk.f_frsize > min(FREE_BYTES, int(disk.f_blocks * disk.f_frsize * FREE_SHARE))


class Pump(threading.Thread):
    """Carries what comes out of pipes into logs, until all are closed, or until `finish` has had the rest."""

    def __init__(self, pipes: Sequence[tuple[int, LogFile]]) -> None:
        super().__init__(name="logs", daemon=True)
        self._logs = dict(pipes)
        self._hear, self._say = os.pipe()
        self._end: float | None = None

    def run(self) -> None:
        poll = select.poll()
        for pipe in (*self._logs, self._hear):
            poll.register(pipe, select.POLLIN)
        while self._logs:
            ready = poll.poll(None if self._end is None else 0)
            if self._end is not None and (
                not ready or ready == [(self._hear, select.POLLIN)] or time.monotonic() > self._end
            ):
                return
            for pipe, _ in ready:
                if pipe == self._hear:
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
        """All ranks are gone: take what is left in the pipes."""
        self._end = time.monotonic() + REST_S
        os.write(self._say, b"\n")
        self.join(2 * REST_S)
