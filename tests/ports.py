"""Ports of this machine that stay a test's own while it stops and starts what listens there."""

import contextlib
import socket

# Below the ports that the kernel gives to whoever asks for any.
FIRST, LAST, SIDE_BY_SIDE = 20_000, 32_000, 64


def reserve_ports(count: int = 1) -> tuple[int, socket.socket]:
    """Return the first of `count` free ports side by side, and a lock: other tests do not get them until it is closed."""
    assert count <= SIDE_BY_SIDE
    for first in range(FIRST, LAST, SIDE_BY_SIDE):
        lock = socket.socket(socket.AF_UNIX)
        with contextlib.ExitStack() as listening:
            try:
                lock.bind(f"\0headway-test-ports-{first}")
                for port in range(first, first + count):
                    listening.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                lock.close()
                continue
            return first, lock
    raise AssertionError(f"no {count} free ports side by side")
