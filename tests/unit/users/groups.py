"""Processes in control groups, for tests."""

import subprocess
import time
from collections.abc import Callable


def nobody(group: str) -> bool:
    return False


def until(true: Callable[[], bool]) -> bool:
    """Wait for something to become true; whether it did."""
    end = time.monotonic() + 10
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def enter(folders: list[str], command: str) -> subprocess.Popen[bytes]:
    """Run a command in a group."""
    joined = "; ".join(f"echo $$ > {folder}/cgroup.procs" for folder in folders)
    return subprocess.Popen(["sh", "-c", f"{joined}; {command}"], stdout=subprocess.PIPE)
