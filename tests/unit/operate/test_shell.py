"""The terminal's end of `headway shell`."""

import io
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headway.cli.operate.shell import _carry
from headway.runtime.terminal import Channel


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A line that waits at the keyboard, and a screen."""
    reads, writes = os.pipe()
    os.write(writes, b"ls\n")
    with open(reads) as keyboard, open(os.devnull, "w") as screen:
        monkeypatch.setattr("sys.stdin", keyboard)
        monkeypatch.setattr("sys.stdout", screen)
        yield
    os.close(writes)


@pytest.mark.usefixtures("typed")
def test_the_exit_code_of_a_command_that_has_ended_is_read() -> None:
    """What was typed met a closed socket, and the exit code that had arrived before was lost."""
    ours, of_job = socket.socketpair()
    Channel(of_job).send(b"x", b"7")
    of_job.close()
    no_client: Any = io.StringIO()
    with ours:
        assert _carry(no_client, 1, ours) == 7
