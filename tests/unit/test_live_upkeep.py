"""What a manager keeps right: when a stop becomes worth it, across restarts; GPU-hours; a first job that waits for no compiler."""

from pathlib import Path

import pytest
from tests.live_manager import ended, one, opened, until
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.cluster.named import cluster
from headway.cluster.nodes import Cluster
from headway.live.manager.loop.rehearsal import rehearse
from headway.live.manager.manager import Manager

pytestmark = pytest.mark.xdist_group("live")
HOUR = 3600.0


def kinds(manager: Manager) -> list[str]:
    """The kinds of the journal's rows since the manager opened."""
    every = [row.kind for row in manager.events(0)]
    return every[len(every) - every[::-1].index("Opened") :]


def test_when_a_stop_becomes_worth_it_is_weighed_again_after_a_restart(tmp_path: Path) -> None:
    """It was forgotten until the next event: the waiting job stopped nobody, however long it waited."""
    manager = opened(tmp_path, "1x1", "headway")
    holds = one(manager, run="sleep 600", preemptible=True, preemption={"grace": 0})
    until(manager, holds, "RUNNING")
    waits = one(manager, run="true")
    until(manager, waits, "PENDING")
    manager.settle()
    assert "Ticked" not in kinds(manager)
    (retry_at,) = [row.data["until"] for row in manager.events(0) if row.kind == "Deferred"]
    assert retry_at > manager.clock()
    manager.stop()
    again = opened(tmp_path, "1x1", "headway")
    again.settle()
    assert again._state.tables.counts["retry_at"][0] == retry_at
    assert kinds(again) == []
    real = again._world.clock
    again._world.clock = lambda: real() + HOUR
    wait_for(lambda: "Ticked" in kinds(again))
    again.settle()
    assert next(row for row in again.events(0) if row.kind == "Ticked").time >= retry_at
    again.cancel(holds, at_once=True)
    ended(again, waits)
    again.stop()


def test_gpu_hours_have_the_time_that_a_job_takes_to_stop(tmp_path: Path) -> None:
    """A job that saved for an hour when it was stopped had run for nothing, by the history."""
    manager = opened(tmp_path)
    slow = f"trap '{gate(tmp_path / 'saved')}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    job = one(manager, run=slow, resources={"accelerators": 2}, preemption={"grace": PATIENCE_S})
    until(manager, job, "RUNNING")
    wait_for(lambda: "up" in manager.log_files(job, 1)[0].read_text())
    manager.cancel(job)
    until(manager, job, "STOPPING")

    def gpu_s() -> float:
        (row,) = manager.history()
        return row.gpu_hours * 3600.0

    before = gpu_s()
    wait_for(lambda: gpu_s() > before)  # also while it stops
    (tmp_path / "saved").touch()
    assert ended(manager, job) == "CANCELLED"
    manager.settle()
    view = manager.job(job)
    assert view.service_gpu_s < gpu_s() == pytest.approx(2 * (view.ended_at - view.started_at), abs=0.01)
    manager.stop()


def test_a_manager_that_has_started_has_decided(tmp_path: Path) -> None:
    """Reasons that the last manager recorded may be wrong on this cluster."""
    manager = opened(tmp_path)
    assert manager._state.engine.spent.count
    manager.stop()


@pytest.mark.parametrize("policy", ["headway", "tiresias-l", "gittins", "gandiva", "backfill?limit=1h", "best-effort"])
def test_a_rehearsal_needs_nothing_but_the_rules(policy: str) -> None:
    rehearse(cluster("2x2"), policy, "consolidated")


def test_a_rehearsal_with_links() -> None:
    links = Cluster("small", ("a", "b"), (2, 2), (0, 1), (3, 3))
    rehearse(links, "headway", "vclos")
