"""`headway journal prune`: old jobs are forgotten beside a running manager, and what is left still tells the whole story."""

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from tests.journal_edit import ended_rows
from tests.live_manager import ended, one, opened, until
from tests.waiting import gate
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.live.manager.loop import recorder
from headway.live.store.journal import Journal
from headway.live.store.prune import old_jobs, prune

pytestmark = pytest.mark.xdist_group("live")


def texts(data: Path) -> str:
    with sqlite3.connect(data / "journal.db") as file:
        return "\n".join(text for (text,) in file.execute("SELECT text FROM specs ORDER BY id"))


def test_old_jobs_are_forgotten_and_a_manager_without_snapshot_still_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "KEPT_FINISHED", 1)
    manager = opened(tmp_path)
    secret = one(manager, run="echo secret-1", envs={"KEY": "secret-2"})
    array = one(manager, run="echo secret-3", array="0-1")
    for job in (secret, array, array + 1):
        assert ended(manager, job) == "COMPLETED"
    again = one(manager, run="echo kept-1; [ $HEADWAY_ATTEMPT = 2 ] && sleep 600", preemption={"grace": 0})
    ended(manager, again)
    before = manager.clock()
    manager.requeue(again)  # has a row of its earlier end, and runs
    until(manager, again, "RUNNING")
    new = one(manager, run="echo kept-2")
    assert ended(manager, new) == "COMPLETED"
    manager.settle()
    assert old_jobs(tmp_path, before) == 3
    given = ["journal", "prune", "--before", "0s", "--runs", "--data", str(tmp_path)]
    with pytest.raises(BadInput, match=r"forget 4 jobs that ended before 0s and remove their logs: .*needs --yes"):
        CliRunner().invoke(app, given, catch_exceptions=False)
    found = prune(tmp_path, before, runs=True)
    assert (found.jobs, found.folders) == (3, 3)
    assert "secret" not in texts(tmp_path)
    assert "kept-1" in texts(tmp_path)
    assert "kept-2" in texts(tmp_path)
    assert not (tmp_path / "runs" / str(secret)).exists()
    assert [number for number, _ in ended_rows(tmp_path)] == [new, again]
    manager.stop()
    with sqlite3.connect(tmp_path / "journal.db") as file:
        file.execute("DELETE FROM snapshots")
    last = opened(tmp_path)  # reads the whole journal
    assert last.job(again).state == "RUNNING"
    assert last.job(new).state == "COMPLETED"
    assert one(last, run="true") == new + 1
    last.cancel(again, at_once=True)
    assert ended(last, again) == "CANCELLED"
    assert old_jobs(tmp_path, before) == 0
    last.stop()


def test_a_job_that_has_just_ended_is_found_while_its_end_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "KEPT_FINISHED", 1)
    write = Journal.append

    def slowly(*given: Any) -> int:
        time.sleep(0.5)
        return write(*given)

    monkeypatch.setattr(Journal, "append", slowly)
    manager = opened(tmp_path, "1x4")
    go = tmp_path / "go"
    jobs = [one(manager, run=gate(go)) for _ in range(4)]
    until(manager, jobs[-1], "RUNNING")
    go.touch()  # they end in one round, or two
    for job in jobs:
        assert ended(manager, job) == "COMPLETED"  # asks all the time, and gets an answer every time
    manager.stop()
