"""A damaged, foreign or removed journal: what is noticed, what is said, and what is recovered."""

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.journal_edit import edited
from tests.live_manager import ME, ended, one, opened, until
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from headway.cli.main import app
from headway.client.job import JobQuery
from headway.errors import BadInput, HeadwayError
from headway.live.errors import JournalDamaged, JournalFailed
from headway.live.jobfile.spec import JobSpec
from headway.live.manager import recovery
from headway.live.store.copies import back_up, check, put_back
from headway.live.store.integrity.checksum import checksum, intact, sealed
from headway.live.store.integrity.log import read_log
from headway.live.store.integrity.salvage import salvage
from headway.live.store.integrity.schema import EACH_BYTE
from headway.live.store.prune import prune

pytestmark = pytest.mark.xdist_group("live")
FRAME = 24 + 4096  # bytes of a frame of the log


def young(data: Path, jobs: int = 40) -> list[int]:
    """Acknowledge jobs, and leave the folder as a manager that was killed: everything is in the write-ahead log."""
    manager = opened(data.with_name("served"))
    manager.drain("n000")
    numbers = [one(manager, run="true", name=f"job-{i}") for i in range(jobs)]
    manager.settle()
    shutil.copytree(data.with_name("served"), data, ignore=shutil.ignore_patterns("notify"))
    manager.stop()
    return numbers


def stopped(data: Path) -> int:
    """A manager that has run two jobs, and holds a third, whose number is returned."""
    manager = opened(data)
    for _ in range(2):
        assert ended(manager, one(manager, run="true")) == "COMPLETED"
    held = one(manager, run="true", hold=True)
    until(manager, held, "HELD")
    manager.stop()
    return held


def flip(path: Path, at: int, bit: int = 0) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def changing(data: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection that leaves the checksums as they are; everything is in the file afterwards, and nothing in the log."""
    return contextlib.closing(sqlite3.connect(data / "journal.db", isolation_level=None))


# ---- checksums


def test_a_checksum_covers_the_table_and_every_column() -> None:
    row = (7, 2.0, "text", None, b"bytes", 3.25)
    whole = sealed("jobs", row)
    assert intact("jobs", whole)
    assert checksum("jobs", (7, 2, *row[2:])) == whole[-1]  # SQLite stores 2.0 as 2
    assert checksum("jobs", (np.int64(7).item(), np.float64(2.0), *row[2:-1], np.float64(3.25))) == whole[-1]
    assert checksum("meta", row) != whole[-1]
    for column, other in enumerate((6, 2.5, "Text", 0, b"Bytes", 3.5)):
        assert checksum("jobs", (*row[:column], other, *row[column + 1 :])) != whole[-1]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE events SET data = '{' WHERE seq = 2", "table events: 1 row with a wrong checksum, the first is 2"),
        (
            "UPDATE events SET kind = 'Sang' WHERE seq = 2",
            "table events: 1 row with a wrong checksum, the first is 2",
        ),
        ("UPDATE specs SET text = 'no' WHERE id = 3", "table specs: 1 row with a wrong checksum, the first is 3"),
        ("DELETE FROM events WHERE seq = 4", "table events: 1 row missing between 1 and"),
        ("DELETE FROM jobs WHERE id = 2", "table jobs: 1 row missing between 1 and 3"),
        ("DELETE FROM specs WHERE id = 3", "the job file of job 3 is missing"),
        ("DROP TABLE finished", "the table finished is missing"),
    ],
)
def test_bad_rows_are_found_by_check_and_by_the_next_manager(tmp_path: Path, sql: str, said: str) -> None:
    """Bad JSON and an unknown kind ended in a traceback, and `journal check` called both whole."""
    held = stopped(tmp_path)
    with changing(tmp_path) as file:
        file.execute(sql)
    result = CliRunner().invoke(app, ["journal", "check", "--data", str(tmp_path), "--json"])
    assert result.exit_code == 1
    assert any(said in problem for problem in json.loads(result.output)["problems"])
    again = opened(tmp_path)
    assert len(again.warnings) == 1
    assert f"the journal was damaged ({said}" in again.warnings[0]
    assert "is kept as journal.db.damaged-1: 3 jobs recovered" in again.warnings[0]
    assert [view.state for view in again.jobs()] == ["COMPLETED", "COMPLETED", "HELD"]
    assert again.health().last_errors[-1].message.startswith("the journal was damaged")
    again.release(held)
    assert ended(again, held) == "COMPLETED"
    again.stop()
    assert not check(tmp_path / "journal.db").problems
    assert check(tmp_path / "journal.db.damaged-1").problems
    assert opened_warnings(tmp_path) == []


def opened_warnings(data: Path) -> list[str]:
    manager = opened(data)
    manager.stop()
    return manager.warnings


def test_a_row_of_a_newer_version_is_refused_and_nothing_is_set_aside(tmp_path: Path) -> None:
    stopped(tmp_path)
    with edited(tmp_path) as file:
        file.execute("DELETE FROM snapshots")
        file.execute("UPDATE events SET kind = 'Sang' WHERE seq = 2")
    assert check(tmp_path / "journal.db").problems == (
        "this version does not know rows of the kind 'Sang': a newer version wrote them",
    )
    with pytest.raises(
        BadInput, match=r"row 2 of the journal is of the kind 'Sang', which this version does not know: start"
    ):
        opened(tmp_path)
    assert not list(tmp_path.glob("journal.db.*"))
    with edited(tmp_path) as file:
        file.execute("UPDATE events SET kind = 'Blocked' WHERE seq = 2")
    with pytest.raises(BadInput, match=r"row 2 of the journal \(Blocked\) cannot be understood"):
        opened(tmp_path)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_another_format_is_refused_and_left_as_it_is(tmp_path: Path, version: int) -> None:
    stopped(tmp_path)
    with changing(tmp_path) as file:
        file.execute(f"PRAGMA user_version = {version * EACH_BYTE}")
        content = list(file.iterdump())
    for read in (lambda: opened(tmp_path), lambda: prune(tmp_path, 0.0)):
        with pytest.raises(
            BadInput, match=f"the journal has format {version}, and this version .* reads format 2: start"
        ):
            read()
    with changing(tmp_path) as file:
        assert list(file.iterdump()) == content
    assert not list(tmp_path.glob("journal.db.*"))


def test_a_flipped_bit_in_the_version_of_the_format_is_damage(tmp_path: Path) -> None:
    stopped(tmp_path)
    with changing(tmp_path) as file:
        file.execute(f"PRAGMA user_version = {0x02020205}")
    again = opened(tmp_path)
    assert "the version of its format is 0x2020205" in again.warnings[0]
    assert len(again.jobs()) == 3
    again.stop()


# ---- the write-ahead log


def by_the_book(words: list[int], first: int = 0, second: int = 0) -> tuple[int, int]:
    """The checksum as the description of the format has it."""
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) % 2**32
        second = (second + words[at + 1] + first) % 2**32
    return first, second


def test_the_checksums_of_a_log_are_those_of_sqlite(tmp_path: Path) -> None:
    young(tmp_path / "data", 5)
    path = tmp_path / "data" / "journal.db-wal"
    raw = path.read_bytes()
    words = np.frombuffer(raw, "<u4").tolist()
    assert by_the_book(words[:6]) == tuple(np.frombuffer(raw, ">u4", 2, 24).tolist())
    assert read_log(path.with_name("journal.db")).damage == ""
    size = 24 + 4096
    count = (len(raw) - 32) // size
    for frame in range(count):
        flip(path, 32 + frame * size + random.Random(frame).randrange(size), frame % 8)
        assert read_log(path.with_name("journal.db")).damage.startswith(f"frame {frame + 1} of {count}"), frame
        path.write_bytes(raw)
    path.write_bytes(raw[:-1])  # a write that power cut short
    assert read_log(path.with_name("journal.db")).damage == ""


@pytest.mark.parametrize(
    "at", [20, 32 + 8, 32 + 20, 32 + 24 + 3000, -2000], ids=["header", "salt", "sum", "first", "last"]
)
def test_a_flipped_bit_in_the_log_loses_nothing(tmp_path: Path, at: int) -> None:
    """All forty acknowledged jobs were lost, and no copy was kept."""
    data = tmp_path / "data"
    numbers = young(data)
    path = data / "journal.db-wal"
    flip(path, at % path.stat().st_size, 3)
    for read in (
        lambda: prune(data, 0.0),
        lambda: back_up(data / "journal.db", tmp_path / "copy"),
    ):
        with pytest.raises(
            JournalDamaged, match=r"of the write-ahead log journal.db-wal fails its checksum\): restart"
        ):
            read()
    assert "write-ahead log" in check(data / "journal.db").problems[0]
    again = opened(data)
    assert len(again.warnings) == 1
    assert "and is kept as journal.db.damaged-1: 40 jobs recovered" in again.warnings[0]
    assert (data / "journal.db.damaged-1-wal").exists()
    assert [view.job_id for view in again.jobs()] == numbers
    again.stop()
    assert not check(data / "journal.db").problems


def test_a_manager_that_was_killed_is_no_damage(tmp_path: Path) -> None:
    data = tmp_path / "data"
    numbers = young(data)
    with open(data / "journal.db-wal", "ab") as file:
        file.write(bytes(1000))  # power cut a write short
    again = opened(data)
    assert again.warnings == []
    assert [view.job_id for view in again.jobs()] == numbers
    again.stop()


def test_a_log_that_lost_its_end_is_said_and_its_jobs_are_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    young(data)
    path = data / "journal.db-wal"
    frames = (path.stat().st_size - 32) // (24 + 4096)
    with open(path, "r+b") as file:
        file.truncate(32 + frames // 2 * (24 + 4096))
    again = opened(data)
    found = [view.job_id for view in again.jobs()]
    assert f"; lost: jobs {found[-1] + 1}-40; job numbers go on after 40" in again.warnings[0]
    assert one(again, run="true") == 41
    again.stop()


@pytest.mark.parametrize("tail", [bytes(2 * FRAME), random.Random(1).randbytes(2 * FRAME)], ids=["zeros", "garbage"])
def test_a_log_whose_end_was_overwritten_is_kept(tmp_path: Path, tail: bytes) -> None:
    data = tmp_path / "data"
    young(data)
    path = data / "journal.db-wal"
    raw = path.read_bytes()
    path.write_bytes(raw[: -len(tail)] + tail)
    again = opened(data)
    assert "of the write-ahead log journal.db-wal fails its checksum) and is kept as" in again.warnings[0]
    assert (data / "journal.db.damaged-1-wal").read_bytes() == raw[: -len(tail)] + tail
    again.stop()


@pytest.mark.parametrize("gone", ["removed", "emptied"])
def test_jobs_are_recovered_from_a_log_without_its_database(tmp_path: Path, gone: str) -> None:
    """SQLite deletes the log beside an empty database, with all forty acknowledged jobs."""
    data = tmp_path / "data"
    numbers = young(data)
    path = data / "journal.db"
    path.unlink() if gone == "removed" else path.write_bytes(b"")
    again = opened(data)
    assert "journal.db is empty, and its write-ahead log is not" in again.warnings[0]
    assert "40 jobs recovered" in again.warnings[0]
    assert [view.job_id for view in again.jobs()] == numbers
    again.stop()


# ---- what is lost


def test_pages_in_each_others_place_are_no_traceback(tmp_path: Path) -> None:
    """The last row of `events` was read before it was checked: its time was a user's name."""
    held = stopped(tmp_path)
    path = tmp_path / "journal.db"
    with changing(tmp_path) as file:
        roots = dict(file.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))
    raw = bytearray(path.read_bytes())
    to, begin = ((roots[name] - 1) * 4096 for name in ("events", "jobs"))
    raw[to : to + 4096] = raw[begin : begin + 4096]
    path.write_bytes(raw)
    again = opened(tmp_path)
    assert "3 jobs recovered" in again.warnings[0]
    assert (tmp_path / "journal.db.damaged-1").exists()
    assert [view.state for view in again.jobs()][held - 1] == "HELD"
    again.stop()


def test_a_second_damage_names_the_jobs_of_the_first(tmp_path: Path) -> None:
    """A manager that ends before it has dealt with a loss leaves the line to the next one."""
    stopped(tmp_path)
    for number in (2, 3):
        with changing(tmp_path) as file:
            file.execute("UPDATE jobs SET user = 'eve' WHERE id = ?", [number])
            file.execute("DELETE FROM snapshots")
        salvage(tmp_path, "for the test", True)
    again = opened(tmp_path)
    assert "lost: job 2;" in again.warnings[0]
    assert "lost: job 3;" in again.warnings[0]
    again.stop()


@pytest.mark.parametrize("renames", range(5))
def test_a_manager_that_is_killed_during_recovery_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """All jobs were called lost if it was killed after it had renamed the damaged files."""
    data = tmp_path / "data"
    numbers = young(data)
    flip(data / "journal.db-wal", 40_000)
    rename, done = Path.rename, list[Path]()

    def killed(path: Path, to: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(path)
        return rename(path, to)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        opened(data)
    assert len(done) == renames
    again = opened(data)
    assert "is kept as journal.db.damaged-1: 40 jobs recovered" in again.warnings[0]
    assert [view.job_id for view in again.jobs()] == numbers
    assert sorted(path.name for path in data.glob("journal.db.*")) == [
        f"journal.db.damaged-1{ending}" for ending in ("", "-shm", "-wal")
    ]
    again.stop()


def test_a_damaged_mark_is_not_believed(tmp_path: Path) -> None:
    """Jobs that never were are not called lost, and their numbers are not skipped."""
    stopped(tmp_path)
    mark = tmp_path / "journal.mark"
    identity, seq, job, *rest = mark.read_text().split()
    mark.write_text(" ".join([identity, seq, str(int(job) + 4000), *rest]))
    again = opened(tmp_path)
    assert again.warnings == []
    assert one(again, run="true", hold=True) == 4
    again.stop()


def test_a_restore_that_fails_leaves_the_journal_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    stopped(data)
    back_up(data / "journal.db", tmp_path / "copy.db")
    before = (data / "journal.db").read_bytes()

    def full(path: Path, to: Path) -> None:
        raise JournalFailed("the disk is full")

    monkeypatch.setattr("headway.live.store.copies.back_up", full)
    with pytest.raises(JournalFailed, match="full"):
        put_back(data, tmp_path / "copy.db")
    assert (data / "journal.db").read_bytes() == before


def test_a_job_that_cannot_be_read_is_named_and_its_number_is_not_used_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    numbers = young(data)
    with changing(data) as file:
        file.execute("UPDATE jobs SET user = 'eve' WHERE id IN (7, 8, 40)")
    again = opened(data)
    assert "37 jobs recovered; lost: jobs 7-8, 40" in again.warnings[0]
    assert [view.job_id for view in again.jobs()] == [job for job in numbers if job not in (7, 8, 40)]
    assert one(again, run="true") == 41
    again.stop()


def test_jobs_that_may_have_run_are_held_and_finished_ones_stay_finished(tmp_path: Path) -> None:
    """What became of them is in rows that are lost: they must not run twice without anybody having said so."""
    manager = opened(tmp_path)
    finished = one(manager, run="echo once")
    assert ended(manager, finished) == "COMPLETED"
    lost = one(manager, run="echo twice")
    assert ended(manager, lost) == "COMPLETED"
    manager.drain("n000")
    waiting = one(manager, run="true", after=[finished])
    until(manager, waiting, "PENDING")
    manager.stop()
    with changing(tmp_path) as file:
        file.execute("DELETE FROM snapshots")
        file.execute("DELETE FROM finished WHERE job = ?", (lost,))
        file.execute("UPDATE events SET data = 'no' WHERE seq = 3")  # its checksum is wrong now
    again = opened(tmp_path)
    assert len(again.warnings) == 1
    assert "3 jobs recovered; what happened after " in again.warnings[0]
    assert f"held, because they may have run: job {lost} (`headway release`" in again.warnings[0]
    assert ended(again, finished) == "COMPLETED"
    assert until(again, lost, "HELD").message.startswith("the job may have run, but the journal lost its outcome")
    assert ended(again, waiting) == "COMPLETED"  # it never ran
    assert [row.state for row in again.history()] == ["COMPLETED", "HELD", "COMPLETED"]
    again.stop()
    last = opened(tmp_path, policy="best-effort")  # rebuilt from the facts alone
    assert not any("damaged" in line for line in last.warnings)
    assert last.job(lost).state == "HELD"  # type: ignore[union-attr]
    last.release(lost)
    assert ended(last, lost) == "COMPLETED"
    last.stop()


def test_another_policy_on_a_journal_whose_beginning_is_lost(tmp_path: Path) -> None:
    """The snapshot of the other policy cannot be used, and what it knows cannot be read again."""
    held = stopped(tmp_path)
    with changing(tmp_path) as file:
        file.execute("UPDATE events SET data = 'no' WHERE seq = 3")
    assert opened_warnings(tmp_path) != []
    again = opened(tmp_path, policy="best-effort")
    assert "rows before number" in again.warnings[0]
    again.settle()
    assert [view.state for view in again.jobs()] == ["COMPLETED", "COMPLETED", "HELD"]
    again.cancel(held)
    again.stop()


def test_damage_that_is_seen_while_a_manager_runs_is_repaired_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large journal is not read as a whole at the start."""
    stopped(tmp_path)
    monkeypatch.setattr(recovery, "CHECKED_BYTES", 0)
    with changing(tmp_path) as file:
        file.execute("UPDATE finished SET name = 'other' WHERE job = 1")
    manager = opened(tmp_path)
    assert manager.warnings == []
    with pytest.raises(JournalDamaged, match=r"row 1 of table finished fails its checksum\): restart the manager"):
        manager.history()
    assert manager.submit(JobSpec(run="true"), ME) == [4]  # it goes on
    assert ended(manager, 4) == "COMPLETED"
    manager.stop()
    again = opened(tmp_path)
    assert "table finished: 1 row with a wrong checksum" in again.warnings[0]
    assert [row.job_id for row in again.history(JobQuery(states=frozenset({"COMPLETED"}), descending=True))] == [4, 2]
    again.stop()


def test_a_damaged_journal_on_a_full_disk_is_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(data)]
    data.mkdir()
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("SKIPPED: only root may mount a small disk to fill")
    try:
        stopped(data)
        manager = opened(data)
        one(manager, run="true", hold=True, envs={"LONG": "x" * 400_000})
        manager.stop()
        with changing(data) as file:
            file.execute("UPDATE events SET kind = 'Sang' WHERE seq = 2")
        filler = data / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(8 << 20))
        with open(filler, "r+b") as file:
            file.truncate(filler.stat().st_size - (300 << 10))  # enough to open it, and too little for another
        with pytest.raises(JournalFailed, match=r"is damaged \(.*\), and cannot be recovered \(.* full\): make room"):
            opened(data)
        filler.unlink()
        assert not list(data.glob("*.part"))
        again = opened(data)
        assert "4 jobs recovered" in again.warnings[0]
        again.stop()
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)


# ---- under a running manager


@pytest.mark.parametrize("gone", ["all", "log", "index", "moved", "replaced"])
def test_a_journal_that_is_removed_under_a_manager_accepts_nothing_more(tmp_path: Path, gone: str) -> None:
    """Later submissions were acknowledged and lost, and `headway health` reported no problem."""
    data = tmp_path / "data"
    manager = opened(data)
    manager.drain("n000")
    before = [one(manager, run="true") for _ in range(8)]
    manager.settle()
    path, aside = data / "journal.db", tmp_path / "aside.db"
    if gone == "all":
        for name in data.glob("journal.db*"):
            name.unlink()
    elif gone == "log":
        (data / "journal.db-wal").unlink()
    elif gone == "index":
        (data / "journal.db-shm").unlink()
    else:
        path.rename(aside)
        if gone == "replaced":
            shutil.copy(aside, path)
    said = r"journal.db was removed or replaced under the running manager, which accepts nothing more: stop the manager"
    health = manager.health()
    assert not health.ok
    assert "removed or replaced" in health.trouble
    for _ in range(3):
        with pytest.raises(JournalFailed, match=said):
            one(manager, run="true")
    with pytest.raises(JournalFailed, match=said) as refused:
        manager.hold(before[0])
    assert refused.value.code == "journal_failed"
    assert refused.value.fields["path"] == str(path)
    assert "removed or replaced" in refused.value.fields["cause"]
    if gone in ("all", "moved"):
        with pytest.raises(JournalFailed, match=said):
            manager.history()
    with pytest.raises(JournalFailed, match=r"`headway journal restore /.*/journal.db.rescued-1`"):
        manager.try_journal()
    assert "removed or replaced" in manager.explain(before[0]).message
    manager.stop()
    rescued = data / "journal.db.rescued-1"
    assert check(rescued).jobs == 8
    assert (rescued.stat().st_mode & 0o777) == 0o600
    result = CliRunner().invoke(app, ["journal", "restore", str(rescued), "--data", str(data)])
    assert result.exit_code == 0, result.output
    again = opened(data)
    assert again.warnings == []
    assert [view.job_id for view in again.jobs()] == before
    assert one(again, run="true") == 9
    again.stop()


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
def test_a_file_that_is_emptied_under_a_manager_is_noticed(tmp_path: Path, name: str) -> None:
    """Later submissions were acknowledged, and `headway health` reported no problem."""
    data = tmp_path / "data"
    manager = opened(data)
    manager.drain("n000")
    before = [one(manager, run="true") for _ in range(8)]
    manager.settle()
    (data / name).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(JournalFailed, match=rf"{name} was .* under the running manager\): restart the manager"):
            one(manager, run="true")
    assert not manager.health().ok
    manager.stop()
    again = opened(data)
    assert set(before) <= {view.job_id for view in again.jobs()}
    again.stop()


def test_a_restart_after_a_removal_names_the_rescued_copy(tmp_path: Path) -> None:
    data = tmp_path / "data"
    stopped(data)
    manager = opened(data)
    for path in data.glob("journal.db*"):
        path.unlink()
    manager.stop()
    again = opened(data)
    assert f"`headway journal restore {data}/journal.db.rescued-1`" in again.warnings[0]
    again.stop()


def test_a_copy_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refused submission left another empty copy on the full disk."""
    data = tmp_path / "data"
    manager = opened(data)
    manager.settle()
    for path in data.glob("journal.db*"):
        path.unlink()
    connect = sqlite3.connect

    def full(path: Path, **options: object) -> sqlite3.Connection:
        if "rescued" in str(path):
            raise sqlite3.OperationalError("database or disk is full")
        return connect(path, **options)  # type: ignore[call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        for _ in range(3):
            with pytest.raises(JournalFailed, match="`headway journal restore` a backup"):
                one(manager, run="true")
        assert not list(data.glob("journal.db.rescued*"))
    with pytest.raises(JournalFailed, match=r"rescued-1`"):
        one(manager, run="true")
    manager.stop()


def test_a_journal_that_is_moved_back_is_written_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    manager = opened(data)
    (data / "journal.db").rename(tmp_path / "aside.db")
    with pytest.raises(JournalFailed, match="removed or replaced"):
        one(manager, run="true")
    (tmp_path / "aside.db").rename(data / "journal.db")
    assert ended(manager, one(manager, run="true")) == "COMPLETED"
    assert manager.health().ok
    manager.stop()


def test_a_commit_during_which_the_journal_is_removed_is_not_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    manager = opened(data)
    begun, go = threading.Event(), threading.Event()
    manager._journal.commit_later(lambda _: (begun.set(), go.wait(PATIENCE_S)))
    assert begun.wait(PATIENCE_S)
    refused: list[HeadwayError] = []

    def submit() -> None:
        try:
            manager.submit(JobSpec(run="true"), ME)
        except HeadwayError as error:
            refused.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    for path in data.glob("journal.db*"):
        path.unlink()
    go.set()
    thread.join(PATIENCE_S)
    assert "removed or replaced" in str(refused[0])
    manager.stop()
