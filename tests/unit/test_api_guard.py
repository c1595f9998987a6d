"""What the guard lets through: Host, Origin, token, size and rate, without an application behind it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headway.live.http.guard import STRANGERS_PER_S, Guard
from headway.live.http.server.limits import BURST_S
from headway.live.http.tokens import Tokens, job_secret, job_token

HOST = "127.0.0.1:8642"


class Answer:
    """Collects what the guard sends."""

    status = 0
    body = b""
    headers: dict[bytes, bytes]

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(guard: Guard, path: str = "/v1/jobs", *, parts: tuple[bytes, ...] = (b"",), **headers: str) -> Answer:
    """One request; header names are written with underscores."""
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    waiting = [{"type": "http.request", "body": part, "more_body": i + 1 < len(parts)} for i, part in enumerate(parts)]

    async def receive() -> Any:
        return waiting.pop(0)

    answer = Answer()
    asyncio.run(guard({"type": "http", "path": path, "headers": pairs}, receive, answer.send))
    return answer


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    return Guard(_echo, Tokens(tmp_path, "ada"), [HOST], most_body_bytes=100, clock=lambda: 0.0)


@pytest.fixture
def bearer(guard: Guard) -> str:
    return "Bearer " + (guard.tokens.data / "token").read_text().strip()


def test_the_right_token_passes_with_its_body(guard: Guard, bearer: str) -> None:
    answer = ask(guard, host=HOST, authorization=bearer, parts=(b"a", b"b"))
    assert (answer.status, answer.body) == (200, b"ab")


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer ", "Bearer nothing", "Basic YTpi", "bearer\x00x"])
def test_no_token_or_a_wrong_one(guard: Guard, token: str) -> None:
    answer = ask(guard, host=HOST, **({"authorization": token} if token else {}))
    assert answer.status == 401
    assert answer.headers[b"www-authenticate"] == b"Bearer"


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8642.evil.example"]
)
def test_other_hosts_are_refused_even_with_the_token(guard: Guard, bearer: str, host: str) -> None:
    assert ask(guard, host=host, authorization=bearer).status == 421
    assert ask(guard, "/healthz", host=host).status == 421


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8642.evil.example", "file://"]
)
def test_other_web_pages_are_refused_even_with_the_token(guard: Guard, bearer: str, origin: str) -> None:
    assert ask(guard, host=HOST, authorization=bearer, origin=origin).status == 403


def test_its_own_pages_may_ask(guard: Guard, bearer: str) -> None:
    assert ask(guard, host=HOST, authorization=bearer, origin=f"http://{HOST}").status == 200


@pytest.mark.parametrize("header", ["host", "content-type", "idempotency-key"])
def test_a_header_given_twice_is_refused(guard: Guard, bearer: str, header: str) -> None:
    """Of two keys the last one counted: the first submitted again."""
    once = {b"host": HOST.encode(), b"authorization": bearer.encode(), header.encode(): HOST.encode()}
    answer = Answer()
    scope = {"type": "http", "path": "/", "headers": [*once.items(), (header.encode(), b"another")]}
    asyncio.run(guard(scope, None, answer.send))  # type: ignore[arg-type]
    assert answer.status == 400
    assert json.loads(answer.body)["detail"] == f"the header {header} is given twice: send it once"


@pytest.mark.parametrize("path", ["/v1/jobs", "/healthz"])
def test_a_token_that_ends_before_the_body_arrives_is_refused(tmp_path: Path, path: str) -> None:
    """A body that arrived slowly reached the next attempt of the job with the token of the one before."""
    running = {(7, 1)}
    tokens = Tokens(tmp_path, "ada", attempt_runs=lambda job_id, attempt: (job_id, attempt) in running)
    answer, pairs = Answer(), {b"host": HOST, b"authorization": f"Bearer {job_token(job_secret(tmp_path), 7, 1)}"}

    async def receive() -> Any:
        running.clear()  # after the headers, before the body
        return {"type": "http.request", "body": b"{}", "more_body": False}

    scope = {"type": "http", "path": path, "headers": [(name, value.encode()) for name, value in pairs.items()]}
    asyncio.run(Guard(_echo, tokens, [HOST])(scope, receive, answer.send))
    if path == "/healthz":  # needs no token
        assert answer.status == 200
        return
    assert answer.status == 401
    assert json.loads(answer.body)["detail"].startswith("attempt 1 of job 7 has ended, and its token with it: ")


@pytest.mark.parametrize(
    ("headers", "parts"),
    [
        ({"content_length": "101"}, (b"",)),
        ({}, (b"x" * 60, b"x" * 60)),
        ({"content_length": "-1"}, (b"",)),
        ({"content_length": "1e9"}, (b"",)),
    ],
)
def test_large_bodies_are_cut_off(guard: Guard, bearer: str, headers: dict[str, str], parts: tuple[bytes, ...]) -> None:
    answer = ask(guard, host=HOST, authorization=bearer, parts=parts, **headers)
    assert answer.status == 413
    assert "100 bytes" in json.loads(answer.body)["detail"]


def test_strangers_run_out_of_requests_and_owners_do_not(guard: Guard, bearer: str) -> None:
    most = int(STRANGERS_PER_S * BURST_S)
    statuses = [ask(guard, host=HOST).status for _ in range(most + 5)]
    assert statuses == [401] * most + [429] * 5
    assert ask(guard, host=HOST, authorization=bearer).status == 200


def test_a_token_has_a_rate_that_fills_again(tmp_path: Path) -> None:
    now = [0.0]
    guard = Guard(_echo, Tokens(tmp_path, "ada"), [HOST], rate_per_s=2, clock=lambda: now[0])
    bearer = "Bearer " + (tmp_path / "token").read_text().strip()
    assert [ask(guard, host=HOST, authorization=bearer).status for _ in range(5)] == [200] * 4 + [429]
    now[0] = 0.5
    assert [ask(guard, host=HOST, authorization=bearer).status for _ in range(2)] == [200, 429]


def test_only_health_description_and_the_dashboards_files_are_open(guard: Guard) -> None:
    for path in ("/healthz", "/openapi.json", "/", "/web/0123/app.js"):
        assert ask(guard, path, host=HOST).status == 200, path
    for path in ("/metrics", "/v1/jobs", "/v1/overview", "/web", "/webhooks", "/healthz/../v1/jobs", "//v1/jobs"):
        assert ask(guard, path, host=HOST).status == 401, path
