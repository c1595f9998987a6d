"""Find out which user's program answers on a loopback connection: any user may listen on the port of a stopped manager.

The kernel lists both ends of a loopback connection in /proc/net/tcp and tcp6, each with the user and the inode of its socket. An end that
no process has accepted yet has inode 0, and user 0 on many kernels: only an accepted end says who answers. Sockets of
other network namespaces and of other machines are not listed.
"""

import socket
import sys
import time
from collections.abc import Collection

from headway.errors import BadInput

IPV4 = bytes(10) + b"\xff\xff"  # prefix of an IPv4 address that is mapped to IPv6
TCP6 = "/proc/net/tcp6"
POLL_S = 0.002
TLS = "serve with --tls-cert and --tls-key, and use https://"


def is_loopback(address: str) -> bool:
    """Return whether an IP address is a loopback address."""
    packed = _packed(address)
    return packed == bytes(15) + b"\x01" or packed.startswith(IPV4 + b"\x7f")


def check_peer(connection: socket.socket, users: Collection[int | None], url: str, timeout_s: float) -> None:
    """Refuse a connection that a program of no user of `users` accepted. Send nothing; wait up to `timeout_s` for it to be accepted."""
    if not is_loopback(connection.getpeername()[0]):
        raise BadInput(f"{url} is not on this machine, and http would show the token to the network: {TLS}")
    user = _accepted_by(connection, time.monotonic() + timeout_s)
    if user not in users:
        raise BadInput(
            f"{url} is answered by a program of user {_name(user)}, which is not your manager (nothing was sent to it): "
            f"start a manager again, with another --port; if that user runs your manager, {TLS}"
        )


def _accepted_by(connection: socket.socket, until: float) -> int:
    """Return the user whose process accepted the connection; wait for that until a monotonic time."""
    server, client = connection.getpeername(), connection.getsockname()
    before = None
    while True:
        end = _end(server, client)
        # The kernel reads the user before the inode. So the first row with an inode may have an old user; the second has not.
        if end is not None and end == before:
            return end[0]
        if end is None:
            if time.monotonic() >= until:
                raise TimeoutError(
                    f"no process of this machine accepted the connection; if the manager runs in a container or elsewhere, {TLS}"
                )
            connection.settimeout(POLL_S)
            try:
                if not connection.recv(1, socket.MSG_PEEK):
                    raise ConnectionResetError("the connection was closed")
                time.sleep(POLL_S)
            except TimeoutError:
                pass
        before = end


def _end(server: tuple[str, int], client: tuple[str, int]) -> tuple[int, int] | None:
    """Return user and inode of the server's socket of a connection; None if no process has accepted it."""
    ends = [_listed(server), _listed(client)]
    for table, prefix in TABLES.items():
        if not all(end.startswith(prefix) for end in ends):
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
            if fields[1:3] == [end.removeprefix(prefix) for end in ends] and fields[9] != "0":
                return int(fields[7]), int(fields[9])
    return None


def _listed(address: tuple[str, int]) -> str:
    """Return an address as tcp6 lists it: four words in the machine's byte order, and the port."""
    return _words(_packed(address[0])) + f":{address[1]:04X}"


def _words(packed: bytes) -> str:
    fields = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in fields)


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


# The prefix that each table omits. Sockets of IPv6, which may have connections of IPv4, are in tcp6.
TABLES = {"/proc/net/tcp": _words(IPV4), TCP6: ""}
