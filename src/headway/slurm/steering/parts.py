"""Heterogeneous jobs (`sbatch ... : ...`) are steered as one: Slurm lists each part as a job, and starts all parts or none. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.slurm.snapshot import SlurmJob


def as_one(jobs: Mapping[int, SlurmJob]) -> dict[int, SlurmJob]:
    """The jobs by number; parts of one have the name of its first part, and wait for what any of them waits for."""
    names = {job.het: job.name for job in jobs.values() if job.het == job.id}
    kept_back = {job.het: job.reason for job in jobs.values() if job.het and job.waits and not job.could_start}
    return {
        number: replace(job, name=names.get(job.het, job.name), reason=kept_back.get(job.het, job.reason))
        if job.het
        else job
        for number, job in jobs.items()
    }


def first(jobs: Sequence[SlurmJob], most: int) -> int:
    """How many of these jobs, parts side by side, to take so that they are at most `most` and no part is left behind."""
    count = min(most, len(jobs))
    while 0 < count < len(jobs) and jobs[count - 1].one == jobs[count].one:
        count -= 1
    return count
