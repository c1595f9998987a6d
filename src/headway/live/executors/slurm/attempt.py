"""One attempt on Slurm: its parts, what its folder says, and what Slurm says. Pure but for the files of the folder."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.io.numbers import plain_whole
from headway.live.executors import ENDED, Report, Stamp
from headway.live.executors.process.progress import read_own
from headway.live.executors.process.system import read, write
from headway.slurm.requests import Submit
from headway.slurm.snapshot import ANYBODY, BROKEN, SlurmJob

MOST_CODE = 100_000
REVOKED = "revoked"
LINGER_S = 5.0  # a file that a node has written may be seen this much later on a shared file system
GONE_S = 10.0  # Slurm does not know the job for so long, and nothing says how it ended: it is lost
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
    """A part: wanted (to be submitted), unsure (perhaps submitted), or submitted under a number; then over."""

    submit: Submit | None = None  # None once it was sent, and after an adoption
    unsure: bool = False
    sent_at: float = 0.0
    slurm: int | None = None
    seen: SlurmJob | None = None  # as of the last poll
    gone_since: float | None = None
    over_since: float | None = None  # Slurm says that it is over
    done_since: float = 0.0
    revoked: bool = False
    told: bool = False  # the signal was sent
    killed: bool = False
    asked: Mapping[str, str] = field(default_factory=dict)  # the options of its submission; none after an adoption


@dataclass(slots=True)
class Stop:
    """How it is to stop: when the grace ends, by the wall clock, so that another manager can go on with it."""

    signal: str
    until: float


@dataclass(slots=True)
class Attempt:
    """What the executor knows of an attempt that is not over."""

    job: int
    number: int
    folder: Path
    parts: list[PartRun]
    nodes: frozenset[str] = frozenset()
    port: int = 0
    uid: int = ANYBODY  # the account of its Slurm jobs
    adopted: bool = False
    started: bool = False
    stop: Stop | None = None
    reported: int = 0  # when the job's own report changed last
    refusal: str = ""
    late: bool = False  # Slurm did not start it in time
    lacks: str = ""  # what it cannot start without, and does not get
    seen_over: float = field(default=0.0)

    @property
    def own(self) -> Path:
        """The folder that its ranks write to."""
        return self.folder / "own"

    @property
    def gone_up(self) -> bool:
        """Whether all its ranks could start."""
        return (self.own / "go").exists()

    def done(self, part: int) -> tuple[int, bool] | None:
        """Exit code and whether it was told to stop, as the batch script wrote them."""
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
        """The Slurm job that runs the part; empty: none has begun."""
        return _text(self.own / f"claim.{part}").strip()

    def revoke(self) -> None:
        """The attempt counts as lost: ranks that are cut off from Slurm, but see the folder, end themselves."""
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

    def part_over(self, number: int, now: float) -> bool:
        """Whether nothing of a part runs or will run."""
        part, done = self.parts[number], self.done(number)
        if part.revoked or self.refusal:
            return True
        if done is not None and (done[0] == 0 or self.stop is not None):
            return True
        if done is not None:  # Slurm says whether that was its own doing: a node that went down, a limit
            part.done_since = part.done_since or now
            return part.over_since is not None or now - part.done_since >= LINGER_S
        if part.over_since is not None and not self.claimed(number) and self.forbid(number):
            return True  # it never began, and now it cannot
        if part.over_since is not None and now - part.over_since >= LINGER_S:
            return True
        return part.gone_since is not None and now - part.gone_since >= GONE_S

    def report(self) -> Report:
        """How an attempt ended, all of whose parts are over."""
        key, ran = (self.job, self.number), self.gone_up
        if self.refusal:
            return Report(ENDED, *key, exit_code=127, message=self.refusal)
        parts_done = [self.done(number) for number in range(len(self.parts))]
        states = {part.seen.state for part in self.parts if part.seen is not None}
        lost = self._lost(parts_done, states)
        stop_requested = self.stop is not None
        if lost and not (stop_requested and not ran):
            message = next((SAID[state] for state in states if state in LOST), "Slurm no longer knows it")
            if self.late:
                message = f"Slurm did not start it: {self.lacks or self._reason()}"
            return Report(
                ENDED, *key, signalled=stop_requested, lost=True, never_ran=not ran, refused=self.late, message=message
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
        """When its last part was over, if all of them left word."""
        stamps = [written(self.own / f"done.{number}") for number in range(len(self.parts))]
        return max(filter(None, stamps), key=lambda stamp: stamp.wall) if all(stamps) else None

    def _lost(self, parts_done: list[tuple[int, bool] | None], states: set[str]) -> bool:
        """Whether nobody knows how it ended. A good end that a batch script wrote down counts, whatever became of its node later."""
        if all(done is not None and done[0] == 0 for done in parts_done):
            return False
        return (
            bool(states & LOST)
            or self.late
            or any(done is None and self._unknown(number) for number, done in enumerate(parts_done))
        )

    def _unknown(self, number: int) -> bool:
        """Whether nothing can be said of a part that left no last word.

        Slurm's word that all is well is about another job if this one did not claim the part: it was submitted twice, or slurmctld lost it
        and used its number again.
        """
        part = self.parts[number]
        if part.seen is None or part.revoked or part.gone_since is not None:
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
        killed = [137] if any(part.killed for part in self.parts) and not all(parts_done) else []
        return next((code for code in [*codes, *killed] if code), 0)

    def _words(self, states: set[str], code: int) -> str:
        return (
            next((SAID[state] for state in sorted(states) if state in SAID), "") if code and self.stop is None else ""
        )

    def _last_words(self) -> str:
        """The last line of what srun said."""
        for number in range(len(self.parts)):
            lines = [line for line in _text(self.folder / f"slurm.{number}.log").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()[:200]
        return ""

    def _reason(self) -> str:
        return next((part.seen.reason for part in self.parts if part.seen and part.seen.reason), "no reason given")


def read_attempt(folder: Path, job: int, number: int) -> Attempt | None:
    """An attempt that an earlier manager began to submit; None: it did not come to that."""
    content = read(str(folder), "launch.json")
    if content is None:
        return None
    parts = [PartRun(unsure=True) for _ in range(int(content["parts"]))]
    nodes, port, uid = frozenset(content["nodes"]), int(content["port"]), int(content.get("uid", ANYBODY))
    return Attempt(job, number, folder, parts, nodes, port, uid, adopted=True)


def written(path: Path) -> Stamp | None:
    """When a file was written, by the clock of the shared file system; None: it was not."""
    try:
        return Stamp("", 0.0, path.stat(follow_symlinks=False).st_mtime)
    except OSError:
        return None


def _text(path: Path) -> str:
    """The beginning of a small file that a job wrote."""
    return (read_own(path)[0] or b"").decode(errors="replace")


def _small(word: str) -> int | None:
    """A number in a file that a job wrote; None for anything else."""
    value = plain_whole(word)
    return value if value is not None and value < MOST_CODE else None


def saved(attempt: Attempt) -> dict[str, Any]:
    """What the next manager needs to know of an attempt."""
    return {"parts": len(attempt.parts), "nodes": sorted(attempt.nodes), "port": attempt.port, "uid": attempt.uid}
