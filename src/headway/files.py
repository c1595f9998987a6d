"""Writing files so that the old one stays whole until the new one is: write aside, flush to disk, rename."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headway.core.errors import BadInput


@contextmanager
def writing(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside `path` for writing; it takes the name `path` only when the block ends well."""
    target = Path(path)
    if target.is_dir():
        raise BadInput(f"{target} is a folder: give the path of a file to write")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise BadInput(f"cannot write {target}: {error.strerror}") from None
    try:
        text = "b" not in mode
        with open(handle, mode, encoding="utf-8" if text else None, newline="" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
        os.replace(aside, target)
    except OSError as error:
        Path(aside).unlink(missing_ok=True)
        raise BadInput(f"cannot write {target}: {error.strerror}; the old file, if any, is unchanged") from None
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def write_atomically(path: Path | str, content: str | bytes) -> None:
    """Replace the file at `path` by `content`, or leave it as it was."""
    with writing(path, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
