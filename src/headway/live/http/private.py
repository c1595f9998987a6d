"""A data folder that others could change is refused by root: its journal says what runs as whom."""

import os
import stat
from pathlib import Path

from headway.errors import BadInput
from headway.io.accounts import loose_ways

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
FIX = "chown root, chmod go-w"


def check_folder(data: Path) -> None:
    """Refuse a data folder that somebody else can write, or that holds files of others; only root has others' rights to lose."""
    if os.geteuid() == 0 and (wrong := weaknesses(data)):
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise BadInput(
            f"{wrong[0]}{more}: a manager run by root obeys what is in its data folder; choose another or repair it"
        )


def weaknesses(data: Path) -> list[str]:
    """What others could change: the folder, what is in it, or what leads to it. Below `runs` lie folders of the jobs' users."""
    own, found = os.geteuid(), []
    if data.is_dir():
        for path in (data.resolve(), *sorted(data.resolve().iterdir())):
            status = path.lstat()
            if status.st_uid != own:
                found.append(f"{path} belongs to user {status.st_uid}, not to {own}")
            elif not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS_WRITE:
                found.append(f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w)")
    return found + [f"{above}, above the data folder, can be changed by others ({FIX})" for above in loose_ways(data)]
