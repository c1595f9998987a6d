"""The states of an attempt on Slurm and of its parts, as two tables of transitions. Pure: no clock, no files, no Slurm.

A part is one Slurm job. An observation (`Sight`) holds news: of a poll of Slurm, of a look into the attempt's folder, of the clock, of the
manager. Fields without news keep their defaults, which no row matches. `step` returns the first row that applies. The executor performs the
row's action, and the part takes the state that the row names for the answer. The executor decides nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

LINGER_S = 5.0  # a file that a node has written may be seen this much later on a shared file system
GONE_S = 10.0  # if Slurm does not know a job for this long, and no file has its end, it is lost
KILL_S = 5.0  # after SIGKILL to the ranks, before the whole Slurm job is cancelled
APART_S = 5.0  # after one part is over, before the others are stopped


class PartState(Enum):
    """The state of one part."""

    PREPARED = "to be submitted"
    SUBMITTED = "submitted, without an answer from Slurm"
    ADOPTED = "perhaps submitted by an earlier manager, whose script is gone"
    QUEUED = "known to Slurm, without nodes"
    RUNNING = "on its nodes"
    STOPPING = "its ranks got the signal, or its Slurm job was cancelled before they were up"
    KILLING = "its ranks got SIGKILL"
    CANCELLING = "its Slurm job was cancelled, because SIGKILL did not help"
    WITHDRAWN = "its Slurm job was cancelled, because Slurm did not start the attempt in time"
    MISSING = "Slurm does not know it"
    DONE = "its batch script wrote a bad exit code, and the verdict of Slurm is due"
    ENDING = "over in Slurm; its files may be seen later"
    OVER = "nothing of it runs or will run"
    LOST = "nothing of it runs or will run, and its exit code is unknown"


class Slurm(Enum):
    """News of a poll about the Slurm job of a part."""

    SILENT = auto()  # no poll since the last step
    WAITS = auto()
    HOLDS = auto()  # it has nodes
    ENDED = auto()
    REPLACED = auto()  # another Slurm job than before runs the part; its own news follow
    MISSING = auto()


class Word(Enum):
    """The exit code that the batch script wrote last (own/done.P)."""

    NONE = auto()
    GOOD = auto()  # exit code 0
    BAD = auto()


class Claim(Enum):
    """The holder of the right to run a part (own/claim.P)."""

    UNREAD = auto()
    NONE = auto()
    JOB = auto()
    REVOKED = auto()  # the manager has: no Slurm job will run it


class Withdrawal(Enum):
    """Why the attempt was given up before it ran."""

    NONE = auto()
    LATE = auto()  # Slurm did not start it in time, or refuses for now: try again later
    REFUSED = auto()  # Slurm refuses it for good


class AttemptAction(Enum):
    """An action of the executor."""

    SUBMIT = auto()
    SIGNAL = auto()  # to its ranks, as the manager asked
    KILL = auto()  # SIGKILL to its ranks
    CANCEL = auto()  # its Slurm job
    FORBID = auto()  # claim the part, so that no Slurm job runs it
    WITHDRAW = auto()  # give the attempt up: it is late
    REPORT_START = auto()
    REPORT_END = auto()
    STOP = auto()  # stop the other parts


class ActionAnswer(Enum):
    """The outcome of an action."""

    DONE = auto()
    REFUSED = auto()  # by Slurm; or, to FORBID, because a Slurm job has claimed the part
    UNANSWERED = auto()  # Slurm may have carried it out, or not
    NOT_SENT = auto()  # Slurm is out of reach


@dataclass(frozen=True, slots=True)
class Sight:
    """An observation of a part."""

    slurm: Slurm = Slurm.SILENT
    word: Word = Word.NONE
    claim: Claim = Claim.UNREAD
    withdrawal: Withdrawal = Withdrawal.NONE
    late: bool = False  # it waits in Slurm for too long, or for what it will not get there
    up: bool = False  # all ranks of the attempt could start
    overtime_s: float | None = None  # since the grace of a stop ended, negative before; None: no stop
    age_s: float = 0.0  # since the part is in its state

    @property
    def stop(self) -> bool:
        """Return whether the manager asked to stop the attempt."""
        return self.overtime_s is not None

    def overtime(self, seconds: float) -> bool:
        """Return whether the grace of a stop ended at least `seconds` ago."""
        return self.overtime_s is not None and self.overtime_s >= seconds


@dataclass(frozen=True, slots=True)
class AttemptTransition:
    """One transition: from any of these states, if the observation matches, to a state (None: the same) by the answer to the action."""

    states: frozenset[PartState]
    when: Callable[[Sight], bool]
    to: PartState | None
    action: AttemptAction | None = None
    refused: PartState | None = None  # None: as if it had been done
    unanswered: PartState | None = None  # None: the same state, so that the action is due again

    def after(self, state: PartState, answer: ActionAnswer) -> PartState:
        """Return the state after an answer."""
        if answer is ActionAnswer.DONE:
            return self.to or state
        if answer is ActionAnswer.REFUSED:
            return self.refused or self.to or state
        return (self.unanswered or state) if answer is ActionAnswer.UNANSWERED else state


P = PartState
OVER_STATES = frozenset({P.OVER, P.LOST})
LIVE = frozenset(P) - OVER_STATES
ACCEPTED = frozenset({P.QUEUED, P.RUNNING, P.STOPPING, P.KILLING, P.CANCELLING, P.WITHDRAWN})  # known to Slurm
UNDECIDED = frozenset({P.SUBMITTED, P.ADOPTED, P.MISSING})


def _in(*states: PartState) -> frozenset[PartState]:
    return frozenset(states)


# The first row that applies counts.
ROWS = (
    # What ends a part.
    AttemptTransition(LIVE, lambda s: s.withdrawal is Withdrawal.REFUSED, P.OVER),
    AttemptTransition(LIVE, lambda s: s.word is Word.GOOD, P.OVER),
    AttemptTransition(LIVE, lambda s: s.word is Word.BAD and s.stop, P.OVER),
    AttemptTransition(_in(P.ENDING), lambda s: s.word is Word.BAD, P.OVER),
    AttemptTransition(_in(P.DONE), lambda s: s.slurm is Slurm.ENDED or s.age_s >= LINGER_S, P.OVER),
    AttemptTransition(LIVE - {P.DONE}, lambda s: s.word is Word.BAD, P.DONE),
    # What Slurm says.
    AttemptTransition(_in(P.ENDING), lambda s: s.slurm is Slurm.REPLACED, P.QUEUED),
    AttemptTransition(UNDECIDED | ACCEPTED, lambda s: s.slurm is Slurm.ENDED, P.ENDING),
    AttemptTransition(UNDECIDED | {P.RUNNING}, lambda s: s.slurm is Slurm.WAITS, P.QUEUED),
    AttemptTransition(UNDECIDED | {P.QUEUED}, lambda s: s.slurm is Slurm.HOLDS, P.RUNNING),
    # What Slurm does not know was never accepted, or it is gone.
    AttemptTransition(_in(P.SUBMITTED), lambda s: s.slurm is Slurm.MISSING and s.claim is Claim.NONE, P.PREPARED),
    AttemptTransition(
        _in(P.SUBMITTED, P.ADOPTED), lambda s: s.slurm is Slurm.MISSING and s.claim is Claim.REVOKED, P.LOST
    ),
    AttemptTransition(
        _in(P.ADOPTED),
        lambda s: s.slurm is Slurm.MISSING and s.claim is Claim.NONE,
        P.LOST,
        AttemptAction.FORBID,
        refused=P.MISSING,
    ),
    AttemptTransition(_in(P.SUBMITTED, P.ADOPTED) | ACCEPTED, lambda s: s.slurm is Slurm.MISSING, P.MISSING),
    AttemptTransition(_in(P.MISSING), lambda s: s.age_s >= GONE_S, P.LOST),
    # Submission. If the first submission turns up after a second one, the claim lets one of them run.
    AttemptTransition(_in(P.PREPARED), lambda s: s.stop or s.withdrawal is Withdrawal.LATE, P.LOST),
    AttemptTransition(
        _in(P.PREPARED), lambda s: True, P.QUEUED, AttemptAction.SUBMIT, refused=P.LOST, unanswered=P.SUBMITTED
    ),
    # Slurm does not start it.
    AttemptTransition(ACCEPTED, lambda s: s.late and s.withdrawal is Withdrawal.NONE, None, AttemptAction.WITHDRAW),
    AttemptTransition(
        ACCEPTED - {P.WITHDRAWN}, lambda s: s.withdrawal is Withdrawal.LATE, P.WITHDRAWN, AttemptAction.CANCEL
    ),
    AttemptTransition(_in(P.WITHDRAWN), lambda s: s.slurm in (Slurm.WAITS, Slurm.HOLDS), None, AttemptAction.CANCEL),
    # A stop: the signal, SIGKILL after the grace, then the end of the whole Slurm job.
    AttemptTransition(_in(P.QUEUED, P.RUNNING), lambda s: s.stop and s.up, P.STOPPING, AttemptAction.SIGNAL),
    AttemptTransition(_in(P.QUEUED, P.RUNNING), lambda s: s.stop, P.STOPPING, AttemptAction.CANCEL),
    AttemptTransition(_in(P.STOPPING), lambda s: s.overtime(0.0), P.KILLING, AttemptAction.KILL),
    AttemptTransition(_in(P.KILLING), lambda s: s.overtime(KILL_S), P.CANCELLING, AttemptAction.CANCEL),
    # Slurm says that it is over, its files do not yet.
    AttemptTransition(
        _in(P.ENDING), lambda s: s.claim is Claim.NONE and s.age_s >= LINGER_S, P.OVER, AttemptAction.FORBID
    ),
    AttemptTransition(_in(P.ENDING), lambda s: s.claim is Claim.NONE, P.OVER, AttemptAction.FORBID, refused=P.ENDING),
    AttemptTransition(_in(P.ENDING), lambda s: s.age_s >= LINGER_S, P.OVER),
    # A submission that turns up when its attempt is over.
    AttemptTransition(OVER_STATES, lambda s: s.slurm in (Slurm.WAITS, Slurm.HOLDS), None, AttemptAction.CANCEL),
)
_ROWS_OF = {state: tuple(row for row in ROWS if state in row.states) for state in PartState}


def step(state: PartState, sight: Sight) -> AttemptTransition | None:
    """Return the transition of a part; None: the observation changes nothing."""
    return next((row for row in _ROWS_OF[state] if row.when(sight)), None)


class AttemptState(Enum):
    """The state of an attempt, for the manager."""

    STARTING = "not all its ranks are up"
    RUNNING = "all its ranks are up"
    OVER = "all its parts are over"


def step_attempt(
    state: AttemptState, parts: Iterable[PartState], *, up: bool, stop: bool, apart_s: float
) -> tuple[AttemptState, AttemptAction] | None:
    """Return the next state of an attempt and its action, or None. `apart_s`: seconds since the first part was over."""
    if state is AttemptState.OVER:
        return None
    if state is AttemptState.STARTING and up:
        return AttemptState.RUNNING, AttemptAction.REPORT_START
    if OVER_STATES.issuperset(parts):
        return AttemptState.OVER, AttemptAction.REPORT_END
    if apart_s >= APART_S and not stop:  # the other parts cannot go on without it
        return state, AttemptAction.STOP
    return None
