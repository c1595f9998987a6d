"""The state of an attempt, read from its folder: whether it is alive, its journal, and the time of its last activity."""

import contextlib
import os
import signal
from collections.abc import Container
from pathlib import Path
from typing import Any

from headway.live.executors import Stamp, stray
from headway.live.executors.common.folders import alive, attempts_in
from headway.live.executors.common.whole_files import read
from headway.live.executors.process.system import stamp, started_ticks


def group_name(job: int, attempt: int) -> str:
    """Return the name of the control group of an attempt."""
    return f"{job}-{attempt}"


def signal_shim(folder: Path, number: signal.Signals) -> bool:
    """Signal the shim of an attempt; return False if it has ended, even if its pid belongs to another process now."""
    shim = read(str(folder), "shim.json") or {}
    pid = shim.get("pid")
    if pid is None or started_ticks(pid) != shim.get("start"):
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, number)
        return True
    return False


def strays(runs: Path, watched: Container[tuple[int, int]]) -> list[str]:
    """Return the attempts that run and are not watched, one line each for the operator."""
    lines = []
    for job, attempt, folder in attempts_in(runs):
        if (job, attempt) not in watched and alive(folder):
            pid = (read(str(folder), "shim.json") or {}).get("pid")
            lines.append(stray(job, f"kill -9 {pid}" if pid else ""))
    return lines


def when(content: dict[str, Any]) -> Stamp | None:
    """Return the stamp in a file of the shim; None if it has none."""
    at = content.get("at")
    return Stamp(str(at["boot"]), float(at["monotonic"]), float(at["wall"])) if isinstance(at, dict) else None


def last_sign(folder: Path) -> dict[str, Any] | None:
    """Return the stamp of the last change in the folder of an attempt; None if there is no folder."""
    if not folder.is_dir():
        return None
    now, last = stamp(), 0.0
    for path in (folder, *folder.iterdir(), folder / "own" / "report.json"):
        with contextlib.suppress(OSError):
            last = max(last, path.stat().st_mtime)
    ago_s = max(0.0, now["wall"] - last)
    return {"boot": now["boot"], "monotonic": now["monotonic"] - ago_s, "wall": last}
