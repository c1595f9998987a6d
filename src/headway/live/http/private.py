"""Refuse data folders that other users can change: the tokens say who operates, and the journal what runs as whom."""

import os
import stat
from pathlib import Path

from headway.errors import BadInput
from headway.io.accounts import loose_ways

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_folder(data: Path) -> None:
    """Create a data folder, and the folders above it, if there is none; refuse one that another user can change.

    Checked after that: below a sticky folder such as /tmp, another user may have created it meanwhile.
    """
    try:
        for folder in reversed([path for path in data.absolute().parents if not path.exists()]):
            folder.mkdir(exist_ok=True, mode=0o755)  # whatever the umask
        # Not 0700: under root, the jobs of other users reach their own folders below; the files here are private one by one.
        data.mkdir(exist_ok=True, mode=0o711)
    except OSError as error:
        raise BadInput(f"cannot create {data}: {error.strerror}; give another --data folder") from None
    check_folder(data)


def check_folder(data: Path) -> None:
    """Refuse a data folder that another user can change."""
    if wrong := weaknesses(data):
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise BadInput(f"{wrong[0]}{more}: a manager obeys what is in its data folder; choose another or repair it")


def weaknesses(data: Path) -> list[str]:
    """Return what other users can change: the folder, its files, folders and links above it. Folders below `runs` belong to jobs' users.

    Root and the manager's own user are trusted. Above the folder of an ordinary user, so are the groups that these two let write: many
    systems give every user a group of their own, and let it write by default.
    """
    own_uid, lines = os.geteuid(), []
    if data.is_dir():
        for path in (data.resolve(), *sorted(data.resolve().iterdir())):
            status = path.lstat()
            if status.st_uid not in {0, own_uid}:
                lines.append(f"{path} belongs to user {status.st_uid}, not to {own_uid}")
            elif not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS_WRITE:
                lines.append(f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w)")
    fix = "chown root, chmod go-w" if own_uid == 0 else "chmod o-w, or ask its owner"
    above = loose_ways(data, trust_groups=own_uid != 0)
    return lines + [f"{way}, above the data folder, can be changed by others ({fix})" for way in above]
