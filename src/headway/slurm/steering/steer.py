"""One round of steering, and taking it back."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headway.io.files import write_atomically
from headway.slurm.requests import Change, Door, Hold, Refused
from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering import service
from headway.slurm.steering.journal import SCALE, SERVICE, Changed, SteeringFolder
from headway.slurm.steering.plan import Wanted, plan, scale_of

MOST_CHANGES = 200  # per round: each is a request to slurmctld


@dataclass(frozen=True, slots=True)
class Round:
    """What a round of steering saw and did."""

    waiting: int
    changed: dict[int, int]  # job: nice value
    held: tuple[int, ...]
    released: tuple[int, ...]
    queues: dict[int, int]  # queue: jobs that wait in it
    left_for_next: int
    refused: dict[int, str]


@dataclass(frozen=True, slots=True)
class Undone:
    """What was restored, what is gone or was changed by somebody else since, and what Slurm refused."""

    restored: tuple[int, ...]
    unchanged: tuple[int, ...]
    refused: dict[int, str]


@dataclass(frozen=True, slots=True)
class Steering:
    """How to steer: queues end at these GPU-seconds, counted by job, name or user; `holds`: later queues wait while the first has jobs."""

    thresholds: Sequence[float]
    by: str = "job"
    holds: bool = False
    dry_run: bool = False


def steer(door: Door, folder: SteeringFolder, how: Steering) -> Round:
    """Look at the queue, and bring nice values to where they should be."""
    jobs = {job.id: job for job in door.poll().jobs.values()}
    attained = service.load(folder.folder / SERVICE)
    attained.look(jobs.values(), how.by, time.time())
    own = {job.id: _own_nice(job, folder) for job in jobs.values()}
    scale = scale_of(jobs.values(), own, len(how.thresholds), folder.scale())
    if not how.dry_run:
        folder.folder.mkdir(parents=True, exist_ok=True)
        service.save(folder.folder / SERVICE, attained)
        if scale:
            write_atomically(folder.folder / SCALE, json.dumps(asdict(scale)))
    wanted = plan(jobs.values(), own, attained.by_owner(), how.by, how.thresholds, scale)
    return _apply(door, folder, how, wanted, own)


def _own_nice(job: SlurmJob, folder: SteeringFolder) -> int:
    """The job's value without Headway: as it was, or as somebody else has set it since."""
    before = folder.changed.get(job.id)
    return before.nice if before and before.is_of(job) and job.nice in (before.nice, before.set_to) else job.nice


def _apply(door: Door, folder: SteeringFolder, how: Steering, wanted: list[Wanted], own: dict[int, int]) -> Round:
    refused: dict[int, str] = {}
    late = [each for each in wanted if each.nice != each.job.nice]
    done: dict[int, int] = {}
    for each in late[:MOST_CHANGES]:
        if not how.dry_run:
            before = folder.changed.get(each.job.id)
            kept = (before.held, before.priority) if before and before.is_of(each.job) else (False, 0)
            folder.write(each.job.id, Changed(each.job.submitted, own[each.job.id], each.nice, *kept))
            _send(door, Change(each.job.id, {"Nice": str(each.nice)}), each.job.id, refused)
        if each.job.id not in refused:
            done[each.job.id] = each.nice
    held, released = _hold(door, folder, how, wanted, own, refused)
    queues = {queue: sum(each.queue == queue for each in wanted) for queue in range(len(how.thresholds) + 1)}
    return Round(len(wanted), done, tuple(held), tuple(released), queues, max(0, len(late) - MOST_CHANGES), refused)


def _hold(
    door: Door,
    folder: SteeringFolder,
    how: Steering,
    wanted: list[Wanted],
    own: dict[int, int],
    refused: dict[int, str],
) -> tuple[list[int], list[int]]:
    """Hold jobs of later queues while jobs of the first wait, so that backfilling does not start them; release them after that."""
    first_waits = how.holds and any(each.queue == 0 and not each.job.held for each in wanted)
    held: list[int] = []
    released: list[int] = []
    for each in wanted:
        job, before = each.job, folder.changed.get(each.job.id)
        ours = bool(before and before.is_of(job) and before.held)
        if first_waits and each.queue > 0 and not job.held and len(held) < MOST_CHANGES:
            held.append(job.id)
            if not how.dry_run:
                folder.write(
                    job.id, Changed(job.submitted, own[job.id], each.nice, True, job.priority + job.nice - own[job.id])
                )
                _send(door, Hold(job.id), job.id, refused)
        elif ours and not first_waits:
            released.append(job.id)
            if not how.dry_run:
                _send(door, Hold(job.id, release=True), job.id, refused)
                folder.write(job.id, Changed(job.submitted, own[job.id], each.nice))
    return held, released


def undo(door: Door, folder: SteeringFolder) -> Undone:
    """Give every job back what it had; doing it twice is harmless, and what could not be done is tried again then."""
    jobs = door.poll().jobs
    restored, unchanged, refused = [], [], dict[int, str]()
    for number, before in sorted(folder.changed.items()):
        job = jobs.get(number)
        if job is None or not before.is_of(job) or not (job.waits or job.holds):
            unchanged.append(number)
            continue
        ours_held = before.held and job.held
        if ours_held:
            _send(door, Hold(number, release=True), number, refused)
        if job.nice == before.set_to != before.nice:
            _send(door, Change(number, {"Nice": str(before.nice)}), number, refused)
        elif not ours_held:
            unchanged.append(number)
            continue
        restored.append(number)
    _restore_priorities(door, folder, restored, refused)
    if not refused:
        folder.forget()
    return Undone(tuple(n for n in restored if n not in refused), tuple(unchanged), refused)


def _restore_priorities(door: Door, folder: SteeringFolder, restored: list[int], refused: dict[int, str]) -> None:
    """Under priority/basic a job that was released goes to the end of the queue: its old priority is set again."""
    wrong = {number: folder.changed[number] for number in restored if folder.changed[number].held}
    for number, job in (door.poll().jobs if wrong else {}).items():
        if number in wrong and job.waits and job.priority > 1 << 31 and job.priority != wrong[number].priority:
            _send(door, Change(number, {"Priority": str(wrong[number].priority)}), number, refused)


def _send(door: Door, request: Change | Hold, number: int, refused: dict[int, str]) -> None:
    try:
        door.send(request)
    except Refused as error:
        refused[number] = str(error)
