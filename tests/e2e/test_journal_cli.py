"""`headway journal`: check, back up while a manager writes, and restore."""

import getpass
import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.cluster.named import cluster
from headway.errors import HeadwayError
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import Manager

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")


def run(*given: str) -> str:
    result = CliRunner().invoke(app, ["journal", *given], catch_exceptions=True)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_a_backup_of_a_running_manager_is_whole_and_can_be_restored(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    manager = Manager(data, cluster("1x1"), "fifo")
    manager.start()
    manager.drain("n000")
    over, sent = threading.Event(), list[int]()

    def submit() -> None:
        while not over.is_set():
            sent.extend(manager.submit(JobSpec(run="true"), ME))

    thread = threading.Thread(target=submit)
    thread.start()
    while len(sent) < 50:
        pass
    before = len(sent)
    run("backup", str(copy), "--data", str(data))
    over.set()
    thread.join()
    with pytest.raises(HeadwayError, match="a manager serves"):
        run("restore", str(copy), "--data", str(data))
    manager.stop()
    checked = json.loads(run("check", str(copy), "--json"))
    assert checked["ok"]
    assert before <= checked["jobs"] <= len(sent)
    assert (copy.stat().st_mode & 0o777) == 0o600
    with pytest.raises(HeadwayError, match="is there already"):
        run("backup", str(copy), "--data", str(data))
    assert "what was there is journal.db.before-1" in run("restore", str(copy), "--data", str(data))
    again = Manager(data, cluster("1x1"), "fifo")
    again.start()
    assert "older" in again.warnings[0]
    assert again.counts()["PENDING"] == checked["jobs"]
    again.stop()


def test_what_is_damaged_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no such file"):
        run("check", "--data", str(tmp_path))
    (tmp_path / "journal.db").write_bytes(b"no journal" * 1000)
    with pytest.raises(HeadwayError, match=r"damaged \(the header of journal.db .*\): restart the manager"):
        run("check", "--data", str(tmp_path))
    with pytest.raises(HeadwayError, match=r"is damaged \(the header of journal.db"):
        run("backup", str(tmp_path / "copy.db"), "--data", str(tmp_path))
    assert not (tmp_path / "copy.db").exists()
    with pytest.raises(HeadwayError, match="not a whole journal"):
        run("restore", str(tmp_path / "journal.db"), "--data", str(tmp_path / "other"))
