"""The command line in a process of its own, and certificates, for tests of the machine that a manager runs on."""

import contextlib
import datetime
import ipaddress
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.waiting import PATIENCE_S

RUN = "from headway.cli.main import main; main()"
NOBODY = 65534
# As another user, who may read everything: the interpreter may be in a folder that only root enters.
_READS = "+dac_read_search"
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
AS_NOBODY += ["--inh-caps", _READS, "--ambient-caps", _READS]
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="SKIPPED: only root, with setpriv, becomes another user",
)


def headway(*words: object, before: Sequence[str] = (), **given: object) -> subprocess.CompletedProcess[str]:
    """Run a command, behind another one such as AS_NOBODY if that is given."""
    command = [*before, sys.executable, "-c", RUN, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **given)  # type: ignore[call-overload,no-any-return]


@contextlib.contextmanager
def manager(data: Path, *options: object, before: Sequence[str] = (), **given: Any) -> Iterator[subprocess.Popen[str]]:
    """A manager by `headway serve` on a free port, once it serves; it is stopped at the end."""
    words = ["serve", "--data", data, "--port", 0, "--cluster", "1x1", "--json", *options]
    command = [*before, sys.executable, "-c", RUN, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if "}\n" not in process.stdout:  # reads up to there, or to the end
                raise AssertionError(process.stderr.read())
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE_S)


SQUAT = """
import os, socket, sys, threading
host, port, answer, headers = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode(), sys.argv[4].encode()
family = socket.AF_INET6 if ":" in host else socket.AF_INET
server = socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
os.write(2, b"%d\\n" % server.getsockname()[1])
def serve(connection):
    while data := connection.recv(65536):
        os.write(1, data)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\n%sContent-Length: %d\\r\\n\\r\\n%s" % (headers, len(answer), answer))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@contextlib.contextmanager
def squatter(heard: Path, port: int, host: str = "127.0.0.1", answer: str = "{}", headers: str = "") -> Iterator[int]:
    """A program of nobody's that listens on a port (0: a free one, which is returned), answers, and writes down what it hears."""
    with heard.open("ab") as record:
        command = [*AS_NOBODY, sys.executable, "-c", SQUAT, host, str(port), answer, headers]
        with subprocess.Popen(command, stdout=record, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                yield int(process.stderr.readline())
            finally:
                process.kill()


def certificate(folder: Path, name: str, *addresses: str, days: int = 30) -> tuple[Path, Path]:
    """A certificate that signed itself, for these addresses, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses] or [x509.DNSName(name)]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.pem").write_bytes(made.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, plain, serialization.NoEncryption()))
    (folder / f"{name}.key").chmod(0o600)
    locked = key.private_bytes(pem, plain, serialization.BestAvailableEncryption(b"secret"))
    (folder / f"{name}.locked").write_bytes(locked)
    return folder / f"{name}.pem", folder / f"{name}.key"
