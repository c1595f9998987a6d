"""What every request passes before the API sees it: Host, Origin, rate, token and size, in that order.

A web page in the user's browser can send requests to localhost. It cannot read the token, and it cannot forge `Host` (DNS rebinding
shows the page's own name there) or leave out `Origin`: so both must name this manager. Everything is refused by default; only the
health check and the description of the API are open.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import Headers

from headway.live.http.problems import problem
from headway.live.http.tokens import Tokens

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
# Headers that would mean two things if they were given twice.
ONCE = ("host", "origin", "authorization", "content-length")
# What a refusal says beside its words.
MORE_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    429: {"retry-after": "1"},
}


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
        self.origins = frozenset(f"{kind}://{host}" for host in self.hosts for kind in ("http", "https"))
        self.rate_per_s, self.strangers_per_s, self.most_body_bytes = rate_per_s, strangers_per_s, most_body_bytes
        self._buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer with the reason, or let the request through."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
            body = await asyncio.wait_for(self._body(headers, receive), BODY_TIMEOUT_S)
        except (TimeoutError, HTTPException) as error:
            late = HTTPException(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s")
            why = error if isinstance(error, HTTPException) else late
            answer = problem(why.status_code, str(why.detail), MORE_HEADERS.get(why.status_code))
            await answer(scope, receive, send)
        else:
            await self.app(scope, _replay(body, receive), send)

    def _check(self, scope: Message, headers: Headers) -> None:
        """Refuse the request by its headers, or note who sent it."""
        for name in ONCE:
            if len(headers.getlist(name)) > 1:
                raise HTTPException(400, f"the header {name} is given twice")
        if headers.get("host", "").lower() not in self.hosts:
            words = "this manager does not answer to that Host; start it with --allow-host NAME:PORT to add one"
            raise HTTPException(421, words)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            raise HTTPException(403, "requests from other web pages are refused")
        kind, _, token = headers.get("authorization", "").partition(" ")
        caller = self.tokens.caller(token.strip()) if kind.lower() == "bearer" and token else None
        name, rate_per_s = (caller.name, self.rate_per_s) if caller else ("", self.strangers_per_s)
        now = self.clock()
        if not self._buckets.setdefault(name, Bucket(rate_per_s, rate_per_s * BURST_S, now)).take(now):
            raise HTTPException(429, "too many requests: wait a second")
        if caller is None and scope["path"] not in OPEN_PATHS:
            given = "the token is not known here" if headers.get("authorization") else "a token is needed"
            words = f"{given}: send Authorization: Bearer TOKEN; `headway serve` writes one into its data folder"
            raise HTTPException(401, words)
        scope.setdefault("state", {})["caller"] = caller

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body; one that is too large is refused without reading the rest."""
        too_large = HTTPException(413, f"the body is larger than {self.most_body_bytes:,} bytes")
        said = headers.get("content-length", "0")
        if not said.isdigit() or int(said) > self.most_body_bytes:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self.most_body_bytes:
                raise too_large
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then what the connection says (its end)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
