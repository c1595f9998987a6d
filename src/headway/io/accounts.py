"""Whose process this is, and what that means for other people's jobs."""

import os
import pwd

from headway.errors import BadInput


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
        found = pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("HOME", "/"), str(os.geteuid()), "/bin/sh"
    return found.pw_dir, found.pw_name, found.pw_shell
