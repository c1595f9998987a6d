"""What a job wrote about itself (headway.runtime), read with suspicion: the file is the job's own, and the manager may be root."""

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
    """The report if it changed since `known_ns`, and when it did."""
    content, changed_ns = read_own(path)
    if content is None or changed_ns == known_ns:
        return None, known_ns
    try:
        return parse_progress(json.loads(content)), changed_ns
    except (ValueError, RecursionError, MemoryError):
        return None, changed_ns


def read_own(path: Path) -> tuple[bytes | None, int]:
    """The beginning of a file that a job may have written, and when; None where there is a link, a pipe or a folder instead, or nothing."""
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
    """What a job says about itself; values of a wrong type are dropped."""
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
