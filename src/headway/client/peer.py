"""Which user answers on a loopback connection. Anyone on a machine may listen on a port that a manager has left.

The kernel lists both ends of a loopback connection in /proc/net/tcp and tcp6, each with the user and the inode of its socket. An end that
no process has accepted yet has inode 0, and user 0 on many kernels: only an accepted end says who answers. Other network namespaces are
not listed, and neither are other machines.
"""

import socket
import sys
import time
from collections.abc import Collection

from headway.errors import BadInput

IPV4 = bytes(10) + b"\xff\xff"  # before an IPv4 address that is written as an IPv6 address
TCP6 = "/proc/net/tcp6"
LOOK_AGAIN_S = 0.002
TLS = "serve with --tls-cert and --tls-key, and use https://"


def is_loopback(address: str) -> bool:
    """Return whether an IP address means this machine, whatever its network."""
    packed = _packed(address)
    return packed == bytes(15) + b"\x01" or packed.startswith(IPV4 + b"\x7f")


def check_peer(connection: socket.socket, users: Collection[int | None], url: str, timeout_s: float) -> None:
    """Refuse a connection whose other end belongs to no user of `users`; nothing is sent."""
    if not is_loopback(connection.getpeername()[0]):
        raise BadInput(f"{url} is not on this machine, and http would show the token to the network: {TLS}")
    user = _accepted_by(connection, time.monotonic() + timeout_s)
    if user not in users:
        raise BadInput(
            f"{url} is answered by a program of user {_name(user)}, which is not your manager (nothing was sent to it): "
            f"start a manager again, with another --port; if that user runs it, {TLS}"
        )


def _accepted_by(connection: socket.socket, until: float) -> int:
    """Return the user whose process accepted the connection; wait for that until a monotonic time."""
    server, client = connection.getpeername(), connection.getsockname()
    before = None
    while True:
        end = _end(server, client)
        # The user and the inode are read one after the other: what is read after the inode was seen is the user who accepted.
        if end is not None and end == before:
            return end[0]
        if end is None:
            if time.monotonic() >= until:
                raise TimeoutError(
                    f"no process of this machine accepted the connection; for a manager elsewhere, {TLS}"
                )
            connection.settimeout(LOOK_AGAIN_S)
            try:
                if not connection.recv(1, socket.MSG_PEEK):
                    raise ConnectionResetError("the connection was closed")
                time.sleep(LOOK_AGAIN_S)
            except TimeoutError:
                pass
        before = end


def _end(own: tuple[str, int], other: tuple[str, int]) -> tuple[int, int] | None:
    """Return user and inode of the accepted socket at one end of a connection, or None."""
    ends = [_listed(own), _listed(other)]
    for table, before in TABLES.items():
        if not all(end.startswith(before) for end in ends):
            continue
        try:
            with open(table, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError as error:
            if table == TCP6 and isinstance(error, FileNotFoundError):
                continue  # IPv6 is off
            raise BadInput(f"{table} cannot be read ({error.strerror}) to see who answers: {TLS}") from None
        for line in lines:
            fields = line.split()
            if fields[1:3] == [end.removeprefix(before) for end in ends] and fields[9] != "0":
                return int(fields[7]), int(fields[9])
    return None


def _listed(address: tuple[str, int]) -> str:
    """Return an address as tcp6 lists it: four words in the machine's byte order, and the port."""
    return _words(_packed(address[0])) + f":{address[1]:04X}"


def _words(packed: bytes) -> str:
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words)


def _packed(address: str) -> bytes:
    """Return the 16 bytes of an IP address."""
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    return IPV4 + socket.inet_aton(address)


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


# What each table leaves out of an address: tcp has IPv4 addresses only. Sockets of IPv6 may have IPv4 connections.
TABLES = {"/proc/net/tcp": _words(IPV4), TCP6: ""}
