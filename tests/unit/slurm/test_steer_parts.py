"""Heterogeneous jobs and long queues under `steer`: what is planned and sent for them, without a Slurm."""

from dataclasses import replace
from pathlib import Path

from headway.slurm.requests import Call, Hold, JobUpdate, Request
from headway.slurm.snapshot import SlurmJob, SlurmSnapshot
from headway.slurm.steering.journal import SteeringFolder
from headway.slurm.steering.parts import as_one
from headway.slurm.steering.plan import Scale, plan
from headway.slurm.steering.service import Services
from headway.slurm.steering.steer import MOST_CHANGES, Steering, steer


def pair(first: int, **given: object) -> list[SlurmJob]:
    """A heterogeneous job of two parts, the second with all the GPUs."""
    part = replace(SlurmJob(first, "PENDING", user="a", name="one", priority=28, het=first), **given)  # type: ignore[arg-type]
    return [part, replace(part, id=first + 1, name="two", gpus=2)]


class Memory:
    """A door to a queue in memory, which notes what is sent."""

    def __init__(self, jobs: list[SlurmJob]) -> None:
        self.jobs, self.sent = {job.id: job for job in jobs}, list[Request]()

    def render(self, request: Request) -> Call:
        """Not asked for here."""
        return Call((str(request),))

    def send(self, request: Request) -> str:
        """Note it."""
        self.sent.append(request)
        return ""

    def poll(self) -> SlurmSnapshot:
        """The queue."""
        return SlurmSnapshot(dict(self.jobs), ())

    def show(self, what: str) -> str:
        """Nothing."""
        return ""


def test_parts_are_in_one_queue_by_what_they_attained_together() -> None:
    seen = Services({})
    ran = [replace(job, state="RUNNING", gpus=number, started=100.0) for number, job in enumerate(pair(7), 1)]
    seen.look(as_one({job.id: job for job in ran}).values(), "job", 110.0)
    assert seen.by_owner() == {"7/a": 30.0}
    for by in ("job", "name", "user"):
        waiting = as_one({job.id: job for job in pair(7, restarts=1)}).values()
        seen = Services({})
        seen.look(as_one({job.id: job for job in ran}).values(), by, 110.0)
        wanted = plan(waiting, {7: 3, 8: 5}, seen.by_owner(), by, [25.0], Scale(100, raises=False))
        assert [(each.job.id, each.queue, each.nice) for each in wanted] == [(7, 1, 103), (8, 1, 105)]


def test_what_keeps_one_part_back_keeps_all_back() -> None:
    first, second = pair(7, reason="Resources")
    jobs = as_one({7: first, 8: replace(second, reason="Dependency"), 9: SlurmJob(9, "PENDING", reason="Priority")})
    assert [job.could_start for job in jobs.values()] == [False, False, False]  # the last is held: it has no priority
    assert [job.reason for job in jobs.values()] == ["Dependency", "Dependency", "Priority"]


def test_the_first_part_is_never_named_by_the_number_that_stands_for_all(tmp_path: Path) -> None:
    door = Memory([SlurmJob(1, "PENDING", user="b", priority=28, gpus=1), *pair(7)])
    how = Steering([1.0], "user", holds=True)
    folder = SteeringFolder(tmp_path)
    (tmp_path / "service.json").write_text('{"1/5": ["a", 50.0, 1e12]}')
    done = steer(door, folder, how)
    assert (done.queues, done.held) == ({0: 1, 1: 1}, (7, 8))
    assert door.sent == [JobUpdate("1", {"Nice": "-100000"}), Hold("7+0"), Hold("8")]


def test_a_round_ends_between_two_jobs_not_within_one(tmp_path: Path) -> None:
    """One more request than a round may send: the heterogeneous job at its end is left for the next as a whole."""
    alone = [SlurmJob(number, "PENDING", priority=28, gpus=1) for number in range(1, MOST_CHANGES)]
    door = Memory([*reversed(pair(1000)), *alone])
    done = steer(door, SteeringFolder(tmp_path), Steering([1.0]))
    assert (len(door.sent), done.left_for_next) == (MOST_CHANGES - 1, 2)
    assert {request.job for request in door.sent} == {str(job.id) for job in alone}  # type: ignore[union-attr]
