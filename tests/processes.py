"""Processes of this machine, by their numbers."""

from pathlib import Path


def descendants(root: int) -> list[int]:
    """Return the processes below one."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(process.name))
    below = [root]
    for pid in below:  # it grows meanwhile
        below += children.get(pid, ())
    return below[1:]


def is_dead(pid: int) -> bool:
    """Return whether a process has ended; its parent may not have noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True
