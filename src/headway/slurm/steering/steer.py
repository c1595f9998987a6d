"""One round of steering, and its undo."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from headway.io.files import write_atomically
from headway.slurm.requests import Hold, JobUpdate, Rejected, SlurmConnection
from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering import service
from headway.slurm.steering.journal import LATER_S, SCALE, SERVICE, Changed, SteeringFolder
from headway.slurm.steering.parts import as_one, first
from headway.slurm.steering.plan import Wanted, plan, scale_of

MOST_CHANGES = 200  # per round: each is a request to slurmctld
HELD = "somebody holds it, and under priority/basic Slurm would release it with its nice value: undo again when it is released"


@dataclass(frozen=True, slots=True)
class SteeringRound:
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


def steer(door: SlurmConnection, folder: SteeringFolder, how: Steering) -> SteeringRound:
    """Look at the queue, and bring nice values to where they should be."""
    jobs = as_one(door.poll().jobs)
    attained = service.load(folder.folder / SERVICE)
    attained.look(jobs.values(), how.by, time.time())
    own = {job.id: _own_nice(job, folder) for job in jobs.values()}
    scale = scale_of(jobs.values(), own, len(how.thresholds), folder.scale())
    if not how.dry_run:
        folder.folder.mkdir(parents=True, exist_ok=True)
        service.save(folder.folder / SERVICE, attained)
        if scale:
            write_atomically(folder.folder / SCALE, json.dumps(asdict(scale)))
    basic = scale is not None and not scale.raises
    wanted = plan(jobs.values(), own, attained.by_owner(), how.by, how.thresholds, scale)
    done = _apply(_Hand(door, folder, basic, how.dry_run), how, wanted)
    if not how.dry_run:
        folder.tidy(jobs.values())
    return done


def _own_nice(job: SlurmJob, folder: SteeringFolder) -> int:
    before = folder.of(job)
    return before.own_nice(job) if before else job.nice


class _Hand:
    """Sends changes, each of which is on disk before; what Slurm refuses is noted.

    Under priority/basic a nice value releases a job that is held, and a release loses its place, for which setting its priority would lose
    its nice value (all tried with 22.05): so jobs that are held are left alone, and those to be held get a beginning in the far future.
    """

    def __init__(self, door: SlurmConnection, folder: SteeringFolder, basic: bool, dry_run: bool = False) -> None:
        self.door, self.folder, self.basic, self.dry_run = door, folder, basic, dry_run
        self.refused, self.now = dict[int, str](), time.time()

    def set_nice(self, job: SlurmJob, nice: int) -> None:
        """Give it a nice value."""
        known = self._known(job)
        self._write(job, replace(known, set_to=(*known.set_to, nice)))
        self._send(job, JobUpdate(job.alone, {"Nice": str(nice)}))

    def hold(self, job: SlurmJob) -> None:
        """Keep it from starting."""
        self._write(job, replace(self._known(job), held=True))
        later = JobUpdate(job.alone, {"StartTime": f"now+{LATER_S:.0f}"})
        self._send(job, later if self.basic else Hold(job.alone))

    def release(self, job: SlurmJob) -> None:
        """Let it start."""
        self._send(job, JobUpdate(job.alone, {"StartTime": "now"}) if self.basic else Hold(job.alone, release=True))
        if job.id not in self.refused:
            self._write(job, replace(self._known(job), held=False))

    def holds(self, job: SlurmJob) -> bool:
        """Whether we hold it."""
        return self._known(job).holds(job, self.now)

    def _known(self, job: SlurmJob) -> Changed:
        before = self.folder.of(job) or Changed(job.submitted, job.nice)
        return replace(before, submitted=job.submitted, nice=before.own_nice(job))

    def _write(self, job: SlurmJob, change: Changed) -> None:
        if not self.dry_run:
            self.folder.write(job.id, change)

    def _send(self, job: SlurmJob, request: JobUpdate | Hold) -> None:
        try:
            if not self.dry_run:
                self.door.send(request)
        except Rejected as error:
            self.refused[job.id] = str(error)


def _apply(hand: _Hand, how: Steering, wanted: list[Wanted]) -> SteeringRound:
    not_ours = {each.job.one for each in wanted if hand.basic and each.job.held}
    late = [each for each in wanted if each.nice != each.job.nice and each.job.one not in not_ours]
    now = late[: first([each.job for each in late], MOST_CHANGES)]
    for each in now:
        hand.set_nice(each.job, each.nice)
    hold, release = _to_hold(hand, how, wanted)
    room = MOST_CHANGES - len(now) if len(now) == len(late) else 0
    held, released = (some[: first(some, room)] for some in (hold, release))  # one of the two is empty
    for job in released:
        hand.release(job)
    for job in held:
        hand.hold(job)
    done = {each.job.id: each.nice for each in now if each.job.id not in hand.refused}
    queue_of = {each.job.one: each.queue for each in wanted}
    queues = {queue: list(queue_of.values()).count(queue) for queue in range(len(how.thresholds) + 1)}
    remaining = len(late) - len(now) + len(hold) - len(held) + len(release) - len(released)
    ids_held, ids_released = (tuple(job.id for job in some) for some in (held, released))
    return SteeringRound(len(queue_of), done, ids_held, ids_released, queues, remaining, hand.refused)


def _to_hold(hand: _Hand, how: Steering, wanted: list[Wanted]) -> tuple[list[SlurmJob], list[SlurmJob]]:
    """Jobs of later queues are held while one of the first could start, so that backfilling does not start them; else they are released."""
    if how.holds and any(each.queue == 0 and each.job.could_start for each in wanted):
        return [each.job for each in wanted if each.queue > 0 and each.job.could_start], []
    return [], [each.job for each in wanted if hand.holds(each.job)]


def undo(door: SlurmConnection, folder: SteeringFolder) -> Undone:
    """Give every job back what it had; doing it twice is harmless, and what could not be done is tried again then."""
    scale = folder.scale()
    hand, restored = _Hand(door, folder, basic=scale is not None and not scale.raises), list[int]()
    for job in door.poll().jobs.values():
        before = folder.of(job)
        if before is None or not (job.waits or job.holds):
            continue
        own, ours = before.own_nice(job), hand.holds(job)
        if job.nice != own and hand.basic and job.held:
            hand.refused[job.id] = HELD
            continue
        if job.nice != own:
            hand.set_nice(job, own)
        if ours:
            hand.release(job)
        if ours or job.nice != own:
            restored.append(job.id)
    unchanged = tuple(number for number in sorted(folder.changed) if number not in restored)
    if not hand.refused:
        folder.forget()
    return Undone(tuple(sorted(set(restored) - set(hand.refused))), unchanged, hand.refused)
