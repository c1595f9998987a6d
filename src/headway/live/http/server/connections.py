"""The connections of the manager's server: limits on what uvicorn waits for without end.

The headers of a request have a time limit and a size, and so does the handshake of TLS. Connections that have not shown a token are
few, and a new one takes the place of the oldest: half-sent requests push each other out, while a request that is sent at once is
answered. Clients check who accepted a connection before they send: half-sent requests leave them time for that. Only the
interfaces of asyncio, ASGI and uvicorn's configuration are used.
"""

import asyncio
import contextlib
import resource
import ssl
from collections.abc import MutableMapping
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headway.live.http.problems import MEDIA_TYPE, problem

# The first byte of a request to the end of its headers: a few hundred bytes, sent at once. Also for TLS to agree on keys.
HEADERS_WITHIN_S = 10.0
KEEP_ALIVE_S = 75
# The line of a request and its headers: the longest are places in the logs of thousands of ranks. In all a request has its body (guard.py),
# cut into chunks that cost a few times as much, and what follows it.
MOST_HEADER_BYTES = 1 << 17
MOST_REQUEST_BYTES = 1 << 23
MOST_STRANGERS = 128  # connections that have not shown a token
MOST_CONNECTIONS = 4096
# Files that the manager opens beside connections: journal, logs, locks.
OTHER_FILES = 256
# When the manager stops: answers that go on (logs, events) are cut off after this long, and what is left then after that.
STREAMS_WITHIN_S, STOP_WITHIN_S = 0.3, 2
UNANSWERED = "the manager stopped before it answered the request: start a manager, and look whether it was done"
EXTENSION = "headway.connection"  # of the scope of a request: its Connection
Message = MutableMapping[str, Any]
Address = tuple[Any, Any]  # of a connection: that of the client, and the server's


class Connections:
    """All connections, the oldest first."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self.most = most
        self._strangers: dict[Connection, None] = {}
        # Strangers that have sent something, in the order of their first bytes.
        self._begun: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}
        self.by_address: dict[Address, Connection] = {}

    def add(self, connection: "Connection") -> None:
        """Add a connection, and close an older one if there are too many: one without a token if possible."""
        self._strangers[connection] = None
        self.by_address[connection.address] = connection
        too_many = len(self._strangers) + len(self._known) > self.most
        if len(self._strangers) > MOST_STRANGERS or (too_many and len(self._strangers) > 1):
            half_sent = [each for each in self._begun if not each.processing]
            if 2 * len(half_sent) > len(self._strangers):  # they are the flood: leave alone what has sent nothing yet
                half_sent[0].abort()
            else:
                self._evict(self._strangers)
        elif too_many:
            self._evict(self._known)

    def begin(self, connection: "Connection") -> None:
        """Note that the connection has sent something."""
        if connection in self._strangers:
            self._begun[connection] = None

    def recognize(self, connection: "Connection") -> None:
        """Note that a request on the connection carried a valid token."""
        if connection in self._strangers:
            del self._strangers[connection]
            self._begun.pop(connection, None)
            self._known[connection] = None

    def drop(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""
        self._strangers.pop(connection, None)
        self._begun.pop(connection, None)
        self._known.pop(connection, None)
        if self.by_address.get(connection.address) is connection:
            del self.by_address[connection.address]

    def close_strangers(self) -> None:
        """Close connections without a token whose requests are not being processed."""
        for connection in [each for each in self._strangers if not each.processing]:
            connection.abort()

    def cut_streams(self) -> None:
        """Close connections whose answers have begun and go on."""
        for connection in [each for each in (*self._strangers, *self._known) if each.answering]:
            connection.abort()

    def _evict(self, connections: "dict[Connection, None]") -> None:
        """Close the oldest whose request is not being processed, or the oldest, but not the newest: nothing of it was read yet."""
        older = list(connections)[:-1] or list(connections)
        next((each for each in older if not each.processing), older[0]).abort()


class Connection(asyncio.Protocol):
    """One connection. What arrives goes to uvicorn; the guard says how far the request is."""

    def __init__(self, book: Connections, tls: ssl.SSLContext | None, **uvicorn_arguments: Any) -> None:
        self._book, self._tls = book, tls
        self._http = HttpToolsProtocol(**uvicorn_arguments)
        self._transport: Any = None
        self.address: Address = (None, None)
        self._ready = self._lost = False
        self._early = b""  # what came with the end of a TLS handshake
        self._late: asyncio.TimerHandle | None = None
        self._requests = 0  # that the application has begun and not ended
        self._received = 0  # bytes since the headers of the last request, or its body, were complete
        self.processing = False  # whether a request on it is complete and not answered yet
        self.answering = False  # whether an answer on it has begun and not ended

    # ---- asyncio

    def connection_made(self, transport: Any) -> None:
        """Start the clock; with TLS, agree on keys first."""
        self._transport = transport
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.address = (peer and tuple(peer[:2]), local and tuple(local[:2]))
        self._book.add(self)
        if self._tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            self._handshake = asyncio.get_running_loop().create_task(self._agree(self._tls))

    async def _agree(self, tls: ssl.SSLContext) -> None:
        loop, transport = asyncio.get_running_loop(), None
        with contextlib.suppress(OSError, ssl.SSLError):
            transport = await loop.start_tls(
                self._transport, self, tls, server_side=True, ssl_handshake_timeout=HEADERS_WITHIN_S
            )
        if transport is None or self._lost:
            self.abort()
        else:
            self._begin(transport)

    def _begin(self, transport: Any) -> None:
        self._transport, self._ready = transport, True
        self._expect_headers()
        self._http.connection_made(transport)
        if self._early:
            self.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        """Hand on what arrives, unless a request is too large."""
        if not self._ready:
            self._early += data
        elif self._received > (MOST_REQUEST_BYTES if self._requests else MOST_HEADER_BYTES):
            self._refuse(431, "the request is longer than any that is answered here")
        else:
            self._received += len(data)
            self._book.begin(self)
            if not self._requests:
                self._expect_headers()
            self._http.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Give the place back."""
        self._lost = True
        self._headers_are_there()
        self._book.drop(self)
        if self._ready:
            self._http.connection_lost(error)

    def pause_writing(self) -> None:
        """Hand on that the client reads too slowly."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that the client has read."""
        self._http.resume_writing()

    # ---- requests

    def begin_request(self) -> None:
        """Note that the headers of a request are complete."""
        self._headers_are_there()
        self._requests += 1
        self._received = 0

    def body_is_there(self) -> None:
        """Note that the body of a request is complete."""
        self.processing = True
        self._received = 0

    def end_request(self) -> None:
        """Note that a request is answered. Bytes that arrived since its body belong to the next request."""
        self._requests -= 1
        self.processing = self.answering = False
        if not self._requests and self._received and not self._lost:
            self._expect_headers()

    def recognize(self) -> None:
        """Note that a request carried a valid token."""
        self._book.recognize(self)

    def abort(self) -> None:
        """Close the connection at once."""
        self._book.drop(self)
        self._transport.abort()

    # ---- limits

    def _expect_headers(self) -> None:
        if self._late is None:
            self._late = asyncio.get_running_loop().call_later(
                HEADERS_WITHIN_S, self._refuse, 408, "the headers did not arrive in time"
            )

    def _headers_are_there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, status: int, reason: str) -> None:
        """End a connection whose request never reaches the guard."""
        body = problem(status, reason).body
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nconnection: close\r\ncontent-type: {MEDIA_TYPE}\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + bytes(body))
        self._transport.close()


class Tracked:
    """An ASGI application that gives requests their Connection, and tells it when they begin and end."""

    def __init__(self, app: Any, book: Connections) -> None:
        self.app, self.book = app, book

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        """Pass a request on."""
        connection = self.book.by_address.get((scope["client"], scope["server"]))
        if connection is None:  # closed meanwhile
            await self.app(scope, receive, send)
            return
        scope.setdefault("extensions", {})[EXTENSION] = connection

        async def answer(message: Message) -> None:
            connection.answering = True
            await send(message)

        connection.begin_request()
        try:
            await self.app(scope, receive, answer)
        except asyncio.CancelledError:  # the server stops; a thread may still work on the request
            if not connection.answering:
                await problem(503, UNANSWERED)(scope, receive, send)
        finally:
            connection.end_request()


class Server(uvicorn.Server):
    """Uvicorn's server. When it stops, it waits for answers that are under way, but neither for strangers nor for streams."""

    def __init__(self, config: uvicorn.Config, book: Connections) -> None:
        super().__init__(config)
        self.book = book

    async def startup(self, sockets: Any = None) -> None:
        """Set the number of threads that process requests, and listen."""
        import anyio.to_thread

        from headway.live.http.server.limits import THREADS

        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop the server and cut its streams; their readers reconnect to the next manager."""
        self.book.close_strangers()
        cut = asyncio.get_running_loop().call_later(STREAMS_WITHIN_S, self.book.cut_streams)
        await super().shutdown(sockets)
        cut.cancel()


def make_server(api: Any, tls: tuple[str, str] | None = None) -> Server:
    """Return a server for the guarded API; `tls` names the files of certificate and key."""
    book, context = Connections(_most_connections()), None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*tls)
    config = uvicorn.Config(
        Tracked(api, book),
        http=cast(Any, partial(Connection, book, context)),
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
    )
    return Server(config, book)


def _most_connections() -> int:
    """Raise the limit on open files as far as allowed, and return the number of connections that it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - OTHER_FILES))
