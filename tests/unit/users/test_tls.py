"""TLS: which certificates are trusted, where they go, and which are refused; nobody locks others out by never agreeing on keys."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.users.machine import RUN, certificate, headway
from tests.waiting import PATIENCE_S, wait_for

from headway.cli.machine import certificates
from headway.client.client import Client
from headway.client.folder import find_manager
from headway.client.transport import Unreachable
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.io import accounts
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.server import connections
from headway.live.http.server.connections import MOST_STRANGERS, make_server
from headway.live.http.tokens import Tokens
from headway.live.manager.manager import Manager

pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A manager that speaks TLS, with a certificate for another name; its data folder and address."""
    monkeypatch.setattr(connections, "HEADERS_WITHIN_S", PATIENCE_S)
    data = tmp_path / "data"
    manager = Manager(data, cluster("1x2"))
    manager.start()
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    pair = certificates.checked(*certificate(tmp_path, "cluster.example"))
    assert pair is not None
    (data / "url").write_text(f"https://{host}\n")
    certificates.publish(pair[0], data)
    server = make_server(Guard(make_api(manager), Tokens(data, accounts.own_account()[1]), [host]), pair)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield data, f"https://{host}"
    server.should_exit = True
    thread.join()
    manager.stop(drain=True)


def test_a_client_trusts_the_certificate_in_the_data_folder_and_no_other(
    secure: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, url = secure
    with Client(data=data) as client:
        number = client.submit(["echo", "secret"])
        assert client.wait(number, PATIENCE_S).state == "COMPLETED"
        assert list(client.logs(number, follow=True)) == ["secret"]
    token = (data / "token").read_text().strip()
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "nothing"))
    with pytest.raises(BadInput, match=r"not trusted.*HEADWAY_CERT"):
        Client(url, token).jobs()
    monkeypatch.setenv("HEADWAY_CERT", str(data / "certificate.pem"))
    assert Client(url, token).jobs()
    other, _ = certificate(tmp_path, "other.example")
    monkeypatch.setenv("HEADWAY_CERT", str(other))
    with pytest.raises(BadInput, match="does not show the certificate"):
        Client(url, token).jobs()
    monkeypatch.setenv("HEADWAY_CERT", str(data / "token"))
    with pytest.raises(BadInput, match="no certificate in PEM"):
        Client(url, token).jobs()
    monkeypatch.delenv("HEADWAY_CERT")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cluster.example.pem"))
    with pytest.raises(BadInput, match="not trusted"):  # its authority is known, but it is for another name
        Client(url, token).jobs()


def test_connections_that_never_agree_on_tls_lock_nobody_out(secure: tuple[Path, str]) -> None:
    data, url = secure
    half = [socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) for _ in range(1100)]
    with Client(data=data) as client:
        assert client.status()["counts"] is not None

    def is_open(each: socket.socket) -> bool:
        each.setblocking(False)
        try:
            each.recv(1)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    wait_for(lambda: not any(is_open(each) for each in half[:-MOST_STRANGERS]))
    assert 0 < sum(is_open(each) for each in half) <= MOST_STRANGERS
    for each in half:
        each.close()


def test_old_versions_of_tls_are_refused(secure: tuple[Path, str]) -> None:
    port = int(secure[1].rsplit(":", 1)[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as found:
        assert found.version() in {"TLSv1.2", "TLSv1.3"}
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(plain)


def test_the_certificate_goes_only_to_the_address_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADWAY_CERT", raising=False)
    (tmp_path / "url").write_text("https://127.0.0.1:1\n")
    (tmp_path / "certificate.pem").write_text("x")
    assert find_manager("https://127.0.0.1:1/", data=tmp_path).certificate == "x"
    assert find_manager("https://elsewhere:1", data=tmp_path).certificate is None


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    good, key = certificate(tmp_path, "one.example")
    _, other = certificate(tmp_path, "two.example")
    assert certificates.checked(None, None) is None
    for pair, words in (
        ((good, None), "go together"),
        ((tmp_path / "none", key), "--tls-cert .*none: No such file"),
        ((good, other), "not that of the certificate"),
        ((key, key), "not a certificate and a key"),
        ((good, tmp_path / "one.example.locked"), "has a password"),
    ):
        with pytest.raises(BadInput, match=words):
            certificates.checked(*pair)
    done = headway("serve", "--tls-cert", good, "--data", tmp_path / "data")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "--tls-key" in done.stderr


def test_only_the_certificate_itself_is_left_for_clients(tmp_path: Path) -> None:
    one, _ = certificate(tmp_path, "one.example")
    two, _ = certificate(tmp_path, "authority.example")
    chain = tmp_path / "chain.pem"
    chain.write_text(one.read_text() + two.read_text())
    left = certificates.publish(str(chain), tmp_path)
    assert ssl.PEM_cert_to_DER_cert(left.read_text()) == ssl.PEM_cert_to_DER_cert(one.read_text())


def test_serving_with_tls_from_the_command_line(tmp_path: Path) -> None:
    """Commands trust the manager by its data folder, jobs by their environment."""
    good, key = certificate(tmp_path, "cluster.example")
    data = tmp_path / "data"
    words = ["serve", "--data", data, "--port", 0, "--cluster", "1x1", "--tls-cert", good, "--tls-key", key, "--json"]
    command = [sys.executable, "-c", RUN, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as manager:
        try:
            assert manager.stdout is not None
            said = "".join(iter(lambda: manager.stdout.readline(), "}\n")) + "}"  # type: ignore[union-attr]
            assert json.loads(said)["url"].startswith("https://127.0.0.1:")
            inside = f"import os, sys; sys.argv[1:] = ['show', os.environ['HEADWAY_JOB_ID'], '--json']; {RUN}"
            done = headway("submit", "--data", data, "--wait", "--", sys.executable, "-c", inside)
            assert done.returncode == 0, done.stdout + done.stderr
            shown = json.loads(headway("logs", 1, "--data", data).stdout)
            assert shown["job_id"] == 1
            assert shown["state"] in ("STARTING", "RUNNING")  # the job may answer before the manager knows that it runs
            headway("submit", "--data", data, "--grace", "1s", "--", "sleep", "600")
            client, follows = Client(data=data), threading.Event()

            def follow() -> None:
                with contextlib.suppress(Unreachable):
                    for _ in client.events():
                        follows.set()

            threading.Thread(target=follow, daemon=True).start()
            assert follows.wait(PATIENCE_S)
        finally:
            manager.terminate()
        assert manager.wait(PATIENCE_S) in {0, -15}
        assert manager.stderr is not None
        assert "Traceback" not in manager.stderr.read()  # with somebody following
    again = Manager(data, cluster("1x1"))
    again.start()
    again.cancel(2)
    wait_for(lambda: again.counts().get("CANCELLED") == 1)
    again.stop()
