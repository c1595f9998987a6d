"""The manager and its machine: the systemd unit, `headway doctor`, and private data folders."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.users.machine import certificate, headway

from headway.cli.machine.doctor import BAD, LIMITED, OK, Finding, look
from headway.cli.machine.unit import systemd_unit
from headway.errors import BadInput
from headway.live.http import private
from headway.live.http.private import check_folder, weaknesses

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
