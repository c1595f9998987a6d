"""One attempt on Slurm: its parts, and observations from its folder and from Slurm. Pure but for the files of the folder."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.io.numbers import plain_whole
from headway.live.executors import ENDED, Report, Stamp
from headway.live.executors.common.folders import LAUNCH
from headway.live.executors.common.progress import read_own
from headway.live.executors.common.whole_files import read, write
from headway.live.executors.slurm.states import (
    OVER_STATES,
    AttemptAction,
    AttemptState,
    Claim,
    PartState,
    Sight,
    Withdrawal,
    Word,
    step_attempt,
)
from headway.slurm.requests import Cancel, Request, Signal, Submit
from headway.slurm.snapshot import ANYBODY, BROKEN, SlurmJob

MOST_CODE = 100_000
REVOKED = "revoked"
SAID = {
    "TIMEOUT": "Slurm ended it at the time limit of its partition",
    "OUT_OF_MEMORY": "it used more memory than it asked for",
    "CANCELLED": "it was cancelled in Slurm (scancel)",
    "DEADLINE": "Slurm ended it at its deadline",
    "PREEMPTED": "Slurm preempted it for another job",
    "NODE_FAIL": "a node that it ran on went down",
    "BOOT_FAIL": "a node that it was to run on did not boot",
}
LOST = BROKEN | {"PREEMPTED"}


@dataclass(slots=True)
class PartRun:
    """A part of an attempt: its state, its Slurm job, and that job in the last poll."""

    state: PartState = PartState.PREPARED
    since: float = 0.0  # when it came to be in this state
    submit: Submit | None = None  # None after an adoption
    sent_at: float = 0.0
    slurm: int | None = None
    seen: SlurmJob | None = None
    lacks: str = ""  # resources that it waits for in Slurm, and that its nodes lack

    @property
    def asked(self) -> Mapping[str, str]:
        """Return the options of the submission; none after an adoption."""
        return self.submit.options if self.submit else {}

    def enter(self, state: PartState, now: float) -> None:
        """Change the state."""
        if state is not self.state:
            self.state, self.since = state, now


@dataclass(slots=True)
class Stop:
    """A request to stop: the signal, and the end of the grace by the wall clock, which the next manager can read too."""

    signal: str
    until: float


@dataclass(slots=True)
class Attempt:
    """An attempt that is not over."""

    job: int
    number: int
    folder: Path
    parts: list[PartRun]
    nodes: frozenset[str] = frozenset()
    port: int = 0
    uid: int = ANYBODY  # the account of its Slurm jobs
    state: AttemptState = AttemptState.STARTING
    stop: Stop | None = None
    killed: bool = False  # its ranks got SIGKILL
    withdrawal: Withdrawal = Withdrawal.NONE
    why: str = ""  # of the withdrawal
    reported: int = 0  # when the job's own report changed last

    @property
    def own(self) -> Path:
        """Return the folder that the ranks write to."""
        return self.folder / "own"

    @property
    def gone_up(self) -> bool:
        """Return whether all ranks could start."""
        return (self.own / "go").exists()

    def done(self, part: int) -> tuple[int, bool] | None:
        """Return the exit code, and whether the part was asked to stop, as the batch script wrote them; None: not yet."""
        words = [_small(word) for word in _text(self.own / f"done.{part}").split()]
        if len(words) != 3 or words[0] is None:
            return None
        return words[0], words[1] == 1

    def forbid(self, part: int) -> bool:
        """Make sure that a part which Slurm does not know never runs; False: a Slurm job has claimed it."""
        if self.claimed(part) == REVOKED:
            return True
        try:
            handle = os.open(self.own / f"claim.{part}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        except FileExistsError:
            return False
        except OSError:  # no folder, so nothing could have run
            return not self.own.exists()
        with open(handle, "w", encoding="ascii") as file:
            file.write(REVOKED)
        return True

    def claimed(self, part: int) -> str:
        """Return the Slurm job that claimed the part; empty: none has."""
        return _text(self.own / f"claim.{part}").strip()

    def sight(self, part: PartRun, now: float, **news: Any) -> Sight:
        """Return an observation: these news, and what the clock and the manager's requests say."""
        stop = self.stop
        return Sight(
            withdrawal=self.withdrawal,
            up=self.state is AttemptState.RUNNING or (stop is not None and self.gone_up),
            overtime_s=None if stop is None else time.time() - stop.until,
            age_s=now - part.since,
            **news,
        )

    def look(self, number: int, now: float) -> Sight:
        """Return an observation of a part's files. The claim counts only after Slurm has reported the end of the part."""
        part, done = self.parts[number], self.done(number)
        word = Word.NONE if done is None else Word.BAD if done[0] else Word.GOOD
        claim = claim_of(self.claimed(number)) if part.state is PartState.ENDING else Claim.UNREAD
        return self.sight(part, now, word=word, claim=claim)

    def next(self, now: float) -> AttemptAction | None:
        """Take the next transition of the attempt, and return what to do; None: there is none."""
        over_since = min((part.since for part in self.parts if part.state in OVER_STATES), default=now)
        transition = step_attempt(
            self.state,
            [part.state for part in self.parts],
            up=self.state is AttemptState.STARTING and self.gone_up,
            stop=self.stop is not None,
            apart_s=now - over_since,
        )
        if transition is None:
            return None
        self.state, action = transition
        return action

    def request(self, action: AttemptAction, part: PartRun) -> Request:
        """Return an action as a request to Slurm."""
        if action is AttemptAction.SUBMIT and part.submit is not None:
            return part.submit
        if part.slurm is None:
            raise ValueError(f"{action} for a part that Slurm has not accepted")
        if action is AttemptAction.SIGNAL and self.stop is not None:
            return Signal(part.slurm, self.stop.signal)
        return Signal(part.slurm, "SIGKILL", 0) if action is AttemptAction.KILL else Cancel((part.slurm,))

    def withdraw(self, kind: Withdrawal, why: str) -> None:
        """Give up an attempt that has not run; the first reason counts."""
        if self.withdrawal is Withdrawal.NONE:
            self.withdrawal, self.why = kind, why

    def revoke(self) -> None:
        """Mark the attempt as lost: ranks that are cut off from Slurm, but see the folder, end themselves."""
        with contextlib.suppress(OSError):
            (self.folder / REVOKED).touch()

    def ask_to_stop(self, signal: str, grace_s: float) -> None:
        """Remember the request in the folder; of two the shorter grace counts."""
        until = time.time() + grace_s
        if self.stop is None:
            before = read(str(self.folder), "stop.json") or {}
            until = min(until, float(before.get("until", until)))
            self.stop = Stop(signal, until)
        self.stop.until = min(self.stop.until, until)
        with contextlib.suppress(OSError):
            write(str(self.folder), "stop.json", {"signal": signal, "grace_s": grace_s, "until": self.stop.until})
            os.chmod(self.folder / "stop.json", 0o644)

    # ---- the end

    def report(self) -> Report:
        """Return the end of an attempt whose parts are all over."""
        key, ran = (self.job, self.number), self.gone_up
        if self.withdrawal is Withdrawal.REFUSED:
            return Report(ENDED, *key, exit_code=127, message=self.why)
        late = self.withdrawal is Withdrawal.LATE
        parts_done = [self.done(number) for number in range(len(self.parts))]
        states = {part.seen.state for part in self.parts if part.seen is not None}
        lost = self._lost(parts_done, states)
        stop_requested = self.stop is not None
        if lost and not (stop_requested and not ran):
            message = next((SAID[state] for state in states if state in LOST), "Slurm no longer knows it")
            if late:
                message = f"Slurm did not start it: {self.why}"
            return Report(
                ENDED, *key, signalled=stop_requested, lost=True, never_ran=not ran, refused=late, message=message
            )
        signalled = stop_requested and (not all(parts_done) or any(done[1] for done in parts_done if done))
        if not ran and stop_requested:
            return Report(ENDED, *key, signalled=True, never_ran=True)
        failed = _text(self.own / "failed").strip()
        if (
            not ran and not failed and not states & SAID.keys()
        ):  # srun failed, or Slurm ended it before its ranks were up
            how = self._last_words() or "Slurm did not say why"
            return Report(
                ENDED, *key, lost=True, never_ran=True, refused=True, message=f"its ranks did not start: {how}"
            )
        code = 127 if failed else self._code(parts_done)
        return Report(ENDED, *key, exit_code=code, signalled=signalled, message=failed or self._words(states, code))

    def ended_at(self) -> Stamp | None:
        """Return when the last part was over; None if a part wrote no exit code."""
        stamps = [written(self.own / f"done.{number}") for number in range(len(self.parts))]
        return max(filter(None, stamps), key=lambda stamp: stamp.wall) if all(stamps) else None

    def _lost(self, parts_done: list[tuple[int, bool] | None], states: set[str]) -> bool:
        """Return whether the outcome is unknown. Exit code 0 in the files counts, even if the node failed later."""
        if all(done is not None and done[0] == 0 for done in parts_done):
            return False
        return (
            bool(states & LOST)
            or self.withdrawal is Withdrawal.LATE
            or any(done is None and self._unknown(number) for number, done in enumerate(parts_done))
        )

    def _unknown(self, number: int) -> bool:
        """Return whether the outcome of a part that wrote no exit code is unknown.

        Exit code 0 in Slurm is about another job if this one did not claim the part: the part was submitted twice, or slurmctld lost
        the job and used its number again.
        """
        part = self.parts[number]
        if part.seen is None or part.state is PartState.LOST:
            return True
        return part.seen.exit_code == 0 and self.stop is None and self.claimed(number) != str(part.seen.id)

    def _code(self, parts_done: list[tuple[int, bool] | None]) -> int:
        first = _small(_text(self.own / "bad").strip())
        if first is not None:
            return first
        codes = [done[0] for done in parts_done if done]
        codes += [
            part.seen.exit_code for part, done in zip(self.parts, parts_done, strict=True) if part.seen and not done
        ]
        killed = [137] if self.killed and not all(parts_done) else []
        return next((code for code in [*codes, *killed] if code), 0)

    def _words(self, states: set[str], code: int) -> str:
        return (
            next((SAID[state] for state in sorted(states) if state in SAID), "") if code and self.stop is None else ""
        )

    def _last_words(self) -> str:
        """Return the last line that srun printed."""
        for number in range(len(self.parts)):
            lines = [line for line in _text(self.folder / f"slurm.{number}.log").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()[:200]
        return ""


def read_attempt(folder: Path, job: int, number: int) -> Attempt | None:
    """Return an attempt that an earlier manager began to submit; None if it did not."""
    content = read(str(folder), LAUNCH)
    if content is None:
        return None
    parts = [PartRun(PartState.ADOPTED) for _ in range(int(content["parts"]))]
    nodes, port, uid = frozenset(content["nodes"]), int(content["port"]), int(content.get("uid", ANYBODY))
    return Attempt(job, number, folder, parts, nodes, port, uid)


def claim_of(claimed: str) -> Claim:
    """Return the holder of a part, by the text of its claim file."""
    return Claim.NONE if not claimed else Claim.REVOKED if claimed == REVOKED else Claim.JOB


def written(path: Path) -> Stamp | None:
    """Return when a file was written, by the clock of the shared file system; None if there is no file."""
    try:
        return Stamp("", 0.0, path.stat(follow_symlinks=False).st_mtime)
    except OSError:
        return None


def _text(path: Path) -> str:
    """Return the beginning of a small file that a job wrote."""
    return (read_own(path)[0] or b"").decode(errors="replace")


def _small(word: str) -> int | None:
    """Return a number in a file that a job wrote; None for any other text."""
    value = plain_whole(word)
    return value if value is not None and value < MOST_CODE else None


def saved(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as `read_attempt` reads it."""
    return {"parts": len(attempt.parts), "nodes": sorted(attempt.nodes), "port": attempt.port, "uid": attempt.uid}
