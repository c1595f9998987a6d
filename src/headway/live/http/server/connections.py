"""The connections of the manager's server: how long a request's headers may take, and how many connections anybody holds.

A connection is a stranger's until a request on it carries a token. Of strangers, an address holds so many, and a new one takes the place
of the oldest: thousands of half-sent requests push each other out, while one that sends its request at once is answered. Connections of
a token are bounded per token. So neither fills the server for the others; the manager's owner comes in from a flooded address too.
What one request may send before it is looked at is bounded as well: the parser itself would keep headers without end.
"""

import asyncio
import contextlib
import resource
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr

from headway.live.http.problems import MEDIA_TYPE, problem

# The first byte of a request to the end of its headers: a few hundred bytes, sent at once. Also for TLS to agree on keys.
HEADERS_WITHIN_S = 10.0
KEEP_ALIVE_S = 75
# The line of a request and its headers: the longest are places in the logs of thousands of ranks. In all a request has its body (guard.py),
# cut into chunks that cost a few times as much, and what follows it.
MOST_HEADER_BYTES = 1 << 17
MOST_REQUEST_BYTES = 1 << 23
# Connections of one address that have sent no token yet. On loopback all users share the address.
MOST_STRANGERS = 128
MOST_PER_TOKEN = 256
MOST_CONNECTIONS = 4096
# Files that the manager opens beside connections: journal, logs, locks.
OTHER_FILES = 256
# When the manager stops: answers that go on (logs, events) are cut off after this long, and what is left then after that.
STREAMS_WITHIN_S, STOP_WITHIN_S = 0.3, 2


class Held(Protocol):
    """A connection as the book sees it."""

    holder: tuple[str, str]  # stranger and an address, or token and its name
    transport: Any

    @property
    def busy(self) -> bool:
        """Whether a request on it is being answered."""


class Connections:
    """Who holds which connections, the oldest first."""

    def __init__(self, most: int = MOST_CONNECTIONS, strangers: int = MOST_STRANGERS, of_token: int = MOST_PER_TOKEN):
        self.most, self.most_of = most, {"stranger": strangers, "token": of_token}
        self._held: dict[tuple[str, str], dict[Held, None]] = {}
        self._count = 0

    def add(self, connection: Held) -> None:
        """Take in a connection, at the cost of an older one if there are too many."""
        self._count += 1
        held = self._held.setdefault(connection.holder, {})
        held[connection] = None
        if len(held) > self.most_of[connection.holder[0]]:
            self._evict(held, connection)
        elif self._count > self.most:
            # Whoever holds most gives one back; strangers first.
            most = max(self._held.values(), key=lambda each: (next(iter(each)).holder[0] == "stranger", len(each)))
            self._evict(most, connection)

    def drop(self, connection: Held) -> None:
        """Forget a connection that is closed or changes hands."""
        held = self._held.get(connection.holder, {})
        if connection in held:
            self._count -= 1
            del held[connection]
            if not held:
                del self._held[connection.holder]

    def close(self) -> None:
        """Let go of strangers that are not being answered."""
        for held in list(self._held.values()):
            for each in list(held):
                if each.holder[0] == "stranger" and not each.busy:
                    self.drop(each)
                    each.transport.abort()

    def _evict(self, held: dict[Held, None], newest: Held) -> None:
        """Close the oldest that is not being answered; the oldest of all where all others are: the newest has not been heard yet."""
        others = [each for each in held if each is not newest] or [newest]
        oldest = next((each for each in others if not each.busy), others[0])
        self.drop(oldest)
        oldest.transport.abort()


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with a time limit on headers and an entry in the book."""

    def __init__(self, book: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.book = book
        self.holder = ("stranger", "")
        self._late: asyncio.TimerHandle | None = None
        self._in_headers = False
        self._received = 0  # bytes since the last request was complete
        self._extension: Any = {"headway.connection": self}
        self._early = b""  # what came with the end of a TLS handshake, before the connection was made
        self.lost = False

    @property
    def busy(self) -> bool:
        """Whether a request on it is complete, its body included, and not answered yet."""
        return self.answers and self.has_whole_request

    @property
    def answers(self) -> bool:
        """Whether the headers of a request are there, and its answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def streams(self) -> bool:
        """Whether an answer on it has begun and not ended."""
        return self.answers and self.cycle.response_started

    @property
    def has_whole_request(self) -> bool:
        """Whether the body of the request that is being answered is there: that of the latest is, or another has followed it."""
        return self.cycle is not None and not self.cycle.more_body

    def belongs_to(self, token: str) -> None:
        """The guard says whose token a request on it carried."""
        if self.holder != ("token", token):
            self.book.drop(self)
            self.holder = ("token", token)
            self.book.add(self)

    def connection_made(self, transport: Any) -> None:
        """Also start the clock and take a place."""
        super().connection_made(transport)
        self.holder = ("stranger", self.client[0] if self.client else "")
        self._expect_headers()
        self.book.add(self)
        if self._early:
            self.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        """Wait for the connection to be made."""
        if self.transport is None:
            self._early += data
        else:
            self._received += len(data)
            super().data_received(data)
            if self._in_headers:
                self._expect_headers()
            if self._received > (MOST_HEADER_BYTES if self._in_headers else MOST_REQUEST_BYTES):
                self._refuse(431, "the request is longer than any that is answered here")

    def connection_lost(self, exc: Exception | None) -> None:
        """Also give the place back."""
        self.lost = True
        if self.transport is not None:
            self._headers_are_there()
            self.book.drop(self)
            super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins: its headers must follow."""
        super().on_message_begin()
        self.scope["extensions"] = self._extension
        self._in_headers = True

    def on_headers_complete(self) -> None:
        """The headers are there."""
        self._headers_are_there()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there: count anew."""
        self._received = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused as everything else is."""
        self._refuse(400, "this is no request of HTTP/1.1")

    def _expect_headers(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADERS_WITHIN_S, self._give_up)

    def _headers_are_there(self) -> None:
        self._in_headers = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self.answers:  # otherwise an earlier request on it is still answered; the body's own limit holds
            self._refuse(408, "the headers did not arrive in time")

    def _refuse(self, status: int, words: str) -> None:
        """End a connection whose request never reaches the guard."""
        body = problem(status, words).body
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nconnection: close\r\ncontent-type: {MEDIA_TYPE}\r\n"
        with contextlib.suppress(Exception):
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + bytes(body))
            self.transport.close()


class Handshake(asyncio.Protocol):
    """A connection that has still to agree on TLS: it counts as a stranger's from its first packet, and then becomes a Connection."""

    def __init__(self, book: Connections, then: Callable[[], Connection], context: ssl.SSLContext) -> None:
        self.book, self.then, self.context = book, then, context
        self.holder, self.busy = ("stranger", ""), False

    def connection_made(self, transport: Any) -> None:
        """Take a place, and begin."""
        self.transport = transport
        address = get_remote_addr(transport)
        self.holder = ("stranger", address[0] if address else "")
        self.book.add(self)
        transport.pause_reading()
        self._agreeing = asyncio.get_running_loop().create_task(self._agree())

    async def _agree(self) -> None:
        connection, loop = self.then(), asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                self.transport, connection, self.context, server_side=True, ssl_handshake_timeout=HEADERS_WITHIN_S
            )
        except (OSError, ssl.SSLError):
            secured = None
        finally:
            self.book.drop(self)
        if secured is None or connection.lost:
            self.transport.abort()
        else:
            connection.connection_made(secured)


class Server(uvicorn.Server):
    """Uvicorn with our connections, also before they have agreed on TLS."""

    def __init__(self, config: uvicorn.Config, book: Connections | None = None) -> None:
        super().__init__(config)
        self.book = book or Connections(most=_files())

    async def startup(self, sockets: Any = None) -> None:
        """Listen on sockets that are bound already."""
        import anyio.to_thread

        from headway.live.http.server.limits import THREADS

        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        config, loop = self.config, asyncio.get_running_loop()

        def connected() -> Connection:
            return Connection(self.book, config=config, server_state=self.server_state, app_state={}, _loop=loop)

        def accepted() -> asyncio.Protocol:
            return connected() if config.ssl is None else Handshake(self.book, connected, config.ssl)

        self.servers = [await loop.create_server(accepted, sock=each, backlog=config.backlog) for each in sockets]
        self.started = True

    async def shutdown(self, sockets: Any = None) -> None:
        """Wait for answers that are under way, but neither for strangers nor for streams."""
        self.book.close()
        cut = asyncio.get_running_loop().call_later(STREAMS_WITHIN_S, self._cut_streams)
        await super().shutdown(sockets)
        cut.cancel()

    def _cut_streams(self) -> None:
        """End the answers that go on; their readers come back to the next manager."""
        for each in list(self.server_state.connections):
            if isinstance(each, Connection) and each.streams:
                each.transport.abort()


def make_server(api: Any, tls: tuple[str, str] | None = None) -> Server:
    """A server for the guarded API; `tls` names the files of certificate and key."""
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        api,
        http=Connection,
        # uvloop hands on what comes before reading is paused, and the handshake would miss its beginning.
        loop="asyncio" if tls else "auto",
        ws="none",
        lifespan="off",
        log_level="error",  # a stranger's nonsense is not worth a line each
        proxy_headers=False,  # anybody on this machine could give other addresses than their own
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    return Server(config)


def _files() -> int:
    """Connections that the limit on open files leaves room for; the limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - OTHER_FILES))
