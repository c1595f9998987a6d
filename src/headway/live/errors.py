"""Errors of the live manager: each says in one line what is wrong and what to do."""

from headway.errors import HeadwayError


class NotFound(HeadwayError):
    """There is no such job or node (or none that this user may see)."""

    exit_code = 102


class WrongState(HeadwayError):
    """The job exists, but the request does not apply to its state."""


class NotAdmitted(HeadwayError):
    """The user, or the token, may not submit to the queue."""


class JournalFailed(HeadwayError):
    """The journal cannot be written: nothing was accepted, and nothing is started until it can."""


class JournalDamaged(JournalFailed):
    """The journal's file is not a journal, or a part of it cannot be read: `what` says which."""

    def __init__(self, what: str, path: str = "the journal") -> None:
        self.what = " ".join(what.split())
        super().__init__(f"{path} is damaged ({self.what}): restart the manager, which recovers what can be read")


class AlreadyServed(HeadwayError):
    """Another manager serves this data folder."""
