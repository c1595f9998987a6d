"""Jobs of the live manager, with real processes: gangs, environments, codes, limits, retries, arrays, dependencies."""

import getpass
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live_manager import one, until
from tests.waiting import gate, wait_for

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.errors import NotFound, WrongState
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff

ME = getpass.getuser()
pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    """Start a manager with 2x4 slots; it is drained and stopped at the end."""
    made: list[Manager] = []

    def start(where: str = "2x4", policy: str = "tiresias-l", data: Path | None = None, **given: object) -> Manager:
        manager = Manager(data or tmp_path / "data", cluster(where), policy, backoff=Backoff(0.2, 1.0), **given)  # type: ignore[arg-type]
        manager.start()
        made.append(manager)
        return manager

    yield start
    for manager in made:
        manager.stop(drain=True)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A data folder that other users may pass through, as pytest's own folders do not allow. Ask for it before `serve`, which uses it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


def log(manager: Manager, job: int, rank: int = 0) -> str:
    view = manager.job(job)
    assert view is not None
    return manager.log_files(job, view.attempt)[rank].read_text()


def test_a_gang_has_the_environment_of_the_interface(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve(environment=lambda job, attempt: {"HEADWAY_API": "http://here", "HEADWAY_TOKEN": f"t{job.id}"})
    names = "MASTER_ADDR RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK CUDA_VISIBLE_DEVICES HEADWAY_JOB_ID HEADWAY_ATTEMPT"
    names += " HEADWAY_CHECKPOINT_DIR HEADWAY_API HEADWAY_TOKEN HEADWAY_COLLECTIVE_PLAN OWN MASTER_PORT"
    echo = "; ".join(f'echo "${name}"' for name in names.split())
    job = one(
        manager,
        run=f"{echo}; pwd",
        num_nodes=2,
        resources={"accelerators": 4},
        tasks_per_node=2,
        envs={"OWN": "a b;$(c)"},
        checkpoint={"dir": "/saved"},
        workdir=str(tmp_path),
    )
    assert until(manager, job).state == "COMPLETED"
    said = [log(manager, job, rank).splitlines() for rank in range(4)]
    ports = {lines.pop(14) for lines in said}
    assert len(ports) == 1
    assert 0 < int(ports.pop()) < 65536
    gpus = ("0,1,2,3", "4,5,6,7")
    for rank, lines in enumerate(said):
        node, local = divmod(rank, 2)
        expected = ["127.0.0.1", str(rank), str(local), "4", "2", str(node), gpus[node], str(job), "1"]
        assert lines == [*expected, "/saved", "http://here", f"t{job}", "", "a b;$(c)", str(tmp_path)]


def test_exit_codes_are_kept_and_one_failed_rank_ends_the_gang(serve: Callable[..., Manager]) -> None:
    manager = serve()
    alone = one(manager, run="exit 7")
    gang = one(
        manager, run="if [ $RANK = 1 ]; then exit 9; fi; sleep 600", resources={"accelerators": 2}, tasks_per_node="gpu"
    )
    killed = one(manager, run="kill -9 $$")
    assert (until(manager, alone).state, until(manager, alone).exit_code) == ("FAILED", 7)
    assert (until(manager, gang).state, until(manager, gang).exit_code) == ("FAILED", 9)
    assert until(manager, killed).exit_code == 128 + 9


def test_a_command_that_cannot_be_run_fails_with_its_reason(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    missing = until(manager, one(manager, command=["no-such-program"]))
    assert (missing.state, missing.exit_code) == ("FAILED", 127)
    assert "no-such-program" in missing.message
    lost = until(manager, one(manager, run="true", workdir=str(tmp_path / "nowhere")))
    assert "nowhere" in lost.message


def test_arguments_are_never_read_by_a_shell(serve: Callable[..., Manager]) -> None:
    manager = serve()
    mark = Path(tempfile.mkdtemp()) / "pwned"  # a short path: names have at most 256 characters
    nasty = f"; touch {mark}; $(touch {mark}) `touch {mark}` ../../x"
    job = one(manager, name=nasty, command=["printf", "%s", nasty], queue=nasty, envs={"A": nasty})
    assert until(manager, job).state == "COMPLETED"
    assert log(manager, job) == nasty
    assert not mark.exists()
    mark.parent.rmdir()


def test_a_time_limit_ends_the_job(serve: Callable[..., Manager]) -> None:
    manager = serve()
    view = until(manager, one(manager, run="sleep 600", time_limit="300ms"))
    assert view.state == "TIMEOUT"
    assert (view.ended_at or 0) - (view.started_at or 0) >= 0.3


def test_a_job_that_ignores_the_signal_is_killed_after_its_grace(serve: Callable[..., Manager]) -> None:
    manager = serve()
    job = one(manager, run="trap '' TERM; echo ready; while true; do sleep 0.05; done", preemption={"grace": "300ms"})
    until(manager, job, "RUNNING")
    wait_for(lambda: "ready" in log(manager, job))
    manager.cancel(job)
    view = until(manager, job)
    assert (view.state, view.exit_code) == ("CANCELLED", 128 + 9)


def test_nothing_is_left_behind(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    job = one(manager, run=f"setsid sleep 77 & (sleep 78 &) ; echo $! > {tmp_path}/pid; sleep 0.1")
    assert until(manager, job).state == "COMPLETED"
    mark = f"HEADWAY_RUN={tmp_path / 'data' / 'runs' / str(job)}".encode()
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert mark not in process.read_bytes(), process
        except OSError:
            continue
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_retries_back_off_and_count(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    flaky = one(
        manager,
        run=f"echo x >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -ge 3 ]",
        retry={"on": ["failure"], "max": 3},
    )
    view = until(manager, flaky)
    assert (view.state, view.attempt) == ("COMPLETED", 3)
    receipt = manager.explain(flaky).receipt_us
    assert receipt["retry_backoff"] >= (0.2 + 0.4) * 1e6 * 0.99
    hopeless = until(manager, one(manager, run="exit 3", retry={"on": ["failure"], "max": 1}))
    assert (hopeless.state, hopeless.attempt, hopeless.exit_code) == ("FAILED", 2, 3)
    assert "after 1 retries" in hopeless.message


def test_an_array_runs_at_most_its_limit_at_once(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    ids = manager.submit(JobSpec(run=f"sleep 0.1; echo $HEADWAY_ARRAY_INDEX >> {tmp_path}/out", array="3-8,20%2"), ME)
    assert len(ids) == 7
    last = manager.job(ids[-1])
    assert last is not None
    assert (last.array_id, last.array_index) == (ids[0], 20)
    for job in ids:
        assert until(manager, job).state == "COMPLETED"
    assert sorted(map(int, (tmp_path / "out").read_text().split())) == [3, 4, 5, 6, 7, 8, 20]
    active, most = 0, 0
    for row in manager.events(0):
        active += (row.kind == "Start") - (row.kind == "Ended")
        most = max(most, active)
    assert most == 2


def test_a_dependency_waits_follows_or_falls_with_it(serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    first = one(manager, run=f"{gate(tmp_path / 'go')}; echo first >> {tmp_path}/out")
    second = one(manager, run=f"echo second >> {tmp_path}/out", after=[first])
    manager.settle()  # `second` waits before `first` may end
    waiting = manager.job(second)
    assert waiting is not None
    assert waiting.state == "PENDING"
    (tmp_path / "go").touch()
    bad = one(manager, run="exit 1")
    third = one(manager, run="true", after=[bad])
    fourth = one(manager, run="true", after=[third])
    assert until(manager, second).state == "COMPLETED"
    assert (tmp_path / "out").read_text().split() == ["first", "second"]
    waited_s = (until(manager, second).started_at or 0.0) - waiting.submitted_at
    assert 0 < manager.explain(second).receipt_us["dependency"] <= 1e6 * waited_s + 1
    assert (until(manager, third).state, until(manager, fourth).state) == ("CANCELLED", "CANCELLED")
    assert f"job {bad}" in until(manager, third).message
    assert until(manager, one(manager, run="true", after=[bad])).state == "CANCELLED"  # it had ended before
    array = manager.submit(JobSpec(run="sleep 0.1", array="0-2"), ME)
    follower = one(manager, run="true", after=[array[0]])
    started = until(manager, follower).started_at or 0
    assert all((until(manager, task).ended_at or 0) <= started for task in array)


def test_what_cannot_run_is_refused_at_once(serve: Callable[..., Manager]) -> None:
    manager = serve()
    with pytest.raises(BadInput, match="asks for 9 GPUs, but the cluster 2x4 has 8"):
        one(manager, run="true", resources={"accelerators": 9})
    with pytest.raises(BadInput, match="no job 99"):
        one(manager, run="true", after=[99])
    with pytest.raises(NotFound):
        manager.cancel(1)
    done = one(manager, run="true")
    until(manager, done)
    for verb in (manager.cancel, manager.hold, manager.release):
        with pytest.raises(WrongState, match="COMPLETED"):
            verb(done)


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root runs jobs as other users")
def test_root_runs_jobs_as_the_submitting_user(reachable: Path, serve: Callable[..., Manager]) -> None:
    manager = serve(data=reachable)
    with pytest.raises(BadInput, match="no user 'nobody-here'"):
        manager.submit(JobSpec(run="true"), "nobody-here")
    job = manager.submit(
        JobSpec(
            run="id -un; id -Gn; echo $HOME; touch $HEADWAY_RUN/own/x && echo mine; touch $HEADWAY_RUN/y", workdir="/"
        ),
        "nobody",
    )[0]
    until(manager, job)
    lines = log(manager, job).splitlines()
    assert lines[0] == "nobody"
    assert "root" not in lines[1].split()
    assert lines[3] == "mine"
    assert "Permission denied" in lines[4]
