"""hold, requeue --hold, cancel --now, graces, and verbs on many jobs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from tests.unit.operate.conftest import ME, Served
from tests.waiting import PATIENCE_S, wait_for

from headway.live.errors import WrongState
from headway.live.jobfile.spec import job_spec
from headway.live.state.site import Site

pytestmark = pytest.mark.xdist_group("live")
STUBBORN = "trap '' TERM; echo up; while true; do sleep 0.05; done"


def test_hold_leaves_a_running_job_alone(serve: Callable[..., Served]) -> None:
    served = serve()
    job = served.submit(run="sleep 600")
    served.until(job, "RUNNING")
    with pytest.raises(WrongState, match="requeue --hold 1"):
        served.manager.hold(job)
    served.manager.settle()
    assert served.until(job, "RUNNING").attempt == 1


def test_requeue_with_hold_stops_and_holds(serve: Callable[..., Served]) -> None:
    served = serve()
    job = served.submit(run="sleep 600")
    served.until(job, "RUNNING")
    served.manager.requeue(job, hold=True)
    assert served.until(job, "HELD").attempt == 2
    served.manager.release(job)
    served.until(job, "RUNNING")
    served.manager.cancel(job)
    served.until(job)
    served.manager.requeue(job, hold=True)
    assert served.until(job, "HELD").state == "HELD"


def test_a_held_submission_waits_for_its_release(serve: Callable[..., Served]) -> None:
    served = serve()
    job = served.submit(hold=True)
    assert served.until(job, "HELD").reason == "held"
    served.manager.release(job)
    assert served.until(job).state == "COMPLETED"


def test_a_long_grace_is_cut_to_what_the_operator_allows(serve: Callable[..., Served]) -> None:
    served = serve(site=Site(longest_grace_s=0.3))
    spec = job_spec({"run": STUBBORN, "preemption": {"grace": "24h"}})
    assert any("preemption.grace: 86400 s is more" in line for line in served.manager.notes_on(spec))
    job = served.manager.submit(spec, ME)[0]
    served.until(job, "RUNNING")
    served.manager.cancel(job)
    view = served.until(job)
    assert view.state == "CANCELLED"
    assert any("killed after 0.3 s" in line for line in view.notes)


def test_cancel_at_once_kills_though_a_grace_runs(serve: Callable[..., Served]) -> None:
    served = serve(site=Site(longest_grace_s=1e6))
    job = served.submit(run=STUBBORN, preemption={"grace": "24h"})
    served.until(job, "RUNNING")
    wait_for(lambda: "up" in served.manager.log_files(job, 1)[0].read_text())
    served.manager.cancel(job)
    served.until(job, "STOPPING")
    served.manager.cancel(job)  # a second one changes nothing
    served.manager.settle()
    served.until(job, "STOPPING")
    served.manager.cancel(job, at_once=True)
    assert served.until(job).state == "CANCELLED"


def test_a_job_that_is_being_cancelled_says_so_and_is_not_requeued(serve: Callable[..., Served]) -> None:
    """A requeue was answered as done, and `explain` said that the job waits again."""
    served = serve(site=Site(longest_grace_s=PATIENCE_S))
    job = served.submit(run=STUBBORN, preemption={"grace": "24h"})
    served.until(job, "RUNNING")
    wait_for(lambda: "up" in served.manager.log_files(job, 1)[0].read_text())
    served.manager.cancel(job)
    served.until(job, "STOPPING")
    assert served.manager.explain(job).message == "it is being cancelled"
    for hold in (False, True):
        with pytest.raises(WrongState, match="job 1 is being cancelled: wait until it has ended"):
            served.manager.requeue(job, hold)
    served.manager.cancel(job, at_once=True)
    served.until(job)
    served.manager.requeue(job, hold=True)
    served.until(job, "HELD")


def test_a_kill_that_was_asked_for_survives_the_manager(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve(site=Site(longest_grace_s=1e6))
    job = served.submit(run=STUBBORN, preemption={"grace": "24h"})
    served.until(job, "RUNNING")
    executor = served.manager._executor
    executor.stop = lambda *_: None  # type: ignore[method-assign]  # the manager dies before it could do it
    served.manager.cancel(job, at_once=True)
    served.manager.stop()
    assert serve(site=Site(longest_grace_s=1e6)).until(job).state == "CANCELLED"


def test_verbs_on_many_jobs_act_on_as_many_as_they_can(serve: Callable[..., Served]) -> None:
    served = serve("1x1")
    runs = served.submit(run="sleep 600")
    served.until(runs, "RUNNING")
    waits = [served.submit() for _ in range(5)]
    refused = served.manager.act("hold", [runs, *waits, 99])
    assert sorted(refused) == [runs, 99]
    assert "no job 99" in str(refused[99])
    assert {served.until(job, "HELD").state for job in waits} == {"HELD"}
    assert served.manager.act("cancel", [runs, *waits], True) == {}
    assert {served.until(job).state for job in [runs, *waits]} == {"CANCELLED"}


def test_a_user_may_have_so_many_jobs(serve: Callable[..., Served]) -> None:
    served = serve("1x1", site=Site(jobs_per_user=3))
    first = served.submit(run="sleep 600")
    with pytest.raises(WrongState, match=f"user {ME} has 1 job that has not ended, and may have 3: 3 more"):
        served.submit(array="0-2")
    served.submit(array="0-1")
    with pytest.raises(WrongState, match="another cannot"):
        served.submit()
    served.manager.cancel(first + 1)
    served.until(first + 1)
    spec = job_spec({"run": "true", "hold": True})
    (kept,) = served.manager.submit(spec, ME, "key")
    assert served.manager.submit(spec, ME, "key") == [kept]  # an answer that was lost is not a new job
    with pytest.raises(WrongState, match="another cannot"):
        served.manager.submit(spec, ME, "other key")
    with pytest.raises(WrongState, match="another cannot"):
        served.manager.requeue(first + 1)  # as good as a new one
    served.manager.cancel(kept)
    served.manager.requeue(first + 1, hold=True)
    served.manager.cancel(first + 1)
    served.manager.cancel(first)
    served.until(first)
    served.submit()


def test_explanations_count_in_plain_english(serve: Callable[..., Served]) -> None:
    served = serve("1x2", "tiresias-l?threshold=1000")
    served.until(served.submit(run="sleep 600", resources={"accelerators": 2}), "RUNNING")
    first = served.submit()
    behind = served.submit()
    served.explained(behind, "gpus")
    kept, other = served.manager.explain(first), served.manager.explain(behind)
    assert (
        "it needs 1 GPU and finds 0 free, with 0 waiting jobs ahead of it. It has a backfill reservation of 1 GPU on n000"
        in kept.message
    )
    # A GPU that becomes free goes to the job before it.
    assert other.would_change == ("job 2, for which GPUs are kept, starts, and more GPUs become free",)
    assert kept.would_change == ("a job with GPUs ends",)


def test_jobs_that_are_run_again_and_jobs_that_are_being_accepted_count_together(serve: Callable[..., Served]) -> None:
    """Who submitted and requeued at once could have twice as many as allowed."""
    served = serve(site=Site(jobs_per_user=2))
    old = served.submit(hold=True)
    served.manager.cancel(old)
    first, last, counted = Event(), Event(), Event()
    journal = served.manager._journal
    journal.commit_later(lambda _: first.wait(PATIENCE_S))
    wait_for(journal._queue.empty)
    with ThreadPoolExecutor() as pool:
        new = pool.submit(served.submit, array="0-1", hold=True)
        wait_for(lambda: journal._queue.qsize() == 1)
        journal.commit_later(lambda _: (counted.set(), last.wait(PATIENCE_S)))  # in one transaction with the submission
        first.set()
        assert counted.wait(PATIENCE_S)
        again = pool.submit(served.manager.requeue, old)
        wait_for(lambda: again.done() or served.manager._world.unwritten)
        last.set()
        assert new.result() == old + 1
        with pytest.raises(WrongState, match=f"user {ME} has 2 jobs that have not ended, and may have 2"):
            again.result()
    served.manager.cancel(new.result())
    served.manager.requeue(old, hold=True)


def test_an_old_job_that_may_not_run_again_stays_where_it_is(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came back into memory, and a row of the journal said so, before it was refused: as often as somebody asked."""
    monkeypatch.setattr("headway.live.manager.loop.recorder.KEPT_FINISHED", 1)
    served = serve(site=Site(jobs_per_user=1))
    old = served.submit()
    assert served.until(old).state == "COMPLETED"
    for _ in range(3):
        assert served.until(served.submit()).state == "COMPLETED"
    wait_for(lambda: served.manager._state.past.final_of(old))
    held = served.submit(hold=True)
    with pytest.raises(WrongState, match="another cannot be accepted"):
        served.manager.requeue(old)
    served.manager.cancel(held)
    assert "Recalled" not in {row.kind for row in served.manager.events(0)}
    served.manager.requeue(old)
    assert "Recalled" in {row.kind for row in served.manager.events(0)}
