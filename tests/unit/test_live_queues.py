"""Queues of teams on a live manager: guarantees, lending with notice, limits, what `explain` says, and restarts."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.imagined import Virtual, Work
from tests.live_manager import ended, one, opened, until
from tests.waiting import wait_for

from headway.cluster.named import cluster
from headway.cluster.queues import Access, Booking, Queue, QueueLimits, Queues
from headway.core.tables.actions import Actions
from headway.errors import BadInput
from headway.live.errors import WrongState
from headway.live.queries.explain.explain import Explanation, explain
from headway.live.queries.queues import queue_views
from headway.live.queries.replay.replay import replay
from headway.live.queries.views import past_jobs
from headway.live.state.cluster import ClusterState

pytestmark = pytest.mark.xdist_group("live")
TWO = Queues("two.yaml", (Queue("a", guaranteed_gpus=2), Queue("b")), notice_s=60.0)
STOPPABLE = {"preemptible": True, "preemption": {"grace": "5s", "min_runtime": 0}}


class Asked(Virtual):
    """Asks why a job waits, once, as soon as it does."""

    asks = 0
    found: Explanation | None = None

    def look(self) -> None:
        job = self.state.jobs.get(self.asks)
        if self.found is None and job and job.known and self.state.shown_state(job).name == "PENDING":
            self.found = explain(self.state, job, self.time)


def test_lent_gpus_are_back_within_the_notice_and_explain_says_so() -> None:
    borrowers = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(4)]
    own = [Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0) for _ in range(3)]
    world = Asked([*borrowers, *own], "1x4", "best-effort", queues=TWO)
    world.asks = 5
    world.run()
    assert not world.trouble
    assert world.times("Notify", 3) == world.times("Notify", 4) == [100.0]
    assert world.times("Promise", 5) == world.times("Promise", 6) == [100.0]
    assert not world.times("Promise", 7)  # beyond the guarantee it waits like any job
    starts = [world.times("Start", job)[0] for job in (5, 6)]
    assert all(160.0 <= at <= 160.0 + 5.0 for at in starts), starts
    stops = [world.times("Stop", job) for job in (1, 2, 3, 4)]
    assert [len(times) for times in stops] == [0, 0, 1, 1]  # the last in the order of the policy make room
    assert stops[2] == stops[3] == [160.0]
    assert world.found is not None
    assert world.found.reason == "notice"
    assert "queue a uses 0 GPUs and has a guarantee of 2. It is promised 1 GPU on n000" in world.found.message
    assert "job 3 in 60 s and job 4 in 60 s" in world.found.message
    assert "It starts in 65 s at the latest" in world.found.message
    assert [(holder.job_id, holder.until) for holder in world.found.notices] == [(3, 160.0), (4, 160.0)]


def test_explain_says_what_the_queue_uses_and_is_guaranteed() -> None:
    world = Asked(
        [Work(0.0, {"queue": "b"}, 100.0) for _ in range(3)] + [Work(1.0, {"queue": "b"}, 5.0)],
        "1x2",
        "fifo",
        queues=TWO,
    )
    world.asks = 3
    world.run()
    assert world.found is not None
    # Two that cannot be preempted would leave nothing for a, so b runs none of them: both GPUs are guaranteed to a.
    assert world.found.reason == "quota"
    assert "it cannot be preempted, and queue b already uses what is guaranteed to it" in world.found.message


def test_a_queue_above_its_share_is_told() -> None:
    queues = Queues("q.yaml", (Queue("a", guaranteed_gpus=1), Queue("b", guaranteed_gpus=1)))
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 100.0) for _ in range(4)] + [
        Work(1.0, {**STOPPABLE, "queue": "b"}, 5.0)
    ]
    world = Asked(works, "1x4", "best-effort", queues=queues)
    world.asks = 5
    world.run()
    assert world.found is not None
    assert "Queue b uses 4 GPUs and has a guarantee of 1" in world.found.message
    assert world.found.numbers["queue_gpus_used"] == 4
    assert world.found.numbers["queue_gpus_guaranteed"] == 1


def test_limits_per_queue_and_per_user_give_the_reason_quota() -> None:
    queues = Queues("q.yaml", (Queue("a", limits=QueueLimits(gpus=2), per_user=QueueLimits(running=1)),))
    works = [Work(0.0, {"queue": "a", "user": user}, 50.0) for user in ("ada", "ada", "bob", "cy")]
    world = Asked(works, "1x4", "best-effort", queues=queues)
    world.asks = 2
    world.run()
    assert world.found is not None
    assert world.found.reason == "quota"
    assert "user ada in queue a may run 1 job at once and runs 1" in world.found.message
    assert [world.times("Start", job)[0] for job in (1, 3)] == [0.0, 0.0]
    assert [world.times("Start", job)[0] for job in (2, 4)] == [50.0, 50.0]
    receipts = [explain(world.state, world.state.jobs[job], 200.0).receipt_us for job in (2, 4)]
    assert receipts == [{"quota": 50_000_000}, {"quota": 50_000_000}]


def tables(state: ClusterState) -> dict[str, bytes]:
    """Every column of the engine's tables, as far as jobs go."""
    found: dict[str, bytes] = {}
    n = len(state.by_row)
    for name, table in state.tables._asdict().items():
        if isinstance(table, Actions):
            continue
        part = table[:n] if name == "jobs" else table[:0] if name == "timers" else table
        part = table[:, :n] if name == "receipts" else part
        found |= (
            {f"{name}.{c}": part[c].tobytes() for c in part.dtype.names} if part.dtype.names else {name: part.tobytes()}
        )
    return found


def test_jobs_that_are_run_again_count_against_those_that_may_wait(tmp_path: Path) -> None:
    manager = opened(
        tmp_path, "1x1", "best-effort", queues=Queues("q.yaml", (Queue("a", limits=QueueLimits(waiting=1)),))
    )
    old = one(manager, run="true", queue="a")
    assert ended(manager, old) == "COMPLETED"
    waits = one(manager, run="true", queue="a", hold=True)
    with pytest.raises(
        WrongState, match=r"queue .a. has 1 waiting job, and may have 1: another cannot be accepted"
    ) as refused:
        manager.requeue(old)
    assert refused.value.code == "limit_reached"
    manager.cancel(waits)
    manager.requeue(old)
    assert ended(manager, old) == "COMPLETED"
    manager.stop()


QUICK = Queues("quick.yaml", (Queue("a", guaranteed_gpus=1), Queue("b", per_user=QueueLimits(waiting=2))), notice_s=0.5)
SAVES = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


def loop(queue: str, seconds: float | None = None) -> dict[str, Any]:
    """A job that can be stopped at once."""
    run = SAVES if seconds is None else f"sleep {seconds}"
    return {"run": run, "queue": queue, "preemptible": True, "preemption": {"grace": "3s", "min_runtime": 0}}


def test_two_teams_on_one_manager_with_real_processes_and_a_restart(tmp_path: Path) -> None:
    manager = opened(tmp_path, "1x2", "best-effort", queues=QUICK)
    lent = [one(manager, **loop("b")) for _ in range(2)]
    for job in lent:
        until(manager, job, "RUNNING")
    asked = time.monotonic()
    own = one(manager, **loop("a"))
    until(manager, own, "RUNNING")
    took = time.monotonic() - asked
    assert took >= 0.5  # the notice
    waits = manager.explain(lent[1])
    assert waits.reason in ("gpus", "preempted", "min_runtime"), waits
    assert "Queue b uses 1 GPU and has a guarantee of 0" in waits.message
    manager.settle()
    kinds = [row.kind for row in manager.events(0) if row.job == own]
    assert kinds.index("Promise") < kinds.index("Start")
    assert [row.data["team"] for row in manager.events(0) if row.kind == "Notify"] == [["a"]]
    assert {view.name: view.used_gpus for view in manager.look(queue_views)} == {"a": 1, "b": 1}
    one(manager, **loop("b"))
    with pytest.raises(WrongState, match=r"queue .b. has 2 waiting jobs of user .*, and may have 2: another cannot"):
        one(manager, **loop("b"))
    with pytest.raises(BadInput, match="unknown queue 'c'") as refused:
        one(manager, **loop("c"))
    assert refused.value.fields == {"field": "queue"}
    with pytest.raises(BadInput, match="the job names no queue: name one of a, b"):
        one(manager, **loop(""))
    with pytest.raises(
        BadInput, match="queue 'b' gives at most 1 to a job that cannot be preempted: it could never start"
    ):
        one(manager, run="true", queue="b", num_nodes=1, resources={"accelerators": 2})
    manager.settle()
    before = manager.look(lambda state, now: tables(state))
    manager.stop()

    again = opened(tmp_path, "1x2", "best-effort", queues=QUICK)
    try:
        after = again.look(lambda state, now: tables(state))
        same = [name for name in before if before[name] == after[name]]
        assert {name for name in before if name.startswith("teams")} <= set(same)
        assert "jobs.team" in same
        again.cancel(own)
        assert ended(again, own) == "CANCELLED"
        until(again, lent[1], "RUNNING")  # what a does not use is lent again
    finally:
        again.stop(drain=True)


def test_a_manager_whose_queues_changed_goes_on(tmp_path: Path) -> None:
    manager = opened(tmp_path, "1x1", "best-effort", queues=QUICK)
    runs, waits = one(manager, **loop("b")), one(manager, **loop("b", 0.1))
    until(manager, runs, "RUNNING")
    wait_for(lambda: manager.explain(waits).reason == "gpus")
    manager.settle()
    manager.stop()
    other = Queues("other.yaml", (Queue("x"), Queue("y", limits=QueueLimits(gpus=1)), Queue("a")))
    for queues in (other, None, QUICK):
        again = opened(tmp_path, "1x1", "best-effort", queues=queues)
        try:
            assert until(again, runs, "RUNNING").state == "RUNNING"
            if queues is other:
                assert "Its queue 'b' is not in the queues file" in again.explain(waits).message
        finally:
            again.stop()
    last = opened(tmp_path, "1x1", "best-effort", queues=QUICK)
    try:
        last.cancel(runs)
        assert ended(last, waits) == "COMPLETED"
    finally:
        last.stop(drain=True)


def test_a_restart_uses_the_snapshot_when_only_the_admitted_users_changed(tmp_path: Path) -> None:
    """It read the whole journal, and printed the lists of all queues."""

    def queues(*users: str) -> Queues:
        return Queues("q.yaml", (Queue("a", access=Access(users)), Queue("b")))

    opened(tmp_path, "1x1", "best-effort", queues=queues("ada")).stop()
    again = opened(tmp_path, "1x1", "best-effort", queues=queues("ada", "bob"))
    again.stop()
    assert not again.warnings
    other = opened(tmp_path, "1x1", "best-effort", queues=Queues("q.yaml", (Queue("b"),)))
    other.stop()
    assert "the last manager ran with other queues" in other.warnings[0]


def test_rows_for_users_are_added_as_they_come() -> None:
    queues = Queues("q.yaml", (Queue("a", per_user=QueueLimits(running=1)), Queue("b")))
    works = [Work(float(i // 2), {"queue": "a", "user": f"u{i // 2}"}, 30.0) for i in range(80)]
    world = Virtual(works, "2x4", "tiresias-l", queues=queues)
    world.run()
    assert not world.trouble
    assert len(world.state.tables.teams) > 40
    held: dict[str, int] = {}
    for row in world.kept.rows:
        user = world.state.jobs[row.job].user if row.job in world.state.jobs else ""
        held[user] = held.get(user, 0) + {"Start": 1, "Stopped": -1, "Ended": -1}.get(row.kind, 0)
        assert held[user] <= 1 or not user
    assert np.all(world.state.tables.teams["used"] == 0)
    assert json.dumps([row.data for row in world.kept.rows if row.kind == "Explained"])


def test_a_node_is_kept_for_a_queue_and_explain_says_advance_reservation() -> None:
    booking = Booking(("n000",), "a", 100.0, 200.0, dated=True)
    queues = Queues("q.yaml", (Queue("a"), Queue("b")), bookings=(booking,))
    works = [Work(0.0, {**STOPPABLE, "queue": "b", "resources": {"accelerators": 2}}, 500.0) for _ in range(2)]
    works += [Work(120.0, {"queue": "a", "resources": {"accelerators": 2}}, 20.0)]
    world = Asked(works, "2x2", "best-effort", queues=queues)
    world.asks = 1  # the first is on the first node
    world.run()
    assert not world.trouble
    (stopped,) = [job for job in (1, 2) if world.times("Stop", job)]
    assert world.times("Stop", stopped) == [100.0]
    assert world.times("Start", 3) == [120.0]
    assert world.times("Start", stopped)[1] >= 200.0
    receipt = explain(world.state, world.state.jobs[stopped], 2000.0).receipt_us
    assert receipt["advance_reservation"] == 80_000_000  # but for the 20 s in which its queue's own job held the node
    assert world.found is not None
    assert world.found.reason == "advance_reservation"
    assert "queue a has reserved n000: the reservation ends in 100 s" in world.found.message


class AskedLate(Virtual):
    """Asks why every job waits, after a time."""

    found: dict[int, Explanation]

    def look(self) -> None:
        if 120.0 <= self.time < 400.0:
            waiting = [job for job in self.state.jobs.values() if self.state.shown_state(job).name == "PENDING"]
            self.found = {job.id: explain(self.state, job, self.time) for job in waiting if job.known}


@pytest.mark.parametrize("other", ["b", "c"])
def test_explain_names_reserved_nodes_also_behind_another_job_and_if_the_queue_is_gone(other: str) -> None:
    booking = Booking(("n001",), "a", 50.0, 400.0, dated=True)
    works = [Work(0.0, {**STOPPABLE, "queue": "b", "resources": {"accelerators": 2}}, 500.0) for _ in range(4)]
    works += [Work(120.0, {**STOPPABLE, "queue": "b", "resources": {"accelerators": 2}}, 5.0)]
    queues = Queues("q.yaml", (Queue("a"), Queue(other)), bookings=(booking,))
    world = AskedLate(works, "2x2", "headway", queues=queues)
    world.run()
    assert not world.trouble
    assert [found.reason for found in world.found.values()] == ["advance_reservation"] * 4
    assert "backfill reservation of 2 GPUs on n000" in world.found[2].message
    for found in world.found.values():
        assert "queue a has reserved n001: the reservation ends in " in found.message


def test_jobs_are_replayed_under_a_queues_file() -> None:
    works = [Work(0.0, {**STOPPABLE, "queue": "b"}, 100.0) for _ in range(4)] + [
        Work(1.0, {**STOPPABLE, "queue": "a"}, 10.0)
    ]
    world = Virtual(works, "1x2", "best-effort")
    world.run()
    past = past_jobs(world.state, 0.0, 1000.0)
    plain, shared = (replay(past, cluster("1x2"), ["best-effort"], queues=given) for given in (None, TWO))
    assert plain.simulated[0].preemptions == 0
    assert shared.simulated[0].preemptions is not None
    assert shared.simulated[0].preemptions > 0  # a has its GPUs back


class AskedOfRunning(Virtual):
    """Asks about a running job at given times."""

    asks = 1
    said: dict[float, str]

    def look(self) -> None:
        job = self.state.jobs.get(self.asks)
        if job and job.known and self.state.shown_state(job).name == "RUNNING":
            self.said[self.time] = explain(self.state, job, self.time).message


def test_a_borrower_is_told_from_whom_and_how_long_it_has_under_notice() -> None:
    borrowers = [Work(0.0, {**STOPPABLE, "queue": "b"}, 1000.0) for _ in range(4)]
    world = AskedOfRunning(
        [*borrowers, Work(100.0, {**STOPPABLE, "queue": "a"}, 50.0)], "1x4", "best-effort", queues=TWO
    )
    world.asks, world.said = 4, {}
    world.run()
    before = [words for at, words in world.said.items() if at < 100.0]
    after = [words for at, words in world.said.items() if 100.0 <= at < 160.0]
    assert "Its GPUs are borrowed: queue b uses 4 GPUs and has a guarantee of 0" in before[-1]
    assert "2 GPUs of queue a" in before[-1]
    assert "after 60 s of notice" in before[-1]
    assert "It is under notice: its GPUs are taken back in 60 s for queue a" in after[0]
    world = AskedOfRunning([Work(0.0, {**STOPPABLE, "queue": "a"}, 10.0)], "1x4", "best-effort", queues=TWO)
    world.said = {}
    world.run()
    assert "it is running. Its GPUs are part of the guarantee of queue a" in world.said.values()


@pytest.mark.parametrize("snapshot", [True, False])
def test_nodes_are_reserved_while_the_manager_runs_and_after_a_restart(tmp_path: Path, snapshot: bool) -> None:
    """Whoever is there and can be stopped is; jobs of other queues wait until the node is unreserved, restarts or not."""
    queues = Queues("q.yaml", (Queue("a"), Queue("b")))
    manager = opened(tmp_path, "1x1", "best-effort", queues=queues)
    running = one(manager, **loop("b"))
    until(manager, running, "RUNNING")
    now = manager.clock()
    manager.reserve(["n000"], "a", 0.0, now + 5000.0)
    until(manager, running, "PENDING", true=lambda view: view.reason == "advance_reservation")
    with pytest.raises(WrongState, match="n000 is kept for queue a at that time"):
        manager.reserve(["n000"], "b", now, now + 1000.0)
    with pytest.raises(BadInput, match="unknown queue 'c'"):
        manager.reserve(["n000"], "c", now, now + 10.0)
    with pytest.raises(BadInput, match="ends after it begins, and not in the past"):
        manager.reserve(["n000"], "a", 10.0, 20.0)
    own = one(manager, **{**loop("a", 0.1), "queue": "a"})
    until(manager, own, "COMPLETED")
    manager.stop()
    if not snapshot:
        with sqlite3.connect(tmp_path / "journal.db") as connection:
            connection.execute("DELETE FROM snapshots")
    again = opened(tmp_path, "1x1", "best-effort", queues=queues)
    assert again.job(running).state == "PENDING"
    assert again.explain(running).message.startswith("queue a has reserved n000: the reservation ends in ")
    again.unreserve(["n000"])
    until(again, running, "RUNNING")
    with pytest.raises(WrongState, match="n000 is not reserved"):
        again.unreserve(["n000"])
    again.cancel(running, at_once=True)
    until(again, running)
    again.stop()


def test_reservations_need_a_queues_file_and_those_of_the_file_stay(tmp_path: Path) -> None:
    plain = opened(tmp_path / "plain", "1x1")
    with pytest.raises(WrongState, match="start the manager with --queues"):
        plain.reserve(["n000"], "a", 0.0, 2e9)
    plain.stop()
    booking = Booking(("n000",), "a", 0.0, 4e9, dated=True)
    given = opened(tmp_path / "given", "1x1", queues=Queues("q.yaml", (Queue("a"),), bookings=(booking,)))
    with pytest.raises(WrongState, match=r"n000 is reserved in q\.yaml: change it there"):
        given.unreserve(["n000"])
    given.stop()
