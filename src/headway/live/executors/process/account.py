"""Whose account a job runs under: the manager's own, or under root that of whoever submitted the job."""

import os
import pwd

from headway.errors import BadInput


def account_of(user: str) -> pwd.struct_passwd | None:
    """The account of a submitting user; None for the manager's own (always so unless it runs as root)."""
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise BadInput(f"there is no user {user!r} on this machine: under root, jobs run as their submitters") from None
    return found if found.pw_uid != 0 else None


def own_account() -> tuple[str, str, str]:
    """Home, name and shell of whoever runs the manager; in a container the number may have no name."""
    try:
        found = pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("HOME", "/"), str(os.geteuid()), "/bin/sh"
    return found.pw_dir, found.pw_name, found.pw_shell
