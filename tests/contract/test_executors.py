"""What every executor must keep: all ranks or none, reports by attempt, stops that are sure, adoption, and harmless repetition."""

import getpass
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes import is_dead
from tests.slurm_cluster import SlurmCluster, started
from tests.waiting import PATIENCE_S, wait_for

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.live.executors import ENDED, PROGRESSED, STARTED, Executor, Launch, Report
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.progress import parse_progress
from headway.live.executors.process.render import render
from headway.live.executors.registry import executor_names, find_executor
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec

EXECUTORS: dict[str, Callable[[Path], Executor]] = {
    "process": lambda data: ProcessExecutor(data, poll_s=0.1),
    "slurm": lambda data: SlurmExecutor(data, poll_s=0.3),
}
pytestmark = pytest.mark.xdist_group("live")


class Watch:
    """An executor with what it reported."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.seen = executor, list[Report]()
        executor.open(lambda: None)

    def until(self, what: str, job: int, attempt: int = 1) -> Report:
        """Wait for a report."""

        def report() -> Report | None:
            self.seen += self.executor.reports()
            wanted = (what, job, attempt)
            return next((each for each in self.seen if (each.what, each.job, each.attempt) == wanted), None)

        return wait_for(report, lambda: f"no {what} of {job}.{attempt} in {self.seen}")


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """A Slurm of two nodes; its commands find it in this process's environment."""
    cluster = started(2, 4)
    os.environ["SLURM_CONF"] = str(cluster.conf)
    yield cluster
    del os.environ["SLURM_CONF"]
    cluster.stop()


@pytest.fixture
def needed(request: pytest.FixtureRequest) -> None:
    """Start what an executor needs."""
    if request.getfixturevalue("name") != "process":
        request.getfixturevalue("slurm")


@pytest.fixture(params=list(EXECUTORS))
def name(request: pytest.FixtureRequest) -> str:
    """Each executor in turn."""
    return str(request.param)


@pytest.fixture
def make(name: str, needed: None, tmp_path: Path) -> Iterator[Callable[[], Watch]]:
    """Executors on one data folder, one after the other."""
    made: list[Watch] = []

    def start() -> Watch:
        if made:
            made[-1].executor.close()
        made.append(Watch(EXECUTORS[name](tmp_path / "data")))
        return made[-1]

    yield start
    for job in range(1, 6):
        made[-1].executor.stop(job, 1, "SIGTERM", 0.0)
    time.sleep(0.2)
    made[-1].executor.close()


def launch(run: str, job: int = 1, attempt: int = 1, ranks: int = 1, **spec: object) -> Launch:
    given = job_spec({"run": run, "resources": {"accelerators": ranks}, "tasks_per_node": "gpu", **spec})
    return Launch(job, attempt, getpass.getuser(), given, tuple(range(ranks)), ("n0",) * ranks)


def test_an_attempt_starts_and_ends_once(make: Callable[[], Watch]) -> None:
    watch = make()
    # Only the first fails: when one does, the others are ended, perhaps before they have said anything.
    watch.executor.start(launch("echo $RANK; [ $RANK != 0 ] || exit 4; sleep 600", ranks=3))
    watch.executor.start(launch("echo again", ranks=3))  # the same attempt: harmless
    assert watch.until(ENDED, 1).exit_code == 4
    watch.executor.start(launch("true", 2))
    watch.until(ENDED, 2)  # what is said of the first once more would be said before
    assert [report.what for report in watch.seen if report.job == 1 and report.what != PROGRESSED] == [STARTED, ENDED]
    assert watch.executor.logs(1, 1)[0].read_text() == "0\n"
    assert len(watch.executor.logs(1, 1)) == 3


def test_a_gang_starts_whole_or_not_at_all(make: Callable[[], Watch], tmp_path: Path) -> None:
    watch = make()
    watch.executor.start(launch(f"touch {tmp_path}/ran.$RANK; sleep 9", ranks=2, workdir=str(tmp_path / "missing")))
    report = watch.until(ENDED, 1)
    assert report.exit_code == 127
    assert "missing" in report.message
    assert list(tmp_path.glob("ran.*")) == []


def ups(logs: list[Path]) -> int:
    """Return how many ranks have said that they are up."""
    return sum("up" in path.read_text() for path in logs)


def test_stopping_signals_all_ranks_then_kills(make: Callable[[], Watch], tmp_path: Path) -> None:
    watch = make()
    wait = "echo up; while :; do sleep 0.02; done"
    watch.executor.start(launch(f"trap 'touch {tmp_path}/told.$RANK; exit 0' TERM; {wait}", 1, ranks=2))
    watch.executor.start(launch(f"trap '' TERM; {wait}", 2))
    for job, ranks in ((1, 2), (2, 1)):
        watch.until(STARTED, job)
        wait_for(lambda job=job, ranks=ranks: ups(watch.executor.logs(job, 1)) == ranks)
        for grace_s in (0.2, 5.0) if job == 2 else (PATIENCE_S, PATIENCE_S):  # again: harmless
            watch.executor.stop(job, 1, "SIGTERM", grace_s)
    kind, stubborn = watch.until(ENDED, 1), watch.until(ENDED, 2)
    assert (kind.exit_code, kind.signalled, stubborn.exit_code, stubborn.signalled) == (0, True, 137, True)
    assert len(list(tmp_path.glob("told.*"))) == 2
    watch.executor.stop(7, 1, "SIGTERM", 1.0)  # nobody: harmless


def test_attempts_outlive_an_executor_and_are_adopted(make: Callable[[], Watch]) -> None:
    first = make()
    first.executor.start(launch("sleep 0.6; exit 3", 1))
    first.executor.start(launch("exit 5", 2))
    first.until(STARTED, 1)
    first.until(ENDED, 2)
    second = make()
    second.executor.adopt(1, 1)
    second.executor.adopt(2, 1)
    second.executor.adopt(3, 1)  # journalled but never started
    assert second.until(ENDED, 1).exit_code == 3
    assert second.until(ENDED, 2).exit_code == 5
    never = second.until(ENDED, 3)
    assert (never.lost, never.never_ran) == (True, True)


def lose(name: str, data: Path, request: pytest.FixtureRequest) -> None:
    """Take away what watches over attempt 1 of job 1: its shim, or its node."""
    if name == "process":
        os.kill(json.loads((data / "runs/1/1/shim.json").read_text())["pid"], signal.SIGKILL)
        return
    slurm: SlurmCluster = request.getfixturevalue("slurm")
    slurm.ask("scontrol", "update", "NodeName=n0", "State=DOWN", "Reason=test")


@pytest.fixture
def mended(name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring back what a test took away."""
    yield
    if name == "slurm":
        slurm: SlurmCluster = request.getfixturevalue("slurm")
        slurm.ask("scontrol", "update", "NodeName=n0", "State=RESUME")
        slurm.wait_idle()


def test_a_lost_attempt_takes_its_ranks_along(
    make: Callable[[], Watch], mended: None, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    watch = make()
    # A process that leaves its parents is tracked by Slurm's cgroups, which the Slurm of these tests does without.
    begin = (
        "(setsid sleep 88 & echo $! > {0}/child); sleep 77"
        if name == "process"
        else "trap '' TERM; sleep 88 & echo $! > {0}/child; wait"  # whoever hears TERM first does not end the others
    )
    watch.executor.start(launch(begin.format(tmp_path)))
    watch.until(STARTED, 1)
    child = int(wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text()))
    lose(name, tmp_path / "data", request)
    report = watch.until(ENDED, 1)
    assert (report.lost, report.never_ran, report.exit_code) == (True, False, None)
    if name == "slurm":  # it kills them after it has said that the node is down
        wait_for(lambda: is_dead(child))
    assert is_dead(child)


def test_progress_is_read_from_the_jobs_own_folder(make: Callable[[], Watch], tmp_path: Path) -> None:
    watch, seen = make(), tmp_path / "seen"
    line = '{"step": 3, "total": 9, "loss": 0.5, "checkpointed": 2, "other": [1]}'
    watch.executor.start(
        launch(
            f"echo '{line}' > $HEADWAY_RUN/own/report.json; until [ -e {seen} ]; do sleep 0.05; done; "
            "ln -sf /etc/passwd $HEADWAY_RUN/own/report.json"
        )
    )
    progress = watch.until(PROGRESSED, 1).progress
    seen.touch()
    assert progress is not None
    assert progress.as_dict() == {"step": 3, "total": 9, "loss": 0.5, "checkpointed": 2}
    assert watch.until(ENDED, 1).progress is None  # a link is not followed


def test_a_job_chooses_its_own_path(make: Callable[[], Watch]) -> None:
    """What runs around it finds its commands all the same."""
    watch = make()
    watch.executor.start(launch("/bin/echo $PATH", ranks=2, envs={"PATH": "/nowhere"}))
    assert watch.until(ENDED, 1).exit_code == 0
    assert [path.read_text() for path in watch.executor.logs(1, 1)] == ["/nowhere\n"] * 2


@pytest.mark.parametrize("bad", [[], "x", None, 3])
def test_reports_that_are_no_mapping_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="mapping"):
        parse_progress(bad)


def test_nonsense_in_a_report_is_dropped() -> None:
    bad = {"step": -1, "total": 2**70, "loss": float("nan"), "checkpointed": True}
    assert parse_progress(bad).as_dict() == {}
    assert parse_progress({"loss": 10**400, "step": "9"}).as_dict() == {}


def test_rendering_is_pure_and_follows_the_placement() -> None:
    given = job_spec({"command": ["a", "b c"], "num_nodes": 2, "resources": {"accelerators": 2}, "tasks_per_node": 2})
    one = Launch(7, 3, "me", given, (6, 7, 0, 1), ("n1", "n1", "n0", "n0"), 5, 9, {"HEADWAY_TOKEN": "t"})
    ranks = render(one, "/run/7", 1234, {"PATH": "/bin"})["ranks"]
    assert [rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["6,7", "6,7", "0,1", "0,1"]
    assert [rank["env"]["GROUP_RANK"] for rank in ranks] == ["0", "0", "1", "1"]
    assert ranks[0]["argv"] == ["a", "b c"]
    assert {rank["env"]["HEADWAY_NODES"] for rank in ranks} == {"n1,n0"}
    assert (ranks[3]["env"]["HEADWAY_ARRAY_INDEX"], ranks[3]["env"]["HEADWAY_ATTEMPT"]) == ("9", "3")
    assert ranks == render(one, "/run/7", 1234, {"PATH": "/bin"})["ranks"]


def test_every_executor_is_in_this_suite() -> None:
    assert executor_names() == sorted(EXECUTORS)


def test_every_executor_is_found_by_name_and_finds_nodes(name: str, needed: None, tmp_path: Path) -> None:
    executor = find_executor(name, tmp_path)
    found = executor.discover()
    assert isinstance(found.cluster, Cluster)
    assert found.cluster.total >= 1
    executor.check_user(getpass.getuser())


def test_an_executor_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_executor.py").write_text(
        "from headway.live.executors.process import ProcessExecutor\n"
        "class Own(ProcessExecutor):\n    pass\n"
        "class Half:\n    def start(self, launch): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert type(find_executor("own_executor:Own", tmp_path)).__name__ == "Own"
    for name, says in (
        ("proces", "unknown executor 'proces': did you mean 'process'"),
        ("nomad", "unknown executor 'nomad'.*process"),
        ("process?partition=gpu", "takes no options"),
        ("slurm?partitoin=gpu", "did you mean 'partition'"),
        ("own_executor:Half", "is not a class with the methods discover, check_user"),
        ("own_executor:Nobody", "own_executor has no 'Nobody'"),
        ("no_such_module:X", "cannot import 'no_such_module'.*PYTHONPATH"),
    ):
        with pytest.raises(BadInput, match=says):
            find_executor(name, tmp_path)
