"""The manager and its machine: the systemd unit, `headway doctor`, and private data folders."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.users.machine import AS_NOBODY, NOBODY, ROOT_ONLY, certificate, headway, manager

from headway.cli.machine.doctor import BAD, LIMITED, OK, Finding, look
from headway.cli.machine.unit import systemd_unit
from headway.core.compiler.store import LAYERS, cache_folder
from headway.errors import BadInput
from headway.live.http import private
from headway.live.http.private import check_folder, make_folder, weaknesses

pytestmark = pytest.mark.xdist_group("live")


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "nope"), "unknown policy"),
        (("--placement", "nope"), "unknown placement"),
        (("--cluster", "0x4"), "0x4"),
        (("--queues", "absent.yaml"), "absent.yaml"),
        (("--max-grace", "soon"), "--max-grace"),
        (("--webhook", "nowhere"), "--webhook nowhere"),
    ],
)
def test_no_unit_is_printed_for_options_that_cannot_start(words: tuple[str, ...], message: str) -> None:
    done = headway("serve", "--systemd-unit", *words)
    assert (done.returncode, done.stdout, message in done.stderr) == (1, "", True), done.stderr


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


def test_doctor_asks_the_executor_whose_jobs_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root it promised for every executor that jobs run as their users."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: needs root")
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples")
    assert by_name(look(tmp_path))["users"].state == OK
    found = by_name(look(tmp_path, executor="own_executor:PlainExecutor"))["users"]
    assert (found.state, "runs all jobs as root" in found.found) == (LIMITED, True)


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
    (data / "journal.db").unlink()


@ROOT_ONLY
def test_an_ordinary_user_refuses_a_folder_that_others_can_write(tmp_path: Path) -> None:
    """A neighbour left tokens there, and became operator."""
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        data = Path(home) / "data"
        data.mkdir()
        os.chown(data, NOBODY, NOBODY)
        data.chmod(0o777)
        done = headway("serve", "--data", data, "--port", 0, "--cluster", "1x1", before=AS_NOBODY)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert f"{data} can be written by others (mode 777; chmod go-w)" in done.stderr
        assert list(data.iterdir()) == []
        data.chmod(0o711)
        (data / "tokens.json").write_text("[]")
        os.chown(data / "tokens.json", 2, 2)
        done = headway("serve", "--data", data, "--port", 0, "--cluster", "1x1", before=AS_NOBODY)
        assert (done.returncode, "belongs to user 2" in done.stderr) == (1, True)
        found = headway("doctor", "--data", data, "--json", before=AS_NOBODY)
        assert (found.returncode, "belongs to user 2" in found.stdout) == (1, True)


def copy_compiled_code(home: Path) -> None:
    """Give an ordinary user the compiled code of this user, so that a manager of theirs need not compile for half a minute."""
    for layer in LAYERS:
        with contextlib.suppress(FileNotFoundError):  # nothing of this layer was compiled
            shutil.copytree(cache_folder(layer), home / ".cache" / "headway" / cache_folder(layer).name)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", home], check=True)


@ROOT_ONLY
def test_an_ordinary_user_serves_from_home_twice_with_any_umask() -> None:
    """Above are folders of root and of the user that a group may write, and a sticky one; what the manager writes is no weakness."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o775)
        home = Path(top) / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        home.chmod(0o775)
        copy_compiled_code(home)
        data = home / "share" / "headway"
        for _ in range(2):
            with manager(data, before=[*AS_NOBODY, "env", f"HOME={home}"], umask=0o002):
                pass
        assert [path.name for path in data.iterdir() if path.lstat().st_mode & 0o022] == []


@ROOT_ONLY
def test_a_folder_that_another_user_makes_while_the_manager_starts_is_refused(tmp_path: Path) -> None:
    """Below a sticky folder such as /tmp, a neighbour may be faster."""
    tmp_path.chmod(0o1777)
    data = tmp_path / "data"
    check_folder(data)
    data.mkdir()
    os.chown(data, NOBODY, NOBODY)
    with pytest.raises(BadInput, match=f"{data} belongs to user {NOBODY}"):
        make_folder(data)


@ROOT_ONLY
def test_no_folder_that_the_manager_makes_can_be_written_by_others(tmp_path: Path) -> None:
    data = tmp_path / "share" / "headway"
    with manager(data, umask=0):
        assert weaknesses(data) == []
    with pytest.raises(BadInput, match="cannot create"):
        make_folder(data / "url" / "below")


@pytest.mark.parametrize(("mode", "refused"), [(0o775, False), (0o777, True), (0o1777, False)])
def test_what_may_be_above_the_folder_of_an_ordinary_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, refused: bool
) -> None:
    monkeypatch.setattr(private.os, "geteuid", lambda: NOBODY)
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(mode)
    found = weaknesses(tmp_path / "above" / "data")
    assert [text for text in found if f"{tmp_path}/above, above the data folder" in text] == found
    assert bool(found) is refused


def test_a_limit_of_processes_that_linux_refuses_is_bad_input(tmp_path: Path) -> None:
    """Every attempt failed to start: "cannot start: Invalid argument"."""
    done = headway("serve", "--max-processes", 5_000_000, "--data", tmp_path / "data", "--cluster", "none")
    assert "--max-processes 5000000 is not a whole number from 1 to 4,000,000" in done.stderr
