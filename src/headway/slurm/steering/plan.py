"""The nice value of each waiting job, by discretised 2D-LAS (Tiresias, section 3.2.3). Pure.

A job belongs to a queue by the GPU-seconds it attained. Within a queue Slurm's own order stays (first come, fair share, age: whatever the
site has). Queues are apart by `step`, more than Slurm's own priorities differ. Where these are small (priority/multifactor), the first
queues are raised; where they start at the top of their range (priority/basic), the later ones are lowered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering.service import owner

RANGE = 1 << 31  # priorities are 32 bits; the upper half belongs to priority/basic
LEAST_STEP = 100_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How far queues are apart, and whether the first are raised or the later lowered."""

    step: int
    raises: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A waiting job: its queue, and the nice value to give it."""

    job: SlurmJob
    queue: int
    nice: int


def scale_of(
    jobs: Iterable[SlurmJob], own_nice: Mapping[int, int], queues: int, kept: Scale | None = None
) -> Scale | None:
    """A scale for the priorities that waiting jobs have without Headway; that of before, `kept`, while it is wide enough."""
    own = [job.priority + job.nice - own_nice.get(job.id, job.nice) for job in jobs if job.waits and not job.held]
    if not own or (kept and not kept.raises):
        return kept  # nobody waits: whether priorities are small is not known yet
    highest = max(own)
    if highest >= RANGE:
        return kept or Scale(10_000_000, raises=False)
    step = LEAST_STEP
    while step <= 2 * highest:
        step *= 10
    step = min(step, (RANGE - 1 - highest) // queues)
    return kept if kept and step <= kept.step else Scale(step, raises=True)


def queue_of(gpu_s: float, thresholds: Sequence[float]) -> int:
    """Return the queue of a job by its attained GPU-seconds."""
    return sum(gpu_s >= threshold for threshold in thresholds)


def plan(
    jobs: Iterable[SlurmJob],
    own_nice: Mapping[int, int],
    service: Mapping[str, float],
    by: str,
    thresholds: Sequence[float],
    scale: Scale | None,
) -> list[Wanted]:
    """What every waiting job that asks for GPUs should have, all its parts side by side; `own_nice` is its value without Headway."""
    wanted, some = [], sorted(jobs, key=lambda job: (job.one, job.id))
    with_gpus = {job.one for job in some if job.gpus}
    for job in some:
        if not job.waits or job.one not in with_gpus:
            continue
        queue = queue_of(service.get(owner(job, by), 0.0), thresholds)
        shift = 0 if scale is None else (queue - scale.raises * len(thresholds)) * scale.step
        wanted.append(Wanted(job, queue, own_nice.get(job.id, job.nice) + shift))
    return wanted
