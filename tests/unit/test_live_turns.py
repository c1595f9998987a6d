"""How long an attempt keeps its GPUs, live: by what its own stops and starts took, and never so short that it makes no headway."""

import getpass
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.imagined import Virtual, Work
from tests.live_manager import until

from headway.cluster.named import cluster
from headway.core.keys import AUTO_MULTIPLE
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.state.attempts import MOST_REVISED, Attempts

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")
GPU = {"resources": {"accelerators": 1}, "preemptible": True}

# Starts slowly (as one that loads its libraries does), then makes steps, and saves when asked to.
SLOW_START = """
import sys, time
from pathlib import Path
time.sleep(1.5)
from headway import runtime
saved = Path(sys.argv[1])
step = int(saved.read_text()) if saved.exists() else 0
while step < 8:
    time.sleep(0.2)
    step += 1
    runtime.report(step, total=8)
    if runtime.should_stop():
        break
saved.write_text(str(step))
runtime.checkpointed(step)
"""


def test_two_jobs_whose_start_takes_longer_than_their_turns_both_finish(tmp_path: Path) -> None:
    """Each was stopped again and again before its first step, and neither ever made one."""
    script = tmp_path / "train.py"
    script.write_text(SLOW_START)
    manager = Manager(tmp_path / "data", cluster("1x1"), "las?quantum=0.5")
    manager.start()
    try:
        for name in ("one", "other"):
            command = [sys.executable, str(script), str(tmp_path / name)]
            spec = {"command": command, "checkpoint": {"dir": str(tmp_path)}, "workdir": str(tmp_path)}
            manager.submit(job_spec(spec), ME)
        views = [until(manager, job) for job in (1, 2)]
        assert [view.state for view in views] == ["COMPLETED", "COMPLETED"], views
        assert [(tmp_path / name).read_text() for name in ("one", "other")] == ["8", "8"]
        assert max(view.preemptions for view in views) < 10
    finally:
        manager.stop(drain=True)


def two(start_s: float, work_s: float = 40.0, **given: Any) -> list[Work]:
    return [Work(0.0, {**GPU, **given.pop("spec", {})}, work_s, start_s, **given) for _ in range(2)]


@pytest.mark.parametrize("reports", [True, False])
def test_a_start_longer_than_the_turns_is_no_livelock(reports: bool) -> None:
    world = Virtual(two(30.0, save_s=2.0, reports=reports), "1x1", "las?quantum=5")
    world.run()
    assert not world.trouble
    assert [work.done_s < work.work_s for work in world.works] == [True, True]
    assert [job.final.name for job in world.state.jobs.values() if job.final] == ["COMPLETED", "COMPLETED"]
    assert max(job.preemptions for job in world.state.jobs.values()) < 10


def test_costs_are_measured_from_the_jobs_own_stops_and_first_steps() -> None:
    works = [Work(0.0, GPU, 500.0, 20.0, 3.0, True), Work(100.0, GPU, 5.0)]
    world = Virtual(works, "1x1", "las?quantum=5")
    world.run()
    job, row = world.state.jobs[1], world.state.tables.jobs[0]
    assert job.preemptions == 1
    assert (float(row["save"]), float(row["resume"])) == pytest.approx((3.0, 21.0))  # the first step takes a second
    assert (float(row["turns"]), float(row["min_runtime"])) == (AUTO_MULTIPLE, 1.0)
    started, (stop,) = world.times("Started", 1), world.times("Stop", 1)
    assert stop >= started[0] + AUTO_MULTIPLE * 21.0


def test_a_job_that_reports_is_not_stopped_before_its_first_step_but_a_hung_start_is() -> None:
    works = [Work(0.0, GPU, 60.0, 20.0, 0.0, True), Work(1.0, GPU, 300.0)]
    world = Virtual(works, "1x1", "2d-las?quantum=5", {"": 0.0})
    world.run()
    ran = [stop - start for start, stop in zip(world.times("Started", 1), world.times("Stop", 1), strict=False)]
    assert ran
    assert min(ran) >= 20.0
    hung = [Work(0.0, GPU, 3000.0, 0.0, 0.0, True), Work(10.0, GPU, 3000.0)]
    world = Virtual(hung, "1x1", "las?quantum=5", {"": 0.0})

    def hang() -> None:
        if world.time > 30.0:
            hung[0].start_s = 5000.0

    world.look = hang  # type: ignore[method-assign]
    world.run()
    ran = [stop - start for start, stop in zip(world.times("Started", 1), world.times("Stop", 1), strict=False)]
    assert any(600.0 <= seconds <= 605.0 for seconds in ran), ran


def test_each_attempt_without_a_new_step_doubles_the_next_turn() -> None:
    world = Virtual(two(100.0), "1x1", "las?quantum=1")
    world.run()
    ran = [stop - start for start, stop in zip(world.times("Started", 1), world.times("Stop", 1), strict=False)]
    assert len(ran) >= 6
    assert all(after >= 2.0 * before - 1.0 for before, after in pairwise(ran[1:6])), ran


def test_a_jobs_own_minimum_run_time_wins_over_its_queues_and_that_over_the_managers() -> None:
    by_queue = {"": 50.0, "batch": 70.0, "free": None}
    for spec, turn in (
        ({}, (50.0, 0.0)),
        ({"queue": "batch"}, (70.0, 0.0)),
        ({"queue": "other"}, (50.0, 0.0)),
        ({"queue": "free"}, (1.0, AUTO_MULTIPLE)),
        ({"queue": "batch", "preemption": {"min_runtime": "90s"}}, (90.0, 0.0)),
        ({"queue": "batch", "preemption": {"min_runtime": "auto"}}, (1.0, AUTO_MULTIPLE)),
        ({"queue": "batch", "preemption": {"min_runtime": 0}}, (0.0, 0.0)),
    ):
        world = Virtual([Work(0.0, {**GPU, **spec}, 400.0), Work(5.0, GPU, 10.0)], "1x1", "las?quantum=10", by_queue)
        world.run()
        known = world.state.known(world.state.jobs[1].spec)
        assert (known["min_runtime"], known["turns"]) == turn, spec
        (stop,) = world.times("Stop", 1)[:1]
        assert turn[0] <= stop <= turn[0] + 10.0


def test_a_job_that_is_nearly_done_for_ever_is_soon_not_believed() -> None:
    """It reports step 98 of 100 every ten seconds: by its own reports a few seconds were always left, and it came first for ever."""
    job = Attempts()
    job.start(0.0)
    believed = [0.0]
    for now in range(10, 20_000, 10):
        job.progressed(min(98, now // 10), 100, float(now), float(now))
        if job.believed_s is not None:
            believed.append(float(now))
    assert believed[-1] <= MOST_REVISED * job.whole_s
    assert job.whole_s <= 1100.0


def test_a_job_whose_steps_take_a_little_longer_than_at_first_is_believed() -> None:
    job = Attempts()
    job.start(0.0)
    for step in range(1, 1000):
        now = 10.0 * step if step < 100 else 1000.0 + 15.0 * (step - 100)
        job.progressed(step, 1000, now, now)
        assert step < 3 or job.believed_s is not None
