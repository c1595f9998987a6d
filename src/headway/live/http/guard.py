"""Checks of every request before the API: Host, Origin, token, rate and size, in that order; then a slot for processing.

A web page in the user's browser can send requests to localhost. It cannot read the token, and it cannot forge `Host` (DNS rebinding
shows the page's own name there) or leave out `Origin`: so both must name this manager. Everything is refused by default; only the
health check, the description of the API, the files of the dashboard, which hold no data, and signing in are open. The health check is
answered at once, whatever else is going on.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from fastapi import HTTPException

from headway.live.http.problems import problem
from headway.live.http.server.connections import EXTENSION, MOST_HEADER_BYTES
from headway.live.http.server.limits import Rates, Shares
from headway.live.http.tokens import Tokens
from headway.web import PAGES, START

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

HEALTH = "/healthz"
SIGN_IN = "/v1/sign-in"
OPEN_PATHS = frozenset({HEALTH, SIGN_IN, "/openapi.json", START})
# A job file is a few hundred bytes and a script a few thousand.
MOST_BODY_BYTES = 1 << 20
BODY_TIMEOUT_S = 30.0
# Requests per second that one token may send. Above what one machine's manager serves in steady state, so that only a loop gone wild
# meets it; strangers of one address get far less.
RATE_PER_S = 2000.0
STRANGERS_PER_S = 50.0
# Headers that would mean two things if they were given twice.
ONCE = frozenset({b"host", b"origin", b"authorization", b"content-length", b"content-type", b"idempotency-key"})
# What a refusal says beside its words.
MORE_HEADERS = {
    401: {"www-authenticate": "Bearer", "connection": "close"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    431: {"connection": "close"},
    429: {"retry-after": "1"},
}


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
        self._rates, self._shares = Rates(), Shares()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer with the reason, or let the request through."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        health = scope["path"] == HEALTH
        try:
            headers = _headers(scope)
            who, connection = self._check(scope, headers), scope.get("extensions", {}).get(EXTENSION)
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await self._body(headers, receive)
            if body and not scope["state"]["still_known"]():  # it ended before the body arrived
                self._refuse_token(scope["path"], _bearer(headers))
            if connection is not None:
                connection.body_is_there()
            if not health:
                await self._shares.enter(who)
        except (TimeoutError, HTTPException) as error:
            late = HTTPException(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s")
            why = error if isinstance(error, HTTPException) else late
            answer = problem(why.status_code, str(why.detail), MORE_HEADERS.get(why.status_code))
            await answer(scope, receive, send)
        else:
            await self._work(None if health else who, scope, _replay(body, receive), send)

    async def _work(self, who: str | None, scope: Message, receive: Receive, send: Send) -> None:
        """Let the application answer, and give the caller's place back when it begins to: a stream that goes on holds none."""
        place = [] if who is None else [who]

        async def answer(message: Message) -> None:
            while place:
                self._shares.leave(place.pop())
            await send(message)

        try:
            await self.app(scope, receive, answer)
        finally:
            while place:
                self._shares.leave(place.pop())

    def _check(self, scope: Message, headers: dict[bytes, str]) -> str:
        """Refuse the request by its headers, or note who sent it; the name under which its limits count."""
        if headers.get(b"host", "").lower() not in self.hosts:
            message = "this manager does not answer to that Host; start it with --allow-host NAME:PORT to add one"
            raise HTTPException(421, message)
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            raise HTTPException(403, "requests from other web pages are refused")
        token = _bearer(headers)
        caller = self.tokens.caller(token) if token else None
        # Strangers count by their addresses; no token's name begins with a space.
        who = caller.name if caller else f" {(scope.get('client') or ('',))[0]}"
        if scope["path"] != HEALTH:
            self._rates.take(who, self.rate_per_s if caller else self.strangers_per_s, self.clock())
        if caller is None:
            self._refuse_token(scope["path"], token)
        scope.setdefault("state", {}).update(caller=caller, tokens=self.tokens, bearer=token)
        # Answers that go on ask again: a token may be revoked, or expire, meanwhile.
        scope["state"]["still_known"] = lambda: caller is None or self.tokens.caller(token) == caller
        if caller is not None and (connection := scope.get("extensions", {}).get(EXTENSION)):
            connection.recognize()
        return who

    def _refuse_token(self, path: str, token: str) -> None:
        """Refuse a token that is not valid, or none, except on a path that is open to all."""
        if path in OPEN_PATHS or path.startswith(PAGES):
            return
        fix = "send Authorization: Bearer TOKEN; `headway serve` writes one into its data folder"
        raise HTTPException(401, f"{self.tokens.why_not(token)}: {fix}")

    async def _body(self, headers: dict[bytes, str], receive: Receive) -> bytes:
        """Return the whole body; refuse a body that is too large without reading the rest."""
        said, body = headers.get(b"content-length", "0"), bytearray()
        while True:
            if not said.isdigit() or max(int(said), len(body)) > self.most_body_bytes:
                raise HTTPException(413, f"the body is larger than {self.most_body_bytes:,} bytes")
            message = await receive()
            body += message.get("body", b"")
            if len(body) <= self.most_body_bytes and (
                message["type"] == "http.disconnect" or not message.get("more_body", False)
            ):
                return bytes(body)


def _headers(scope: Message) -> dict[bytes, str]:
    """Return the headers that the guard looks at; refuse headers that are too long."""
    headers: dict[bytes, str] = {}
    size = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    if size + sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
        raise HTTPException(431, f"the line of the request and its headers are longer than {MOST_HEADER_BYTES:,} bytes")
    for name, value in scope["headers"]:
        if name in ONCE:
            if name in headers:
                raise HTTPException(400, f"the header {name.decode()} is given twice: send it once")
            headers[name] = value.decode("latin-1")
    return headers


def _bearer(headers: dict[bytes, str]) -> str:
    """Return the token of a request; empty if it has none."""
    kind, _, token = headers.get(b"authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, and then the messages of the connection."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
