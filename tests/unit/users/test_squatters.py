"""Another user listens where a manager was, or beside it: no command, client or job sends anything there."""

import contextlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserve_ports
from tests.unit.users.machine import (
    AS_NOBODY,
    NOBODY,
    ROOT_ONLY,
    RUN,
    certificate,
    headway,
    manager,
    squatter,
)
from tests.waiting import PATIENCE_S

from headway.client import peer
from headway.client.client import Client
from headway.client.folder import Endpoint, find_manager
from headway.client.transport import Transport
from headway.errors import BadInput

pytestmark = [pytest.mark.xdist_group("live"), ROOT_ONLY]
NO_SUCH_FILE = "/nowhere"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of nobody's that nobody can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which one program listens after the other; the kernel gives it to nobody else in between."""
    number, reserved = reserve_ports()
    yield number
    reserved.close()


def refused(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "is answered by a program of user nobody" in done.stderr


def test_nothing_is_sent_to_whoever_took_the_managers_port(tmp_path: Path, port: int) -> None:
    data, heard = tmp_path / "data", tmp_path / "heard"
    with manager(data, "--executor", "process", "--port", port) as process:
        done = headway("submit", "--data", data, "--json", "--", "sh", "-c", "echo started; sleep 600")
        number = json.loads(done.stdout)["job_id"]
        command = [sys.executable, "-c", RUN, "logs", str(number), "--follow", "--data", str(data)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "started\n"
            process.kill()
            process.wait()
            with squatter(heard, port):
                _, said = follower.communicate(timeout=PATIENCE_S)
                refused(subprocess.CompletedProcess([], follower.returncode, "", said))
                for words in (["queue"], ["submit", "--", "true"], ["logs", str(number), "--follow"], ["health"]):
                    refused(headway(words[0], "--data", data, *words[1:]))
                looked = headway("doctor", "--data", data, "--json")
                assert "is answered by a program of user nobody" in looked.stdout
                with pytest.raises(BadInput, match="user nobody"):
                    Client(data=data).jobs()
                job = {"HEADWAY_API": (data / "url").read_text().strip(), "HEADWAY_TOKEN": "job-1-secret"}
                job |= {"HEADWAY_JOB_ID": "1", "HEADWAY_ATTEMPT": "1", "HEADWAY_RUN": NO_SUCH_FILE}
                report = "from headway import runtime; runtime.report(1); runtime.checkpointed(1)"
                subprocess.run(
                    [sys.executable, "-c", report], env={**os.environ, **job}, check=True, timeout=PATIENCE_S
                )
                refused(headway("show", 1, env={**os.environ, **job}))
    with manager(data):
        assert headway("cancel", number, "--now", "--wait", "--data", data).returncode == 0
    assert heard.read_bytes() == b""


def test_a_squatter_on_the_other_loopback_address(tmp_path: Path) -> None:
    """`localhost` is two addresses: the manager has one, and anybody may take the other."""
    heard = tmp_path / "heard"
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        with squatter(heard, server.server_port, "::1"):
            with pytest.raises(BadInput, match="user nobody"):
                Client(f"http://[::1]:{server.server_port}", "hw-secret").jobs()
            if socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[0][0] == socket.AF_INET6:
                with pytest.raises(BadInput, match="user nobody"):
                    Client(f"http://localhost:{server.server_port}", "hw-secret").jobs()
    finally:
        server.server_close()
    assert heard.read_bytes() == b""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_who_answers_by_either_table_of_the_kernel(tmp_path: Path, host: str) -> None:
    """Also by a socket of IPv6 that takes connections of IPv4."""
    reached = "127.0.0.1" if host == "::" else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with squatter(tmp_path / "heard", 0, host) as port, socket.create_connection((reached, port)) as connection:
        with pytest.raises(BadInput, match="user nobody"):
            peer.check_peer(connection, {0}, "http://here", 60)
        peer.check_peer(connection, {NOBODY}, "http://here", 60)
    with (
        socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as server,
        socket.create_connection((reached, server.getsockname()[1])) as connection,
    ):
        with pytest.raises(TimeoutError, match="no process of this machine accepted"):
            peer.check_peer(connection, {0}, "http://here", 0.1)
        accepted, _ = server.accept()
        peer.check_peer(connection, {0}, "http://here", 60)
        accepted.close()
        with pytest.raises(ConnectionResetError):
            peer.check_peer(connection, {0}, "http://here", 60)


def test_a_user_that_was_read_before_the_connection_was_accepted_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel gives user and inode one after the other: the first look may mix before and after."""
    looks = [None, (0, 77), (NOBODY, 77), (NOBODY, 77)]
    monkeypatch.setattr(peer, "_end", lambda *_: looks.pop(0))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
        pytest.raises(BadInput, match="user nobody"),
    ):
        peer.check_peer(connection, {0}, "http://here", 60)


def test_every_new_connection_is_checked(tmp_path: Path, port: int) -> None:
    """http.client connects again by itself, after an answer that ends the connection."""

    class Once(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    heard = tmp_path / "heard"
    with _answering(Once, port):
        transport = Transport(Endpoint(f"http://127.0.0.1:{port}", "hw-secret"))
        assert transport.call("GET", "/") == {}
    with squatter(heard, port), pytest.raises(BadInput, match="user nobody"):
        transport.call("GET", "/")
    assert heard.read_bytes() == b""

    good, key = certificate(tmp_path, "one.example")
    other, other_key = certificate(tmp_path, "two.example")
    with _answering(Once, port, (good, key)):
        transport = Transport(Endpoint(f"https://127.0.0.1:{port}", "hw-secret", good.read_text()))
        assert transport.call("GET", "/") == {}
    asked: list[str] = []

    class Spy(Once):
        def do_GET(self) -> None:
            asked.append(str(self.headers))
            super().do_GET()

    with _answering(Spy, port, (other, other_key)), pytest.raises(BadInput, match="does not show"):
        transport.call("GET", "/")
    assert asked == []


@contextlib.contextmanager
def _answering(
    handler: type[http.server.BaseHTTPRequestHandler], port: int, tls: tuple[Path, Path] | None = None
) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_manager_of_another_user_is_trusted_by_itself_and_by_root_with_its_folder(home: Path) -> None:
    data = home / "data"
    with manager(data, before=[*AS_NOBODY, "env", f"HOME={home}"]):
        assert headway("queue", "--data", data, before=AS_NOBODY).returncode == 0
        assert headway("queue", "--data", data).returncode == 0
        url, token = (data / "url").read_text().strip(), (data / "token").read_text().strip()
        environment = {**os.environ, "HEADWAY_API": url, "HEADWAY_TOKEN": token}
        refused(headway("queue", env=environment))  # root's own token, for all that the client knows


def test_the_folder_of_another_user_leads_no_token_of_ours_away(tmp_path: Path, home: Path) -> None:
    """A link to root's token, in a folder whose manager is another user's."""
    mine, theirs = tmp_path / "token", home / "data"
    mine.write_text("hw-roots\n")
    theirs.mkdir(mode=0o711)
    (theirs / "url").write_text("http://127.0.0.1:1\n")
    for path in (theirs, theirs / "url"):
        os.chown(path, NOBODY, NOBODY)
    (theirs / "token").symlink_to(mine)
    with pytest.raises(BadInput, match="token could have been changed by other users"):
        find_manager(data=theirs)
    (theirs / "token").unlink()
    (theirs / "token").hardlink_to(mine)
    with pytest.raises(BadInput, match="token could have been changed by other users"):
        find_manager(data=theirs)
    (theirs / "token").unlink()
    (theirs / "token").write_text("hw-nobodys\n")
    os.chown(theirs / "token", NOBODY, NOBODY)
    assert find_manager(data=theirs) == Endpoint("http://127.0.0.1:1", "hw-nobodys", owner=NOBODY)
    for path in (theirs, theirs / "url"):
        mode = path.stat().st_mode
        path.chmod(0o777)
        with pytest.raises(BadInput, match=f"{path} could have been changed by other users"):
            find_manager(data=theirs)
        path.chmod(mode)


def test_a_folder_that_cannot_be_read_is_not_needed_with_address_and_token() -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o711)
        data = Path(top) / "data"
        data.mkdir(mode=0o700)
        os.seteuid(NOBODY)
        try:
            assert find_manager("http://127.0.0.1:1", "hw-mine", data) == Endpoint("http://127.0.0.1:1", "hw-mine")
        finally:
            os.seteuid(0)


def test_a_system_that_does_not_say_who_answers_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as macOS. Only the table of IPv6 may be missing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(peer, "TABLES", {NO_SUCH_FILE: ""})
        with pytest.raises(BadInput, match=r"/nowhere cannot be read .*--tls-cert"):
            Client(url, "hw-secret").jobs()


@pytest.mark.parametrize("url", ["http://192.0.2.1:8642", "http://[2001:db8::1]:8642", "http://[::ffff:192.0.2.1]"])
def test_plain_http_stays_on_this_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", None)  # nothing is even tried
    with pytest.raises(BadInput, match=r"is not on this machine.*--tls-cert"):
        Client(url, "hw-secret").jobs()


def test_a_manager_for_other_machines_needs_tls(tmp_path: Path) -> None:
    done = headway("serve", "--host", "0.0.0.0", "--port", 0, "--cluster", "1x1", "--data", tmp_path / "data")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "--tls-cert" in done.stderr
