"""The manager and its machine: TLS, the systemd unit, `headway doctor`, private data folders, and tokens that end."""

import contextlib
import datetime
import ipaddress
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headway.cli.machine import certificates
from headway.cli.machine.doctor import BAD, LIMITED, OK, Finding, look
from headway.cli.machine.unit import systemd_unit
from headway.client.client import Client
from headway.client.folder import find_certificate
from headway.client.transport import Unreachable
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.io import accounts
from headway.live.executors.process import account
from headway.live.executors.process.render import environment_of, user_path
from headway.live.http import private
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.private import check_folder, weaknesses
from headway.live.http.server.connections import MOST_STRANGERS, make_server
from headway.live.http.tokens import Scope, Tokens, make_token, stored_tokens
from headway.live.manager import Manager

pytestmark = pytest.mark.xdist_group("live")
RUN = "from headway.cli.main import main; main()"


def headway(*words: object, **given: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **given)  # type: ignore[call-overload,no-any-return]


# ---- TLS


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


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A manager that speaks TLS, with a certificate for another name; its data folder and address."""
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
        assert client.wait(number, 20).state == "COMPLETED"
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
    time.sleep(0.2)
    left = 0
    for each in half:
        each.setblocking(False)
        try:
            each.recv(1)
        except BlockingIOError:
            left += 1
        except ConnectionError:
            pass
        each.close()
    assert 0 < left <= MOST_STRANGERS


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
    assert find_certificate("https://127.0.0.1:1/", tmp_path) == tmp_path / "certificate.pem"
    assert find_certificate("https://elsewhere:1", tmp_path) is None


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


# ---- the systemd unit


def test_the_unit_runs_the_command_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "headway"
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    text = systemd_unit(["--cluster", "2x4", "--policy", "tiresias-l?threshold=3600", "--systemd-unit"], None)
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert start.startswith(f"ExecStart={program} serve --cluster 2x4 --policy tiresias-l?threshold=3600")
    assert "--systemd-unit" not in start
    assert ("--data /var/lib/headway" in start) == (os.geteuid() == 0)
    lines = text.splitlines()
    assert {"KillMode=process", "Delegate=yes", "DelegateSubgroup=manager", "ProtectSystem=full"} <= set(lines)
    # Jobs inherit the unit's sandbox: what would take their GPUs, their folders or their limits away is not in it.
    for line in lines:
        assert not line.startswith(("PrivateDevices=", "ProtectClock=", "PrivateTmp=", "ProtectHome=", "DeviceAllow="))
        assert not line.startswith(("ProtectControlGroups=", "MemoryDenyWriteExecute=", "OOMScoreAdjust="))
    odd = systemd_unit(["--allow-host", 'a b%h"$X'], Path("/x"))
    assert '"a b%%h\\"$$X"' in odd
    assert "/var/lib" not in odd.partition("[Service]")[2].partition("Restart")[0]


def test_paths_in_the_unit_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd starts the manager in `/`: what is beside whoever prints the unit was not found there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.yaml").touch()
    words = ["--cluster", "lab.yaml", "--data=d", "--tls-cert", "c.pem", "--tls-key", "/k.pem", "--fabric", "testbed32"]
    text = systemd_unit([*words, "--policy=fifo", "--feature", "d"], Path("d"))
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    expected = f"serve --cluster {tmp_path}/lab.yaml --data={tmp_path}/d --tls-cert {tmp_path}/c.pem --tls-key /k.pem"
    assert f"{expected} --fabric testbed32 --policy=fifo --feature d" in start


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("SKIPPED: systemd-analyze is not here to read the unit")
    done = headway("serve", "--systemd-unit", "--cluster", "2x4")
    assert done.returncode == 0
    (tmp_path / "headway.service").write_text(done.stdout)
    read = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "headway.service")], capture_output=True, text=True, check=False
    )
    said = [line for line in read.stderr.splitlines() if "headway.service" in line]
    # systemd before 254 does not know where to put the manager itself; it does so by its own means.
    assert [line for line in said if "DelegateSubgroup" not in line] == []


# ---- doctor


def by_name(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {each.name: each for each in findings}


def test_doctor_says_what_is_missing_and_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_name(look(tmp_path / "data"))
    assert {"users", "memory of a job", "CPUs of a job", "GPUs", "data folder", "disk", "open files"} <= set(found)
    assert all(each.state == OK or each.fix for each in found.values())
    assert not (tmp_path / "data").exists()  # it changes nothing
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert (by_name(look(tmp_path))["users"].state, "as root" in by_name(look(tmp_path))["users"].fix) == (
        LIMITED,
        True,
    )


def test_doctor_knows_a_disk_that_a_journal_must_not_be_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.cli.machine import doctor

    monkeypatch.setattr(doctor, "_disk", lambda folder: "nfs4")
    assert by_name(look(tmp_path))["disk"].state == BAD
    (tmp_path / "url").write_text("http://127.0.0.1:9\n")
    assert "headway serve" in by_name(look(tmp_path))["manager"].fix


def test_doctor_reads_certificates(tmp_path: Path) -> None:
    states = {}
    for name, days in (("good", 90), ("soon", 3), ("late", -1)):
        path, _ = certificate(tmp_path, name, days=days)
        states[name] = by_name(look(tmp_path, path))["certificate"].state
    assert states == {"good": OK, "soon": LIMITED, "late": BAD}
    assert by_name(look(tmp_path, tmp_path / "none"))["certificate"].state == BAD


def test_doctor_on_the_command_line(tmp_path: Path) -> None:
    done = headway("doctor", "--data", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert {each["name"] for each in json.loads(done.stdout)["findings"]} >= {"users", "disk"}
    shown = headway("doctor", "--data", tmp_path)
    assert "declare others: serve --cluster" in shown.stdout or "found by the driver" in shown.stdout
    os.chmod(tmp_path, 0o777)
    if os.geteuid() == 0:
        assert headway("doctor", "--data", tmp_path).returncode == 1


# ---- data folders


def test_root_refuses_a_folder_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only root has others' rights to lose")
    data = tmp_path / "data"
    check_folder(data)  # not there yet
    data.mkdir()
    check_folder(data)
    os.chmod(data, 0o777)
    with pytest.raises(BadInput, match=r"data can be written by others \(mode 777"):
        check_folder(data)
    done = headway("serve", "--data", data, "--port", 0, "--cluster", "1x1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "can be written by others" in done.stderr
    os.chmod(data, 0o711)
    (data / "journal.db").write_text("")
    os.chown(data / "journal.db", 65534, 65534)
    with pytest.raises(BadInput, match=r"journal\.db belongs to user 65534"):
        check_folder(data)
    os.chown(data / "journal.db", 0, 0)
    os.chmod(data / "journal.db", 0o664)
    with pytest.raises(BadInput, match="can be written by others"):
        check_folder(data)
    os.chmod(data / "journal.db", 0o600)
    check_folder(data)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(BadInput, match="above the data folder"):
        check_folder(data)
    monkeypatch.setattr(private.os, "geteuid", lambda: 65534)
    check_folder(data)  # an ordinary user's folder is their own affair
    assert weaknesses(data)


# ---- tokens


def test_tokens_expire(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = Tokens(tmp_path, "root", clock=lambda: now[0])
    secret = make_token(tmp_path, "visit", accounts.own_account()[1], Scope.SUBMIT, expires=1060.0)
    lasting = make_token(tmp_path, "lasting", accounts.own_account()[1], Scope.READ)
    assert tokens.caller(secret) is not None
    now[0] = 1060.0
    assert tokens.caller(secret) is None
    assert "visit has expired" in tokens.why_not(secret)
    assert tokens.why_not("hw-else") == "the token is not known here"
    assert tokens.caller(lasting) is not None
    assert {each.name: each.expires for each in stored_tokens(tmp_path).values()} == {"visit": 1060.0, "lasting": None}
    rows = json.loads((tmp_path / "tokens.json").read_text())
    for row in rows:
        del row["expires"]  # as an earlier version wrote them
    (tmp_path / "tokens.json").write_text(json.dumps(rows))
    assert [each.expires for each in stored_tokens(tmp_path).values()] == [None, None]


def test_tokens_expire_by_the_command_line(tmp_path: Path) -> None:
    own = accounts.own_account()[1]
    made = headway("token", "make", "visit", "--user", own, "--expires", "30d", "--data", tmp_path, "--json")
    assert 29.9 < (json.loads(made.stdout)["expires"] - time.time()) / 86_400 < 30.1
    assert "expires 2" in headway("token", "list", "--data", tmp_path).stdout
    wrong = headway("token", "make", "other", "--user", own, "--expires", "soon", "--data", tmp_path)
    assert (wrong.returncode, "--expires" in wrong.stderr) == (1, True)
    taken = headway("token", "make", "owner", "--user", own, "--data", tmp_path)
    assert (taken.returncode, "already" in taken.stderr) == (1, True)


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on, this process is not root's."""

    def become() -> None:
        monkeypatch.setattr(accounts.os, "geteuid", lambda: 65534)

    return become


def test_without_root_tokens_of_others_may_only_read(tmp_path: Path, not_root: Callable[[], None]) -> None:
    not_root()
    own = accounts.own_account()[1]
    make_token(tmp_path, "mine", own, Scope.SUBMIT)
    make_token(tmp_path, "watch", "root", Scope.READ)
    for scope in (Scope.SUBMIT, Scope.OPERATE):
        with pytest.raises(BadInput, match=f"runs all jobs as {own}.*as root"):
            make_token(tmp_path, "theirs", "root", scope)


def test_without_root_jobs_of_others_are_refused(tmp_path: Path, not_root: Callable[[], None]) -> None:
    """Also with a token that was made before, or by hand."""
    from headway.live.executors.process.executor import ProcessExecutor

    executor = ProcessExecutor(tmp_path)
    not_root()
    executor.check_user(accounts.own_account()[1])
    with pytest.raises(BadInput, match="run the manager as root"):
        executor.check_user("root")


def test_a_real_user_who_is_not_root_is_refused_too(tmp_path: Path) -> None:
    """The same by a process that really is another user's."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only root becomes another user")
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            account.account_of("root")
        except BadInput as error:
            os.write(say, str(error).encode())
        os._exit(0)
    os.close(say)
    os.waitpid(child, 0)
    with open(hear, encoding="utf-8") as file:
        assert "runs all jobs as nobody" in file.read()


def test_other_users_get_their_own_path(tmp_path: Path) -> None:
    manager = {
        "PATH": "/root/bin:/sbin",
        "LD_LIBRARY_PATH": "/root/lib",
        "TMPDIR": "/root/tmp",
        "LANG": "C",
        "SECRET": "x",
    }
    assert environment_of(None, manager) == {key: manager[key] for key in manager if key != "SECRET"}
    assert environment_of(object(), manager) == {"LANG": "C", "PATH": user_path()}
    (tmp_path / "login.defs").write_text("# ENV_PATH x\nENV_SUPATH PATH=/sbin\nENV_PATH\tPATH=/usr/bin:/opt/bin\n")
    assert user_path(str(tmp_path / "login.defs")) == "/usr/bin:/opt/bin"
    assert user_path(str(tmp_path / "none")) == "/usr/local/bin:/usr/bin:/bin"


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
            assert (shown["job_id"], shown["state"]) == (1, "RUNNING")
            headway("submit", "--data", data, "--grace", "1s", "--", "sleep", "600")
            client = Client(data=data)

            def follow() -> None:
                with contextlib.suppress(Unreachable):
                    list(client.events())

            threading.Thread(target=follow, daemon=True).start()
            time.sleep(0.5)
        finally:
            manager.terminate()
        assert manager.wait(20) in {0, -15}
        assert manager.stderr is not None
        assert "Traceback" not in manager.stderr.read()  # with somebody following
    again = Manager(data, cluster("1x1"))
    again.start()
    again.cancel(2)
    end = time.monotonic() + 20
    while again.counts().get("CANCELLED") != 1 and time.monotonic() < end:
        time.sleep(0.05)
    again.stop()
