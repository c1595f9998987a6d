"""What a job finds around it: its number, its attempt, its rank, and the folder it shares with the manager."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Inside:
    """This process's place in its job."""

    job: int
    attempt: int
    rank: int
    ranks: int
    signal: str
    run: Path | None  # written by the manager
    api: str
    token: str

    @property
    def own(self) -> Path | None:
        """The folder that the job itself may write to."""
        return self.run / "own" if self.run else None


def inside(environment: Mapping[str, str] | None = None) -> Inside | None:
    """Where this process is; None outside a Headway job."""
    found = os.environ if environment is None else environment
    try:
        return Inside(
            int(found["HEADWAY_JOB_ID"]),
            int(found.get("HEADWAY_ATTEMPT", "1")),
            int(found.get("RANK", "0")),
            int(found.get("WORLD_SIZE", "1")),
            found.get("HEADWAY_PREEMPTION_SIGNAL", "SIGTERM"),
            Path(found["HEADWAY_RUN"]) if found.get("HEADWAY_RUN") else None,
            found.get("HEADWAY_API", ""),
            found.get("HEADWAY_TOKEN", ""),
        )
    except (KeyError, ValueError):
        return None
