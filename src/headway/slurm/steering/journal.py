"""The journal of steering: changes are written before they are made, so that they can be undone exactly, also after a crash."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headway.errors import BadInput
from headway.io.files import write_atomically
from headway.slurm.snapshot import ANYBODY, SlurmJob
from headway.slurm.steering.plan import Scale
from headway.slurm.steering.service import KEPT_S

JOURNAL, SCALE, SERVICE, LOCK = "changes.jsonl", "scale.json", "service.json", "lock"
MOST_VALUES = 20
SPARE_LINES = 1000  # of no use any more, before the file is written anew
LATER_S = 365 * 86_400.0  # the beginning of jobs that are held, where a hold would lose their place


@dataclass(frozen=True, slots=True)
class Changed:
    """A job whose nice value is ours: what it was, what we have set it to or were about to (the last at the end), whether we hold it."""

    submitted: float
    nice: int
    set_to: tuple[int, ...] = ()
    held: bool = False
    at: float = 0.0  # when it was written down

    def is_of(self, job: SlurmJob) -> bool:
        """Whether it is that job: Slurm uses numbers again, and a job that is requeued counts as submitted then."""
        return job.submitted == self.submitted or (job.restarts > 0 and job.submitted > self.submitted)

    def own_nice(self, job: SlurmJob) -> int:
        """The value of the job without us: as it was, or as somebody else has set it since."""
        return self.nice if job.nice in self.set_to else job.nice

    def holds(self, job: SlurmJob, now: float) -> bool:
        """Whether it is we who hold it back, in either way; a hold of its own user's is not ours to lift."""
        by_user = job.reason == "JobHeldUser" and job.uid not in (ANYBODY, os.geteuid())
        return self.held and job.waits and ((job.held and not by_user) or job.eligible > now + LATER_S / 2)


class SteeringFolder:
    """Files of one steering, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lines, self._cut_off = folder, 0, False
        self.changed = dict(self._read())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else steers with this folder meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"another `headway steer` uses {self.folder}: stop it first") from None
            self.changed = dict(self._read())
            yield

    def of(self, job: SlurmJob) -> Changed | None:
        """What was changed of a job. What a whole array is given, its tasks have too."""
        changes = [self.changed.get(number) for number in dict.fromkeys((job.id, job.array))]
        known = [change for change in changes if change and change.is_of(job)]
        values = tuple(value for change in reversed(known) for value in change.set_to)
        return replace(known[0], set_to=values) if known else None

    def write(self, job: int, change: Changed) -> None:
        """Note a change that is about to be made; on disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._cut_off:
            self._write_anew()
        change, self._cut_off = replace(change, at=time.time()), True
        try:
            with (self.folder / JOURNAL).open("a", encoding="ascii") as file:
                file.write(_line(job, change))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadInput(
                f"cannot write {self.folder / JOURNAL}: {error.strerror}; run it again when it can be"
            ) from None
        self.changed[job], self._lines, self._cut_off = change, self._lines + 1, False

    def tidy(self, jobs: Iterable[SlurmJob]) -> None:
        """Once many lines are of no use, write the file anew: what was changed last of every job, but not of those that are long gone."""
        if self._lines <= SPARE_LINES:
            return
        known, long_ago = {number for job in jobs for number in (job.id, job.array)}, time.time() - KEPT_S
        changes = {number: change for number, change in self.changed.items() if number in known or change.at > long_ago}
        if self._lines > len(changes) + SPARE_LINES:
            self.changed = changes
            self._write_anew()

    def _write_anew(self) -> None:
        write_atomically(self.folder / JOURNAL, "".join(_line(*each) for each in self.changed.items()))
        self._lines, self._cut_off = len(self.changed), False

    def _read(self) -> Iterator[tuple[int, Changed]]:
        path = self.folder / JOURNAL
        text = path.read_text("ascii", errors="replace") if path.exists() else ""
        lines = text.splitlines()
        self._lines, self._cut_off = len(lines), not text.endswith("\n") and bool(text)
        for number, line in enumerate(lines):
            try:
                job, submitted, nice, set_to, held, *at = json.loads(line)
                values = (set_to,) if isinstance(set_to, int) else tuple(set_to)
                entry = int(job), Changed(submitted, nice, values, held, at[0] if at else submitted)
            except (ValueError, TypeError):
                if self._cut_off and number == len(lines) - 1:
                    return  # by a crash: what it announced was not done
                raise BadInput(f"{path}:{number + 1} is damaged: look at `squeue -o '%i %y'` before going on") from None
            yield entry

    def scale(self) -> Scale | None:
        """The scale that was chosen at first."""
        path = self.folder / SCALE
        try:
            return Scale(**json.loads(path.read_text("ascii"))) if path.exists() else None
        except (ValueError, TypeError):
            raise BadInput(f"{path} is damaged: remove it, and run `headway steer --slurm --once`") from None

    def forget(self) -> None:
        """Everything is as it was."""
        for name in (JOURNAL, SCALE):
            (self.folder / name).unlink(missing_ok=True)
        self.changed = {}


def _line(job: int, change: Changed) -> str:
    return json.dumps([job, change.submitted, change.nice, change.set_to[-MOST_VALUES:], change.held, change.at]) + "\n"
