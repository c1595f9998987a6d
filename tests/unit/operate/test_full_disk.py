"""A disk with small blocks that is full: the index of the journal's log is mapped into memory, and must not kill whoever writes it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.live.errors import JournalFailed
from headway.live.store import index_room
from headway.live.store.copies import back_up, check
from headway.live.store.history import Wanted, read_file
from headway.live.store.journal import Journal, JournalRow

KIB = 1024
OPENS = """
import subprocess, sys
from pathlib import Path
from headway.live.errors import JournalFailed
from headway.live.store.journal import Journal
try:
    journal = Journal(Path(sys.argv[1]))
    subprocess.run(["sh", "-c", sys.argv[3]], capture_output=True)
    for text in ["x" * int(size) for size in sys.argv[2].split()]:
        journal.remember("text", text)
    print(journal.last[0])
except JournalFailed as error:
    sys.exit(str(error))
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MB with blocks of 1 KiB."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 * KIB * KIB)
    commands = (["mkfs.ext4", "-q", "-b", "1024", "-m", "0", image], ["mount", "-o", "loop", image, folder])
    try:
        made = os.geteuid() == 0 and all(not subprocess.run(each, capture_output=True).returncode for each in commands)
    except FileNotFoundError:
        made = False
    if not made:
        pytest.skip("SKIPPED: only root may mount a disk with small blocks (mkfs.ext4, a loop device)")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, but: int) -> None:
    """Leave so many bytes."""
    (disk / "filler").unlink(missing_ok=True)
    kept = disk / "kept"
    kept.write_bytes(bytes(but))
    with open(disk / "filler", "wb", buffering=0) as file:
        for size in (64 * KIB, KIB):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
        os.fsync(file.fileno())
    kept.unlink()
    os.sync()


def opened(data: Path, sizes: str = "", command: str = "true") -> subprocess.CompletedProcess[str]:
    """Open a journal in a process of its own, run a command, write texts of these sizes, and end without closing it."""
    given = [sys.executable, "-c", OPENS, str(data), sizes, command]
    return subprocess.run(given, capture_output=True, text=True)


def written(data: Path, rows: int) -> None:
    journal = Journal(data)
    journal.append([JournalRow(float(number), "Noted", 0, 0, {"text": "x" * 100}) for number in range(rows)])
    journal.close()


def test_a_journal_on_a_full_disk_is_refused_in_words(disk: Path) -> None:
    data = disk / "data"
    written(data, 50)
    said = []
    for left in (0, 9, 40, 400):  # KiB; with 8 to 10 the first write to the index found no room
        fill(disk, left * KIB)
        said.append(opened(data))
    assert [done.returncode for done in said] == [1, 1, 1, 0], [done.stderr for done in said]
    for done in said[:3]:
        assert done.stderr.startswith(f"the disk of {data} is full (256 KiB for the index of journal.db")
        assert done.stderr.rstrip().endswith("make room there, and try again; nothing is lost")
    (disk / "filler").unlink()
    assert opened(data).stdout == "50\n"


def test_a_manager_that_runs_when_the_disk_fills_up_is_not_killed_by_its_index(disk: Path) -> None:
    """There is room for the first rows of the log, and there was none for all that the index has to say about them."""
    data = disk / "data"
    written(data, 50)
    leave = f"head -c 16k /dev/zero > {disk}/kept; dd if=/dev/zero of={disk}/filler bs=1k; sync; rm {disk}/kept; sync"
    done = opened(data, "1", leave)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout == "50\n"


def test_reading_in_the_process_of_the_manager_leaves_its_locks(tmp_path: Path) -> None:
    """Who closes a file gives up all locks that the process has on it."""
    journal = Journal(tmp_path)
    index = tmp_path / "journal.db-shm"

    def locks() -> list[str]:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        return sorted(line.split(":", 1)[1] for line in lines if f":{index.stat().st_ino} " in line)

    before = locks()
    assert {line.split()[0] for line in before} == {"OFDLCK", "POSIX"}
    assert check(journal.path).problems == ()
    assert read_file(tmp_path, Wanted()) == []
    assert locks() == before
    journal.close()
    assert index_room._files == {}


def test_a_copy_without_a_log_gets_no_index(tmp_path: Path) -> None:
    written(tmp_path / "data", 1)
    back_up(tmp_path / "data" / "journal.db", tmp_path / "copy.db")
    assert check(tmp_path / "copy.db").events == 1
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]


def test_a_journal_that_was_refused_can_be_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(index_room.os, "posix_fallocate", full)
        with pytest.raises(JournalFailed, match="is full"):
            Journal(tmp_path)
    Journal(tmp_path).close()


def test_a_link_in_place_of_the_index_is_not_followed_nor_taken_for_damage(tmp_path: Path) -> None:
    """`journal check` called a whole journal damaged, and advised to put a backup in its place."""
    written(tmp_path / "data", 3)
    precious, index = tmp_path / "precious", tmp_path / "data" / "journal.db-shm"
    precious.write_text("kept")
    index.symlink_to(precious)
    with pytest.raises(JournalFailed, match=r"journal.db cannot be read .*: that does not mean that it is damaged"):
        check(tmp_path / "data" / "journal.db")
    with pytest.raises(JournalFailed, match="unable to open"):
        Journal(tmp_path / "data")
    assert precious.read_text() == "kept"
    index.unlink()
    assert check(tmp_path / "data" / "journal.db").events == 3
