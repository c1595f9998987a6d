"""User accounts: the user of this process, its rights over other users' jobs, and checks that no other user can change a path."""

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headway.errors import BadInput

MOST_WAYS = 1000  # a chain of links that never ends is cut there; the system gives up far earlier
MOST_NAMES = 6  # of users or groups in one line


def refuse_others(user: str) -> None:
    """A manager that is not root cannot become another user: a job of theirs would have everything that its owner has."""
    own = own_account()[1]
    if os.geteuid() != 0 and user != own:
        raise BadInput(
            f"this manager runs all jobs as {own}: {user!r} could read and change all that {own} can, the owner's token included; "
            "run the manager as root, so that jobs run as their users; tokens of scope read are safe"
        )


def own_account() -> tuple[str, str, str]:
    """Home, name and shell of whoever runs the manager; in a container the number may have no name."""
    try:
        account = pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("HOME", "/"), str(os.geteuid()), "/bin/sh"
    return account.pw_dir, account.pw_name, account.pw_shell


def user_exists(user: str) -> bool:
    """Return whether this machine has an account of this name."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def group_exists(group: str) -> bool:
    """Return whether this machine has a group of this name."""
    return _gid(group) is not None


def is_member(user: str, groups: Iterable[str]) -> bool:
    """Return whether a user of this machine is in one of these groups now. Names of the same gid are one group."""
    try:
        gids = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return False
    return any(_gid(group) in gids for group in groups)


def _gid(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def names_in_words(users: Sequence[str], groups: Sequence[str]) -> str:
    """Return users and groups as in "users ada, bob and group ml"; long lists are cut. Empty if there are none."""
    parts = []
    for kind, names in (("user", users), ("group", groups)):
        if names:
            rest = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            parts.append(f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMES])}{rest}")
    return " and ".join(parts)


def loose_ways(path: Path, trust_groups: bool = False) -> list[Path]:
    """Return the folders and links above a path that another user can change; groups may be trusted to write."""
    trusted, loose = {0, os.geteuid()}, []
    others_write = stat.S_IWOTH if trust_groups else stat.S_IWGRP | stat.S_IWOTH
    for way in _ways(path):
        try:
            status = way.lstat()
        except (FileNotFoundError, NotADirectoryError):
            break  # what is not there yet will be ours
        writable = not stat.S_ISLNK(status.st_mode) and status.st_mode & others_write
        if status.st_uid not in trusted or (writable and not status.st_mode & stat.S_ISVTX):
            loose.append(way)
    return loose


def _ways(path: Path) -> Iterator[Path]:
    """Every folder and link that is passed on the way to a path, from the root on, links followed one by one."""
    at, parts = Path("/"), [*reversed(path.absolute().parts[1:])]
    yield at
    for _ in range(MOST_WAYS):
        if not parts:
            return
        part = parts.pop()
        here = at.parent if part == ".." else at / part
        if here.is_symlink():
            yield here
            to = here.readlink()
            parts += reversed(to.parts[1:] if to.is_absolute() else to.parts)
            at = Path("/") if to.is_absolute() else at
        else:
            at = here
            if parts:
                yield at
