"""What every executor must keep: all ranks or none, reports by attempt, stops that are sure, adoption, and harmless repetition.

Of an executor from outside, in a folder where Python finds its module (PYTHONPATH=.):

    pytest tests/contract/test_executors.py tests/contract/test_capabilities.py --executor my_module:MyExecutor
"""

import getpass
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.conftest import EXAMPLE
from tests.processes import is_dead
from tests.slurm_cluster import SlurmCluster
from tests.waiting import PATIENCE_S, wait_for

from headway.cluster.named import cluster
from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.live.executors import ENDED, PROGRESSED, STARTED, Executor, Launch, Report
from headway.live.executors.common.folders import make_folder
from headway.live.executors.common.progress import parse_progress
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.render import render
from headway.live.executors.registry import executor_names, find_executor
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager

QUICK: dict[str, Callable[[Path], Executor]] = {  # of those that look at a system now and then
    "process": lambda data: ProcessExecutor(data, poll_s=0.1),
    "slurm": lambda data: SlurmExecutor(data, poll_s=0.3),
}
pytestmark = pytest.mark.xdist_group("live")


class Watch:
    """An executor with what it reported."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.seen, self.woken = executor, list[Report](), threading.Event()
        executor.open(self.woken.set)

    def until(self, what: str, job: int, attempt: int = 1) -> Report:
        """Wait for a report."""

        def report() -> Report | None:
            self.seen += self.executor.reports()
            wanted = (what, job, attempt)
            return next((each for each in self.seen if (each.what, each.job, each.attempt) == wanted), None)

        return wait_for(report, lambda: f"no {what} of {job}.{attempt} in {self.seen}")


def made_by_name(name: str, data: Path) -> Executor:
    """Return an executor for a data folder; one from outside is loaded as `serve --executor` loads it."""
    return QUICK[name](data) if name in QUICK else find_executor(name, data)


@pytest.fixture
def make(executor_name: str, needed: None, tmp_path: Path) -> Iterator[Callable[[], Watch]]:
    """Executors on one data folder, one after the other."""
    made: list[Watch] = []

    def start() -> Watch:
        if made:
            made[-1].executor.close()
        made.append(Watch(made_by_name(executor_name, tmp_path / "data")))
        return made[-1]

    yield start
    for job in range(1, 6):
        made[-1].executor.stop(job, 1, "SIGTERM", 0.0)
    time.sleep(0.2)
    made[-1].executor.close()


ME = getpass.getuser()


def launch(run: str, job: int = 1, attempt: int = 1, ranks: int = 1, user: str = ME, **spec: object) -> Launch:
    given = job_spec({"run": run, "resources": {"accelerators": ranks}, "tasks_per_node": "gpu", **spec})
    return Launch(job, attempt, user, given, tuple(range(ranks)), ("n0",) * ranks)


def test_an_attempt_starts_and_ends_once(make: Callable[[], Watch], tmp_path: Path) -> None:
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
    # After the loss of a journal, the manager looks there for jobs that may have run.
    assert (tmp_path / "data" / "runs" / "1" / "1").is_dir()


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
    """Take away what watches over attempt 1 of job 1: its shim, its node, its processes.

    The module of an executor from outside may have a function `lose(data, job, attempt)` for this test.
    """
    if name == "process":
        os.kill(json.loads((data / "runs/1/1/shim.json").read_text())["pid"], signal.SIGKILL)
    elif name == "slurm":
        slurm: SlurmCluster = request.getfixturevalue("slurm")
        slurm.ask("scontrol", "update", "NodeName=n0", "State=DOWN", "Reason=test")
    elif name == EXAMPLE:
        os.killpg(int((data / "runs/1/1/pid").read_text()), signal.SIGKILL)
    else:
        module = sys.modules[type(find_executor(name, data)).__module__]
        if not hasattr(module, "lose"):
            pytest.skip(f"SKIPPED: {module.__name__} has no function lose(data, job, attempt), which loses an attempt")
        module.lose(data, 1, 1)


@pytest.fixture
def mended(executor_name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring back what a test took away."""
    yield
    if executor_name == "slurm":
        slurm: SlurmCluster = request.getfixturevalue("slurm")
        slurm.ask("scontrol", "update", "NodeName=n0", "State=RESUME")
        slurm.wait_idle()


def test_a_lost_attempt_takes_its_ranks_along(
    make: Callable[[], Watch], mended: None, executor_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    watch = make()
    # A process that leaves its parents is tracked by Slurm's cgroups, which the Slurm of these tests does without.
    begin = (
        "(setsid sleep 88 & echo $! > {0}/child); sleep 77"
        if executor_name == "process"
        else "trap '' TERM; sleep 88 & echo $! > {0}/child; wait"  # whoever hears TERM first does not end the others
    )
    watch.executor.start(launch(begin.format(tmp_path)))
    watch.until(STARTED, 1)
    child = int(wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text()))
    lose(executor_name, tmp_path / "data", request)
    report = watch.until(ENDED, 1)
    assert (report.lost, report.never_ran, report.exit_code) == (True, False, None)
    if executor_name == "slurm":  # it kills them after it has said that the node is down
        wait_for(lambda: is_dead(child))
    assert is_dead(child)


def test_an_adopted_attempt_can_be_stopped(make: Callable[[], Watch]) -> None:
    """Also one that an earlier manager asked to stop: how it ended follows from what it does now."""
    first = make()
    for job in (1, 2):
        first.executor.start(launch("trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done", job))
    for job in (1, 2):
        first.until(STARTED, job)
        wait_for(lambda job=job: ups(first.executor.logs(job, 1)) == 1)
    second = make()
    for job in (1, 2):
        second.executor.adopt(job, 1)
        second.executor.adopt(job, 1)  # again: harmless
    second.executor.stop(1, 1, "SIGTERM", PATIENCE_S)
    ended = second.until(ENDED, 1)
    assert (ended.exit_code, ended.signalled, ended.lost) == (9, True, False)
    assert not [report for report in second.seen if (report.what, report.job) == (ENDED, 2)]
    second.executor.stop(2, 1, "SIGTERM", PATIENCE_S)
    assert second.until(ENDED, 2).exit_code == 9
    assert second.woken.is_set(), "the manager is not told that there are reports"


def test_a_new_journal_uses_the_numbers_of_a_lost_one_again(make: Callable[[], Watch]) -> None:
    """Job 1 of a journal that is gone is another job: it is not adopted, and its end is not the end of the new one."""
    before = make()
    before.executor.journals = ("old",)
    before.executor.start(replace(launch("echo old; exit 3", 1), journal="old"))
    assert before.until(ENDED, 1).exit_code == 3
    after = make()
    after.executor.journals = ("new",)
    after.executor.adopt(1, 1)
    assert after.until(ENDED, 1).lost
    after.seen.clear()
    after.executor.start(replace(launch("echo new", 1), journal="new"))
    assert after.until(ENDED, 1).exit_code == 0
    assert [path.read_text() for path in after.executor.logs(1, 1)] == ["new\n"]


def test_attempts_of_a_lost_journal_that_run_are_named(make: Callable[[], Watch], tmp_path: Path) -> None:
    """Unless the system that runs them reports their GPUs as taken (`strays` is not defined)."""
    before = make()
    if type(before.executor).strays is Executor.strays:
        pytest.skip("SKIPPED: this executor leaves strays to the reports of its nodes")
    before.executor.journals = ("old",)
    wait = f"until [ -e {tmp_path}/over ]; do sleep 0.05; done"
    before.executor.start(replace(launch(wait, 1), journal="old"))
    before.until(STARTED, 1)
    assert before.executor.strays() == []
    after = make()
    after.executor.journals = ("new",)
    (line,) = after.executor.strays()
    assert line.startswith("job 1 still runs, and its GPUs count as free here")
    assert "kill -9" in line
    (tmp_path / "over").touch()
    wait_for(lambda: after.executor.strays() == [])


def test_ranks_find_each_other(make: Callable[[], Watch]) -> None:
    """The variables of torchrun, and those of Headway; those of the job file win over the manager's."""
    names = (
        "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT HEADWAY_JOB_ID HEADWAY_ATTEMPT"
    )
    watch = make()
    say = f"for name in {names} HEADWAY_TOKEN LANG; do eval echo $name=\\$$name; done; "
    say += "[ -d $HEADWAY_RUN/own ] && cat $HEADWAY_RUN/slice.txt"
    started = launch(say, 1, 2, ranks=2, envs={"LANG": "of-the-job"})
    watch.executor.start(replace(started, environment={"HEADWAY_TOKEN": "secret"}, files={"slice.txt": "own"}))
    assert watch.until(ENDED, 1, 2).exit_code == 0
    ranks = [path.read_text().split() for path in watch.executor.logs(1, 2)]
    assert [lines[:3] for lines in ranks] == [[f"RANK={rank}", f"LOCAL_RANK={rank}", "GROUP_RANK=0"] for rank in (0, 1)]
    assert ranks[0][3:] == ranks[1][3:], "ranks do not agree where they meet"
    assert ranks[0][3:5] == ["WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2"]
    assert all(line.partition("=")[2] for line in ranks[0][:-1])
    assert ranks[0][7:] == ["HEADWAY_JOB_ID=1", "HEADWAY_ATTEMPT=2", "HEADWAY_TOKEN=secret", "LANG=of-the-job", "own"]


def test_no_other_user_can_read_the_token_of_a_job(make: Callable[[], Watch], tmp_path: Path) -> None:
    """Neither in a file nor among the arguments of a process."""
    watch, token = make(), f"token-{os.urandom(8).hex()}"
    started = launch(f"until [ -e {tmp_path}/over ]; do sleep 0.05; done")
    watch.executor.start(replace(started, environment={"HEADWAY_TOKEN": token}))
    watch.until(STARTED, 1)
    arguments = [read_bytes(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [each for each in arguments if token.encode() in each]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and token.encode() in read_bytes(path)]
    assert not [path for path in files if readable_by_others(path, tmp_path)]
    (tmp_path / "over").touch()
    assert watch.until(ENDED, 1).exit_code == 0


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; nothing if it is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def readable_by_others(path: Path, above: Path) -> bool:
    """Return whether the modes of a file and of the folders up to `above` let other users read it."""
    folders = [folder for folder in path.parents if above in folder.parents]
    return bool(path.stat().st_mode & 0o004) and all(folder.stat().st_mode & 0o001 for folder in folders)


def test_a_notice_reaches_the_job(make: Callable[[], Watch], tmp_path: Path) -> None:
    watch, seen = make(), tmp_path / "seen"
    wait = "until [ -e $HEADWAY_RUN/notice.json ]; do sleep 0.05; done; cat $HEADWAY_RUN/notice.json"
    gone = "while [ -e $HEADWAY_RUN/notice.json ]; do sleep 0.05; done"
    watch.executor.start(launch(f"{wait}; touch {seen}; {gone}"))
    watch.executor.notify(1, 1, 5000.0)
    wait_for(seen.exists)
    for _ in range(2):  # again: harmless
        watch.executor.notify(1, 1, None)
    assert watch.until(ENDED, 1).exit_code == 0
    assert json.loads(watch.executor.logs(1, 1)[0].read_text()) == {"until": 5000.0}
    watch.executor.notify(1, 1, 5000.0)  # it has ended meanwhile
    watch.executor.notify(7, 1, None)  # nobody: harmless


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root may run jobs as others")
def test_jobs_of_others_run_under_their_account_or_are_refused(make: Callable[[], Watch], tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above.name.startswith(("pytest-", "popen-", "test_")):
            above.chmod(0o755)
    watch = make()
    try:
        watch.executor.check_user("nobody")
    except BadInput:
        return
    watch.executor.start(launch("id -un", user="nobody", workdir="/"))
    assert watch.until(ENDED, 1).exit_code == 0
    assert watch.executor.logs(1, 1)[0].read_text() == "nobody\n"


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


def test_executors_that_are_made_quicker_are_executors() -> None:
    """The suite runs over all that the registry lists (conftest.py)."""
    assert set(QUICK) <= set(executor_names())


def test_an_executor_finds_nodes_or_says_how_to_declare_them(executor_name: str, needed: None, tmp_path: Path) -> None:
    executor = find_executor(executor_name, tmp_path)
    assert not list(tmp_path.iterdir()), "the constructor touches the data folder"
    executor.check_user(ME)
    assert all(check.name and check.found for check in executor.checks())
    if type(executor).discover is Executor.discover:
        with pytest.raises(BadInput, match="--cluster"):
            executor.discover()
        return
    found = executor.discover()
    assert isinstance(found.cluster, Cluster)
    assert found.cluster.total >= 1


def test_an_executor_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_executor.py").write_text(
        "from headway.live.executors import Executor\n"
        "from headway.live.executors.process import ProcessExecutor\n"
        "class Own(ProcessExecutor):\n    pass\n"
        "class Half:\n    def start(self, launch): ...\n"
        "class Part(Executor):\n    def start(self, launch): ...\n"
        "class Bare(ProcessExecutor):\n    def __init__(self, data): ...\n"
        "class Shut(ProcessExecutor):\n    def open(self, wake): raise RuntimeError('no network')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert type(find_executor("outside_executor:Own", tmp_path)).__name__ == "Own"
    for name, says in (
        ("proces", "unknown executor 'proces': did you mean 'process'"),
        ("nomad", "unknown executor 'nomad'.*process"),
        ("process?partition=gpu", "takes no options"),
        ("slurm?partitoin=gpu", "did you mean 'partition'"),
        ("outside_executor:Half", "is not a subclass of Executor: derive it"),
        ("outside_executor:Part", "lacks methods: define adopt, stop"),
        ("outside_executor:Bare", r"its constructor must call super\(\).__init__\(data\)"),
        ("outside_executor:Nobody", "outside_executor has no 'Nobody'"),
        ("no_such_module:X", "cannot import 'no_such_module'.*PYTHONPATH"),
    ):
        with pytest.raises(BadInput, match=says):
            find_executor(name, tmp_path)
    manager = Manager(
        tmp_path / "data", cluster("1x1"), executor=find_executor("outside_executor:Shut", tmp_path / "data")
    )
    with pytest.raises(
        BadInput, match=r"executor Shut: open failed: RuntimeError: no network \(.*outside_executor.py, line"
    ):
        manager.start()
    manager.stop()


def test_a_file_that_cannot_be_written_is_an_error_of_the_system_not_of_the_job(tmp_path: Path) -> None:
    """After an OSError the job is tried again; BadInput would end it."""
    with pytest.raises(OSError, match="name too long"):
        make_folder(tmp_path / "1" / "1", {"x" * 300: ""})
