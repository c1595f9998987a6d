"""`headway journal`: check, back up while a manager writes, and restore."""

import getpass
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S, wait_for
from typer.testing import CliRunner

from headway.cli.main import app
from headway.cluster.named import cluster
from headway.errors import HeadwayError
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager

ME = getpass.getuser()
HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
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
    wait_for(lambda: len(sent) >= 50)
    before = len(sent)
    run("backup", str(copy), "--data", str(data))
    copied = len(sent)
    wait_for(lambda: len(sent) > copied + 1)  # the copy is older than the journal
    over.set()
    thread.join()
    with pytest.raises(HeadwayError, match="another manager serves"):
        run("restore", str(copy), "--data", str(data))
    manager.stop()
    checked = json.loads(run("check", str(copy), "--json"))
    assert checked["ok"]
    assert before <= checked["jobs"] <= len(sent)
    assert (copy.stat().st_mode & 0o777) == 0o600
    with pytest.raises(HeadwayError, match="is there already"):
        run("backup", str(copy), "--data", str(data))
    restored = run("restore", str(copy), "--data", str(data))
    kept = "the journal that was there is kept as journal.db.before-1"
    assert f"restored {data / 'journal.db'} from {copy}; {kept}" in restored
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


def test_serve_and_health_say_that_the_journal_was_damaged_or_removed(tmp_path: Path) -> None:
    """A flipped bit lost all jobs in silence; after `rm journal.db*` submissions were acknowledged and lost, and health was well."""
    data = tmp_path / "data"
    manager = Manager(tmp_path / "served", cluster("1x1"), "fifo")
    manager.start()
    manager.drain("n000")
    for _ in range(5):
        manager.submit(JobSpec(run="true"), ME)
    shutil.copytree(tmp_path / "served", data, ignore=shutil.ignore_patterns("notify"))  # as if it was killed
    manager.stop()
    log = bytearray((data / "journal.db-wal").read_bytes())
    log[200] ^= 1
    (data / "journal.db-wal").write_bytes(log)

    def headway(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*HEADWAY, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    environment = {**os.environ, "HEADWAY_DATA": str(data)}
    with open(tmp_path / "errors", "wb") as errors:
        command = [*HEADWAY, "serve", "--cluster", "1x1", "--port", "0"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert server.stdout is not None
        assert server.stdout.readline()
        said = [line for line in (tmp_path / "errors").read_text().splitlines() if "damaged" in line]
        assert len(said) == 1
        assert "fails its checksum) and is kept as journal.db.damaged-1: 5 jobs recovered" in said[0]
        healthy = headway("health", "--json")
        assert healthy.returncode == 0
        assert "the journal was damaged" in json.loads(healthy.stdout)["last_errors"][-1]["message"]
        for path in data.glob("journal.db*"):
            path.unlink()
        refused = headway("submit", "--", "true")
        assert refused.returncode == 1
        assert "was removed or replaced under the running manager" in refused.stderr
        assert refused.stderr.count("\n") == 1
        ill = headway("health", "--json")
        assert ill.returncode == 1
        assert f"`headway journal restore {data}/journal.db.rescued-1`" in json.loads(ill.stdout)["trouble"]
        assert "was removed or replaced" in headway("explain", "1").stdout.replace("\n", " ")
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in (tmp_path / "errors").read_text()
    assert json.loads(run("check", str(data / "journal.db.rescued-1"), "--json"))["jobs"] == 5
