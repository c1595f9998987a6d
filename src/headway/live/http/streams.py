"""Answers that go on: the logs of a job as it writes them, and the journal as server-sent events.

A stream reads in a worker thread and waits for news on the event loop (`live/manager/followers.py`): open streams hold no thread.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from headway.live.http import access
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, JobReader, seen
from headway.live.http.logs import LogPart, LogQuery, LogReader, parse_resume
from headway.live.http.server.connections import MOST_HEADER_BYTES
from headway.live.http.tokens import Caller
from headway.live.manager.manager import Manager
from headway.live.rows import row_meaning
from headway.live.state.records import JournalRow

GATHER_S = 0.1  # after news, so that the rows of several commits are read at once
# Streams of one token, more than anybody watches; each is an open connection. The others are not counted together.
MOST_STREAMS = 64
KEEP_ALIVE_S = 15.0


async def as_text(parts: AsyncIterator[LogPart], labelled: bool) -> AsyncIterator[bytes]:
    """Yield a log as text: with several ranks each line begins with its rank, and a new attempt is announced."""
    attempt = 0
    async for part in parts:
        if attempt and part.attempt != attempt:
            yield f"\n--- attempt {part.attempt} ---\n".encode()
        attempt, text = part.attempt, part.text
        if not text:
            continue
        if labelled and part.ranks > 1:
            label = f"[{part.rank}] ".encode()
            text = b"".join(label + line for line in text.splitlines(keepends=True))
            text += b"" if text.endswith(b"\n") else b"\n"
        yield text


async def as_json(parts: AsyncIterator[LogPart]) -> AsyncIterator[bytes]:
    """Yield a log as one JSON object per line with the place to resume at; the last object marks the end."""
    async for part in parts:
        # Bytes that are not UTF-8 (or half a character) come as lone surrogates, as Python escapes them.
        text = part.text.decode("utf-8", "surrogateescape")
        content = {"attempt": part.attempt, "rank": part.rank, "ranks": part.ranks, "at": part.place, "text": text}
        yield json.dumps(content).encode() + b"\n"
    yield b'{"done": true}\n'


async def server_sent(manager: Manager, caller: Caller, after: int) -> AsyncIterator[bytes]:
    """Yield the journal's rows about the caller's jobs as events; the id of an event is the number of its row."""
    owners: dict[int, str] = {}
    silent_since = time.monotonic()
    yield b"retry: 1000\n\n"
    with manager.followers.follow() as follower:
        while True:
            follower.begin(None)
            rows = await run_in_threadpool(manager.events, after)
            for row in rows:
                after = row.seq
                if await _may_see(manager, caller, owners, row.job):
                    silent_since = time.monotonic()
                    yield f"id: {row.seq}\nevent: {row.kind}\ndata: {json.dumps(event_json(row))}\n\n".encode()
            if rows or await follower.news(max(0.0, silent_since + KEEP_ALIVE_S - time.monotonic())):
                await asyncio.sleep(GATHER_S)
            if time.monotonic() - silent_since >= KEEP_ALIVE_S:  # rows about jobs of others do not count
                silent_since = time.monotonic()
                yield b": still here\n\n"


async def _may_see(manager: Manager, caller: Caller, owners: dict[int, str], job_id: int) -> bool:
    if caller.operates or not job_id:
        return caller.operates
    if job_id not in owners:
        job = await run_in_threadpool(manager.job, job_id)
        owners[job_id] = job.user if job else ""
    return caller.sees(job_id, owners[job_id])


def event_json(row: JournalRow) -> dict[str, Any]:
    """Return a journal row with its meaning: the job's state from now on (null: as before), and a message for users."""
    meaning = row_meaning(row.kind, row.data)
    about = (
        {"job_id": row.job, "attempt": row.attempt, "state": meaning.state and meaning.state.name} if row.job else {}
    )
    return {
        "number": row.seq,
        "time": row.time,
        "kind": row.kind,
        **about,
        "message": meaning.message,
        "data": row.data,
    }


def add_routes(api: FastAPI, manager: Manager) -> None:
    """Add routes for logs and events."""
    open_streams: Counter[str] = Counter()

    async def counted(who: str, parts: AsyncIterator[bytes], still_known: Callable[[], bool]) -> AsyncIterator[bytes]:
        open_streams[who] += 1
        try:
            async for part in parts:
                if not still_known():
                    return  # nothing more to a token that was revoked, or has expired
                yield part
        finally:
            open_streams[who] -= 1
            if not open_streams[who]:
                del open_streams[who]

    def stream(request: Request, parts: AsyncIterator[bytes], kind: str, **headers: str) -> StreamingResponse:
        who = request.state.caller.name
        if open_streams[who] >= MOST_STREAMS:
            raise HTTPException(429, f"this token has {MOST_STREAMS} streams open already: close one")
        return StreamingResponse(counted(who, parts, request.state.still_known), media_type=kind, headers=headers)

    @api.get("/v1/jobs/{job_id}/logs", tags=["jobs"], response_class=StreamingResponse, responses=ABOUT_A_JOB)
    async def logs(
        request: Request,
        job_id: JobId,
        caller: JobReader,
        follow: Annotated[bool, Query(description="Go on until the job ends.")] = False,
        rank: Annotated[int | None, Query(ge=0, le=2**31)] = None,
        attempt: Annotated[int | None, Query(ge=0, le=2**31)] = None,
        tail: Annotated[int | None, Query(ge=0, le=10**9, description="Only the last lines of every rank.")] = None,
        form: Annotated[
            Literal["text", "json"], Query(alias="format", description="json: with places to resume at.")
        ] = "text",
        resume: Annotated[
            str | None,
            Query(
                max_length=MOST_HEADER_BYTES, description="ATTEMPT:RANK=PLACE,...: go on after what these answers held."
            ),
        ] = None,
        headway_resume: Annotated[str | None, Header(description="The same, where it is too long for a query.")] = None,
    ) -> StreamingResponse:
        """Return what the job's ranks wrote. With several ranks, each line begins with its rank."""
        await run_in_threadpool(seen, manager, caller, job_id)
        places = await run_in_threadpool(parse_resume, headway_resume if resume is None else resume)
        parts = LogReader(manager, job_id, LogQuery(rank, attempt, follow, tail, places)).parts()
        if form == "json":
            return stream(request, as_json(parts), "application/x-ndjson")
        return stream(request, as_text(parts, rank is None), "text/plain; charset=utf-8")

    @api.get("/v1/events", tags=["cluster"], response_class=StreamingResponse, responses=REFUSALS)
    async def events(
        request: Request,
        caller: access.Reader,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only events with a higher number.")] = 0,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """Stream server-sent events. A browser continues after its last event (Last-Event-ID)."""
        if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
            after = max(after, min(int(last_event_id[:16]), 2**53))
        parts = server_sent(manager, caller, after)
        return stream(request, parts, "text/event-stream", **{"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
