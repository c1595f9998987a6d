"""What somebody tries who has a token, or an account on the machine: absurd numbers, links, names, and files of others."""

import getpass
import os
import stat
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.live_manager import until
from tests.waiting import PATIENCE_S, wait_for
from typer.main import get_command

from headway.cli.main import app
from headway.cli.operate import history
from headway.cli.operate.health import health_view
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.io.accounts import loose_ways
from headway.live.errors import ReplayFailed, WrongState
from headway.live.executors import Launch
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.executors.process.gpus import limits_of
from headway.live.http.private import check_folder
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.notify.webhook import address
from headway.live.options import ServeOptions
from headway.live.queries.replay import what_if

pytestmark = pytest.mark.xdist_group("live")
ME = getpass.getuser()
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root gives files to others")
ABSURD = [{"memory": 1e300}, {"cpus": 1e300}, {"memory": 1.7e308, "cpus": 1.7e308}]


# ---- absurd numbers


@pytest.mark.parametrize("asked", ABSURD)
def test_more_than_any_machine_has_is_refused(asked: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=r"resources\.(cpus|memory): .* is more than any machine has"):
        refuse_unsupported(job_spec({"run": "true", "resources": asked}))
    refuse_unsupported(job_spec({"run": "true", "resources": {"memory": 1e6, "cpus": 1e5}}))


def test_a_job_that_was_accepted_with_an_absurd_limit_stops_no_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the engine's thread, and again at every restart."""
    monkeypatch.setattr("headway.live.manager.submission.refuse_unsupported", lambda *_: None)
    manager = Manager(tmp_path, cluster("1x2"), "best-effort")
    manager.start()
    try:
        for asked in ABSURD:
            (number,) = manager.submit(job_spec({"run": "true", "workdir": "/", "resources": asked}), ME)
            assert until(manager, number, true=lambda view: not manager.trouble).state == "COMPLETED"
    finally:
        manager.stop()


def launch(**given: Any) -> Launch:
    spec = job_spec({"run": "true", "workdir": "/", **given.pop("spec", {})})
    return Launch(5, 1, ME, spec, (0,), ("n000",), **given)


def test_what_goes_wrong_with_a_start_is_the_jobs_affair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ProcessExecutor(tmp_path)

    def wrong(*_: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(executor, "_spawn", wrong)
    with pytest.raises(BadInput, match="cannot start: OverflowError: too large"):
        executor.start(launch())


def test_limits_are_those_that_were_asked_for() -> None:
    found = limits_of(launch(spec={"num_nodes": 2, "resources": {"cpus": 1.5, "memory": 2.5}}))
    assert (found.cpus, found.memory_bytes) == (3.0, 5_000_000_000)
    none = limits_of(launch(spec={"resources": {"cpus": 0, "memory": 0}}))
    assert (none.cpus, none.memory_bytes) == (None, None)


# ---- files and links


def test_what_an_attempt_has_of_a_fabric_is_not_for_other_users(tmp_path: Path) -> None:
    """Which links a job has is hidden by the API: it lay in its folder for everybody who guessed the number."""
    executor = ProcessExecutor(tmp_path)
    executor.open(lambda: None)
    try:
        executor.start(launch(files={"certificate.json": "{}", "routes.sh": "true\n", "plan.json": "{}"}))
        folder = executor.folder(5, 1)
        wait_for((folder / "exit.json").exists)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
        assert {"certificate.json", "routes.sh", "plan.json", "exit.json", "ranks.json", "launch.json"} <= set(modes)
        assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
        assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o711, 0o711]
    finally:
        executor.close()


@ROOT_ONLY
def test_a_data_folder_behind_somebody_elses_link_is_refused(tmp_path: Path) -> None:
    """It leads to a good folder when it is looked at, and elsewhere later."""
    good, link = tmp_path / "good", tmp_path / "link"
    good.mkdir(mode=0o711)
    link.symlink_to("good")
    check_folder(link)
    check_folder(link / "new" / "data")
    os.lchown(link, 65534, 65534)
    for path in (link, link / "new" / "data"):
        with pytest.raises(BadInput, match="link, above the data folder, can be changed by others"):
            check_folder(path)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    (theirs / "link").symlink_to(good)  # root's link in a folder of theirs, and a way through it by another link
    (tmp_path / "second").symlink_to("theirs/link")
    assert loose_ways(tmp_path / "second" / "data") == [theirs]
    (tmp_path / "loop").symlink_to("loop")
    assert loose_ways(tmp_path / "loop" / "data") == []


@ROOT_ONLY
def test_a_prolog_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    """The program itself is root's, but not the folder that it lies in."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    program = theirs / "prolog"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def check() -> str:
        return ServeOptions(prolog=program).site().prolog

    assert check() == str(program)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(
        BadInput, match=r"--prolog .*theirs, which leads to it, and the program runs with the manager's"
    ):
        check()
    os.chown(theirs, 0, 0)
    program.chmod(0o777)
    with pytest.raises(BadInput, match="others can change it, and the program runs"):
        check()


# ---- names and addresses


def test_names_of_queues_are_no_markup() -> None:
    """An operator's `headway health` ended with a traceback for a queue of this name."""
    times = {"count": 0, "mean_s": 0.0, "p50_s": 0.0, "p95_s": 0.0, "p99_s": 0.0, "max_s": 0.0}
    queue = {"running": 0, "waiting": 1, "held": 0, "longest_wait_s": 1.0, "waiting_by_queue": {"[/x][red]": 1}}
    answer = {"ok": True, "version": "1", "policy": "fifo", "up_s": 1.0, "trouble": "", "errors": 0, "last_errors": []}
    answer |= {"decisions": times, "rounds": times, "commits": times, "queue": queue}
    answer |= {"journal": {"rows": 1, "rows_behind": 0, "behind_s": 0.0}}
    console = Console(width=200, highlight=False)
    with console.capture() as found:
        console.print(health_view(answer))
    assert "1 in [/x][red]" in found.get()


def test_csv_on_a_terminal_is_harmless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "\x1b]0;owned\x07=1"}]
    history._print_csv(rows, ("name",))
    assert "\x1b]0;owned" in capsys.readouterr().out  # a file gets what there is
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    history._print_csv(rows, ("name",))
    assert "\x1b" not in capsys.readouterr().out


def test_an_address_with_a_password_is_not_half_obeyed() -> None:
    with pytest.raises(BadInput, match=r"names and passwords before chat\.example are not sent") as error:
        address("https://ada:secret@chat.example/hook")
    assert "secret@" not in str(error.value)


def test_a_secret_that_signs_nothing_is_refused(tmp_path: Path) -> None:
    """An empty file sent everything unsigned, and without an address it was not used at all, both without a word."""
    manager: Any = None
    (tmp_path / "empty").write_text("\n")
    options = ServeOptions(webhook="http://127.0.0.1:9/", webhook_secret=tmp_path / "empty")
    with pytest.raises(BadInput, match="is empty"):
        options.start_webhook(manager, print)
    with pytest.raises(BadInput, match="give --webhook as well"):
        ServeOptions(webhook_secret=tmp_path / "empty")


def test_the_address_of_a_webhook_need_not_be_on_the_command_line() -> None:
    """Everybody on the machine sees command lines, and whoever knows such an address can write there."""
    option = next(each for each in get_command(app).commands["serve"].params if each.name == "webhook")  # type: ignore[attr-defined]
    assert option.envvar == "HEADWAY_WEBHOOK"


def test_one_replay_is_computed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go = threading.Event(), threading.Event()

    def run(command: list[str], **_: Any) -> Any:
        inside.set()
        assert go.wait(PATIENCE_S)
        return type("Done", (), {"returncode": 0, "stdout": "{}"})

    monkeypatch.setattr(what_if.subprocess, "run", run)
    greedy = threading.Thread(target=what_if.ask_apart, args=({},))
    greedy.start()
    assert inside.wait(PATIENCE_S)
    try:
        with pytest.raises(WrongState, match="being computed"):
            what_if.ask_apart({})
    finally:
        go.set()
        greedy.join()
    assert what_if.ask_apart({}) == "{}"


def test_a_replay_that_fails_has_a_code_and_repeats_no_line_of_stderr() -> None:
    with pytest.raises(ReplayFailed, match=r"^the replay ended with status 1: the messages of the manager say why$"):
        what_if.ask_apart({"nonsense": 1})
    nothing = {"jobs": [], "cluster": asdict(cluster("1x1")), "policy": "fifo", "placement": "consolidated", "late": []}
    with pytest.raises(BadInput, match="nothing to replay"):
        what_if.ask_apart({"workload": nothing, "policies": ["fifo"]})
