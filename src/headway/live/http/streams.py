"""Answers that go on: the logs of a job as it writes them, and the journal as server-sent events.

A stream polls in a worker thread and sleeps on the event loop in between, so that many open streams hold no thread.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
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
# Streams of one token, more than anybody watches; each is an open connection. The others are not counted together.
MOST_STREAMS = 64
KEEP_ALIVE_S = 15.0
WAITING = frozenset({JobState.PENDING.name, JobState.HELD.name})


@dataclass(slots=True)
class Log:
    """The log of one rank, read as it grows; with several ranks each line begins with its label."""

    path: Path
    label: bytes
    at: int = 0
    rest: bytes = b""

    def read(self, last: bool) -> tuple[bytes, bool]:
        """What was written since the last call, in whole lines, and whether there may be more (`last`: the unfinished line too)."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                new = file.read(PART_BYTES)
        except OSError:
            new = b""
        self.at += len(new)
        text, self.rest = self.rest + new, b""
        if new or not last:
            whole, newline, rest = text.rpartition(b"\n")
            if newline or len(rest) <= PART_BYTES:  # a line that never ends is passed on in parts
                text, self.rest = whole + newline, rest
        if self.label and text:
            text = b"".join(self.label + line for line in text.splitlines(keepends=True))
            text += b"" if text.endswith(b"\n") else b"\n"
        return text, bool(new)


def open_logs(manager: Manager, job_id: int, attempt: int, rank: int | None) -> list[Log]:
    """The logs of an attempt: of one rank, or of all, labelled if there are several."""
    files = manager.log_files(job_id, attempt)
    labelled = len(files) > 1 and rank is None
    return [
        Log(path, f"[{number}] ".encode() if labelled else b"")
        for number, path in enumerate(files)
        if rank in {None, number}
    ]


def read_on(logs: list[Log], last: bool) -> tuple[bytes, bool]:
    """What all logs have grown by, and whether there may be more."""
    found = [log.read(last) for log in logs]
    return b"".join(text for text, _ in found), any(grew for _, grew in found)


async def follow_logs(
    manager: Manager, job_id: int, rank: int | None, attempt: int | None, follow: bool
) -> AsyncIterator[bytes]:
    """Everything that the job wrote in an attempt (by default the latest, and with `follow` the ones after it)."""
    current = attempt or 0
    logs: list[Log] = []
    while True:
        job = await run_in_threadpool(manager.job, job_id)
        if job is None:
            return
        latest = job.attempt - 1 if job.state in WAITING else job.attempt
        over = not follow or job.state in FINAL_STATES or (current > 0 and latest > current)
        if current == 0 and latest > 0:
            current = latest
        if current > 0 and not logs:
            logs = await run_in_threadpool(open_logs, manager, job_id, current, rank)
        more = True
        while more:
            part, more = await run_in_threadpool(read_on, logs, over)
            if part:
                yield part
        if over and (attempt is not None or latest <= current or not follow):
            return
        if over:
            current, logs = current + 1, []
            yield f"\n--- attempt {current} ---\n".encode()
        else:
            await asyncio.sleep(POLL_S)


async def server_sent(manager: Manager, caller: Caller, after: int) -> AsyncIterator[bytes]:
    """The journal's rows about the caller's jobs, as events whose id is the row's number."""
    silent_s = 0.0
    owners: dict[int, str] = {}
    yield b"retry: 1000\n\n"
    while True:
        rows = await run_in_threadpool(manager.events, after)
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
    open_streams: Counter[str] = Counter()

    async def counted(who: str, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        open_streams[who] += 1
        try:
            async for part in parts:
                yield part
        finally:
            open_streams[who] -= 1
            if not open_streams[who]:
                del open_streams[who]

    def stream(caller: Caller, parts: AsyncIterator[bytes], kind: str, **headers: str) -> StreamingResponse:
        if open_streams[caller.name] >= MOST_STREAMS:
            raise HTTPException(429, f"this token has {MOST_STREAMS} streams open already: close one")
        return StreamingResponse(counted(caller.name, parts), media_type=kind, headers=headers)

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
        return stream(caller, follow_logs(manager, job_id, rank, attempt, follow), "text/plain; charset=utf-8")

    @api.get("/v1/events", tags=["cluster"], response_class=StreamingResponse, responses=REFUSALS)
    async def events(
        caller: Reader,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only events with a higher number.")] = 0,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """What happens, as it happens: server-sent events. A browser goes on where it was (Last-Event-ID)."""
        if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
            after = max(after, min(int(last_event_id[:16]), 2**53))
        parts = server_sent(manager, caller, after)
        return stream(caller, parts, "text/event-stream", **{"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
