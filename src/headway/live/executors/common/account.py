"""The account that a job runs under: the manager's own, or that of the submitting user if the manager is root."""

import os
import pwd

from headway.errors import BadInput
from headway.io.accounts import refuse_others


def account_of(user: str) -> pwd.struct_passwd | None:
    """Return the account of a submitting user; None: the manager's own. BadInput if the manager cannot run jobs as this user."""
    if os.geteuid() != 0:
        refuse_others(user)
        return None
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise BadInput(f"there is no user {user!r} on this machine: under root, jobs run as their submitters") from None
    return account if account.pw_uid != 0 else None
