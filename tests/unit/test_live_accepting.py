"""Submissions that arrive together are written together; each has its own answer."""

import sqlite3
import threading
from pathlib import Path

from tests.live_manager import ME, opened
from tests.waiting import PATIENCE_S, wait_for

from headway.live.errors import JournalFailed, KeyReused, LimitReached
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager
from headway.live.state.site import Site
from headway.live.store.submissions import Submission

TRUE, FALSE = JobSpec(run="true", hold=True), JobSpec(run="false", hold=True)


def together(manager: Manager, *jobs: tuple[JobSpec, str | None]) -> list[Submission]:
    """What becomes of jobs that all arrive while the journal is busy."""
    go, done = threading.Event(), list[Submission]()
    manager._journal.commit_later(lambda connection: go.wait(PATIENCE_S))
    for spec, key in jobs:
        manager.submit_later(spec, ME, key, done.append)
    assert not done
    go.set()
    wait_for(lambda: len(done) == len(jobs))
    return done


def test_one_batch_has_one_commit_and_an_answer_for_each(tmp_path: Path) -> None:
    manager = opened(tmp_path, site=Site(jobs_per_user=4))
    before = manager._journal.commits
    array = JobSpec(run="true", hold=True, array="3,5")
    made = together(manager, (TRUE, "a"), (FALSE, None), (TRUE, "a"), (FALSE, "a"), (array, None), (TRUE, None))
    assert [list(each.numbers) for each in made] == [[1], [2], [1], [], [3, 4], []]
    assert [type(each.error) for each in made] == [type(None)] * 3 + [KeyReused, type(None), LimitReached]
    assert "used for another job" in str(made[3].error)
    assert "has 4 jobs that have not ended" in str(made[5].error)
    wait_for(lambda: manager.counts()["HELD"] == 4)
    assert manager._journal.commits - before <= 4  # the busy one, the batch, and what the engine made of it
    assert [(view.job_id, view.array_id, view.array_index) for view in manager.jobs()] == [
        (1, None, None),
        (2, None, None),
        (3, 3, 3),
        (4, 3, 5),
    ]
    manager.cancel(1)
    assert manager.submit(TRUE, ME, "a") == [1]  # a key that was used counts against no limit
    assert manager.submit(TRUE, ME) == [5]
    manager.stop()
    again = opened(tmp_path)
    assert again.submit(array, ME) == [6, 7]
    again.stop()


def test_a_journal_that_cannot_begin_refuses_all_that_wait_and_then_goes_on(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    real = manager._journal._connection

    class Full:
        def execute(self, sql: str, *given: object) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE":
                raise sqlite3.OperationalError("database or disk is full")
            return real.execute(sql, *given)

    go, done = threading.Event(), list[Submission]()
    manager._journal.commit_later(lambda connection: go.wait(PATIENCE_S))
    wait_for(lambda: manager._journal._queue.empty())
    manager.submit_later(TRUE, ME, None, done.append)
    manager.submit_later(FALSE, ME, None, done.append)
    manager._journal._connection = Full()  # type: ignore[assignment]
    go.set()
    wait_for(lambda: len(done) == 2)
    assert {type(each.error) for each in done} == {JournalFailed}
    manager._journal._connection = real
    assert manager.submit(TRUE, ME) == [1]
    manager.stop()
