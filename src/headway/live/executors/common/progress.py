"""The progress report of a job (headway.runtime). The job owns the file and the manager may be root, so the content is not trusted."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from headway.live.state.records import JobProgress

MOST_BYTES = 4096
MOST_WHOLE = 2**63


def read_progress(path: Path, known_ns: int) -> tuple[JobProgress | None, int]:
    """Return the report and the time of its last change. The report is None if it has not changed since `known_ns` (first 0)."""
    content, changed_ns = read_own(path)
    if content is None or changed_ns == known_ns:
        return None, known_ns
    try:
        return parse_progress(json.loads(content)), changed_ns
    except (ValueError, RecursionError, MemoryError):
        return None, changed_ns


def read_own(path: Path) -> tuple[bytes | None, int]:
    """Return the first MOST_BYTES of a file that a job wrote, and its time of change; None if it is not a regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, 0
    try:
        about = os.fstat(handle)
        return (os.read(handle, MOST_BYTES) if stat.S_ISREG(about.st_mode) else None), about.st_mtime_ns
    except OSError:
        return None, 0
    finally:
        os.close(handle)


def parse_progress(content: Any) -> JobProgress:
    """Return the progress in a report; values of a wrong type are dropped. ValueError if it is no mapping."""
    if not isinstance(content, dict):
        raise ValueError("a report is a mapping")
    whole = {name: _whole(content.get(name)) for name in ("step", "total", "checkpointed")}
    return JobProgress(**whole, loss=_number(content.get("loss")))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_WHOLE else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
