"""Attained service (GPU-seconds) of each job of a Slurm queue, summed from one poll to the next."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headway.errors import BadInput
from headway.io.files import write_atomically
from headway.slurm.snapshot import SlurmJob

KEPT_S = 30 * 86_400.0  # what was attained longer ago is forgotten
BY = {
    "job": "the job itself, over its restarts",
    "name": "all jobs of the user with its name",
    "user": "all jobs of the user",
}


def owner(job: SlurmJob, by: str) -> str:
    """What service is counted by."""
    if by == "job":  # not by the time of its submission, which is another after it was requeued
        return f"{job.one}/{job.user}"
    return f"{job.user}/{job.name}" if by == "name" else job.user


@dataclass(slots=True)
class Services:
    """One entry per run of a job (a restart is another run): owner, GPU-seconds, when last seen."""

    runs: dict[str, tuple[str, float, float]]

    def look(self, jobs: Iterable[SlurmJob], by: str, now: float) -> None:
        """Add what jobs have attained since; a run that is over keeps what it had.

        No run loses service when it ends: Slurm gives its end in whole seconds.
        """
        for job in jobs:
            if job.gpus and job.started and not job.waits:
                until = job.ended if job.ended and not job.holds else now
                run = f"{job.id}/{job.started:.0f}"
                _, before, _ = self.runs.get(run, ("", 0.0, now))
                self.runs[run] = (owner(job, by), max(before, job.gpus * (until - job.started)), now)
        self.runs = {run: entry for run, entry in self.runs.items() if now - entry[2] < KEPT_S}

    def by_owner(self) -> dict[str, float]:
        """GPU-seconds in all."""
        attained: dict[str, float] = {}
        for name, gpu_s, _ in self.runs.values():
            attained[name] = attained.get(name, 0.0) + gpu_s
        return attained


def load(path: Path) -> Services:
    """What was seen before."""
    try:
        content = json.loads(path.read_text("utf-8"))
        return Services({run: (str(entry[0]), float(entry[1]), float(entry[2])) for run, entry in content.items()})
    except FileNotFoundError:
        return Services({})
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise BadInput(f"{path} is damaged: remove it, and service is counted from now on") from None


def save(path: Path, services: Services) -> None:
    """Keep it for the next look."""
    write_atomically(path, json.dumps(services.runs))
