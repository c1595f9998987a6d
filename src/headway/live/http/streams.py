"""Answers that go on: the logs of a job as it writes them, and the journal as server-sent events.

A stream polls in a worker thread and sleeps on the event loop in between, so that many open streams hold no thread.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from headway.job_state import FINAL_STATES, JobState
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, JobReader, Reader, seen
from headway.live.http.tokens import Caller
from headway.live.manager import Manager
from headway.live.store.journal import JournalRow

POLL_S = 0.2
PART_BYTES = 1 << 16
# More than anybody watches; each is an open connection.
MOST_STREAMS = 64
KEEP_ALIVE_S = 15.0
WAITING = frozenset({JobState.PENDING.name, JobState.HELD.name})


@dataclass(slots=True)
class Tail:
    """The logs of one attempt, read as they grow; with several ranks each line names its own."""

    files: list[Path]
    rank: int | None
    at: dict[Path, int] = field(default_factory=dict)
    rest: dict[Path, bytes] = field(default_factory=dict)

    def read(self, last: bool) -> tuple[bytes, bool]:
        """What was written since the last call, in whole lines, and whether there may be more (`last`: the unfinished lines too)."""
        labelled = len(self.files) > 1 and self.rank is None
        parts, more = [], False
        for rank, path in enumerate(self.files):
            if self.rank not in {None, rank}:
                continue
            before = self.at.get(path, 0)
            text = self._grown(path, last)
            more |= self.at[path] > before
            if labelled and text:
                label = f"[{rank}] ".encode()
                text = b"".join(label + line for line in text.splitlines(keepends=True))
                text += b"" if text.endswith(b"\n") else b"\n"
            parts.append(text)
        return b"".join(parts), more

    def _grown(self, path: Path, last: bool) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(self.at.get(path, 0))
                new = file.read(PART_BYTES)
        except OSError:
            new = b""
        self.at[path] = self.at.get(path, 0) + len(new)
        text = self.rest.get(path, b"") + new
        if last and not new:
            self.rest[path] = b""
            return text
        whole, newline, rest = text.rpartition(b"\n")
        if not newline and len(rest) > PART_BYTES:
            # A line that never ends is passed on in parts.
            whole, rest = rest, b""
        self.rest[path] = rest
        return whole + newline


async def follow_logs(
    manager: Manager, job_id: int, rank: int | None, attempt: int | None, follow: bool
) -> AsyncIterator[bytes]:
    """Everything that the job wrote in an attempt (by default the latest, and with `follow` the ones after it)."""
    current = attempt or 0
    tail = Tail([], rank)
    while True:
        job = await run_in_threadpool(manager.job, job_id)
        if job is None:
            return
        latest = job.attempt - 1 if job.state in WAITING else job.attempt
        over = not follow or job.state in FINAL_STATES or (current > 0 and latest > current)
        if current == 0 and latest > 0:
            current = latest
        if current > 0 and not tail.files:
            tail.files = await run_in_threadpool(manager.log_files, job_id, current)
        more = True
        while more:
            part, more = await run_in_threadpool(tail.read, over)
            if part:
                yield part
        if over and (attempt is not None or latest <= current or not follow):
            return
        if over:
            current, tail = current + 1, Tail([], rank)
            yield f"\n--- attempt {current} ---\n".encode()
        else:
            await asyncio.sleep(POLL_S)


async def server_sent(manager: Manager, caller: Caller, after: int) -> AsyncIterator[bytes]:
    """The journal's rows about the caller's jobs, as events whose id is the row's number."""
    silent_s = 0.0
    owners: dict[int, str] = {}
    yield b"retry: 1000\n\n"
    while True:
        rows = await run_in_threadpool(manager.events, after, 0.0)
        for row in rows:
            after = row.seq
            if await _may_see(manager, caller, owners, row.job):
                silent_s = 0.0
                yield f"id: {row.seq}\nevent: {row.kind}\ndata: {json.dumps(event_json(row))}\n\n".encode()
        if not rows:
            await asyncio.sleep(POLL_S)
            silent_s += POLL_S
            if silent_s >= KEEP_ALIVE_S:
                silent_s = 0.0
                yield b": still here\n\n"


async def _may_see(manager: Manager, caller: Caller, owners: dict[int, str], job_id: int) -> bool:
    if caller.operates or not job_id:
        return caller.operates
    if job_id not in owners:
        job = await run_in_threadpool(manager.job, job_id)
        owners[job_id] = job.user if job else ""
    return caller.sees(job_id, owners[job_id])


def event_json(row: JournalRow) -> dict[str, Any]:
    """A journal row as clients see it."""
    about = {"job_id": row.job, "attempt": row.attempt} if row.job else {}
    return {"number": row.seq, "time": row.time, "kind": row.kind, **about, "data": row.data}


def add_routes(api: FastAPI, manager: Manager) -> None:
    """Logs and events."""
    open_streams = 0

    async def counted(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal open_streams
        open_streams += 1
        try:
            async for part in parts:
                yield part
        finally:
            open_streams -= 1

    def not_too_many() -> None:
        if open_streams >= MOST_STREAMS:
            raise HTTPException(429, f"{MOST_STREAMS} streams are open already: close one")

    @api.get("/v1/jobs/{job_id}/logs", tags=["jobs"], response_class=StreamingResponse, responses=ABOUT_A_JOB)
    async def logs(
        job_id: JobId,
        caller: JobReader,
        follow: Annotated[bool, Query(description="Go on until the job ends.")] = False,
        rank: Annotated[int | None, Query(ge=0, le=2**31)] = None,
        attempt: Annotated[int | None, Query(ge=0, le=2**31)] = None,
    ) -> StreamingResponse:
        """What the job's ranks wrote. With several ranks, each line begins with its rank."""
        await run_in_threadpool(seen, manager, caller, job_id)
        not_too_many()
        parts = follow_logs(manager, job_id, rank, attempt, follow)
        return StreamingResponse(counted(parts), media_type="text/plain; charset=utf-8")

    @api.get("/v1/events", tags=["cluster"], response_class=StreamingResponse, responses=REFUSALS)
    async def events(
        caller: Reader,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only events with a higher number.")] = 0,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """What happens, as it happens: server-sent events. A browser goes on where it was (Last-Event-ID)."""
        not_too_many()
        if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
            after = max(after, min(int(last_event_id[:16]), 2**53))
        return StreamingResponse(
            counted(server_sent(manager, caller, after)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
