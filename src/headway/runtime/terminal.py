"""The job's end of an interactive session (`headway shell`): a shell on a terminal of its own, carried over a socket to its user.

Run by its path, so that importing it makes no job (the package announces one): `python -I -S terminal.py SOCKET [COMMAND...]`. Standard
library only. Messages are a letter, a length and that many bytes: d data, w rows and columns of the window, x the exit code.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time

HEAD = struct.Struct(">cI")
SIZE = struct.Struct(">HH")
MOST = 1 << 16
HANG_UP_S = 5.0  # between SIGHUP and SIGKILL for a shell whose user is gone


class Channel:
    """Whole messages over a socket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.rest = b""

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a message; OSError if nobody is there."""
        self.socket.sendall(HEAD.pack(kind, len(content)) + content)

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """The messages that have arrived; None: the other end is gone."""
        try:
            part = self.socket.recv(MOST)
        except OSError:
            return None
        if not part:
            return None
        self.rest += part
        messages = []
        while len(self.rest) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.rest)
            if size > MOST or len(self.rest) < HEAD.size + size:
                if size > MOST:
                    return None
                break
            messages.append((kind, self.rest[HEAD.size : HEAD.size + size]))
            self.rest = self.rest[HEAD.size + size :]
        return messages


def set_size(terminal: int, size: bytes) -> None:
    """Give a terminal the rows and columns of another."""
    rows, columns = SIZE.unpack(size)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def carry(channel: Channel, terminal: int, shell: int) -> int:
    """Carry between the shell and the user until one of them is gone; the shell's exit code."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    while True:
        try:
            ready = select.select([channel.socket.fileno(), terminal], [], [], 1.0)[0]
        except InterruptedError:
            ready = []
        if stopping:
            with contextlib.suppress(OSError):
                channel.send(b"d", b"\r\n[headway: the job is being stopped]\r\n")
            return hang_up(shell)
        if terminal in ready:
            try:
                data = os.read(terminal, MOST)
            except OSError:  # as Linux says that the last process on the terminal is gone
                data = b""
            if not data:
                return exit_code(os.waitpid(shell, 0)[1])
            try:
                channel.send(b"d", data)
            except OSError:
                return hang_up(shell)
        if channel.socket.fileno() in ready:
            messages = channel.receive()
            if messages is None:
                return hang_up(shell)
            for kind, content in messages:
                if kind == b"d":
                    with contextlib.suppress(OSError):
                        os.write(terminal, content)
                elif kind == b"w" and len(content) == SIZE.size:
                    set_size(terminal, content)


def hang_up(shell: int) -> int:
    """End a shell as a terminal does that is closed."""
    end = time.monotonic() + HANG_UP_S
    with contextlib.suppress(OSError):
        os.killpg(shell, signal.SIGHUP)
    while time.monotonic() < end:
        ended, status = os.waitpid(shell, os.WNOHANG)
        if ended:
            return exit_code(status)
        time.sleep(0.05)
    with contextlib.suppress(OSError):
        os.killpg(shell, signal.SIGKILL)
    return exit_code(os.waitpid(shell, 0)[1])


def exit_code(status: int) -> int:
    """As shells have it: 128 and the signal for one that was killed."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main() -> None:
    """Meet the user, start the shell, and say how it ended."""
    path, *command = sys.argv[1:]
    command = command or [os.environ.get("SHELL") or "/bin/sh", "-i"]
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(path)
    except OSError as error:
        sys.exit(f"nobody waits for this session at {path}: {error.strerror or error}")
    channel = Channel(connected)
    shell, terminal = pty.fork()
    if shell == 0:
        connected.close()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"cannot run {command[0]}: {error.strerror}\r\n".encode())
        os._exit(127)
    print(f"an interactive session: {' '.join(command)}", flush=True)
    code = carry(channel, terminal, shell)
    with contextlib.suppress(OSError):
        channel.send(b"x", str(code).encode())
    sys.exit(code)


if __name__ == "__main__":
    main()
