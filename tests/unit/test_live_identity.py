"""Runs belong to a journal: a missing, damaged or older journal is noticed and said, numbers go on, and nothing old is adopted."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from tests.journal_edit import edited
from tests.live_manager import ME, ended, opened
from tests.waiting import gate, wait_for

from headway.errors import BadInput
from headway.live.errors import JournalDamaged
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager

pytestmark = pytest.mark.xdist_group("live")


def copied(data: Path, to: Path) -> Path:
    """A copy of the journal, as somebody would make it while no manager runs."""
    with sqlite3.connect(data / "journal.db") as file, sqlite3.connect(to) as other:
        file.backup(other)
    return to


def rows_of(data: Path) -> list[list[tuple[object, ...]]]:
    """Return the rows of the tables that hold what happened."""
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as file:
        return [file.execute(f"SELECT * FROM {table}").fetchall() for table in ("jobs", "specs", "events", "finished")]


def put_back(data: Path, copy: Path) -> None:
    for path in data.glob("journal.db*"):
        path.unlink()
    shutil.copy(copy, data / "journal.db")


def log(manager: Manager, job: int, attempt: int = 1) -> str:
    return manager.log_files(job, attempt)[0].read_text()


@pytest.mark.parametrize("lost", ["missing", "damaged"])
def test_after_a_lost_journal_numbers_go_on_and_nothing_old_is_adopted(tmp_path: Path, lost: str) -> None:
    manager = opened(tmp_path)
    assert manager.warnings == []
    for text in ("one", "two"):
        assert ended(manager, manager.submit(JobSpec(run=f"echo {text}"), ME)[0]) == "COMPLETED"
    manager.stop()
    for path in tmp_path.glob("journal.db*"):
        path.write_bytes(b"damage" * 1000) if lost == "damaged" else path.unlink()
    again = opened(tmp_path)
    said = "job numbers go on after 2" if lost == "missing" else "0 jobs recovered; lost: jobs 1-2"
    assert said in again.warnings[-1]
    if lost == "damaged":
        assert "the journal was damaged" in again.warnings[0]
        assert (tmp_path / "journal.db.damaged-1").exists()
    assert again.jobs() == []
    job = again.submit(JobSpec(run="echo three; exit 3"), ME)[0]
    assert job == 3
    assert ended(again, job) == "FAILED"
    assert log(again, job) == "three\n"
    again.stop()
    last = opened(tmp_path)
    assert last.warnings == []
    assert last.submit(JobSpec(run="true"), ME) == [4]
    last.stop()


def test_a_restored_journal_is_noticed_and_what_it_does_not_know_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    manager = opened(data)
    held = manager.submit(JobSpec(run="echo held $(date +%N)", hold=True), ME)[0]
    wait_for(lambda: manager.counts()["HELD"])
    manager.stop()
    backup = copied(data, tmp_path / "backup.db")
    manager = opened(data)
    manager.release(held)
    assert ended(manager, held) == "COMPLETED"
    other = manager.submit(JobSpec(run="true"), ME)[0]
    assert ended(manager, other) == "COMPLETED"
    before = log(manager, held)
    manager.stop()
    put_back(data, backup)

    again = opened(data)
    assert len(again.warnings) == 1
    assert "older copy" in again.warnings[0]
    assert again.job(other) is None
    assert again.job(held).state == "HELD"  # type: ignore[union-attr]
    again.release(held)
    assert ended(again, held) == "COMPLETED"
    assert log(again, held) != before  # it ran: the old attempt of the same number was not taken for this one
    assert (data / "runs" / str(held) / "1.before-1" / "rank-0.log").read_text() == before
    assert again.submit(JobSpec(run="true"), ME) == [other + 1]
    again.stop()


def test_a_journal_that_only_lost_its_end_is_noticed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    manager = opened(data)
    job = manager.submit(JobSpec(run="sleep 600", hold=True), ME)[0]
    manager.stop()
    backup = copied(data, tmp_path / "backup.db")
    manager = opened(data)
    manager.drain("n000")
    manager.stop()
    put_back(data, backup)
    again = opened(data)
    assert "is older than what was written here last" in again.warnings[0]
    again.cancel(job)
    ended(again, job)
    again.stop()


def test_an_attempt_that_the_restored_journal_knows_is_adopted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    manager = opened(data)
    job = manager.submit(JobSpec(run=f"{gate(tmp_path / 'go')}; exit 7"), ME)[0]
    wait_for(lambda: manager.counts()["RUNNING"])
    manager.stop()
    backup = copied(data, tmp_path / "backup.db")
    opened(data).stop()
    put_back(data, backup)
    again = opened(data)
    assert again.warnings
    (tmp_path / "go").touch()
    assert ended(again, job) == "FAILED"
    assert again.job(job).exit_code == 7  # type: ignore[union-attr]
    again.stop()


@pytest.mark.parametrize("where", ["jobs", "snapshots", "events"])
def test_a_damaged_page_is_one_line(tmp_path: Path, where: str) -> None:
    manager = opened(tmp_path)
    for _ in range(3):
        ended(manager, manager.submit(JobSpec(run="true"), ME)[0])
    manager.stop()
    with sqlite3.connect(tmp_path / "journal.db") as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if where == "events":
            file.execute("DELETE FROM snapshots")
        (page,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (where,)).fetchone()
        (size,) = file.execute("PRAGMA page_size").fetchone()
    with open(tmp_path / "journal.db", "r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)
    again = opened(tmp_path)
    assert "the journal was damaged" in again.warnings[0]
    assert again.submit(JobSpec(run="true"), ME) == [4]
    again.stop()


@pytest.mark.parametrize("lost", ["missing", "older"])
def test_a_job_that_still_runs_though_its_journal_is_lost_is_named(tmp_path: Path, lost: str) -> None:
    """Its GPUs are given to others, and nobody was told."""
    data = tmp_path / "data"
    manager = opened(data)
    ended(manager, manager.submit(JobSpec(run="true"), ME)[0])
    manager.stop()
    backup = copied(data, tmp_path / "backup.db")
    manager = opened(data)
    job = manager.submit(JobSpec(run="sleep 600"), ME)[0]
    shim, ranks = (data / "runs" / str(job) / "1" / name for name in ("shim.json", "ranks.json"))
    wait_for(ranks.exists)
    manager.stop()
    for path in data.glob("journal.db*"):
        path.unlink()
    if lost == "older":
        put_back(data, backup)
    pid = json.loads(shim.read_text())["pid"]
    again = opened(data)
    again.stop()
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # a shim may take its ranks along
        os.killpg(json.loads(ranks.read_text())["pids"][0][0], signal.SIGKILL)
    assert len(again.warnings) == 2
    assert again.warnings[1].startswith(f"job {job} still runs, and its GPUs count as free here")
    assert f"`kill -9 {pid}` ends it" in again.warnings[1]


def test_a_journal_that_is_damaged_under_a_manager_is_said(tmp_path: Path) -> None:
    """Reading from it ended in a traceback, and in status 500."""
    manager = opened(tmp_path)
    ended(manager, manager.submit(JobSpec(run="true"), ME)[0])
    for path in tmp_path.glob("journal.db-*"):
        path.unlink()
    (tmp_path / "journal.db").write_bytes(b"damage" * 1000)
    with pytest.raises(JournalDamaged, match="the journal is damaged"):
        manager.history()
    manager.stop()


def test_a_job_with_an_unknown_field_is_refused_and_the_journal_left_as_it_is(tmp_path: Path) -> None:
    """A newer version wrote it: the manager ended with a traceback."""
    manager = opened(tmp_path)
    job = manager.submit(JobSpec(run="true", name="strange", hold=True), ME)[0]
    manager.stop()
    with edited(tmp_path) as file:
        file.execute("DELETE FROM snapshots")
        file.execute("""UPDATE specs SET text = replace(text, '"name"', '"wings":2,"name"')""")
    content = rows_of(tmp_path)
    with pytest.raises(
        BadInput, match=rf"job {job} cannot be understood \(wings; .*not permitted.*: start the version"
    ):
        opened(tmp_path)
    assert rows_of(tmp_path) == content
