"""What explain and dry runs say while jobs that borrowed GPUs are under notice."""

import pytest
from tests.imagined import Virtual, Work
from tests.unit.test_live_queues import STOPPABLE, TWO, Asked

from headway.cluster.queues import Queue, QueueLimits, Queues
from headway.live.jobfile.spec import job_spec
from headway.live.queries.explain.explain import Explanation, explain
from headway.live.queries.forecast import DryRun, Forecast

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


def test_explain_bounds_the_wait_by_the_notice() -> None:
    turns = {**STOPPABLE, "preemption": {"grace": "5s", "min_runtime": "5m"}}  # in which others could pass
    works = [Work(0.0, {**turns, "queue": "b"}, 1000.0) for _ in range(4)]
    found = explained(TWO, [*works, Work(100.0, {**TWO_GPUS, "queue": "a"}, 50.0)], 5, "1x4", "headway")
    assert found.reason == "notice"
    assert [(holder.job_id, holder.gpus, holder.until) for holder in found.notices] == [(3, 1, 160.0), (4, 1, 160.0)]
    assert [holder.why for holder in found.notices] == ["notice"] * 2
    assert "It is promised 2 GPUs on n000, which borrowers return: job 3 in 60 s and job 4 in 60 s" in found.message
    assert "It starts in 65 s at the latest" in found.message  # the notice, and the grace of 5 s
    assert "may pass it" not in found.message
    assert "may start first" not in found.message


def test_explain_names_the_queue_above_where_that_is_owed_the_gpus() -> None:
    above = (Queue("top", guaranteed_gpus=2), Queue("a", parent="top", guaranteed_gpus=1), Queue("b"))
    works = [Work(0.0, {**STOPPABLE, "queue": name}, 1000.0) for name in ("a", "b", "b")]
    asks = Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)
    found = explained(Queues("q", above, notice_s=60.0), [*works, asks], 4, "1x3", "best-effort")
    assert "queue top uses 1 GPU and has a guarantee of 2. It is promised 1 GPU on n000" in found.message


def test_only_the_borrower_is_under_notice() -> None:
    queues = Queues("q", (Queue("a", guaranteed_gpus=3), Queue("b")), notice_s=60.0)
    works = [Work(0.0, {**TWO_GPUS, "queue": name}, 1000.0) for name in ("a", "b")]
    world = Asked([*works, Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)], "1x4", "best-effort", queues=queues)
    said: dict[int, str] = {}

    def look() -> None:
        if world.time == 100.0 and world.state.jobs.get(3):
            said.update({job: explain(world.state, world.state.jobs[job], world.time).message for job in (1, 2)})

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert "under notice" not in said[1]
    assert "It is under notice: its GPUs are taken back in 60 s for queue a" in said[2]


def test_explain_says_that_the_rest_of_the_guarantee_is_promised_to_others() -> None:
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(4)]
    own = [Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0) for _ in range(3)]
    found = explained(TWO, [*works, *own], 7, "1x4", "headway")
    assert "Queue a uses 0 GPUs and has a guarantee of 2, and other jobs are promised 2 GPUs more" in found.message
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
    assert "would start after jobs that borrowed its queue's GPUs have checkpointed (notice: 60 s)" in asked[0].message
    assert asked[0].starts_in_s == pytest.approx(60.0, abs=6.0)


def test_explain_says_that_a_promise_counts_against_a_limit() -> None:
    one = Queues("q", (Queue("a", guaranteed_gpus=3, limits=QueueLimits(running=1)), Queue("b")), notice_s=60.0)
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(3)]
    own = [Work(100.0, {**TWO_GPUS, "queue": "a"}, 50.0), Work(110.0, {**STOPPABLE, "queue": "a"}, 50.0)]
    found = explained(one, [*works, *own], 5, "1x4", "best-effort")
    assert found.reason == "quota"
    assert "GPUs under notice are promised to other jobs of queue a and count against its limits" in found.message


def test_explain_names_only_jobs_that_the_caller_sees() -> None:
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(4)]
    world, said = (
        Virtual([*works, Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)], "1x4", "best-effort", queues=TWO),
        list[Explanation](),
    )

    def look() -> None:
        if world.time == 100.0 and world.state.jobs.get(5) and world.state.jobs[5].known:
            said.append(explain(world.state, world.state.jobs[5], world.time, lambda job, user: job == 5))

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert (said[-1].reason, said[-1].notices) == ("notice", ())
    assert "It is promised 1 GPU on n000, which borrowers return. It starts in 65 s" in said[-1].message
    assert "job 4" not in said[-1].message
