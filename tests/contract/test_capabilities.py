"""What an executor declares is what the manager and `serve` go by: what it cannot do is refused by name, what it declares holds."""

import contextlib
import getpass
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from subprocess import run

import pytest
from tests.contract.conftest import EXAMPLE, EXAMPLES
from tests.live_manager import ended, one, until
from tests.quiet import Quiet
from tests.waiting import PATIENCE_S

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.executors import Capabilities, Executor
from headway.live.executors.registry import executor_names, find_executor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.state.site import PLAIN, Site

pytestmark = pytest.mark.xdist_group("live")
HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
ME = getpass.getuser()
FIELDS = [field.name for field in fields(Capabilities)]


def test_the_registry_lists_executors_only() -> None:
    assert {"process", "slurm"} <= set(executor_names())
    for name in executor_names():  # `common` is a package beside them, and none
        assert issubclass(import_module(f"headway.live.executors.{name}").EXECUTOR, Executor)


class Silent(Quiet):
    """Has the defaults of the base class."""

    check_user = Executor.check_user


def test_the_base_class_declares_nothing_and_refuses_other_users() -> None:
    executor: Executor = Silent()
    assert executor.capabilities == Capabilities()
    assert not any(getattr(executor.capabilities, field) for field in FIELDS)
    assert (executor.node_reports(), executor.remarks(), executor.strays(), executor.warnings()) == ([], [], [], [])
    assert (executor.fabric, executor.journals, executor.checks()) == (None, None, [])
    executor.check_user(ME)
    with pytest.raises(BadInput, match=f"jobs of 'anybody' would have the rights of {ME}"):
        executor.check_user("anybody")
    executor.notify(1, 1, None)
    with pytest.raises(BadInput, match="does not find nodes: declare them with --cluster"):
        executor.discover()


# ---- what is not declared


def test_an_operators_wish_is_taken_or_refused_by_name(executor_name: str, tmp_path: Path) -> None:
    capabilities = find_executor(executor_name, tmp_path).capabilities
    for wish in ("hooks", "log_cap", "process_limit"):
        if getattr(capabilities, wish):
            capabilities.refuse(executor_name, **{wish: True})
        else:
            with pytest.raises(BadInput, match=f"--.*: the executor {executor_name} does not .*: "):
                capabilities.refuse(executor_name, **{wish: True})


def test_a_manager_refuses_what_its_executor_cannot_do(executor_name: str, tmp_path: Path) -> None:
    executor = find_executor(executor_name, tmp_path)
    for wish, site in (
        ("hooks", replace(PLAIN, prolog="/bin/true")),
        ("hooks", replace(PLAIN, epilog="/bin/true")),
        ("process_limit", replace(PLAIN, max_processes=9)),
    ):
        if getattr(executor.capabilities, wish):
            Manager(tmp_path, cluster("1x2"), executor=executor, site=site).stop()
        else:
            with pytest.raises(BadInput, match=r"the executor \w+ does not"):
                Manager(tmp_path, cluster("1x2"), executor=executor, site=site)


def test_a_manager_notes_or_refuses_what_a_job_asks_for_in_vain(
    executor_name: str, needed: None, tmp_path: Path
) -> None:
    with serving(find_executor(executor_name, tmp_path), tmp_path) as manager:
        capabilities = manager._executor.capabilities
        assert manager._state.enforced == capabilities.enforced
        notes = manager.notes_on(job_spec({"run": "true", "resources": {"memory": 1, "cpus": 1}}))
        for limit in ("memory", "cpus"):
            assert any(limit in note for note in notes) == (limit not in capabilities.enforced)
        if not capabilities.copies_output:
            with pytest.raises(BadInput, match="output: this executor does not copy logs"):
                one(manager, run="true", output=str(tmp_path / "copy.txt"))
        assert said(manager, run="echo said") == "said\n"


@pytest.mark.parametrize("option", [("--prolog", "/bin/true"), ("--log-cap", "1MB"), ("--max-processes", "9")])
@pytest.mark.parametrize("name", ["slurm", EXAMPLE])
def test_serve_refuses_what_the_executor_cannot_do(name: str, option: tuple[str, str], tmp_path: Path) -> None:
    words = ["serve", "--executor", name, *option, "--data", str(tmp_path / "data"), "--port", "0"]
    done = run([*HEADWAY, *words], cwd=EXAMPLES, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    assert f"the executor {name} does not" in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()


# ---- what is declared


@contextlib.contextmanager
def serving(executor: Executor, data: Path, site: Site = PLAIN) -> Iterator[Manager]:
    """A manager of at least two GPUs; its jobs have ended when it stops."""
    imagined = executor.capabilities.numbers_gpus or type(executor).discover is Executor.discover
    nodes = cluster("1x2") if imagined else executor.discover().cluster
    manager = Manager(data, nodes, executor=executor, site=site)
    manager.start()
    try:
        yield manager
    finally:
        manager.stop(drain=True)


def said(manager: Manager, **spec: object) -> str:
    """Run a job to its good end, and return its log."""
    job = one(manager, **spec)
    assert ended(manager, job) == "COMPLETED", manager.job(job)
    return manager.log_files(job, 1)[0].read_text()


def copies_output(executor: Executor, data: Path) -> None:
    with serving(executor, data) as manager:
        assert said(manager, run="echo copied", output=str(data / "copy-%j-%t.txt")) == "copied\n"
        copies = [path.read_text() for path in data.glob("copy-1-0.txt")]
        assert copies == ["copied\n"]


def numbers_gpus(executor: Executor, data: Path) -> None:
    """Two jobs that run at once have a number each."""
    with serving(executor, data) as manager:
        both = (
            f"echo $CUDA_VISIBLE_DEVICES; touch {data}/up.$HEADWAY_JOB_ID; until [ -e {data}/up.1 -a -e {data}/up.2 ]; "
        )
        jobs = [one(manager, run=both + "do sleep 0.05; done", resources={"accelerators": 1}) for _ in range(2)]
        assert [until(manager, job).state for job in jobs] == ["COMPLETED"] * 2
        assert {manager.log_files(job, 1)[0].read_text().strip() for job in jobs} == {"0", "1"}


def enforced(executor: Executor, data: Path) -> None:
    """A limit of CPUs only makes a job slower: tests of the executor itself look at that."""
    with serving(executor, data) as manager:
        if "memory" in executor.capabilities.enforced:
            greedy = [sys.executable, "-c", "x = bytearray(400_000_000)"]
            assert ended(manager, one(manager, command=greedy, resources={"memory": 0.1})) == "FAILED"
            assert ended(manager, one(manager, command=greedy, resources={"memory": 2})) == "COMPLETED"


def log_cap(executor: Executor, data: Path) -> None:
    executor.cap_logs(2000)
    with serving(executor, data) as manager:
        newest = said(manager, run="seq 100000")
        assert newest.endswith("\n100000\n")
        assert len(newest) <= 2000


def hooks(executor: Executor, data: Path) -> None:
    """The prolog has ended before the job begins, and the epilog runs when it is over."""
    for name in ("prolog", "epilog"):
        (data / name).write_text(f"#!/bin/sh\necho {name} $HEADWAY_JOB_ID $HEADWAY_USER >>{data}/said\n")
        (data / name).chmod(0o755)
    site = replace(PLAIN, prolog=str(data / "prolog"), epilog=str(data / "epilog"))
    with serving(executor, data, site) as manager:
        assert said(manager, run=f"cat {data}/said") == f"prolog 1 {ME}\n"
        assert (data / "said").read_text() == f"prolog 1 {ME}\nepilog 1 {ME}\n"


def process_limit(executor: Executor, data: Path) -> None:
    many = "import subprocess\nfor _ in range(20): subprocess.Popen(['sleep', '0.5'])"
    with serving(executor, data, replace(PLAIN, max_processes=10)) as manager:
        if "processes" in executor.capabilities.enforced:
            assert ended(manager, one(manager, command=[sys.executable, "-c", many])) == "FAILED"
        else:
            assert any("processes is not enforced" in note for note in manager.notes_on(job_spec({"run": "true"})))


CHECKS: dict[str, Callable[[Executor, Path], None]] = {
    each.__name__: each for each in (copies_output, numbers_gpus, enforced, log_cap, hooks, process_limit)
}


def test_every_capability_has_a_check() -> None:
    assert list(CHECKS) == FIELDS


@pytest.mark.parametrize("field", FIELDS)
def test_what_an_executor_declares_holds(executor_name: str, needed: None, field: str, tmp_path: Path) -> None:
    if (executor_name, field) == ("slurm", "enforced"):
        pytest.skip("SKIPPED: the Slurm of these tests has no control groups, so it enforces no limit")
    executor = find_executor(executor_name, tmp_path)
    if field == "enforced" or getattr(executor.capabilities, field):
        CHECKS[field](executor, tmp_path)


@pytest.mark.parametrize("field", FIELDS)
def test_a_check_fails_for_an_executor_that_declares_what_it_does_not_do(field: str, tmp_path: Path) -> None:
    """The example does none of it; its own numbers of GPUs are taken away."""
    executor = find_executor(EXAMPLE, tmp_path)
    limits = frozenset({"memory", "processes"})
    executor.capabilities = Capabilities(**{field: True} | {"enforced": limits})  # type: ignore[misc,arg-type]
    if field == "numbers_gpus":
        start = executor.start
        executor.start = lambda launch: start(replace(launch, gpus=(0,)))  # type: ignore[method-assign]
    with pytest.raises(AssertionError):
        CHECKS[field](executor, tmp_path)
