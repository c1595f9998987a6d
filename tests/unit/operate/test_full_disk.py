"""A full disk: the index of the journal's log is mapped into memory, and must not kill whoever writes it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.live.errors import JournalFailed
from headway.live.state.records import JournalRow
from headway.live.store.copies import back_up, check
from headway.live.store.integrity.check import in_use
from headway.live.store.journal import Journal
from headway.live.store.prune import old_jobs

KIB = 1024
OPENS = """
import subprocess, sys
from pathlib import Path
from headway.live.errors import JournalFailed
from headway.live.store.journal import Journal
from headway.live.store.prune import old_jobs
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
    """A disk of 32 MB with blocks of 4 KiB."""
    yield from mounted(tmp_path, 4096)


@pytest.fixture
def small_blocks(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MB with blocks of 1 KiB."""
    yield from mounted(tmp_path, 1024)


def mounted(tmp_path: Path, block_bytes: int) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 * KIB * KIB)
    commands = (["mkfs.ext4", "-q", "-b", str(block_bytes), "-m", "0", image], ["mount", "-o", "loop", image, folder])
    try:
        made = os.geteuid() == 0 and all(not subprocess.run(each, capture_output=True).returncode for each in commands)
    except FileNotFoundError:
        made = False
    if not made:
        pytest.skip("SKIPPED: only root may mount a disk (mkfs.ext4, a loop device)")
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
    for left in (0, 8, 16, 400):  # KiB; the index takes 32
        fill(disk, left * KIB)
        said.append(opened(data))
    assert [done.returncode for done in said] == [1, 1, 1, 0], [done.stderr for done in said]
    for done in said[:3]:
        assert done.stderr.startswith(f"the disk of {data} is full (")
        assert done.stderr.rstrip().endswith("make room there, and try again; nothing is lost")
    (disk / "filler").unlink()
    assert opened(data).stdout == "50\n"


def test_a_manager_that_runs_when_the_disk_fills_up_is_not_killed_by_its_index(disk: Path) -> None:
    """There is room for the first rows of the log, and none for more of its index."""
    data = disk / "data"
    written(data, 50)
    leave = f"head -c 16k /dev/zero > {disk}/kept; dd if=/dev/zero of={disk}/filler bs=1k; sync; rm {disk}/kept; sync"
    done = opened(data, "1", leave)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout == "50\n"


def test_a_journal_that_cannot_be_opened_for_another_reason_names_its_folder(tmp_path: Path) -> None:
    (tmp_path / "journal.db-wal").mkdir()
    with pytest.raises(JournalFailed) as refusal:
        Journal(tmp_path)
    assert str(refusal.value).startswith(f"the journal in {tmp_path} cannot be opened (")
    assert str(refusal.value).endswith("look at its disk and files, and try again; nothing is lost")
    assert refusal.value.fields["path"] == str(tmp_path / "journal.db")


def test_a_running_manager_names_the_folder_whose_disk_is_full(disk: Path) -> None:
    data = disk / "data"
    done = opened(data, str(40 * KIB * KIB))
    assert done.returncode == 1
    assert done.stderr.startswith(f"the journal cannot be written (the disk of {data} is full: ")
    assert done.stderr.rstrip().endswith("nothing was accepted; make room there")


def test_a_disk_with_small_blocks_is_refused(small_blocks: Path) -> None:
    """There, a full disk kills the process at a write to the index (a bus error)."""
    done = opened(small_blocks / "data")
    assert done.returncode == 1
    assert (
        "has blocks of 1024 bytes, and a journal needs 4096 or more: give a --data folder on another disk"
        in done.stderr
    )


def test_sectors_that_a_file_system_states_beside_its_blocks_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZFS has records of 128 KiB and states 512 bytes as the size of a fragment."""
    real = os.statvfs(tmp_path)
    stated = os.statvfs_result((131_072, 512, *tuple(real)[2:]))
    monkeypatch.setattr(os, "statvfs", lambda path: stated)
    Journal(tmp_path).close()


def test_reading_in_the_process_of_the_manager_leaves_its_locks(tmp_path: Path) -> None:
    """Who closes a file gives up all locks that the process has on it."""
    journal = Journal(tmp_path)
    index = tmp_path / "journal.db-shm"

    def locks() -> list[str]:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        return sorted(line.split(":", 1)[1] for line in lines if f":{index.stat().st_ino} " in line)

    before = locks()
    assert {line.split()[0] for line in before} == {"POSIX"}
    assert in_use(journal.path)
    assert check(journal.path).problems == ()
    assert old_jobs(tmp_path, 0.0) == 0
    assert locks() == before
    journal.close()
    assert not in_use(journal.path)


def test_a_copy_without_a_log_gets_no_index(tmp_path: Path) -> None:
    written(tmp_path / "data", 1)
    back_up(tmp_path / "data" / "journal.db", tmp_path / "copy.db")
    assert check(tmp_path / "copy.db").events == 1
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]


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
