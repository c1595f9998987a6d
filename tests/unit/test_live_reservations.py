"""Nobody starves, live: GPUs are kept for the first waiting job, and `explain` says which, by when, and who holds them until then."""

import getpass
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.imagined import Virtual, Work
from tests.live_manager import one, until
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.queries.explain.explain import Explanation, explain

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")
BIG = {"resources": {"accelerators": 8}}
RUN_S, EVERY_S = 100.0, 100.0 / (0.6 * 8)  # 60 % of 8 GPUs


def stream(**limits: Any) -> list[Work]:
    """Small jobs that cannot be preempted, and the 8-GPU job after the first 20 of them."""
    small = [Work(i * EVERY_S, limits, RUN_S) for i in range(120)]
    return [*small[:20], Work(19.5 * EVERY_S, BIG, 50.0), *small[20:]]


class Asked(Virtual):
    """Asks why a job waits, as soon as it does."""

    asks, first = 21, None

    def look(self) -> None:
        job = self.state.jobs.get(self.asks)
        if self.first is None and job and job.known and self.state.shown_state(job).name == "PENDING":
            self.first: Explanation | None = explain(self.state, job, self.time)


@pytest.mark.parametrize("policy", ["tiresias-l", "backfill", "2d-las"])
def test_a_large_job_starts_within_the_bound_that_was_printed_when_it_began_to_wait(policy: str) -> None:
    world = Asked(stream(time_limit=130, preemption={"grace": 5}), "1x8", policy)
    world.run()
    assert not world.trouble
    found = world.first
    assert found is not None
    assert found.reservation is not None
    kept = found.reservation
    assert (kept.job_id, kept.nodes) == (21, {"n000": 8})
    assert kept.by is not None
    assert kept.by <= 19.5 * EVERY_S + 135.0
    assert {holder.why for holder in kept.holders} == {"time_limit"}
    (start,) = world.times("Start", 21)
    assert start <= kept.by
    words = found.message
    assert "It has a backfill reservation of 8 GPUs on n000, free in " in words
    assert "at the latest" in words
    assert "may start first" in words


@pytest.mark.parametrize("policy", ["tiresias-l", "backfill", "gittins"])
def test_without_time_limits_a_large_job_starts_once_those_before_it_are_gone(policy: str) -> None:
    world = Asked(stream(), "1x8", policy)
    world.run()
    (start,) = world.times("Start", 21)
    assert start <= 19.5 * EVERY_S + RUN_S  # all that hold its GPUs began before it came
    found = world.first
    assert found is not None
    assert found.reservation is not None
    assert found.reservation.by is None
    assert "job 16, job 17, job 18, job 19 and job 20 (no time limit, cannot be preempted)" in found.message
    assert not any("checkpoint" in line for line in found.would_change)  # which would not help


def test_preemptible_jobs_give_a_bound_by_their_turns_and_their_grace() -> None:
    held = {"resources": {"accelerators": 4}, "preemptible": True, "preemption": {"min_runtime": 100, "grace": 7}}
    works = [Work(0.0, held, 5000.0), Work(0.0, held, 5000.0), Work(30.0, BIG, 10.0)]
    world = Asked(works, "1x8", "tiresias-l?threshold=50")
    world.asks = 3
    world.run()
    found = world.first
    assert found is not None
    kept = found.reservation
    assert kept is not None
    # Others that can be stopped may pass it until it has waited for 64 turns; then none but the last of them holds it up.
    assert kept.by == pytest.approx(30.0 + 65 * 100.0 + 7.0)
    assert [(holder.job_id, holder.until, holder.why) for holder in kept.holders] == [
        (1, pytest.approx(100.0), "min_runtime"),
        (2, pytest.approx(100.0), "min_runtime"),
    ]
    assert world.times("Start", 3)[0] <= kept.by


def test_the_reasons_min_runtime_and_backfill_reservation_are_told_with_what_they_wait_for() -> None:
    held = {"resources": {"accelerators": 4}, "preemptible": True, "preemption": {"min_runtime": 100}}
    other = {**held, "resources": {"accelerators": 3}}
    works = [Work(0.0, held, 5000.0), Work(0.0, other, 900.0), Work(30.0, BIG, 10.0), Work(31.0, {}, 500.0)]
    world = Virtual(works, "1x8", "tiresias-l?threshold=50")
    found: dict[str, Explanation] = {}

    def look() -> None:
        if len(found) < 2 and 4 in world.state.jobs and world.state.jobs[4].known:
            for reason in {"min_runtime", "backfill_reservation"} - set(found):
                job = world.state.jobs[3 if reason == "min_runtime" else 4]
                explained = explain(world.state, job, world.time)
                if explained.reason == reason:
                    found[reason] = explained

    world.look = look  # type: ignore[method-assign]
    world.run()
    turn, reservation = found["min_runtime"], found["backfill_reservation"]
    assert [(holder.job_id, holder.until, holder.why) for holder in turn.min_runtimes] == [
        (1, 100.0, "min_runtime"),
        (2, 100.0, "min_runtime"),
    ]
    assert "job 1 in 69 s" in turn.message
    assert turn.would_change == ("a job with GPUs ends", "one of these minimum run times ends")
    assert reservation.reservation is not None
    assert reservation.reservation.job_id == 3
    assert reservation.message.startswith("it would fit, but job 3 has a backfill reservation of 8 GPUs on n000")
    assert reservation.would_change[0] == "job 3 starts"
    assert "a time limit of at most 69 s" in reservation.would_change[1]  # then it is in nobody's way
    json.dumps(asdict(turn)), json.dumps(asdict(reservation))


def test_jobs_of_others_are_counted_but_not_named() -> None:
    world = Virtual(stream(), "1x8", "tiresias-l")
    found: list[Explanation] = []

    def look() -> None:
        job = world.state.jobs.get(21)
        if not found and job and job.known and world.state.shown_state(job).name == "PENDING":
            found.append(explain(world.state, job, world.time, lambda job_id, user: job_id == 21))

    world.look = look  # type: ignore[method-assign]
    world.run()
    kept = found[0].reservation
    assert kept is not None
    assert (kept.job_id, kept.holders, kept.holders_unseen) == (21, (), 5)
    assert "because of 5 jobs of other users" in found[0].message


def test_a_large_job_with_real_processes_starts_within_its_bound(tmp_path: Path) -> None:
    manager = Manager(tmp_path / "data", cluster("1x4"), "tiresias-l")
    manager.start()
    small = {"run": gate(tmp_path / "go"), "time_limit": PATIENCE_S, "preemption": {"grace": 1}}
    try:
        for job in [one(manager, **small) for _ in range(4)]:
            until(manager, job, "RUNNING")
        big = one(manager, run="true", resources={"accelerators": 4})
        reservation = wait_for(lambda: manager.explain(big).reservation)
        later = [one(manager, **small) for _ in range(8)]
        (tmp_path / "go").touch()
        assert reservation.by is not None
        started = until(manager, big).started_at or 1e18
        assert started <= reservation.by
        assert all(started <= (until(manager, job).started_at or 0.0) for job in later)
    finally:
        manager.stop(drain=True)


def test_backfill_plans_with_limits_and_ends_jobs_at_them(tmp_path: Path) -> None:
    works = [
        Work(0.0, {"resources": {"accelerators": 6}}, 200.0),
        Work(1.0, BIG, 10.0),
        Work(
            2.0, {"resources": {"accelerators": 2}, "time_limit": 150, "preemption": {"grace": 5}}, 100.0
        ),  # gone in time
        Work(3.0, {"resources": {"accelerators": 2}}, 10.0),  # nobody knows
    ]
    world = Virtual(works, "1x8", "backfill?limit=300")
    world.run()
    assert world.times("Start", 3) == [2.0]
    assert world.times("Start", 2) == [200.0]
    assert world.times("Start", 4) == [210.0]
    long = Virtual([Work(0.0, {"preemption": {"grace": 1}}, 1000.0)], "1x1", "backfill?limit=300")
    long.run()
    assert long.state.jobs[1].final is not None
    assert (long.state.jobs[1].final.name, long.times("Stop", 1)) == ("TIMEOUT", [300.0])
    assert "longer than the policy allows" in long.state.jobs[1].message
    with pytest.raises(BadInput, match="only a simulator knows: live, backfill plans with the time limits"):
        Manager(tmp_path / "data", cluster("1x1"), "backfill?requested=2")
    manager = Manager(tmp_path / "other", cluster("1x1"), "backfill?limit=1h")
    with pytest.raises(BadInput, match="time_limit: 7200 s is more than the 3600 s that policy backfill"):
        manager.submit(job_spec({"run": "true", "time_limit": "2h"}), ME)
    manager.stop()


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"accelerators": count}, **more}


FIRST = "job 5, for which GPUs are kept, starts, and more GPUs become free"
IN_TURN = gpus(4, preemptible=True, preemption={"min_runtime": 100})


@pytest.mark.parametrize(
    ("ahead", "small", "advice", "starts"),
    [
        # Job 5 waits for both nodes: whatever becomes free is kept for it.
        (16, gpus(1), (FIRST,), 1050.0),
        # It waits for all of n000: the GPUs of n001 that are free at 100 are too few for it.
        (8, gpus(1), (FIRST, "GPUs of other nodes become free, too few for job 5"), 100.0),
        # One that can be stopped may pass it.
        (16, gpus(1, preemptible=True), ("a job with GPUs ends",), 100.0),
        # One that asks for as much does not: job 5 is asked first.
        (2, gpus(2, preemptible=True), (FIRST,), 150.0),
    ],
)
def test_who_waits_behind_a_reservation_is_told_what_helps(
    ahead: int, small: dict[str, Any], advice: tuple[str, ...], starts: float
) -> None:
    held = [Work(0.0, gpus(size), length) for size, length in ((8, 1000.0), (2, 1000.0), (2, 100.0), (4, 1000.0))]
    world = Asked([*held, Work(1.0, gpus(ahead), 50.0), Work(2.0, small, 50.0)], "2x8", "tiresias-l")
    world.asks = 6
    world.run()
    assert world.first is not None
    assert world.first.would_change == advice
    assert world.times("Start", 6)[0] == starts


def test_a_turn_that_ends_does_not_help_a_job_behind_the_one_that_it_is_for() -> None:
    world = Asked(
        [Work(0.0, IN_TURN, 5000.0), Work(0.0, IN_TURN, 5000.0), Work(30.0, BIG, 10.0), Work(31.0, {}, 50.0)],
        "1x8",
        "tiresias-l?threshold=50",
    )
    world.asks = 4
    world.run()
    assert world.first is not None
    assert world.first.reason == "min_runtime"
    assert world.first.would_change == (FIRST.replace("job 5", "job 3"),)
    assert world.times("Start", 4)[0] == 110.0  # the turns end at 100


def test_a_checkpoint_is_not_advised_where_the_reservation_is_firm() -> None:
    # At 99.5 s job 2 has waited for more than 64 times the half second that is left: nobody passes it, stoppable or not.
    small, stoppable = Work(99.5, {}, 50.0), Work(99.5, {"preemptible": True}, 50.0)
    works = [Work(0.0, IN_TURN, 5000.0), Work(0.5, BIG, 10.0), small, stoppable]
    world = Asked(works, "1x8", "tiresias-l?threshold=50")
    world.asks = 3
    world.run()
    assert world.first is not None
    assert (world.first.reason, world.first.would_change) == ("backfill_reservation", ("job 2 starts",))
    assert [world.times("Start", job)[0] for job in (2, 3, 4)] == [100.0, 110.0, 110.0]
