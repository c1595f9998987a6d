"""Whose account a job runs under: the manager's own, or under root that of whoever submitted the job."""

import os
import pwd

from headway.errors import BadInput
from headway.io.accounts import refuse_others


def account_of(user: str) -> pwd.struct_passwd | None:
    """The account of a submitting user; None for the manager's own (nobody else has jobs unless it runs as root)."""
    if os.geteuid() != 0:
        refuse_others(user)
        return None
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise BadInput(f"there is no user {user!r} on this machine: under root, jobs run as their submitters") from None
    return account if account.pw_uid != 0 else None
