"""Journals of format 1 (version 0.1) are converted when they are opened, in one transaction, or refused in one line."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.journal_edit import edited
from tests.live_manager import ended, one, opened

import headway
from headway.core.events import REASONS
from headway.core.tables.jobs import JOB
from headway.errors import BadInput
from headway.live.manager.recovery import CONVERTED
from headway.live.state.learn import ALL_KINDS
from headway.live.store.copies import check
from headway.live.store.integrity.convert import COMPLETE_FROM, FORMER_COLUMNS, job_row
from headway.live.store.integrity.schema import EACH_BYTE, FORMAT, version_of

pytestmark = pytest.mark.xdist_group("live")
ROWS = "SELECT seq, time, kind, job, attempt, data FROM events ORDER BY seq"
FAT = {"message": "x" * 2000}  # so that the conversion does not fit into the memory of SQLite


def former_rest(content: dict[str, Any]) -> bytes:
    """A finished job as version 0.1 wrote it."""
    by_name = dict(zip(JOB.names or (), content["row"], strict=True))
    row = [by_name.get({"moves": "migrations"}.get(name, name), float("inf")) for name in FORMER_COLUMNS]
    receipt = content["receipt"][: REASONS.index("quota") + 1]
    return zlib.compress(json.dumps({"job": content["job"], "row": row, "receipt": receipt}).encode())


def old_journal(data: Path, more: int = 0) -> tuple[int, int]:
    """Make a journal of format 1: one job is over, one is held, and rows in the words of version 0.1 are at the end."""
    manager = opened(data, "2x2")
    over, held = one(manager, run="true"), one(manager, run="true", hold=True)
    assert ended(manager, over) == "COMPLETED"
    manager.settle()
    manager.stop()
    with edited(data) as file:
        last, time = file.execute("SELECT max(seq), max(time) FROM events").fetchone()
        rows = [
            ("Released", held, {"before": 1}),
            ("Explained", 0, {"class": 2, "why": "turn"}),
            ("Claim", held, {"places": [[0, 1]]}),
            ("Reserve", held, {"places": [[0, 1]]}),
            ("Start", held, {"places": [[0, 1]]}),
            ("Started", held, {}),
            ("Reserve", held, {"places": [[1, 1]]}),
            ("Resize", held, {"places": [[0, 1]]}),
            ("Explained", 0, {"class": 2, "why": "reservation"}),
            ("Stopped", held, {"exit_code": 0, "message": ""}),
            ("Reserve", held, {}),
            ("Held", held, {"blockers": 1, "before": 0}),
            *[("Explained", 0, {"class": 2, "why": "turn", **FAT})] * more,
        ]
        numbered = enumerate(rows, last + 1)
        values = [(seq, time, kind, job, int(job > 0), json.dumps(about), 0) for seq, (kind, job, about) in numbered]
        file.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        file.execute("DELETE FROM meta WHERE name = 'policy'")
        file.execute("UPDATE snapshots SET content = x'00'")
        (rest,) = file.execute("SELECT rest FROM finished WHERE job = ?", (over,)).fetchone()
        content = json.loads(zlib.decompress(rest))
        file.execute("UPDATE finished SET rest = ? WHERE job = ?", (former_rest(content), over))
        file.execute(f"PRAGMA user_version = {EACH_BYTE}")
    return over, held


def rows_of(data: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as file:
        return file.execute(ROWS).fetchall()


def test_a_journal_of_version_0_1_is_converted_at_the_first_start(tmp_path: Path) -> None:
    over, held = old_journal(tmp_path)
    before = rows_of(tmp_path)
    assert not check(tmp_path / "journal.db").problems
    manager = opened(tmp_path, "2x2")
    try:
        assert manager.warnings == [CONVERTED]
        assert [(view.job_id, view.state) for view in manager.jobs()] == [(over, "COMPLETED"), (held, "HELD")]
        assert manager.explain(over).receipt_us
        migrated = manager.look(lambda state, now: int(state.tables.jobs["migrations"][state.jobs[held].row]))
        assert migrated == 1
        manager.release(held)
        assert ended(manager, held) == "COMPLETED"
    finally:
        manager.stop()
    after = rows_of(tmp_path)
    assert {row[2] for row in after} <= ALL_KINDS - {"Resize"}
    changed = [(old[2], new[2], json.loads(new[5])) for old, new in zip(before, after, strict=False) if old != new]
    assert changed == [
        ("Explained", "Explained", {"class": 2, "why": "min_runtime"}),
        ("Claim", "Deferred", {"until": None}),
        ("Reserve", "Promise", {"places": [[0, 1]]}),
        ("Reserve", "Promise", {"places": [[1, 1]]}),
        ("Resize", "Migrate", {"places": [[1, 1]]}),
        ("Explained", "Explained", {"class": 2, "why": "backfill_reservation"}),
        ("Reserve", "Promise", {}),
    ]
    assert not check(tmp_path / "journal.db").problems
    again = opened(tmp_path, "2x2")
    assert again.warnings == []
    again.stop()


def test_a_journal_that_needs_its_snapshot_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    old_journal(tmp_path)
    with edited(tmp_path) as file:
        file.execute("INSERT INTO meta VALUES (?, '3', 0)", (COMPLETE_FROM,))
    before = rows_of(tmp_path)
    with pytest.raises(
        BadInput, match=r"cannot be converted \(rows before number 3 were lost.*: drain it with version 0.1"
    ):
        opened(tmp_path, "2x2")
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        assert version_of(file) == 1
    assert rows_of(tmp_path) == before


KILLED = """
import sys, time
from pathlib import Path
from headway.live.store.integrity import convert, schema
from headway.live.store.journal import Journal
whole = convert.convert
def convert_and_wait(connection):
    connection.execute("PRAGMA cache_size = 8")
    whole(connection)
    print("converted", flush=True)
    time.sleep(3600)
schema.convert = convert_and_wait
Journal(Path(sys.argv[1]))
"""


def test_a_kill_during_the_conversion_leaves_the_old_journal(tmp_path: Path) -> None:
    old_journal(tmp_path, more=2000)
    before = rows_of(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path(headway.__file__).resolve().parents[1])}
    child = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"converted\n"
    log = tmp_path / "journal.db-wal"
    assert log.stat().st_size > 1 << 20  # what is not committed is in the log already
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert rows_of(tmp_path) == before
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        assert version_of(file) == 1
    manager = opened(tmp_path, "2x2")
    assert [view.state for view in manager.jobs()] == ["COMPLETED", "HELD"]
    manager.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        assert version_of(file) == FORMAT


def test_rows_of_jobs_are_read_also_from_versions_that_lack_columns() -> None:
    without = [name for name in FORMER_COLUMNS if name not in {"claimed", "team", "demand", "group", "rings"}]
    for names in (FORMER_COLUMNS, without):
        row = job_row([7 if name == "moves" else 0 for name in names])[0]
        assert (row["migrations"], row["submit"]) == (7, 0.0)
        assert row["until"] == float("inf")
