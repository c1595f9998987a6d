"""The default policy, live: turns, stops that are worth their cost, and what jobs report of themselves."""

import math
import re
from typing import Any

import pytest
from tests.imagined import Virtual, Work

from headway.live.queries.explain.explain import Explanation, explain
from headway.policies.headway import MIN_RUNTIME_S

GPU = {"resources": {"accelerators": 1}, "preemptible": True}


class Seen(Virtual):
    """Keeps what was left of the first job by the engine's books, and what was said of the last as long as it waited."""

    def __init__(self, works: list[Work], where: str) -> None:
        super().__init__(works, where, "headway")
        self.left: list[float] = []
        self.said: list[Explanation] = []

    def look(self) -> None:
        """Between rounds."""
        if self.state.active:
            self.left.append(float(self.state.tables.jobs["left"][0]))
        last = self.state.jobs.get(len(self.works))
        if last is not None and last.known and last.places == ():
            self.said.append(explain(self.state, last, self.time))


def ran(world: Virtual, kind: str, job: int) -> list[float]:
    """When the journal says so."""
    return [row.time for row in world.kept.rows if row.kind == kind and row.job == job]


def works(reports: bool) -> list[Work]:
    """A long job that takes 30 s to save, and a short one that comes when it has run for a while."""
    return [Work(0.0, GPU, 9000.0, save_s=30.0, reports=reports, step_s=10.0), Work(2000.0, GPU, 60.0)]


@pytest.mark.parametrize("reports", [False, True])
def test_a_short_job_gets_the_gpu_of_a_long_one_after_its_turn(reports: bool) -> None:
    world = Seen(works(reports), "1x1")
    world.run()
    assert not world.trouble
    assert ran(world, "Stop", 1)[0] == pytest.approx(2000.0, abs=60.0)
    known = [left for left in world.left if not math.isnan(left)]
    assert bool(known) == reports


def test_nobody_is_stopped_in_the_first_quarter_of_an_hour() -> None:
    early: list[Any] = [Work(0.0, GPU, 9000.0), Work(100.0, GPU, 60.0)]
    world = Seen(early, "1x1")
    world.run()
    assert ran(world, "Stop", 1)[0] >= MIN_RUNTIME_S
    assert any(said.reason == "min_runtime" for said in world.said)


def test_what_is_said_of_a_wait_is_true_before_and_in_the_turn() -> None:
    """It was said that nothing but the end of a job changes the wait, and then that a turn of 15 minutes ends in 16 hours."""
    world = Seen([Work(0.0, GPU, 9000.0), Work(1.0, GPU, 60.0)], "1x1")
    world.run()
    before = next(said for said in world.said if said.reason == "gpus" and said.reservation)
    assert "no bound can be given, because of job 1 (no time limit, comes first)" in before.message
    assert before.would_change[-1] == "a job that comes before it has run so long that it comes after it"
    (turn,) = {said.message for said in world.said if said.reason == "min_runtime"}
    gone = "when job 1 is gone because its minimum run time is over and it has checkpointed"
    until = "at the latest, because jobs that can be preempted may pass it until then"
    assert re.search(
        rf"has a backfill reservation of 1 GPU on n000, free in [\d.]+ (s|min), {gone}, or in [\d.]+ h {until}", turn
    )
    assert "Until then" not in turn


def test_a_stop_comes_when_it_is_worth_its_cost_whatever_is_asked_and_reported_meanwhile() -> None:
    """Every question and every round in between made the manager forget when that is: the job waited for the next arrival or end."""
    long = Work(0.0, GPU, 9000.0, save_s=30.0, reports=True, step_s=10.0)
    world = Seen([long, Work(2000.0, GPU, 60.0), Work(5000.0, GPU, 60.0)], "1x1")
    world.run()
    assert not world.trouble
    assert any("costs more GPU-time than it has waited for" in said.message for said in world.said)
    second = ran(world, "Stop", 1)[1]
    assert 5010.0 <= second <= 5025.0
