"""Clients that submit jobs as fast as they are answered, all in one process and with as little work per request as possible.

Each has one connection that is kept open and one request under way, with a key of its own. Requests are bytes made beforehand; of an answer
only the status and the length are read. So what is measured is the server, also on a machine with few cores.
"""

import os
import selectors
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headway.client.peer import check_peer

STATUS = b"HTTP/1.1 201 "
LENGTH = b"content-length:"


@dataclass(slots=True)
class Load:
    """What the clients saw: seconds of every submission, sorted, and the processor time of all of them together."""

    took: list[float]
    wall_s: float
    cpu_s: float


@dataclass(slots=True)
class _Client:
    number: int
    socket: socket.socket
    left: int
    came: bytes = b""
    began: float = 0.0
    took: list[float] = field(default_factory=list)


def load(url: str, token: str, clients: int, count: int, name: str = "load") -> Load:
    """Submit `count` jobs of this name from so many clients."""
    before, began = os.times(), time.perf_counter()
    took = _submit(url, token, clients, count, name)
    wall, after = time.perf_counter() - began, os.times()
    return Load(sorted(took), wall, after.user + after.system - before.user - before.system)


def _submit(url: str, token: str, clients: int, count: int, name: str = "load") -> list[float]:
    parts = urlsplit(url)
    ready = selectors.DefaultSelector()
    all_of_them = []
    for number in range(clients):
        wire = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        check_peer(wire, {os.geteuid()}, url, 60)
        wire.settimeout(60)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each = _Client(number, wire, count // clients + (number < count % clients))
        all_of_them.append(each)
        ready.register(wire, selectors.EVENT_READ, each)
    for each in all_of_them:
        _send(each, parts.netloc, token, name)
    waiting = sum(1 for each in all_of_them if each.left >= 0)
    while waiting:
        for key, _ in ready.select(60):
            each = key.data
            each.came += each.socket.recv(65536)
            if _answered(each):
                each.took.append(time.perf_counter() - each.began)
                if not _send(each, parts.netloc, token, name):
                    waiting -= 1
    return [seconds for each in all_of_them for seconds in each.took]


def _send(client: _Client, host: str, token: str, name: str) -> bool:
    """Send the next submission, if there is one left."""
    client.left -= 1
    if client.left < 0:
        return False
    body = f'{{"command": ["true"], "name": "{name}-{client.number}"}}'
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: {name}-{client.number}-{client.left}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    client.began = time.perf_counter()
    client.socket.sendall((head + body).encode())
    return True


def _answered(client: _Client) -> bool:
    """Whether the whole answer is there; it is taken, and must be a 201."""
    head, end, body = client.came.partition(b"\r\n\r\n")
    if not end:
        if not client.came:
            raise RuntimeError("the server closed a connection")
        return False
    if not head.startswith(STATUS):
        raise RuntimeError(f"not accepted: {client.came[:300]!r}")
    lower = head.lower()
    length = int(lower[lower.index(LENGTH) + len(LENGTH) :].split(b"\r\n", 1)[0])
    if len(body) < length:
        return False
    client.came = body[length:]
    return True
