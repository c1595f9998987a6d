"""Followers of jobs: readers of logs and streams of events. They are woken, and do not poll.

A follower is woken when the journal has a new row about its job, and when a log of the attempt that it watches has changed. One thread
looks at the logs of all watched attempts, however many followers each has; it sleeps while no attempt is watched.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headway.live.state.records import JournalRow

LOOK_S, LONGEST_LOOK_S = 0.2, 1.0  # between two checks of a log that grows, and of a log that does not
Attempt = tuple[int, int]  # job, attempt
LogFiles = Callable[[int, int], list[Path]]


class Follower:
    """Waits in one event loop for news of a job, or of all jobs."""

    def __init__(self, followers: "Followers", job_id: int | None) -> None:
        self.job_id = job_id
        self.attempt: Attempt | None = None  # whose logs it watches
        self._followers, self._loop, self._event = followers, asyncio.get_running_loop(), asyncio.Event()

    def begin(self, attempt: int | None) -> None:
        """Forget earlier news and watch the logs of an attempt (None: of none); to be called before reading."""
        self._event.clear()
        self._followers.watch(self, None if attempt is None or self.job_id is None else (self.job_id, attempt))

    async def news(self, timeout_s: float | None = None) -> bool:
        """Wait until there is news since `begin`; return False if the time is over before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """End the wait, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has closed: the follower is about to leave
            self._loop.call_soon_threadsafe(self._event.set)


@dataclass(slots=True)
class _Watch:
    """The logs of one attempt, as they were at the last look, and when to look again."""

    followers: set[Follower] = field(default_factory=set)
    versions: list[tuple[int, int, int]] | None = None  # of the log files; None: before the first look
    pause_s: float = LOOK_S
    next_at: float = 0.0


class Followers:
    """All followers of one manager. Every row of the journal wakes the followers of all jobs."""

    def __init__(self, log_files: LogFiles) -> None:
        self._log_files = log_files
        self._changed = threading.Condition()
        self._by_job: dict[int | None, set[Follower]] = {}
        self._watches: dict[Attempt, _Watch] = {}
        self._thread: threading.Thread | None = None
        self._closing = False

    @contextlib.contextmanager
    def follow(self, job_id: int | None = None) -> Iterator[Follower]:
        """Add a follower of a job (None: of all jobs) until the block ends."""
        follower = Follower(self, job_id)
        with self._changed:
            self._by_job.setdefault(job_id, set()).add(follower)
        try:
            yield follower
        finally:
            self.watch(follower, None)
            with self._changed:
                self._by_job[job_id].discard(follower)
                if not self._by_job[job_id]:
                    del self._by_job[job_id]

    def tell(self, rows: Iterable[JournalRow]) -> None:
        """Wake the followers of the jobs that these new rows of the journal are about."""
        if not self._by_job:
            return
        with self._changed:
            jobs: set[int | None] = {None, *(row.job for row in rows)}
            followers = [follower for job in jobs for follower in self._by_job.get(job, ())]
        for follower in followers:
            follower.wake()

    def watch(self, follower: Follower, attempt: Attempt | None) -> None:
        """Let a follower watch the logs of another attempt; None: of no attempt."""
        if follower.attempt == attempt:
            return
        with self._changed:
            before, follower.attempt = follower.attempt, attempt
            if before is not None:
                self._watches[before].followers.discard(follower)
                if not self._watches[before].followers:
                    del self._watches[before]
            if attempt is not None:
                self._watches.setdefault(attempt, _Watch()).followers.add(follower)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="followers", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def close(self) -> None:
        """End the thread; it wakes no more followers."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while True:
            with self._changed:
                while not self._watches and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                watches = list(self._watches.items())
            now = time.monotonic()
            for attempt, watch in watches:
                if watch.next_at <= now:
                    self._look_at(attempt, watch, now)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, LOOK_S)

    def _look_at(self, attempt: Attempt, watch: _Watch, now: float) -> None:
        """Wake the followers of an attempt if a log changed since the last look, or if this is the first one."""
        try:
            versions = [_version(path) for path in self._log_files(*attempt)]
        except Exception:  # of an executor from outside: followers of other attempts are woken all the same
            versions = []
        changed, watch.versions = versions != watch.versions, versions
        watch.pause_s = LOOK_S if changed else min(LONGEST_LOOK_S, 2 * watch.pause_s)
        watch.next_at = now + watch.pause_s
        if changed:
            with self._changed:
                followers = list(watch.followers)
            for follower in followers:
                follower.wake()


def _version(path: Path) -> tuple[int, int, int]:
    """Return inode, size and time of change of a log, of which one changes at every write or rotation; zeros if there is no log."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
