"""Followers of logs and events are woken by rows of the journal and by logs that grow; none of them polls."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.concurrency import run_in_threadpool
from tests.live_manager import ended, one, opened, until
from tests.waiting import PATIENCE_S, gate

from headway.live.http import streams
from headway.live.http.logs import LogQuery, LogReader
from headway.live.http.streams import server_sent
from headway.live.http.tokens import Caller, Scope
from headway.live.manager.followers import Followers, _version
from headway.live.manager.manager import Manager
from headway.live.state.records import JournalRow

pytestmark = pytest.mark.xdist_group("live")
MANY = 20


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = opened(tmp_path / "data", "1x2")
    yield found
    found.stop(drain=True)


class Counting:
    """A real manager that counts what followers ask it."""

    def __init__(self, manager: Manager) -> None:
        self.manager, self.asked = manager, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self.manager, name)


async def becomes_true(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)


async def follow(asked: Counting, job: int, begun: int, act: Callable[[], Awaitable[None]]) -> list[bytes]:
    """Follow the logs of a job many times; when all readers have asked `begun` times, do something; return what each read."""

    async def read() -> bytes:
        reader = LogReader(asked, job, LogQuery(follow=True))  # type: ignore[arg-type]
        return b"".join([part.text async for part in reader.parts()])

    async with asyncio.timeout(PATIENCE_S):
        tasks = [asyncio.create_task(read()) for _ in range(MANY)]
        await becomes_true(lambda: asked.asked["job"] >= begun * MANY)
        await act()
        return await asyncio.gather(*tasks)


def test_followers_of_a_waiting_job_read_nothing_until_it_starts(manager: Manager) -> None:
    job, asked = one(manager, run="echo hello", hold=True), Counting(manager)
    until(manager, job, "HELD")
    manager.settle()

    async def act() -> None:
        before = asked.asked.copy()
        await run_in_threadpool(ended, manager, one(manager, run="sleep 1"))  # rows about another job
        assert asked.asked == before
        await run_in_threadpool(manager.release, job)

    assert asyncio.run(follow(asked, job, 1, act)) == [b"hello\n"] * MANY


def test_followers_of_a_silent_job_read_nothing_until_it_writes(manager: Manager, tmp_path: Path) -> None:
    script = f"{gate(tmp_path / 'go')}; echo hello; sleep 1; echo bye"
    job, asked = one(manager, run=script), Counting(manager)
    until(manager, job, "RUNNING")
    manager.settle()

    async def act() -> None:
        await run_in_threadpool(ended, manager, one(manager, run="sleep 2"))
        # At first, when the logs are watched, and after the first look at them.
        assert asked.asked["job"] <= 3 * MANY
        (tmp_path / "go").touch()

    assert asyncio.run(follow(asked, job, 2, act)) == [b"hello\nbye\n"] * MANY
    assert not manager.followers._watches
    assert not manager.followers._by_job


def test_a_stream_of_events_asks_the_journal_only_after_a_commit(manager: Manager) -> None:
    manager.settle()
    asked, last = Counting(manager), manager.last_event

    async def read() -> None:
        stream = server_sent(asked, Caller("t", "x", Scope.OPERATE), last)  # type: ignore[arg-type]
        assert await anext(stream) == b"retry: 1000\n\n"
        coming = asyncio.create_task(anext(stream))
        await becomes_true(lambda: asked.asked["events"] == 1)
        await asyncio.sleep(1)  # in which a stream that polls would ask again
        assert asked.asked["events"] == 1
        job = await run_in_threadpool(one, manager, run="true")
        assert f'"job_id": {job}'.encode() in await asyncio.wait_for(coming, PATIENCE_S)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())


def test_a_stream_of_events_stays_open_while_all_rows_are_about_jobs_of_others(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies close a silent connection. On a busy cluster no wait for news ever timed out, and nothing was sent."""
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.0)
    asked = Busy(manager)

    async def read() -> None:
        stream = server_sent(asked, Caller("t", "x", Scope.SUBMIT), 0)  # type: ignore[arg-type]
        assert await anext(stream) == b"retry: 1000\n\n"
        assert await asyncio.wait_for(anext(stream), PATIENCE_S) == b": still here\n\n"
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())


class Busy(Counting):
    """A manager whose journal has a new row of another user's job at every look."""

    def events(self, after: int) -> list[JournalRow]:
        return [JournalRow(0.0, "Drained", 0, 0, seq=after + 1)]


def test_a_log_that_cannot_be_found_stops_no_other_follower(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def log_files(job: int, attempt: int) -> list[Path]:
        if job == 1:
            raise PermissionError(13, "Permission denied", "launch.json")
        return [log]

    followers = Followers(log_files)

    async def read() -> None:
        with followers.follow(1) as first, followers.follow(2) as second:
            first.begin(1)
            second.begin(1)
            assert await second.news(PATIENCE_S)  # the first look
            second.begin(1)
            log.write_text("hello")
            assert await second.news(PATIENCE_S)

    asyncio.run(read())
    followers.close()


def test_a_log_that_has_rotated_to_the_same_size_has_changed(tmp_path: Path) -> None:
    """The number of a removed file may be that of the next one."""
    log = tmp_path / "log"
    log.write_text("hello")
    os.utime(log, ns=(1, 1))
    before = _version(log)
    os.utime(log, ns=(2, 2))
    assert _version(log) != before
