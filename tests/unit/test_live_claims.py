"""What people are told while GPUs of a guarantee are asked back: explain, and dry runs."""

import pytest
from tests.imagined import Virtual, Work
from tests.unit.test_live_queues import STOPPABLE, TWO, Asked

from headway.cluster.queues import Limits, Queue, Queues
from headway.live.ask.explain import Explanation, explain
from headway.live.ask.forecast import DryRun, Forecast
from headway.live.jobfile.spec import job_spec

pytestmark = pytest.mark.xdist_group("live")
TWO_GPUS = {**STOPPABLE, "resources": {"accelerators": 2}}


def explained(queues: Queues, works: list[Work], job: int, where: str, policy: str) -> Explanation:
    """What is said of a job as soon as it waits."""
    world = Asked(works, where, policy, queues=queues)
    world.asks = job
    world.run()
    assert not world.trouble
    assert world.found is not None
    return world.found


def test_explain_bounds_the_wait_for_what_was_asked_back_by_the_notice() -> None:
    turns = {**STOPPABLE, "preemption": {"grace": "5s", "min_runtime": "5m"}}  # in which others could pass
    works = [Work(0.0, {**turns, "queue": "b"}, 1000.0) for _ in range(4)]
    found = explained(TWO, [*works, Work(100.0, {**TWO_GPUS, "queue": "a"}, 50.0)], 5, "1x4", "headway")
    assert found.reservation is not None
    assert found.reservation.in_s is not None, found.message
    assert 60.0 <= found.reservation.in_s <= 65.0
    assert [holder.why for holder in found.reservation.holders] == ["notice"] * 4
    assert "may pass it" not in found.message
    assert "may still go first" not in found.message
    assert "is gone because it borrows them, its notice is over and it has saved" in found.message


def test_explain_names_the_queue_above_where_that_is_owed_the_gpus() -> None:
    above = (Queue("top", guaranteed_gpus=2), Queue("a", parent="top", guaranteed_gpus=1), Queue("b"))
    works = [Work(0.0, {**STOPPABLE, "queue": name}, 1000.0) for name in ("a", "b", "b")]
    asks = Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)
    found = explained(Queues("q", above, notice_s=60.0), [*works, asks], 4, "1x3", "best-effort")
    assert "queue top uses 1 of its 2 guaranteed GPUs, and asked for the others back" in found.message


def test_a_borrower_is_not_told_that_its_own_queue_asks_for_its_gpus() -> None:
    """Job 1 needs more than the guarantee of its queue and borrows them all; job 3 of the same queue has GPUs of b asked back."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=1), Queue("b")), notice_s=60.0)
    works = [Work(0.0, {**TWO_GPUS, "queue": name}, 1000.0) for name in ("a", "b")]
    world = Asked([*works, Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)], "1x4", "best-effort", queues=queues)
    said: dict[int, str] = {}

    def look() -> None:
        if world.time == 100.0 and world.state.jobs.get(3):
            said.update({job: explain(world.state, world.state.jobs[job], world.time).message for job in (1, 2)})

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert "asked for GPUs back" not in said[1]
    assert "Queue a asked for GPUs back: it may be stopped for that in 60 s" in said[2]


def test_explain_says_that_the_rest_of_the_guarantee_was_asked_back_for_others() -> None:
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(4)]
    own = [Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0) for _ in range(3)]
    found = explained(TWO, [*works, *own], 7, "1x4", "headway")
    assert "Of its 2 guaranteed GPUs queue a uses 0, and the others were asked back for jobs before it" in found.message
    assert "costs more GPU-time" not in found.message


def test_a_dry_run_waits_for_the_notice() -> None:
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 90.0), *(Work(1.0, {**STOPPABLE, "queue": "b"}, 900.0),) * 4]
    world, asked = Virtual([*works, Work(300.0, {}, 1.0)], "1x4", "best-effort", queues=TWO), list[DryRun]()

    def look() -> None:
        if not asked and world.time >= 100.0:
            spec = job_spec({"run": "true", **STOPPABLE, "queue": "a"})
            asked.append(Forecast(world.state, spec, world.time).run())

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert "would start once those who borrowed GPUs that its queue is guaranteed" in asked[0].message
    assert asked[0].starts_in_s == pytest.approx(60.0, abs=6.0)


def test_explain_says_that_a_limit_keeps_room_for_a_job_that_asks() -> None:
    one = Queues("q", (Queue("a", guaranteed_gpus=3, limits=Limits(running=1)), Queue("b")), notice_s=60.0)
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(3)]
    own = [Work(100.0, {**TWO_GPUS, "queue": "a"}, 50.0), Work(110.0, {**STOPPABLE, "queue": "a"}, 50.0)]
    found = explained(one, [*works, *own], 5, "1x4", "best-effort")
    assert found.reason == "quota"
    assert "asked back for jobs before it, and limits keep room for those" in found.message
