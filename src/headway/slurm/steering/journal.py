"""What steering changed, written down before it is changed: so that it can be taken back exactly, also after a crash half-way."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import BadInput
from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering.plan import Scale

JOURNAL, SCALE, SERVICE, LOCK = "changes.jsonl", "scale.json", "service.json", "lock"


@dataclass(frozen=True, slots=True)
class Changed:
    """A job whose nice value is ours: what it was, what it was set to last; whether we hold it, and the priority it has without us."""

    submitted: float
    nice: int
    set_to: int
    held: bool = False
    priority: int = 0

    def is_of(self, job: SlurmJob) -> bool:
        """Whether it is that job: Slurm uses numbers again."""
        return job.submitted == self.submitted


class SteeringFolder:
    """Files of one steering, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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

    def write(self, job: int, change: Changed) -> None:
        """Note a change that is about to be made; on disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        row = [job, change.submitted, change.nice, change.set_to, change.held, change.priority]
        with (self.folder / JOURNAL).open("a", encoding="ascii") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.changed[job] = change

    def _read(self) -> Iterator[tuple[int, Changed]]:
        path = self.folder / JOURNAL
        if not path.exists():
            return
        lines = path.read_text("ascii").splitlines()
        for number, line in enumerate(lines):
            try:
                job, submitted, nice, set_to, held, priority = json.loads(line)
            except ValueError:
                if number == len(lines) - 1:
                    return  # cut off by a crash: what it announced was not done
                raise BadInput(f"{path}:{number + 1} is damaged: look at `squeue -o '%i %y'` before going on") from None
            yield job, Changed(submitted, nice, set_to, held, priority)

    def scale(self) -> Scale | None:
        """The scale that was chosen at first."""
        path = self.folder / SCALE
        return Scale(**json.loads(path.read_text("ascii"))) if path.exists() else None

    def forget(self) -> None:
        """Everything is as it was."""
        for name in (JOURNAL, SCALE):
            (self.folder / name).unlink(missing_ok=True)
        self.changed = {}
