"""The lock that lets one manager at a time use a data folder.

The folder itself is locked: a lock file could be deleted, and a second manager would lock a new one. Network file systems keep the lock of
a folder on one machine, and the lock of a file on all: so the file `lock` is locked as well.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from headway.live.errors import AlreadyServed

OTHERS_READ = 0o044


@contextlib.contextmanager
def folder_lock(data: Path) -> Iterator[None]:
    """Keep managers out of an existing data folder; AlreadyServed if one uses it."""
    with contextlib.ExitStack() as handles:

        def lock(path: Path, flags: int) -> int:
            handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
            handles.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyServed(f"another manager serves {data}: stop it, or give another --data folder") from None
            return handle

        folder = lock(data, os.O_RDONLY | os.O_DIRECTORY)
        mode = os.fstat(folder).st_mode
        if mode & OTHERS_READ:  # a user who can read a folder can lock it
            os.fchmod(folder, mode & 0o7777 & ~OTHERS_READ)
        lock(data / "lock", os.O_RDWR | os.O_CREAT)
        yield
