"""One HTTP connection to a manager, kept open, with time-outs and bounded retries. Standard library only: commands start quickly.

A token leaves this process by TLS with a certificate that is verified, or on a loopback connection to a trusted user's program (peer.py).
Both are checked whenever a connection is made, before anything is sent.
"""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from headway.client.folder import Endpoint
from headway.client.peer import TLS, check_peer, is_loopback
from headway.errors import BadInput, HeadwayError

TIMEOUT_S = 30.0
# An older connection may be closed by the manager just as the next request is sent.
IDLE_S = 2.0
# Waits between the tries of a request whose answer was lost: about 3 s in all.
RETRY_AFTER_S = (0.1, 0.4, 1.0, 1.5)


class ApiError(HeadwayError):
    """The manager refused the request: its own words, with the HTTP status, the code and the fields of the problem."""

    code = "refused"

    def __init__(self, status: int, message: str, code: str = "", fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, fields)
        self.code = code or self.code
        self.status = status
        if status == 404:
            self.exit_code = 102


class Unreachable(HeadwayError):
    """No manager answers at the address."""

    code = "unreachable"


class Transport:
    """Requests to one manager. Threads may share it: each has its own connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        url, token = endpoint.url, endpoint.token
        parts = _parts(url)
        try:
            self._port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except ValueError:
            raise BadInput(f"{url!r}: the port must be a number up to 65535") from None
        if not token.isascii() or any(c.isspace() for c in token):
            raise BadInput("the token is damaged: it must be ASCII without spaces, as `serve` or `token make` print it")
        self.url, self._host = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._endpoint = endpoint
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._local = threading.local()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
    ) -> dict[str, Any]:
        """Send a request and read its JSON. `repeat` says that sending it twice is harmless."""
        content = None if body is None else json.dumps(body).encode()
        sent = {**self._headers, **({"Content-Type": "application/json"} if content else {}), **(headers or {})}
        waits = list(RETRY_AFTER_S) if repeat or method == "GET" else []
        while True:
            try:
                connection = self._connection()
                connection.request(method, self._path(path, query), content, sent)
                response = connection.getresponse()
                raw = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not waits or isinstance(error, ConnectionRefusedError):
                    raise self._unreachable(error) from None
            else:
                if response.status != 429 or not waits:
                    return _content(response.status, raw)
            time.sleep(waits.pop(0))

    def lines(
        self, path: str, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[bytes]:
        """Read the lines of an answer as they come, on a connection of its own that has no time-out."""
        try:
            with contextlib.closing(self._open(timeout_s=None)) as connection:
                connection.request("GET", self._path(path, query), headers={**self._headers, **(headers or {})})
                response = connection.getresponse()
                if response.status != 200:
                    _content(response.status, response.read())
                rest = b""
                while part := response.read1(65_536):
                    *lines, rest = (rest + part).split(b"\n")
                    yield from lines
                if rest:
                    yield rest
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None

    def _path(self, path: str, query: Mapping[str, Any] | None) -> str:
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        return f"{self._prefix}{path}" + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")

    def _open(self, timeout_s: float | None) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._secure:
            connection = _Secured(self.url, self._host, self._port, self._endpoint.certificate)
        else:
            connection = _Plain(self.url, self._host, self._port, self._endpoint.owner)
        connection.connect()
        connection.sock.settimeout(timeout_s)
        return connection

    def _connection(self) -> http.client.HTTPConnection:
        now = time.monotonic()
        if now - getattr(self._local, "used_at", now) > IDLE_S:
            self.close()
        self._local.used_at = now
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._open(TIMEOUT_S)
        return connection

    def close(self) -> None:
        """Close this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, ConnectionRefusedError):
            return Unreachable(f"no manager answers at {self.url}: start one with `headway serve` or give --server URL")
        return Unreachable(f"the manager at {self.url} did not answer: {error or type(error).__name__}")


class _Plain(http.client.HTTPConnection):
    """HTTP to a trusted user's program on this machine, and to nothing else."""

    def __init__(self, url: str, host: str, port: int, owner: int | None) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S)
        self._url, self._users = url, {0, os.geteuid(), owner}

    def connect(self) -> None:
        """Connect, and refuse programs of other users. http.client also calls this by itself, after an answer that ends a connection."""
        answers = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        if not all(is_loopback(str(address[0])) for *_, address in answers):
            raise BadInput(f"{self._url} is not on this machine, and http would show the token to the network: {TLS}")
        super().connect()
        try:
            check_peer(self.sock, self._users, self._url, TIMEOUT_S)
            self.sock.settimeout(TIMEOUT_S)
        except BaseException:
            self.close()
            raise


class _Secured(http.client.HTTPSConnection):
    """HTTP by TLS: with the one certificate that is known, whatever name it is for; otherwise with one that an authority signed."""

    def __init__(self, url: str, host: str, port: int, certificate: str | None) -> None:
        import ssl

        context = ssl.create_default_context() if certificate is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if certificate is not None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # compared below, byte by byte
        super().__init__(host, port, timeout=TIMEOUT_S, context=context)
        self._url, self._certificate = url, certificate

    def connect(self) -> None:
        """Connect, and refuse another certificate. http.client also calls this by itself, after an answer that ends a connection."""
        import ssl

        try:
            super().connect()
        except ssl.SSLCertVerificationError as error:
            fix = "set HEADWAY_CERT to a copy of the manager's certificate, or SSL_CERT_FILE to that of its authority"
            raise BadInput(f"the certificate of {self._url} is not trusted ({error.verify_message}): {fix}") from None
        if self._certificate is None:
            return
        try:
            same = self.sock.getpeercert(True) == ssl.PEM_cert_to_DER_cert(self._certificate)
        except ValueError as error:
            self.close()
            raise BadInput(f"HEADWAY_CERT or the data folder has no certificate in PEM: {error}") from None
        if not same:
            self.close()
            raise BadInput(
                f"{self._url} does not show the certificate of HEADWAY_CERT or the data folder: "
                "another program answers, or the certificate was replaced; compare it with the manager's"
            )


def _parts(url: str) -> SplitResult:
    """Return the parts of a manager's address: http or https, a host, perhaps a port and a path, and nothing else."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # as it is looked up
        more = "@" in parts.netloc or parts.query or parts.fragment or any(c.isspace() for c in url)
        if parts.scheme in {"http", "https"} and parts.hostname and not more:
            return parts
    except ValueError:
        pass
    shown = url.rpartition("@")[2]  # a password may be before it
    raise BadInput(f"{shown!r} is not the address of a manager: write http://127.0.0.1:8642")


def _content(status: int, raw: bytes) -> dict[str, Any]:
    """Return the JSON of an answer ({} if it is empty), or raise the manager's error."""
    try:
        content = json.loads(raw or b"{}")
    except ValueError:
        content = None
    if status < 400 and isinstance(content, dict):
        return content
    problem = content if isinstance(content, dict) else {}
    message = problem.get("detail") or f"the server answered with status {status}: is it a Headway manager?"
    fields = problem.get("fields")
    raise ApiError(status, str(message), str(problem.get("code") or ""), fields if isinstance(fields, dict) else None)
