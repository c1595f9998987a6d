"""What every request passes before the API sees it: Host, Origin, rate, token and size, in that order.

A web page in the user's browser can send requests to localhost. It cannot read the token, and it cannot forge `Host` (DNS rebinding
shows the page's own name there) or leave out `Origin`: so both must name this manager. Everything is refused by default; only the
health check and the description of the API are open.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from headway.live.http.tokens import Caller, Tokens

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})
# A job file is a few hundred bytes and a script a few thousand.
MOST_BODY_BYTES = 1 << 20
BODY_TIMEOUT_S = 30.0
# Requests per second that one token may send, and how many at once. Above what one machine's manager serves in steady state,
# so that only a loop gone wild meets it; strangers get far less.
RATE_PER_S = 2000.0
STRANGERS_PER_S = 50.0
BURST_S = 2.0


@dataclass(slots=True)
class Bucket:
    """A token bucket: it fills at a steady rate, and each request takes one."""

    rate_per_s: float
    level: float
    at: float

    def take(self, now: float) -> bool:
        """Whether one more request may pass."""
        self.level = min(self.rate_per_s * BURST_S, self.level + (now - self.at) * self.rate_per_s)
        self.at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


class Guard:
    """ASGI middleware. It puts the Caller into the request's state."""

    def __init__(
        self,
        app: App,
        tokens: Tokens,
        hosts: Iterable[str],
        *,
        rate_per_s: float = RATE_PER_S,
        strangers_per_s: float = STRANGERS_PER_S,
        most_body_bytes: int = MOST_BODY_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app, self.tokens, self.clock = app, tokens, clock
        self.hosts = frozenset(host.lower() for host in hosts)
        self.rate_per_s, self.strangers_per_s, self.most_body_bytes = rate_per_s, strangers_per_s, most_body_bytes
        self._buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer with the reason, or let the request through."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            text = name.decode("latin-1")
            if text in headers and text in {"host", "origin", "authorization", "content-length"}:
                await _refuse(send, 400, f"the header {text} is given twice")
                return
            headers[text] = value.decode("latin-1")
        refusal = self._check(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        try:
            body = await asyncio.wait_for(self._body(headers, receive), BODY_TIMEOUT_S)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s")
            return
        if body is None:
            await _refuse(send, 413, f"the body is larger than {self.most_body_bytes:,} bytes")
            return
        await self.app(scope, _replay(body, receive), send)

    def _check(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why the request is refused: (status, words); None: it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return 421, "this manager does not answer to that Host; start it with --allow-host NAME:PORT to add one"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {
            f"{kind}://{host}" for host in self.hosts for kind in ("http", "https")
        }:
            return 403, "requests from other web pages are refused"
        caller = self._caller(headers.get("authorization", ""))
        bucket = "" if caller is None else caller.name
        if not self._take(bucket, self.strangers_per_s if caller is None else self.rate_per_s):
            return 429, "too many requests: wait a second"
        if caller is None and scope["path"] not in OPEN_PATHS:
            given = "the token is not known here" if headers.get("authorization") else "a token is needed"
            return 401, f"{given}: send Authorization: Bearer TOKEN; `headway serve` writes one into its data folder"
        scope.setdefault("state", {})["caller"] = caller
        return None

    def _caller(self, authorization: str) -> Caller | None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token:
            return None
        return self.tokens.caller(token.strip())

    def _take(self, name: str, rate_per_s: float) -> bool:
        now = self.clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(rate_per_s, rate_per_s * BURST_S, now)
        return bucket.take(now)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | None:
        """The whole body; None when it is too large, without reading the rest."""
        said = headers.get("content-length", "0")
        if not said.isdigit() or int(said) > self.most_body_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > self.most_body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then what the connection says (its end)."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _refuse(send: Send, status: int, words: str) -> None:
    content = json.dumps({"detail": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 429:
        headers.append((b"retry-after", b"1"))
    if status in {408, 413}:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
