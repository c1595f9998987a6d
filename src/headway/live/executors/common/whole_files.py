"""Small JSON files that are written whole or not at all. Standard library only: the shim loads this file by its path."""

import json
import os
from typing import Any


def write(folder: str, name: str, content: dict[str, Any], durable: bool = False) -> None:
    """Write a file that only its owner can read, and rename it into place; `durable`: flush it to disk."""
    aside = os.path.join(folder, f".{name}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.rename(aside, os.path.join(folder, name))
    if durable:
        flush_folder(folder)


def flush_folder(folder: str) -> None:
    """Flush the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: str, name: str) -> dict[str, Any] | None:
    """Return the content of a file; None if it is missing or not JSON."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
            return content
    except (OSError, ValueError):
        return None
