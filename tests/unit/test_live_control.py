"""Preemption, holding, draining, explaining: the manager at work on a small cluster."""

import getpass
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live_manager import one, until
from tests.waiting import gate

from headway.client.job import JobQuery
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.errors import NotFound, WrongState
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff

ME = getpass.getuser()
QUICK = "tiresias-l?threshold=0.4"
pytestmark = pytest.mark.xdist_group("live")

# The first attempt goes on until it is stopped.
TRAIN = """
import os, sys, time
from pathlib import Path
from headway import runtime
saved = Path(sys.argv[1])
step, total = (int(saved.read_text()) if saved.exists() else 0), int(sys.argv[2])
print("from", step, flush=True)
while step < total:
    time.sleep(0.02)
    step += step < total // 2 or os.environ["HEADWAY_ATTEMPT"] != "1"
    runtime.report(step, total=total, loss=1 / step)
    if runtime.should_stop():
        saved.write_text(str(step))
        runtime.checkpointed(step)
        sys.exit(0)
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    """Start a manager; it is drained and stopped at the end."""
    made: list[Manager] = []

    def start(where: str = "1x1", policy: str = QUICK, **given: object) -> Manager:
        manager = Manager(tmp_path / "data", cluster(where), policy, backoff=Backoff(0.2, 1.0), **given)  # type: ignore[arg-type]
        manager.start()
        made.append(manager)
        return manager

    yield start
    for manager in made:
        manager.stop(drain=True)


def sums(manager: Manager, job: int) -> dict[str, int]:
    """The receipt, after checking that it sums to the wait exactly."""
    found = manager.explain(job)
    assert sum(found.receipt_us.values()) == found.wait_us
    return found.receipt_us


def test_a_job_is_preempted_saves_and_resumes(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    train = [sys.executable, str(script), str(tmp_path / "saved"), "120"]
    long = one(manager, command=train, checkpoint={"dir": str(tmp_path)}, preemption={"grace": "20s"})
    until(manager, long, "RUNNING", true=lambda view: view.level == 1 and "step" in view.progress)
    short = one(manager, run="sleep 0.2")
    assert until(manager, short).state == "COMPLETED"
    view = until(manager, long)
    assert (view.state, view.attempt, view.preemptions) == ("COMPLETED", 2, 1)
    assert view.progress["step"] == 120
    saved = int((tmp_path / "saved").read_text())
    assert f"from {saved}" in manager.log_files(long, view.attempt)[0].read_text()
    assert "from 0" in manager.log_files(long, 1)[0].read_text()
    manager.settle()
    kinds = [row.kind for row in manager.events(0) if row.job == long and row.kind not in ("Progressed", "Crossed")]
    assert kinds == ["Submitted", "Start", "Started", "Stop", "Stopped", "Start", "Started", "Ended"]
    receipt = sums(manager, long)
    # It lost its GPUs, and waits while the job that has them is in its turn, and after that.
    assert "stopping" in receipt
    assert receipt.get("preempted", 0) + receipt.get("min_runtime", 0) > 100_000


def test_a_job_that_cannot_checkpoint_keeps_its_gpus(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    stubborn = one(manager, run=gate(tmp_path / "go"))
    until(manager, stubborn, "RUNNING", true=lambda view: view.level == 1)
    short = one(manager, run="true")
    until(manager, short, "PENDING", true=lambda view: bool(view.reason))
    (tmp_path / "go").touch()
    assert until(manager, stubborn).preemptions == 0
    assert until(manager, short).state == "COMPLETED"
    assert (until(manager, short).started_at or 0) >= (until(manager, stubborn).ended_at or 0)


def test_min_runtime_protects_an_attempt_and_then_no_more(serve: Callable[..., Manager]) -> None:
    manager = serve()
    long = one(manager, run="sleep 600", preemptible=True, preemption={"min_runtime": "1s"})
    until(manager, long, "RUNNING", true=lambda view: view.level == 1)
    short = one(manager, run="true")
    assert until(manager, short).state == "COMPLETED"
    stop = next(row for row in manager.events(0) if row.kind == "Stop")
    started = next(row for row in manager.events(0) if row.kind == "Started")
    assert stop.time - started.time >= 1.0
    manager.cancel(long)


def test_hold_release_requeue_cancel(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager, runs = serve(), tmp_path / "runs"
    job = one(manager, run=f"echo x >> {runs}; sleep 600")

    def has_run(attempt: int) -> bool:
        return runs.exists() and runs.read_text().count("x") == attempt

    until(manager, job, "RUNNING", true=lambda view: has_run(1))
    with pytest.raises(WrongState, match=r"hold acts on jobs that wait.*requeue --hold 1"):
        manager.hold(job)
    manager.requeue(job, hold=True)
    assert until(manager, job, "HELD").attempt == 2
    assert manager.explain(job).reason == "held"
    with pytest.raises(WrongState, match="waits already"):
        manager.requeue(job)
    manager.release(job)
    with pytest.raises(WrongState, match="only a HELD job"):
        manager.release(job)
    until(manager, job, "RUNNING", true=lambda view: has_run(2))
    manager.requeue(job)
    assert until(manager, job, "RUNNING", true=lambda view: view.attempt == 3 and has_run(3)).preemptions == 0
    manager.cancel(job)
    assert until(manager, job).state == "CANCELLED"
    assert "held" in sums(manager, job)
    manager.requeue(job)
    assert until(manager, job, "RUNNING", true=lambda view: has_run(4)).attempt == 4
    waiting = one(manager, run="true")
    manager.hold(waiting)
    manager.cancel(waiting)
    assert until(manager, waiting).state == "CANCELLED"


def test_a_drained_node_takes_no_job_until_resumed(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve("2x2")
    manager.drain("n000")
    with pytest.raises(NotFound, match="n9"):
        manager.drain("n9")
    small = one(manager, run=gate(tmp_path / "go"), resources={"accelerators": 2})
    assert until(manager, small, "RUNNING").nodes == ("n001",)
    large = one(manager, run="true", num_nodes=2, resources={"accelerators": 2})
    until(manager, large, "PENDING", true=lambda view: view.reason == "node_down")
    assert "n000" in manager.explain(large).message
    assert [node.state for node in manager.nodes()] == ["drained", "open"]
    (tmp_path / "go").touch()
    until(manager, small)
    manager.resume("n000")
    assert until(manager, large).state == "COMPLETED"
    assert sums(manager, large)["node_down"] > 0


def test_explanations_name_the_cause_and_who_is_ahead(serve: Callable[..., Manager]) -> None:
    manager = serve("2x2")
    fillers = [one(manager, run="sleep 600") for _ in range(3)]
    for job in fillers:
        until(manager, job, "RUNNING")
    split = one(manager, run="true", resources={"accelerators": 2})
    blocked = one(manager, run="true", num_nodes=2, resources={"accelerators": 2})
    manager.settle()  # until the engine has recorded a job, its reason is `gpus`
    assert [manager.job(job).reason for job in (split, blocked)] == ["gpus", "gpus"]  # type: ignore[union-attr]
    found = manager.explain(blocked)
    assert (found.reason, found.ahead, found.numbers["gpus_free"]) == ("gpus", (split,), 1)
    assert found.would_change
    manager.cancel(fillers[0])
    until(manager, fillers[0])
    manager.settle()
    scattered = manager.explain(split)
    if scattered.state == "PENDING":  # unless the two free GPUs lie on one node
        assert scattered.reason == "fragmentation"
    for job in fillers[1:]:
        manager.cancel(job)
    for job in (split, blocked):
        assert until(manager, job).state == "COMPLETED"
        assert "gpus" in sums(manager, job)


def test_dry_run_says_where_and_roughly_when(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve("1x2", "fifo")
    spec = job_spec({"run": "true", "resources": {"accelerators": 2}})
    now = manager.dry_run(spec, ME)
    assert (now.starts_now, now.nodes, now.starts_in_s) == (True, ("n000",), 0.0)
    ran_s = []
    for number in range(2):
        done = one(manager, run=gate(tmp_path / f"go{number}"), resources={"accelerators": 2})
        until(manager, done, "RUNNING")
        assert ("cannot be guessed" in manager.dry_run(spec, ME).message) == (number == 0)
        (tmp_path / f"go{number}").touch()
        view = until(manager, done)
        ran_s.append((view.ended_at or 0.0) - (view.started_at or 0.0))
    jobs = [one(manager, run="sleep 600", resources={"accelerators": 2}) for _ in range(5)]
    first = until(manager, jobs[0], "RUNNING")
    later = manager.dry_run(spec, ME)
    so_far_s = manager.clock() - (first.started_at or 0.0)
    assert not later.starts_now
    assert later.jobs_ahead == 4
    assert later.starts_in_s is not None
    assert 3 * min(ran_s) < later.starts_in_s < 12 * (max(ran_s) + so_far_s)
    assert len(manager.jobs()) == 7  # nothing was submitted
    for job in jobs:
        manager.cancel(job)


def test_dry_run_under_a_policy_that_packs_jobs(serve: Callable[..., Manager]) -> None:
    """A forecast that did not know Pack took the packed job for one that never ends: the queue seemed too long to guess."""
    manager = serve("1x2", "gandiva")
    until(manager, one(manager, run="true"))
    running = [one(manager, run="sleep 600", resources={"accelerators": 2}) for _ in range(3)]
    for job in running[:2]:  # the second shares the GPUs of the first
        until(manager, job, "RUNNING")
    found = manager.dry_run(job_spec({"run": "true", "resources": {"accelerators": 2}}), ME)
    assert (found.starts_now, found.jobs_ahead) == (False, 1)
    assert found.starts_in_s is not None, found.message
    assert "roughly" in found.message
    for job in running:
        manager.cancel(job)


def test_dry_run_knows_that_drained_nodes_start_nothing(serve: Callable[..., Manager]) -> None:
    manager = serve("1x2", "2d-las")
    until(manager, one(manager, run="true"))
    manager.drain("n000")
    found = manager.dry_run(job_spec({"run": "true"}), ME)
    assert (found.starts_now, found.starts_in_s) == (False, None)


def test_what_cannot_be_obeyed_is_refused_by_name_and_what_only_bounds_a_job_is_noted(
    serve: Callable[..., Manager],
) -> None:
    manager = serve()
    for field, value in (
        ("network.isolation", {"network": {"isolation": "vclos"}}),
        ("collective.schedule", {"collective": {"schedule": "themis"}}),
        ("checkpoint.interval", {"checkpoint": {"dir": "/c", "interval": "15m"}}),
    ):
        spec = job_spec({"run": "true", **value})
        for ask in (manager.submit, manager.dry_run):
            with pytest.raises(BadInput, match=f"^{field}: "):
                ask(spec, ME)
    bounded = {"run": "true", "resources": {"cpus": 4, "memory": 16}}
    view = until(manager, one(manager, **bounded))
    loose = [f"resources.{name}" for name in ("cpus", "memory") if name not in manager._state.enforced]
    assert [note.partition(" ")[0] for note in view.notes] == loose
    assert manager.dry_run(job_spec(bounded), ME).notes == view.notes
    assert until(manager, one(manager, run="true")).notes == ()


def test_behind_the_head_of_the_line_the_cause_is_the_line(serve: Callable[..., Manager]) -> None:
    manager = serve("1x2", "fifo")
    running = one(manager, run="sleep 600")
    until(manager, running, "RUNNING")
    head = one(manager, run="true", resources={"accelerators": 2})
    behind = one(manager, run="true")
    manager.settle()  # until the engine has recorded a job, its reason is `gpus`
    assert [manager.job(job).reason for job in (head, behind)] == ["gpus", "gpus"]  # type: ignore[union-attr]
    found = manager.explain(behind)
    assert (found.reason, found.ahead, found.numbers["gpus_free"]) == ("gpus", (head,), 1)
    assert "policy fifo starts jobs in order, with 1 waiting job ahead of it" in found.message
    manager.requeue(running)  # not a preemption, and not told as one
    until(manager, running, "RUNNING", true=lambda view: view.attempt == 2)
    assert "preempted" not in sums(manager, running)
    manager.cancel(running)
    assert until(manager, behind).state == "COMPLETED"


def test_policies_that_need_the_future_are_refused(tmp_path: Path) -> None:
    for policy, why in (("srtf", "only a simulator knows"), ("optimus", "resizes jobs")):
        with pytest.raises(BadInput, match=why):
            Manager(tmp_path / policy, cluster("1x1"), policy)


def test_lists_are_filtered_and_paged(serve: Callable[..., Manager]) -> None:
    manager = serve("1x2", "best-effort")
    ids = [one(manager, run="true", name=f"n{i % 2}") for i in range(6)]
    for job in ids:
        until(manager, job)
    assert [view.job_id for view in manager.jobs(JobQuery(limit=2))] == ids[:2]
    assert [view.job_id for view in manager.jobs(JobQuery(after_id=ids[3]))] == ids[4:]
    assert [
        view.job_id for view in manager.jobs(JobQuery(states=frozenset({"COMPLETED", "FAILED"}), name="n1"))
    ] == ids[1::2]
    assert manager.jobs(JobQuery(states=frozenset({"PENDING", "RUNNING"}))) == []
    assert manager.jobs(JobQuery(user="nobody-else")) == []
    assert manager.job(99) is None
    assert manager.counts()["COMPLETED"] == 6
    assert [job.job_id for job in manager.workload(0.0)] == ids
