"""Dry runs against what then happens: a queue of 25 jobs, with imagined processes and with real ones."""

import getpass
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.imagined import Virtual, Work
from tests.live_manager import until

from headway.cluster.named import cluster
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.queries.forecast import Forecast
from headway.live.queries.guesses import RunTimes

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")
QUEUE, MOST_ERROR = 25, 0.2
SCALES = (1.0, 3.0, 9.0)  # the longer jobs run, the less the delays of a slow or busy machine matter


def mean_left(ran: list[float], ended: list[bool], so_far: float) -> float:
    """The mean over a thousand even shares."""
    shares = (np.arange(1000) + 0.5) / 1000
    return float(RunTimes(np.array(ran), np.array(ended, bool)).left_s(np.full(1000, so_far), shares).mean())


def test_jobs_that_still_run_count_as_what_they_are() -> None:
    ran, all_ended = [10.0, 20.0, 30.0, 40.0], [True, True, True, True]
    for so_far, left in ((0.0, 25.0), (10.0, 20.0), (15.0, 15.0), (30.0, 10.0), (40.0, 40.0), (50.0, 50.0)):
        assert mean_left(ran, all_ended, so_far) == pytest.approx(left, rel=1e-3)  # beyond all others: as long again
    # Two have ended and two run still. The mean of those that ended would be 20 s; by hand, 3/4 live after 10 s, 3/8 after 30 s.
    some = [True, False, True, False]
    assert mean_left(ran, some, 0.0) == pytest.approx(10 + 0.75 * 20 + 0.375 * 10, rel=1e-3)
    assert mean_left(ran, some, 20.0) == pytest.approx(10 + 0.5 * 10, rel=1e-3)
    assert mean_left([], [], 0.0) == 1.0
    assert mean_left([], [], 9.0) == 9.0


def compare(
    works: list[Work], where: str, policy: str, at: float, change: Callable[[Forecast], None] | None = None
) -> tuple[float, float]:
    """How long the last of these jobs would wait by a dry run just before it comes, at a moment, and how long it does."""
    asked: list[float] = []
    world = Virtual(works, where, policy)

    def look() -> None:
        if asked or world.arrived < len(works) - 1 or not world.state.jobs[len(works) - 1].known:
            return
        forecast = Forecast(world.state, job_spec({"run": "true", **works[-1].spec}), world.time)
        if change:
            change(forecast)
        found = forecast.run()
        assert found.starts_in_s is not None, found.message
        asked.append(found.starts_in_s)

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert not world.trouble, world.trouble
    return asked[0], world.times("Start", len(works))[0] - at


def queue_of_25(seed: int, **given: Any) -> list[Work]:
    """Jobs that are over, then 25 at once, then one more."""
    chance = random.Random(seed)

    def one(at: float) -> Work:
        spec = {"resources": {"accelerators": chance.choice([1, 1, 2, 4])}, "preemptible": True}
        return Work(at, spec, chance.uniform(60.0, 180.0), **given)

    return [*(one(20.0 * i) for i in range(20)), *(one(5000.0) for _ in range(QUEUE)), one(5000.001)]


@pytest.mark.parametrize(
    "policy", ["fifo", "best-effort", "tiresias-l?threshold=1000000", "tiresias-l?threshold=60", "las?quantum=30"]
)
@pytest.mark.parametrize("reports", [False, True])
def test_a_dry_run_is_off_by_less_than_a_fifth(policy: str, reports: bool) -> None:
    costs = {"start_s": 10.0, "save_s": 5.0, "reports": reports, "step_s": 12.0}
    pairs = [compare(queue_of_25(seed, **costs), "2x4", policy, 5000.001) for seed in range(5)]
    told, real = np.array(pairs).T
    assert np.abs(told / real - 1).mean() < MOST_ERROR, pairs


def test_a_dry_run_counts_what_stops_and_starts_cost() -> None:
    """Four jobs of one length under las: without its costs the forecast is far too short."""
    works = [
        Work(at, {"preemptible": True}, 300.0, 30.0, 20.0, True) for at in (0.0, 0.0, 2000.0, 2000.0, 2000.0, 2000.001)
    ]

    def free(forecast: Forecast) -> None:
        forecast.guesses.save = forecast.guesses.resume = np.zeros(6)

    told, real = compare(works, "1x1", "las?quantum=50", 2000.001)
    assert abs(told / real - 1) < MOST_ERROR, (told, real)
    without, _ = compare(
        [Work(w.at, w.spec, 300.0, 30.0, 20.0, True) for w in works], "1x1", "las?quantum=50", 2000.001, free
    )
    assert abs(without / real - 1) > MOST_ERROR, (without, real)


def told_and_real(data: Path, scale: float) -> tuple[float, float]:
    """How long one more job would wait behind a queue of 25 by a dry run, and how long it did, with real processes."""
    chance = random.Random(4)
    manager = Manager(data, cluster("1x4"), "tiresias-l")
    manager.start()

    def submit(count: int) -> None:
        for _ in range(count):
            manager.submit(job_spec({"run": f"sleep {scale * chance.uniform(0.5, 1.5):.2f}"}), ME)

    def wait() -> None:
        for view in manager.jobs():
            until(manager, view.job_id)

    try:
        submit(12)
        wait()
        submit(QUEUE)
        spec = job_spec({"run": "true"})
        told = manager.dry_run(spec, ME).starts_in_s
        (last,) = manager.submit(spec, ME)
        wait()
        view = manager.job(last)
        assert view is not None
        assert told is not None
        return told, (view.started_at or 0.0) - view.submitted_at
    finally:
        manager.stop(drain=True)


def test_a_dry_run_with_real_processes_is_off_by_less_than_a_fifth(tmp_path: Path) -> None:
    found = []
    for scale in SCALES:
        told, real = told_and_real(tmp_path / str(scale), scale)
        found.append((told, real))
        if abs(told / real - 1) < MOST_ERROR:
            return
    raise AssertionError(found)
