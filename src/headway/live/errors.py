"""Errors of the live manager: each says in one line what is wrong and what to do."""

from headway.errors import HeadwayError


class NotFound(HeadwayError):
    """There is no such job or node (or none that this user may see)."""

    exit_code = 102
    code = "not_found"


class WrongState(HeadwayError):
    """The job exists, but the request does not apply to its state."""

    code = "wrong_state"


class LimitReached(WrongState):
    """A limit of a user, a queue or the manager is reached: the request may be repeated when jobs have ended."""

    code = "limit_reached"


class KeyReused(WrongState):
    """The Idempotency-Key of a submission was used for another job."""

    code = "key_reused"


class Busy(WrongState):
    """Another request of this kind is being computed: the request may be repeated when that is done."""

    code = "busy"


class ReplayFailed(HeadwayError):
    """A replay could not be computed."""

    code = "replay_failed"


class NotAdmitted(HeadwayError):
    """The user, or the token, may not submit to the queue."""

    code = "not_admitted"


class JournalFailed(HeadwayError):
    """The journal cannot be written or read: nothing was accepted, and nothing is started until it can be written."""

    code = "journal_failed"
    can_pass = True  # whether the journal may be written again without a restart


class JournalDamaged(JournalFailed):
    """The journal's file is not a journal, or a part of it cannot be read: `what` says which, `path` its file (empty: not known)."""

    code = "journal_damaged"
    can_pass = False

    def __init__(self, what: str, path: str = "") -> None:
        self.what = " ".join(what.split())
        super().__init__(
            f"{path or 'the journal'} is damaged ({self.what}): restart the manager, which recovers what can be read"
        )
        self.fields = {"what": self.what, "path": path}


class NotDoneYet(JournalFailed):
    """The journal cannot be written: the request has begun, and is done once it can be, if the manager still runs then."""

    code = "not_done_yet"

    def __init__(self, cause: str) -> None:
        later = "it will be once the journal can be written, if this manager still runs then"
        super().__init__(f"the journal cannot be written now ({cause}): not done yet; {later}", {"cause": cause})


class Stopping(JournalFailed):
    """The manager is stopping: the request was not written to the journal."""

    code = "stopping"

    def __init__(self, what: str = "the manager is stopping") -> None:
        super().__init__(f"{what}: nothing was accepted")


class AlreadyServed(HeadwayError):
    """Another manager serves this data folder."""

    code = "already_served"
