"""Room on the disk for the index that SQLite keeps beside the log of a database (`journal.db-shm`), before it is written.

SQLite maps that file into memory, and gives it its size by one byte in every 4 KiB. Where the blocks of a disk are smaller, the rest has no
place yet: on a full disk the first write to it kills the process (a bus error), whenever that is. So all blocks are had first, or the
database is not opened. SQLite empties the file if nobody has it open; a lock that says that somebody has keeps the blocks (decision 0141).
"""

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headway.live.errors import JournalFailed

ROOM_BYTES: Final = 8 * 32_768  # the index of about 32,000 pages of the log, 130 MB
_IN_USE: Final = (
    128  # the byte of the index that is locked by everyone who has it open (SQLite's os_unix.c: UNIX_SHM_DMS)
)
_VERSIONS: Final = slice(18, 20)  # of a database's header: 2 and 2 if it has a log (SQLite's file format, 1.3.3)
_lock = threading.Lock()
_files: dict[str, list[int]] = {}  # by path, what this process has open: the file, and how often


@contextlib.contextmanager
def index_room(path: Path) -> Iterator[None]:
    """Have room for the index of a database that exists, for as long as connections to it are open; JournalFailed if there is none."""
    path = Path(
        os.path.realpath(path)
    )  # once: a link that is changed meanwhile must not give one user's index to another
    name = f"{path}-shm"
    with _lock:
        if name not in _files and _has_log(path) and (file := _made(name, path)) is not None:
            _files[name] = [file, 0]
        if held := name in _files:
            _files[name][1] += 1
    try:
        yield
    finally:
        with _lock:
            if held:
                _files[name][1] -= 1
            # Not before the last: whoever closes a file gives up all locks that the process has on it.
            if held and not _files[name][1]:
                os.close(_files.pop(name)[0])


def in_use(path: Path) -> bool:
    """Return whether a process has the index of a database open, this process included."""
    name = f"{os.path.realpath(path)}-shm"
    with _lock:
        if name in _files:  # closing it here would give up the locks that SQLite has on it
            return True
    try:
        file = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _IN_USE, 1, 0)
        return bool(struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)
    finally:
        os.close(file)


def _has_log(path: Path) -> bool:
    """Whether SQLite would make an index: not for a copy without a log. An empty file is about to have one."""
    try:
        with open(path, "rb") as file:
            header = file.read(_VERSIONS.stop)
    except OSError:  # SQLite will say what is wrong
        return False
    return not header or header[_VERSIONS] == b"\2\2"


def _made(name: str, path: Path) -> int | None:
    """The index with all its blocks, marked as in use; None: it cannot be had for another reason, which SQLite will name."""
    try:
        owner = path.stat()
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, owner.st_mode & 0o777)
        try:
            if os.geteuid() == 0:
                os.fchown(file, owner.st_uid, owner.st_gid)
            _allocate(file)
        except BaseException:
            os.close(file)
            raise
        return file
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        least = f"{ROOM_BYTES // 1024} KiB for the index of {path.name} cannot be had"
        fix = "make room there, and try again; nothing is lost"
        raise JournalFailed(f"the disk of {path.parent} is full ({least}): {fix}") from None


def _allocate(file: int) -> None:
    """Begin with nothing, as SQLite does, unless somebody else has it open: then what it says counts."""
    try:
        _mark(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK)
    except BlockingIOError:
        _mark(file, fcntl.F_OFD_SETLKW, fcntl.F_RDLCK)
        os.posix_fallocate(file, 0, ROOM_BYTES)
        return
    os.ftruncate(file, 0)
    try:
        os.posix_fallocate(file, 0, ROOM_BYTES)
    except OSError:
        os.ftruncate(file, 0)  # a part of it is of no use
        raise
    _mark(file, fcntl.F_OFD_SETLK, fcntl.F_RDLCK)


def _mark(file: int, how: int, kind: int) -> None:
    """Lock the byte for this open file, not for the process: SQLite, in the same process, is to see it."""
    fcntl.fcntl(file, how, struct.pack("hhqqi", kind, os.SEEK_SET, _IN_USE, 1, 0))
