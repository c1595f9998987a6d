"""What a job wrote, read as it grows: all ranks, through rotations of the files, from any place that an earlier answer named.

A place in a log is how many bytes the rank had written by then, also of those that were rotated away. So a reader goes on where it was
after the manager has restarted, and one that was away for too long is told that a part is gone.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from fastapi.concurrency import run_in_threadpool

from headway.errors import wrong_field
from headway.job_state import FINAL_STATES, JobState
from headway.live.manager.followers import Follower
from headway.live.manager.manager import Manager

PART_BYTES = 1 << 16
WAITING = frozenset({JobState.PENDING.name, JobState.HELD.name})
GONE = b"[headway: a part of the log is gone: it was rotated away]\n"
_RESUME = re.compile(r"(\d{1,9}):((?:\d{1,9}=\d{1,18}(?:,|$))*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What to read: which ranks and attempts, from where, and whether to go on until the job ends."""

    rank: int | None = None
    attempt: int | None = None
    follow: bool = False
    tail: int | None = None  # only the last lines of every rank
    resume: tuple[int, dict[int, int]] | None = None  # an attempt, and places in the logs of its ranks


@dataclass(frozen=True, slots=True)
class LogPart:
    """Whole lines of one rank (or none yet), and where they end."""

    attempt: int
    rank: int
    ranks: int
    text: bytes
    place: int


@dataclass(slots=True)
class RankLog:
    """The log of one rank, read as it grows."""

    path: Path
    at: int = 0  # how far it is read
    rest: bytes = b""  # a line that has no end yet
    gone: bool = False  # a part is missing before what is read next
    untold: bool = False  # it begins at a place that the reader cannot know

    @property
    def passed_on(self) -> int:
        """Return the place up to which whole lines were passed on."""
        return self.at - len(self.rest)

    def read(self, last: bool) -> tuple[bytes, bool]:
        """Return the whole lines written since the last call (`last`: the unfinished line too), and whether there may be more."""
        new, more = self._next_bytes()
        text, self.rest = self.rest + new, b""
        if new or not last:
            whole, newline, rest = text.rpartition(b"\n")
            if newline or len(rest) <= PART_BYTES:  # a line that never ends is passed on in parts
                text, self.rest = whole + newline, rest
        if self.gone and text:
            text, self.gone = GONE + text[text.find(b"\n") + 1 :], False  # the first line has lost its beginning
        return text, more

    def _next_bytes(self) -> tuple[bytes, bool]:
        """Return the next bytes, and whether to read again at once."""
        files = self.files()
        if files and self.at < files[0][0]:
            self.gone, self.at, self.rest = True, files[0][0], b""
        for start, size, path in files:
            if self.at < start + size:
                with contextlib.suppress(OSError), path.open("rb") as file:
                    file.seek(self.at - start)
                    new = file.read(min(PART_BYTES, start + size - self.at))
                    if self.files()[:1] != files[:1]:
                        break  # rotated meanwhile: this was perhaps another file
                    self.at += len(new)
                    return new, bool(new)
                break
        else:
            return b"", False
        return b"", True

    def files(self) -> list[tuple[int, int, Path]]:
        """Start, size and path of the rotated file and of the current one, as far as they are there. While it is rotated, none."""
        before, old = self._number(), self.path.with_name(f"{self.path.name}.1")
        files: list[tuple[int, int, Path]] = []
        with contextlib.suppress(OSError):
            size = old.stat().st_size
            files.append(((before or size) - size, size, old))
        with contextlib.suppress(OSError):
            size = self.path.stat().st_size
            files.append((before, size, self.path))
        return files if before == self._number() else []

    def _number(self) -> int:
        """Return the number of bytes before the current file."""
        try:
            return int(self.path.with_name(f"{self.path.name}.at").read_bytes())
        except (OSError, ValueError):
            return 0

    def skip_to_tail(self, lines: int) -> None:
        """Begin at the last lines; a line that has no end yet counts as one."""
        files = self.files()
        self.at = files[-1][0] + files[-1][1] if files else 0
        missing, at_end = lines, True
        for start, size, path in reversed(files):
            with contextlib.suppress(OSError), path.open("rb") as file:
                at = size
                if at and at_end:  # the end of the last line is not the end of a line before it
                    file.seek(at - 1)
                    missing, at_end = missing + (file.read(1) == b"\n"), False
                while at > 0 and missing > 0:
                    step = min(PART_BYTES, at)
                    file.seek(at - step)
                    part = file.read(step)
                    while (cut := part.rfind(b"\n")) >= 0:
                        missing -= 1
                        if missing == 0:
                            self.at = start + at - step + cut + 1
                            return
                        part = part[:cut]
                    at -= step
                if lines > 0:
                    self.at = start


def parse_resume(text: str | None) -> tuple[int, dict[int, int]] | None:
    """Return attempt and places by rank: `2:0=456,1=0` is attempt 2, rank 0 from byte 456, rank 1 from its beginning."""
    if text is None:
        return None
    match = _RESUME.fullmatch(text)
    if not match:
        raise wrong_field("resume", "write ATTEMPT:RANK=PLACE,..., as in earlier answers")
    pairs = (part.partition("=") for part in filter(None, match[2].split(",")))
    return int(match[1]), {int(rank): int(place) for rank, _, place in pairs}


class LogReader:
    """Reads one job's logs, attempt by attempt."""

    def __init__(self, manager: Manager, job_id: int, wanted: LogQuery) -> None:
        self.manager, self.job_id, self.wanted = manager, job_id, wanted
        self.attempt = wanted.resume[0] if wanted.resume else wanted.attempt or 0
        self._logs: dict[int, RankLog] = {}
        self._first = True  # places to begin at are those of the first attempt that is read
        self._ranks = 0
        self._watched: int | None = None  # the attempt whose logs are watched while there is nothing to read

    async def parts(self) -> AsyncIterator[LogPart]:
        """Yield what the job wrote in an attempt (default: the latest), and with `follow` in later attempts."""
        with self.manager.followers.follow(self.job_id) as follower:
            async for part in self._parts(follower):
                yield part

    async def _parts(self, follower: Follower) -> AsyncIterator[LogPart]:
        wanted = self.wanted
        while True:
            follower.begin(self._watched)
            job = await run_in_threadpool(self.manager.job, self.job_id)
            if job is None:
                return
            latest = job.attempt - 1 if job.state in WAITING else job.attempt
            over = not wanted.follow or job.state in FINAL_STATES or (0 < self.attempt < latest)
            self.attempt = self.attempt or latest
            more = self.attempt > 0
            while more:
                parts, more = await run_in_threadpool(self._read, over)
                for part in parts:
                    yield part
            if not over:
                # The logs of a job that waits do not change; those of another attempt are watched after one more look.
                watched = None if job.state in WAITING else self.attempt
                if watched == self._watched:
                    await follower.news()
                self._watched = watched
            elif wanted.follow and wanted.attempt is None and self.attempt < latest:
                self.attempt, self._logs, self._first = self.attempt + 1, {}, False
            else:
                return

    def _read(self, last: bool) -> tuple[list[LogPart], bool]:
        """Return what all ranks have written since the last call, and whether there may be more. List the ranks anew every time."""
        files = self.manager.log_files(self.job_id, self.attempt)
        self._ranks = len(files)
        for rank, path in enumerate(files):
            if rank not in self._logs and self.wanted.rank in {None, rank}:
                self._logs[rank] = self._begin(rank, path)
        parts, more = [], False
        for rank, log in self._logs.items():
            text, grew = log.read(last)
            more |= grew
            if text or log.untold:
                log.untold = False
                parts.append(LogPart(self.attempt, rank, self._ranks, text, log.passed_on))
        return parts, more

    def _begin(self, rank: int, path: Path) -> RankLog:
        log = RankLog(path)
        if self._first and self.wanted.resume is not None:
            log.at = self.wanted.resume[1].get(rank, 0)
        elif self._first and self.wanted.tail is not None:
            log.skip_to_tail(self.wanted.tail)
            log.untold = True
        return log
