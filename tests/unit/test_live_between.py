"""Queries and submissions at the worst moment: between two steps of the manager, and while it closes."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.live_manager import ME, ended, one, opened, until
from tests.waiting import gate, wait_for

from headway.errors import HeadwayError
from headway.live.errors import Stopping, WrongState
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.metrics import prometheus_text
from headway.live.http.tokens import Tokens
from headway.live.jobfile.spec import job_spec
from headway.live.manager.loop import recorder
from headway.live.manager.manager import Manager
from headway.live.measures import Histogram
from headway.live.state.retired import Past
from headway.live.store.journal import Journal
from headway.live.store.prune import prune
from headway.live.store.submissions import Submission

HOST = "127.0.0.1:8642"
pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """A manager that keeps one finished job in memory."""
    monkeypatch.setattr(recorder, "KEPT_FINISHED", 1)
    manager = opened(tmp_path)
    yield manager
    manager.stop(drain=True)


def retired(manager: Manager) -> int:
    """A job that has left the memory."""
    job = one(manager, run="true")
    ended(manager, job)

    def is_retired() -> bool:
        ended(manager, one(manager, run="true"))
        return job not in manager._state.jobs

    wait_for(is_retired)
    return job


class Late:
    """A lock that calls a function after it was released for the first time."""

    def __init__(self, lock: Any, then: Callable[[], object]) -> None:
        self.lock, self.then = lock, [then]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lock, name)

    def __enter__(self) -> None:
        self.lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.lock.__exit__(*error)
        if self.then:
            self.then.pop()()


QUERIES: dict[str, Callable[[Manager, int], object]] = {
    "job": lambda manager, job: manager.job(job),
    "views": lambda manager, job: manager.views([job]),
    "spec": lambda manager, job: manager.spec(job),
    "visible": lambda manager, job: manager.visible([job], lambda job, user: True),
    "explain": lambda manager, job: manager.explain(job).state == "COMPLETED",
    "after": lambda manager, job: (
        manager.notes_on(job_spec({"run": "true"})) == ()
        and manager._check(job_spec({"run": "true", "after": [f"any:{job}"]}), ME) is None
    ),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_job_is_known_while_it_is_retired(
    query: str, manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had left the memory, and was not among the retired jobs yet."""
    job = one(manager, run="true")
    ended(manager, job)
    manager.settle()
    found: list[object] = []
    retire = Past.retire

    def asked_between(past: Past, each: Any) -> None:
        if each.id == job:
            found.append(QUERIES[query](manager, job))
        retire(past, each)

    monkeypatch.setattr(Past, "retire", asked_between)

    def is_retired() -> bool:
        ended(manager, one(manager, run="true"))
        return job not in manager._state.jobs

    wait_for(is_retired)
    assert all(found)
    assert found


@pytest.mark.parametrize("query", [name for name in QUERIES if name not in ("explain", "after")])
def test_a_job_is_known_while_it_is_recalled(query: str, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that had not found it in the memory looked among the retired jobs next, which it had left."""
    job, lock = retired(manager), manager._world.lock

    def requeue() -> None:
        monkeypatch.setattr(manager._world, "lock", lock)
        manager.requeue(job)

    monkeypatch.setattr(manager._world, "lock", Late(lock, requeue))
    assert QUERIES[query](manager, job)


def test_a_job_that_is_retired_meanwhile_is_explained(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` looked among the retired jobs first, then in the memory."""
    job = one(manager, run="true")
    ended(manager, job)
    manager.settle()
    look, moved = Past.final_of, list[int]()

    def retires_then(past: Past, number: int) -> Any:
        final = look(past, number)
        if number == job and not moved and not manager._world.lock._is_owned():  # type: ignore[attr-defined]
            moved.append(job)
            for _ in range(3):
                ended(manager, one(manager, run="true"))
        return final

    monkeypatch.setattr(Past, "final_of", retires_then)
    assert manager.explain(job).state == "COMPLETED"


def test_metrics_are_read_while_a_commit_is_measured(manager: Manager) -> None:
    """They were copied value by value, while the engine's thread added one."""
    job = one(manager, run="true")
    ended(manager, job)
    commits = manager._world.measures.commits

    class Added(float):
        def __deepcopy__(self, memo: dict[int, Any]) -> float:
            commits.add(1.0)
            return 1.0

    commits.add(Added(1.0))
    assert b"headway_journal_commit_duration_seconds_count" in prometheus_text(manager, True)


def test_a_copy_of_a_histogram_stays_as_it_is() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add(1.5)
    copied = histogram.copied()
    histogram.add(0.5)
    assert (copied.counts, copied.total) == ([0, 1, 0], 1.5)


def test_a_closed_journal_refuses_to_write(tmp_path: Path) -> None:
    """The work was queued for a thread that had ended: whoever waited for it waited for ever."""
    journal = Journal(tmp_path)
    journal.close()
    work: Future[Any] = journal.commit_later(lambda connection: None)
    assert work.done()
    assert isinstance(work.exception(), Stopping)
    journal.close()


def test_work_that_waits_when_a_journal_closes_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = journal.commit_later(lambda connection: 1)
    journal.close()
    assert first.result() == 1


def test_a_submission_to_a_manager_that_has_stopped_is_refused(tmp_path: Path) -> None:
    manager, answers = opened(tmp_path), list[Submission]()
    manager.stop()
    manager.submit_later(job_spec({"run": "true"}), ME, None, answers.append)
    manager.submit_later(job_spec({"run": "true"}), ME, None, answers.append)
    assert [type(answer.error) for answer in answers] == [Stopping, Stopping]
    with pytest.raises(Stopping, match="the manager is stopping: nothing was accepted"):
        manager.submit(job_spec({"run": "true"}), ME)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the engine's
def test_a_request_whose_rows_are_written_is_done_though_an_effect_fails(tmp_path: Path) -> None:
    """It was refused with "nothing was accepted"."""
    manager = opened(tmp_path)
    job = one(manager, run="sleep 600")
    until(manager, job, "RUNNING")
    executor, real = manager._executor, manager._executor.stop

    def fails(*_: object) -> None:
        raise RuntimeError("no more")

    executor.stop = fails  # type: ignore[method-assign]
    manager.cancel(job)
    assert "RuntimeError: no more" in manager.wait_for_failure()
    assert ("Stop", "cancel") in [(row.kind, row.data.get("why")) for row in manager._journal.rows()]
    with pytest.raises(Stopping):
        manager.cancel(job)
    executor.stop = real  # type: ignore[method-assign]
    manager.stop()
    manager = opened(tmp_path)
    assert ended(manager, job) == "CANCELLED"
    manager.stop(drain=True)


PRUNED = r"job \d+ ended as COMPLETED, and its job file was pruned: submit it anew"


def test_a_pruned_job_is_not_requeued(manager: Manager, tmp_path: Path) -> None:
    """A job in memory ran again; a restarted manager, which has the journal alone, ran a program called `pruned`."""
    old = retired(manager)
    recent = max(manager._state.finished)
    manager.settle()
    prune(tmp_path, manager.clock() + 1.0)
    for job in (old, recent):
        with pytest.raises(WrongState, match=PRUNED):
            manager.requeue(job)
    refused: dict[int, HeadwayError] = manager.act("requeue", [old, recent])
    assert [type(error) for error in refused.values()] == [WrongState, WrongState]
    tokens = Tokens(tmp_path, ME)
    owner = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
    with TestClient(Guard(make_api(manager), tokens, [HOST]), base_url=f"http://{HOST}") as client:
        for job in (old, recent):
            answer = client.post(f"/v1/jobs/{job}/requeue", headers=owner)
            assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state"), answer.text
        assert client.post("/v1/jobs/99/requeue", headers=owner).status_code == 404


def test_a_job_that_was_pruned_is_not_requeued_after_a_restart_without_snapshot(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    job = one(manager, run="true")
    ended(manager, job)
    manager.settle()
    prune(tmp_path, manager.clock() + 1.0)
    manager.stop()
    with sqlite3.connect(tmp_path / "journal.db") as file:
        file.execute("DELETE FROM snapshots")
    again = opened(tmp_path)
    with pytest.raises(WrongState, match=PRUNED):
        again.requeue(job)
    again.stop()


def test_a_task_of_an_array_that_is_pruned_in_part_keeps_its_job_file(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    first = one(manager, run=f"[ $HEADWAY_ARRAY_INDEX = 0 ] || {gate(tmp_path / 'go')}", array="0-1")
    ended(manager, first)
    manager.settle()
    prune(tmp_path, manager.clock() + 1.0)
    manager.requeue(first)
    assert until(manager, first).state == "COMPLETED"
    (tmp_path / "go").touch()
    ended(manager, first + 1)
    manager.stop()
