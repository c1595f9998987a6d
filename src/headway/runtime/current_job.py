"""Which job this process belongs to: number, attempt, rank, and the folder that it shares with the manager."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CurrentJob:
    """The job of this process, and the rank of the process in it."""

    number: int
    attempt: int
    rank: int
    ranks: int
    signal: str
    run: Path | None  # written by the manager, and by the job in the folder below

    @property
    def writable(self) -> Path | None:
        """The folder that the job may write to."""
        return self.run / "own" if self.run else None

    def write(self, name: str, text: str) -> None:
        """Replace a file in the folder that the job may write to, at once; failures are silent."""
        if self.writable is not None:
            with contextlib.suppress(OSError):
                aside = self.writable / f".{name}"
                aside.write_text(text, encoding="utf-8")
                os.rename(aside, self.writable / name)


def current_job() -> CurrentJob | None:
    """The job of this process; None outside a Headway job."""
    environment = os.environ
    try:
        return CurrentJob(
            int(environment["HEADWAY_JOB_ID"]),
            int(environment.get("HEADWAY_ATTEMPT", "1")),
            int(environment.get("RANK", "0")),
            int(environment.get("WORLD_SIZE", "1")),
            environment.get("HEADWAY_PREEMPTION_SIGNAL", "SIGTERM"),
            Path(environment["HEADWAY_RUN"]) if environment.get("HEADWAY_RUN") else None,
        )
    except (KeyError, ValueError):
        return None
