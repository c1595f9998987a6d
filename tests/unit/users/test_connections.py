"""Nobody locks the others out: half-sent requests, floods and many streams, against a server that really listens."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

import pytest
from tests.waiting import PATIENCE_S, wait_for

from headway.client.client import Client
from headway.client.transport import ApiError
from headway.cluster.named import cluster
from headway.io.accounts import own_account
from headway.live.errors import JournalFailed
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.server import connections, limits, liveness
from headway.live.http.server.connections import MOST_STRANGERS, Server, make_server
from headway.live.http.server.limits import MOST_AT_ONCE
from headway.live.http.server.liveness import Liveness
from headway.live.http.streams import MOST_STREAMS
from headway.live.http.tokens import Scope, Tokens, job_secret, job_token, make_token, revoke_token
from headway.live.manager.manager import Manager

pytestmark = pytest.mark.xdist_group("live")


@dataclass
class Listening:
    data: Path
    port: int
    manager: Manager
    server: Server
    guard: Guard

    def connect(self, start: bytes = b"") -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        found.sendall(start)
        return found

    def health(self) -> tuple[int, dict[str, Any]]:
        from urllib.error import HTTPError

        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}/healthz"), timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    monkeypatch.setattr(connections, "HEADERS_WITHIN_S", PATIENCE_S)
    monkeypatch.setattr(liveness, "WITHIN_S", PATIENCE_S)
    manager = Manager(tmp_path, cluster("1x2"))
    manager.start()
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    (tmp_path / "url").write_text(f"http://127.0.0.1:{port}\n")
    tokens = Tokens(tmp_path, own_account()[1], attempt_runs=manager.attempt_runs)
    guard = Guard(make_api(manager), tokens, [f"127.0.0.1:{port}"])
    server = make_server(guard)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield Listening(tmp_path, port, manager, server, guard)
    server.should_exit = True
    thread.join()
    manager.stop(drain=True)


def closed(connection: socket.socket) -> bytes | None:
    """What came before the end; None while the connection is open."""
    with contextlib.suppress(ConnectionError):
        connection.settimeout(0.01)
        try:
            return connection.recv(65_536)
        except TimeoutError:
            return None
    return b""


def test_half_sent_requests_lock_nobody_out(listening: Listening) -> None:
    """1,100 connections that never finish their headers: the owner and the health check are answered all the while."""
    half = [listening.connect(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-A") for _ in range(1100)]
    try:
        assert listening.health() == (200, {"ok": True})
        with Client(data=listening.data) as owner:
            assert owner.wait(owner.submit(["true"]), PATIENCE_S).state == "COMPLETED"
        wait_for(lambda: all(closed(each) is not None for each in half[:-MOST_STRANGERS]))  # the oldest gave way
        left = [each for each in half if closed(each) is None]
        assert 0 < len(left) <= MOST_STRANGERS
        assert left == half[-len(left) :]
    finally:
        for each in half:
            each.close()


class Stranger:
    """A connection without a token, as the book of connections sees it."""

    processing = answering = False

    def __init__(self, book: connections.Connections, number: int) -> None:
        self.address, self.book, self.open = (("127.0.0.1", number), None), book, True

    def abort(self) -> None:
        self.open = False
        self.book.drop(cast(connections.Connection, self))


def crowd(count: int, begins: bool) -> tuple[Stranger, Stranger, list[Stranger]]:
    """A connection that has sent nothing, one that has sent its request last, and a crowd between them."""
    book = connections.Connections()
    strangers = [Stranger(book, number) for number in range(count)]
    for each in cast(list[Any], strangers):
        book.add(each)
        if begins and each is not strangers[0]:
            book.begin(each)
    return strangers[0], strangers[-1], strangers[1:-1]


def test_half_sent_requests_leave_time_to_check_a_connection() -> None:
    """A client looks up who accepted its connection before it sends; ten times as many half-sent requests as places come meanwhile."""
    silent, last, between = crowd(10 * MOST_STRANGERS, begins=True)
    assert silent.open
    assert last.open
    left = [each for each in between if each.open]
    assert left == between[-len(left) :]
    assert len(left) == MOST_STRANGERS - 2
    cast(Any, silent.book).begin(silent)  # its turn to give way comes after those that began before it
    for number in range(MOST_STRANGERS // 2):
        newer: Any = Stranger(silent.book, 10_000 + number)
        silent.book.add(newer)
        silent.book.begin(newer)
    assert silent.open


def test_of_silent_connections_the_oldest_gives_way() -> None:
    oldest, last, between = crowd(10 * MOST_STRANGERS, begins=False)
    assert not oldest.open
    assert last.open
    left = [each for each in between if each.open]
    assert left == between[-len(left) :]


def test_half_sent_bodies_lock_nobody_out(listening: Listening) -> None:
    """Without a token: open paths whose bodies never come. The newcomer, who was not being answered yet, gave way to them."""
    words = f"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1:{listening.port}\r\nContent-Length: 10\r\n\r\n".encode()
    half = [listening.connect(words) for _ in range(MOST_STRANGERS + 20)]
    try:
        wait_for(lambda: closed(half[19]) is not None)  # all are taken in, and the oldest gave way
        assert listening.health() == (200, {"ok": True})
        with Client(data=listening.data) as owner:
            assert owner.status()
    finally:
        for each in half:
            each.close()


def test_idle_connections_of_a_token_give_way(listening: Listening) -> None:
    """As many as the limit on open files allows; one whose request is being processed stays."""
    listening.server.book.most = 20
    greedy = make_token(listening.data, "greedy", own_account()[1], Scope.READ)
    head = f"HTTP/1.1\r\nHost: 127.0.0.1:{listening.port}\r\nAuthorization: Bearer {greedy}\r\n\r\n"
    stream = listening.connect(f"GET /v1/events {head}".encode())
    assert stream.recv(15) == b"HTTP/1.1 200 OK"
    idle = []
    for _ in range(30):
        idle.append(listening.connect(f"GET /v1/nodes {head}".encode()))
        assert idle[-1].recv(15) == b"HTTP/1.1 200 OK"
    with Client(data=listening.data) as owner:
        job = owner.submit(["true"])
        assert owner.wait(job, PATIENCE_S).state == "COMPLETED"
    assert sum(not at_end(each) for each in idle) <= 20
    stream.settimeout(PATIENCE_S)
    said = b""
    while f'"job_id":{job}'.encode() not in said.replace(b" ", b""):
        said += stream.recv(65_536) or pytest.fail("the stream ended")
    for each in (stream, *idle):
        each.close()


def at_end(connection: socket.socket) -> bool:
    """Whether the server has closed the connection, whatever it sent before."""
    while said := closed(connection):
        assert said
    return said is not None


@pytest.mark.parametrize(
    "begin", ["GET / HTTP/1.1\r\n", "POST /healthz HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n"]
)
def test_headers_have_a_size(listening: Listening, begin: str) -> None:
    """Of headers, and of what follows a body, the parser kept as much as anybody sent: a gigabyte in a few seconds."""
    begin = begin.format(host=f"Host: 127.0.0.1:{listening.port}\r\n")
    lines, sent = (b"X-Padding: " + b"x" * 1000 + b"\r\n") * 100, 0
    with listening.connect(begin.encode()) as endless, contextlib.suppress(OSError):
        while sent < 10 * connections.MOST_REQUEST_BYTES:
            endless.sendall(lines)
            sent += len(lines)
    assert sent < 4 * connections.MOST_REQUEST_BYTES  # what the sockets' buffers hold comes on top
    places = ",".join(f"{rank}={10**9}" for rank in range(2_000))  # as long as the command line asks for
    with Client(data=listening.data) as owner, pytest.raises(ApiError, match="there is no job 1"):
        list(owner.transport.lines("/v1/jobs/1/logs", {"resume": f"1:{places}"}))


def test_what_is_no_request_is_refused(listening: Listening) -> None:
    with listening.connect(b"nonsense\r\n\r\n") as stranger:
        assert stranger.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_a_stream_ends_with_its_token(listening: Listening) -> None:
    """One that was revoked, or has expired, told what happened for as long as its connection was open."""
    url, own = f"http://127.0.0.1:{listening.port}", own_account()[1]
    revoked = make_token(listening.data, "revoked", own, Scope.READ)
    brief = make_token(listening.data, "brief", own, Scope.READ, expires=time.time() + PATIENCE_S)
    kept = make_token(listening.data, "kept", own, Scope.READ)
    streams = [Client(url, token).events() for token in (revoked, brief, kept)]
    with Client(data=listening.data) as owner:
        first = owner.submit(["true"])
        for each in streams:
            while next(each).get("job_id") != first:
                pass
        owner.wait(first, PATIENCE_S)
        revoke_token(listening.data, "revoked")
        listening.guard.tokens.clock = lambda: time.time() + PATIENCE_S
        second = owner.submit(["true"])
        for each in streams[:2]:
            assert all(event.get("job_id") != second for event in each)  # it ends
        while next(streams[2]).get("job_id") != second:
            pass


def test_a_stream_of_a_jobs_token_ends_with_the_attempt(listening: Listening) -> None:
    """It went on with what the next attempt wrote."""
    with Client(data=listening.data) as owner:
        job = owner.submit(["sh", "-c", "echo attempt $HEADWAY_ATTEMPT; exec sleep 600"])
        wait_for(lambda: owner.job(job).state == "RUNNING")
        token = job_token(job_secret(listening.data), job, 1)
        own = Client(f"http://127.0.0.1:{listening.port}", token).transport
        stream = own.lines(f"/v1/jobs/{job}/logs", {"follow": True})
        assert next(stream) == b"attempt 1"
        listening.manager.requeue(job)
        assert not any(b"attempt 2" in line for line in stream)  # it ends when attempt 2 writes
        assert owner.job(job).attempt == 2
        listening.manager.cancel(job)


def test_headers_have_a_time_limit(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % listening.port
    kept, whole = listening.connect(request), listening.connect(request)
    for each in (kept, whole):
        assert b"200 OK" in each.recv(65_536)
    monkeypatch.setattr(connections, "HEADERS_WITHIN_S", 0.3)
    whole.sendall(request)  # arrives in one piece, however slow the machine is
    assert b"200 OK" in whole.recv(65_536)
    silent, half = listening.connect(), listening.connect(b"GET / HT")
    kept.sendall(b"GET /healthz HTTP/1.1\r\nHo")  # the second request on a kept connection has the limit too
    for each in (silent, half, kept):
        assert each.recv(65_536).startswith(b"HTTP/1.1 408 ")
        assert each.recv(65_536) == b""
        each.close()
    assert closed(whole) is None  # a connection that has been idle for longer is kept for the next request
    whole.close()


def test_streams_of_one_token_leave_room_for_others(listening: Listening) -> None:
    greedy = make_token(listening.data, "greedy", own_account()[1], Scope.SUBMIT)
    with Client(data=listening.data) as owner:
        number = owner.submit(["sleep", "600"], preemption={"grace": 0})
        words = f"GET /v1/jobs/{number}/logs?follow=true HTTP/1.1\r\nHost: 127.0.0.1:{listening.port}\r\n"
        words += f"Authorization: Bearer {greedy}\r\n\r\n"
        held = [listening.connect(words.encode()) for _ in range(MOST_STREAMS)]
        assert {each.recv(15) for each in held} == {b"HTTP/1.1 200 OK"}  # all are being answered
        with Client(f"http://127.0.0.1:{listening.port}", greedy) as client:
            with pytest.raises(ApiError, match="streams open already"):
                next(client.events())
            assert client.job(number).job_id == number  # only its streams are counted
        assert next(owner.events())["kind"]
        owner.cancel(number)
        for each in held:
            each.close()


def test_a_flood_of_slow_requests_of_one_token_waits_for_itself(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests than the server has threads, each of which hangs: others are answered."""
    monkeypatch.setattr(limits, "MOST_WAITING", 8)
    go, inside = threading.Event(), threading.Semaphore(0)
    real = listening.manager.nodes

    def slow() -> Any:
        inside.release()
        assert go.wait(PATIENCE_S)
        return real()

    monkeypatch.setattr(listening.manager, "nodes", slow)
    greedy = make_token(listening.data, "greedy", own_account()[1], Scope.READ)
    statuses: list[int] = []

    def ask() -> None:
        try:
            Client(f"http://127.0.0.1:{listening.port}", greedy).transport.call("GET", "/v1/nodes")
            statuses.append(200)
        except ApiError as error:
            statuses.append(error.status)

    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    for _ in range(MOST_AT_ONCE):
        assert inside.acquire(timeout=PATIENCE_S)
    with Client(data=listening.data) as owner:
        assert owner.wait(owner.submit(["true"]), PATIENCE_S).state == "COMPLETED"
    assert listening.health()[0] == 200
    assert not inside.acquire(timeout=0.1)
    go.set()
    for thread in threads:
        thread.join()
    assert len(statuses) == 60


def test_strangers_of_one_address_do_not_use_up_the_health_check(listening: Listening) -> None:
    for _ in range(300):
        assert listening.health()[0] == 200


def test_strangers_cannot_pretend_to_be_many(listening: Listening) -> None:
    """An address in a header is anybody's word: it opens no new account of requests."""
    now = time.monotonic()
    listening.guard.clock = lambda: now  # however long the requests take, the account is not filled up meanwhile
    statuses = []
    for number in range(130):
        with listening.connect(
            f"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{listening.port}\r\nX-Forwarded-For: 10.0.0.{number}\r\n\r\n".encode()
        ) as stranger:
            statuses.append(stranger.recv(12)[-3:])
    assert b"429" in statuses
    with Client(data=listening.data) as owner:
        assert owner.status()


def test_a_request_that_waits_for_the_engine_when_the_server_stops_is_answered(
    listening: Listening, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It got a status of 500 in plain text, and the log a traceback."""
    entered, engine_is_free = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        entered.set()
        assert engine_is_free.wait(PATIENCE_S)

    monkeypatch.setattr(listening.manager, "drain", wait)
    listening.server.config.timeout_graceful_shutdown = 0
    refused: list[ApiError] = []

    def ask() -> None:
        with Client(data=listening.data) as owner, pytest.raises(ApiError) as refusal:
            owner.transport.call("POST", "/v1/nodes/n000/drain")
        refused.append(refusal.value)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert entered.wait(PATIENCE_S)
        listening.server.should_exit = True
        asking.join(PATIENCE_S)
    finally:
        engine_is_free.set()
    asking.join()
    logged = [(record.message, bool(record.exc_info)) for record in caplog.records if record.name == "uvicorn.error"]
    assert logged == [("Cancel 1 running task(s), timeout graceful shutdown exceeded", False)]
    assert [(error.status, error.code) for error in refused] == [(503, "service_unavailable")]
    assert "look whether it was done" in str(refused[0])


def test_health_is_not_ok_while_the_journal_cannot_be_written(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listening.health()[0] == 200
    real = listening.manager._journal.remember

    def full(name: str, value: str) -> None:
        raise JournalFailed("the journal cannot be written (disk full)")

    monkeypatch.setattr(liveness, "KEPT_S", 0.0)
    monkeypatch.setattr(listening.manager._journal, "remember", full)
    status, said = listening.health()
    assert (status, said["ok"]) == (503, False)
    assert "disk full" in said["detail"]
    monkeypatch.setattr(listening.manager._journal, "remember", real)
    assert listening.health()[0] == 200


def test_many_who_ask_for_its_health_at_once_are_all_answered() -> None:
    """One that began the next trial between the end of one and its answer: the others got a status of 500."""
    writes = threading.Semaphore(0)
    manager: Any = type(
        "Manager", (), {"trouble": "", "try_journal": lambda self: writes.acquire(timeout=PATIENCE_S)}
    )()
    trials = Liveness(manager)

    async def ask() -> list[str]:
        waiting = [asyncio.ensure_future(trials.trouble()) for _ in range(3)]
        while trials._trial is None:
            await asyncio.sleep(0)
        next_trial = asyncio.get_running_loop().create_future()
        trials._trial.add_done_callback(lambda _: setattr(trials, "_trial", next_trial))
        writes.release()
        return await asyncio.gather(*waiting)

    assert asyncio.run(ask()) == ["", "", ""]


@pytest.mark.parametrize("how", ["overwritten", "truncated", "removed"])
def test_health_is_not_ok_once_the_file_of_the_journal_is_damaged(
    listening: Listening, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the manager writes goes to a log beside the file, and what it reads is in its memory: both went on as if nothing were wrong."""
    assert listening.health()[0] == 200
    path = listening.manager._journal.path
    listening.manager._journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if how == "removed":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.write(b"damage" * 2000) if how == "overwritten" else file.truncate(2000)
    monkeypatch.setattr(liveness, "KEPT_S", 0.0)
    status, said = listening.health()
    assert status == 503
    assert "removed" in said["detail"] if how == "removed" else "journal" in said["detail"]
