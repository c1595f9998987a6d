"""Read files that people name, up to a limit, and write files so that the old one stays whole until the new one is complete.

A file is written beside the old one, flushed to disk and renamed.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import IO, Any

from headway.errors import BadInput

# Permissions of a new file, before the umask.
MODE = 0o666
# The temporary name is longer than the name itself, and a file system allows 255 bytes.
LONGEST_PREFIX = 50
STEP_BYTES = 1 << 20
NOT_FILES = {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}


class TooLong(OSError):
    """A file is longer than its reader allows."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(errno.EFBIG, f"longer than {shown_size(most_bytes)}")


@contextmanager
def open_file(path: Path | str) -> Iterator[BufferedReader]:
    """Open a regular file for reading; OSError with a `strerror` if there is none at `path`.

    Devices, pipes and sockets are refused: a device may have no end, and a pipe no writer.
    """
    _refuse_special(path, os.stat(path).st_mode)
    # If a pipe replaces the file meanwhile, opening must not wait for a writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        _refuse_special(path, os.fstat(file.fileno()).st_mode)
        yield file


def _refuse_special(path: Path | str, mode: int) -> None:
    for is_kind, kind in NOT_FILES.items():
        if is_kind(mode):
            raise OSError(errno.EINVAL, f"{kind}, not a file: save its content to a file, and give that file", path)


def read_rest(file: BufferedIOBase, most_bytes: int) -> bytes:
    """Return the rest of an open file; TooLong if that is more than `most_bytes`. A packed file is unpacked no further."""
    # In steps: one read of `most_bytes` would reserve memory for all of them, whatever the length of the file.
    return join_parts(iter(lambda: file.read(STEP_BYTES), b""), most_bytes)


def join_parts(parts: Iterable[bytes], most_bytes: int) -> bytes:
    """Return the parts as one; TooLong as soon as they are more than `most_bytes`."""
    taken, length = [], 0
    for part in parts:
        taken.append(part)
        length += len(part)
        if length > most_bytes:
            raise TooLong(most_bytes)
    return b"".join(taken)


def read_file(path: Path | str, most_bytes: int) -> bytes:
    """Return the bytes of a regular file; OSError with a `strerror` if it is none or longer than `most_bytes`."""
    with open_file(path) as file:
        return read_rest(file, most_bytes)


def shown_size(size_bytes: int) -> str:
    """Return a size in the largest unit that divides it: 16 MiB."""
    for unit, exponent in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes and size_bytes % (1 << exponent) == 0:
            return f"{size_bytes >> exponent} {unit}"
    return f"{size_bytes:,} bytes"


@contextmanager
def writing(path: Path | str, mode: str = "w", permissions: int | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` for writing; it replaces `path` only when the block ends without an error.

    A link is followed and kept; an existing file keeps its permissions, unless others are given.
    """
    target = writable(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name[:LONGEST_PREFIX]}.{secrets.token_hex(4)}")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, MODE)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    try:
        text = "b" not in mode
        with open(handle, mode, encoding="utf-8" if text else None, newline="" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if permissions is None and target.exists():
            permissions = stat.S_IMODE(target.stat().st_mode)
        if permissions is not None:
            os.chmod(temporary, permissions)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}; the old file, if any, is unchanged") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path | str, content: str | bytes, permissions: int | None = None) -> None:
    """Replace the file at `path` with `content`, or leave it as it was."""
    with writing(path, "wb" if isinstance(content, bytes) else "w", permissions) as file:
        file.write(content)


def writable(path: Path | str) -> Path:
    """The file that `path` leads to, links followed; refused if something else is there or no file can be made there.

    Nothing is created: a command may ask this long before it writes.
    """
    try:
        target = Path(os.path.realpath(path))
        kind = _kind(target)
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    if kind is not None and stat.S_ISDIR(kind):
        raise BadInput(f"{path} is a folder: give the path of a file to write")
    if kind is not None and not stat.S_ISREG(kind):
        raise BadInput(f"cannot write {path}: a device, a pipe or a socket is there, not a file: give another path")
    check_folder(target.parent, path)
    return target


def check_folder(folder: Path, path: Path | str) -> None:
    """Refuse a folder in which no file can be made: it, or the nearest existing folder above it, is a file or not writable."""
    for above in (folder, *folder.parents):
        try:
            kind = _kind(above)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}") from None
        if kind is None:
            continue
        if not stat.S_ISDIR(kind):
            raise BadInput(f"cannot write {path}: {above} is not a folder")
        if not os.access(above, os.W_OK | os.X_OK):
            raise BadInput(f"cannot write {path}: no permission to write in {above}")
        return


def _kind(path: Path) -> int | None:
    """What kind of thing is at a path; None where nothing is."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
