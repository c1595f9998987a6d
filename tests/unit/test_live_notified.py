"""Notices reach real processes: a borrower reads how long it keeps its GPUs, saves, and is stopped; a notice may be withdrawn."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import one, opened, until
from tests.unit.operate.test_webhook import Receiver
from tests.waiting import wait_for

import headway
from headway.cli.tables.job_details import job_table
from headway.cluster.queues import Queue, Queues
from headway.live.manager.manager import Manager
from headway.live.notify.webhook import Webhook, event_of, notice_in
from headway.live.state.records import JournalRow

pytestmark = pytest.mark.xdist_group("live")
HOUR = 3600.0
# The notice is longer than any test takes: the test moves the manager's clock to its end.
QUEUES = Queues("q.yaml", (Queue("a", guaranteed_gpus=1), Queue("b")), notice_s=HOUR)
BORROWER = """
import sys, time
from headway import runtime
said = open(sys.argv[1], "a", buffering=1)
first, under_notice = None, False
while not runtime.should_stop():
    left = runtime.notice()
    if left is None and under_notice:
        print("withdrawn", file=said)
    if left is not None and first is None:
        first = left
        print("notice", left, file=said)
    elif left is not None and first and left < first:
        print("less", left, file=said)
        runtime.checkpointed(1)
        first = 0.0
    under_notice = left is not None
    time.sleep(0.01)
print("stopped", file=said)
"""


class Late:
    """The clock of a manager, which a test can move."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.real, self.more_s = clock, 0.0

    def __call__(self) -> float:
        return self.real() + self.more_s


@pytest.fixture
def borrower(tmp_path: Path) -> tuple[dict[str, Any], Callable[[], list[str]]]:
    """A job that writes down what it reads, and what it has written so far."""
    script, said = tmp_path / "borrower.py", tmp_path / "said"
    script.write_text(BORROWER)
    said.touch()
    spec: dict[str, Any] = {"command": [sys.executable, str(script), str(said)], "queue": "b", "preemptible": True}
    spec["preemption"] = {"grace": "100s", "min_runtime": 0}
    spec["envs"] = {"PYTHONPATH": str(Path(headway.__file__).resolve().parents[1])}
    return spec, lambda: [line.split()[0] for line in said.read_text().splitlines()]


def rows(manager: Manager, kind: str) -> list[JournalRow]:
    manager.settle()
    return [row for row in manager.events(0) if row.kind == kind]


OWN = {"run": "true", "queue": "a"}


def test_a_borrower_sees_its_notice_saves_and_is_stopped_when_it_is_over(tmp_path: Path, borrower: Any) -> None:
    spec, said = borrower
    manager = opened(tmp_path / "data", "1x1", "best-effort", queues=QUEUES)
    receiver = Receiver()
    hook = Webhook(manager, receiver.url, "s3")
    hook.start()
    borrows = one(manager, **spec)
    until(manager, borrows, "RUNNING")
    own = one(manager, **OWN)
    wait_for(lambda: "less" in said(), said)  # it counts down
    until(manager, borrows, "RUNNING", true=lambda job: job.progress.get("checkpointed") == 1)
    shown = manager.job(borrows)
    assert shown is not None
    (given,) = rows(manager, "Notify")
    assert (shown.notice_until, shown.notice_for) == (given.data["until"], "a")
    assert any("for queue a, unless the notice is withdrawn" in str(cell) for cell in job_table(shown).columns[1].cells)
    waits = manager.explain(own)
    assert waits.reason == "notice"
    assert [(holder.job_id, holder.until) for holder in waits.notices] == [(borrows, given.data["until"])]
    assert f"which borrowers return: job {borrows} in " in waits.message
    assert "at the latest, when they have checkpointed" in waits.message
    assert "under notice: its GPUs are taken back in " in manager.explain(borrows).message
    assert "for queue a" in manager.explain(borrows).message
    assert "stopped" not in said()  # should_stop() waits for the stop itself

    wait_for(lambda: any(each["event"] == "Notified" for each in receiver.got), lambda: receiver.got)
    hook.stop()
    manager.stop()  # the notice goes on without a manager, and with the next one
    (tmp_path / "data" / "runs" / str(borrows) / "1" / "notice.json").unlink()
    manager = Manager(tmp_path / "data", manager.cluster, "best-effort", queues=QUEUES)
    manager._world.clock = clock = Late(manager._world.clock)  # type: ignore[assignment]
    manager.start()
    try:
        notice = tmp_path / "data" / "runs" / str(borrows) / "1" / "notice.json"
        wait_for(notice.exists)
        assert json.loads(notice.read_text())["until"] == pytest.approx(given.data["until"], abs=60.0)
        clock.more_s = HOUR
        until(manager, own, "COMPLETED")
        assert "stopped" in said()
        (stop,) = [row for row in rows(manager, "Stop") if row.job == borrows]
        assert stop.time >= given.data["until"]
        marks = [mark.words for mark in manager.story(until(manager, borrows, "RUNNING", "STARTING")).marks]
        assert marks.index("notice: its GPUs are taken back in 60.0 min for queue a") < marks.index("preempted")
        assert len(rows(manager, "Notify")) == 1
    finally:
        manager.stop(drain=True)
        receiver.server.shutdown()
    told = next(each for each in receiver.got if each["event"] == "Notified")
    assert (told["job_id"], told["state"], told["notice_for"]) == (borrows, "RUNNING", "a")
    assert told["notice_until"] == given.data["until"]


def test_a_withdrawn_notice_is_gone_for_the_job(tmp_path: Path, borrower: Any) -> None:
    spec, said = borrower
    manager = opened(tmp_path / "data", "1x1", "best-effort", queues=QUEUES)
    try:
        borrows = one(manager, **spec)
        until(manager, borrows, "RUNNING")
        own = one(manager, **OWN)
        wait_for(lambda: "notice" in said(), said)
        manager.cancel(own)
        wait_for(lambda: "withdrawn" in said(), said)
        shown = until(manager, borrows, "RUNNING")
        assert (shown.notice_until, shown.notice_for) == (None, None)
        given, withdrawn = rows(manager, "Notify")
        assert withdrawn.data == {"until": None}
        assert [event_of(row, "RUNNING") for row in (given, withdrawn)] == ["Notified", "NoticeWithdrawn"]
        assert notice_in(withdrawn) == {"notice_until": None, "notice_for": None}
        assert "notice withdrawn" in [mark.words for mark in manager.story(shown).marks]
        assert "stopped" not in said()
    finally:
        manager.stop(drain=True)
