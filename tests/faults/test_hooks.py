"""Prolog and epilog when shims are killed: each attempt has an epilog that ended before its GPUs are given to another attempt."""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.live_manager import ME, ended, one, opened, until
from tests.waiting import wait_for

from headway.live.executors import ENDED, Launch
from headway.live.executors.process import shim
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff
from headway.live.state.site import Site

pytestmark = pytest.mark.xdist_group("live")
SEED = int(os.environ.get("HEADWAY_SEED", "1"))
MOMENTS = ("prolog", "running", "epilog", "never")
# A program of the operator's. It kills its shim (its parent process) if a folder of this name says so, once, and waits while `wait` exists.
HOOK = """#!/bin/sh
echo {name} begins $HEADWAY_JOB_ID $HEADWAY_ATTEMPT $HEADWAY_GPUS >> {folder}/lines
if rmdir {folder}/kill/{name}-$HEADWAY_JOB_ID-$HEADWAY_ATTEMPT 2> /dev/null; then kill -9 $PPID; sleep 60; fi
while test -e {folder}/wait/{name}-$HEADWAY_JOB_ID; do sleep 0.02; done
rank=$(cat {folder}/rank-$HEADWAY_JOB_ID-$HEADWAY_ATTEMPT 2> /dev/null || echo none)
if test -n "$(tr -d '\\0' < /proc/$rank/cmdline 2> /dev/null)"; then echo $rank >> {folder}/alive; fi
echo {name} ends $HEADWAY_JOB_ID $HEADWAY_ATTEMPT $HEADWAY_GPUS >> {folder}/lines
"""
# A job with a process that outlives the rank itself.
JOB = """setsid sleep 60 & echo $! > {folder}/rank-$HEADWAY_JOB_ID-$HEADWAY_ATTEMPT
kill=kill/running-$HEADWAY_JOB_ID-$HEADWAY_ATTEMPT
while test -e {folder}/$kill -a ! -e $HEADWAY_RUN/ranks.json; do sleep 0.01; done
if rmdir {folder}/$kill 2> /dev/null; then kill -9 $PPID; sleep 60; fi"""
RETRY = {"on": ["node_failure"], "max": 9}


class Line(NamedTuple):
    """One line of the file that all hooks append to."""

    hook: str
    moment: str
    attempt: tuple[int, int]
    gpus: frozenset[str]


def lines(folder: Path) -> list[Line]:
    path = folder / "lines"
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [Line(row[0], row[1], (int(row[2]), int(row[3])), frozenset(row[4].split(","))) for row in rows]


def hooks(folder: Path) -> Site:
    """Site with a prolog and an epilog that append to one file, in the order in which they run."""
    for name in ("kill", "wait"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("prolog", "epilog"):
        (folder / name).write_text(HOOK.format(name=name, folder=folder))
        (folder / name).chmod(0o755)
    return Site(prolog=str(folder / "prolog"), epilog=str(folder / "epilog"))


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = opened(tmp_path / "data", "1x2", site=hooks(tmp_path), backoff=Backoff(0.01, 0.05))
    yield found
    found.stop(drain=True)


def shim_of(data: Path, job: int, attempt: int = 1) -> int:
    return int(json.loads((data / f"runs/{job}/{attempt}/shim.json").read_text())["pid"])


def test_every_attempt_has_an_epilog_before_its_gpus_are_given_away(manager: Manager, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for job in range(1, 11):
        for attempt in (1, 2, 3):
            moment = chance.choice(MOMENTS)
            if moment != "never":
                (tmp_path / f"kill/{moment}-{job}-{attempt}").mkdir()
    script = JOB.format(folder=tmp_path)
    jobs = [one(manager, run=script, retry=RETRY, resources={"accelerators": 1 + job % 2}) for job in range(10)]
    assert [ended(manager, job) for job in jobs] == ["COMPLETED"] * 10, f"seed {SEED}"
    cleaned: set[tuple[int, int]] = set()
    holders: dict[str, tuple[int, int]] = {}
    for line in lines(tmp_path):
        if (line.hook, line.moment) == ("epilog", "ends"):
            cleaned.add(line.attempt)
        elif (line.hook, line.moment) == ("prolog", "begins"):
            before = {holders[gpu] for gpu in line.gpus if gpu in holders}
            assert before <= cleaned, f"seed {SEED}: {line} before the epilog of {before - cleaned}"
            holders |= dict.fromkeys(line.gpus, line.attempt)
    begun = {line.attempt for line in lines(tmp_path) if line.hook == "prolog"}
    assert begun == cleaned, f"seed {SEED}"
    assert len(begun) > 10, f"seed {SEED} killed no shim"
    assert not (tmp_path / "alive").exists(), f"seed {SEED}: an epilog ran while processes of its attempt were alive"


def begun(folder: Path, hook: str, job: int) -> int:
    """Count how often a hook of a job has begun."""
    return sum(line.hook == hook and line.moment == "begins" and line.attempt[0] == job for line in lines(folder))


def test_an_epilog_that_a_restart_interrupts_runs_again_and_holds_up_no_other_job(
    manager: Manager, tmp_path: Path
) -> None:
    (tmp_path / "wait/epilog-1").touch()
    (tmp_path / "kill/running-1-1").mkdir()
    lost = one(manager, run=JOB.format(folder=tmp_path), retry=RETRY)
    wait_for(lambda: begun(tmp_path, "epilog", lost) == 1)
    assert ended(manager, one(manager, run="true")) == "COMPLETED"  # on the other GPU
    manager.stop()
    os.kill(shim_of(tmp_path / "data", lost), signal.SIGKILL)
    again = opened(tmp_path / "data", "1x2", site=hooks(tmp_path), backoff=Backoff(0.01, 0.05))
    wait_for(lambda: begun(tmp_path, "epilog", lost) == 2)
    assert until(again, lost, "RUNNING").attempt == 1
    assert sum(node.free for node in again.nodes()) == 1
    (tmp_path / "wait/epilog-1").unlink()
    assert until(again, lost).state == "COMPLETED"
    assert "supervising process was killed" in again.health().last_errors[0].message
    again.stop(drain=True)


def test_an_attempt_that_is_lost_while_no_manager_runs_has_its_epilog(manager: Manager, tmp_path: Path) -> None:
    """As after a reboot: the next manager finds the folder of an attempt without a shim."""
    job = one(manager, run="sleep 60", retry={"max": 0})
    until(manager, job, "RUNNING")
    manager.stop()
    os.kill(shim_of(tmp_path / "data", job), signal.SIGKILL)
    again = opened(tmp_path / "data", "1x2", site=hooks(tmp_path))
    assert until(again, job).state == "FAILED"
    assert [(line.hook, line.moment) for line in lines(tmp_path)][2:] == [("epilog", "begins"), ("epilog", "ends")]
    again.stop(drain=True)


@pytest.mark.parametrize(("command", "state", "code"), [("true", "COMPLETED", 0), ("exit 7", "FAILED", 7)])
def test_an_exit_code_is_kept_if_the_shim_is_killed_in_the_epilog(
    manager: Manager, tmp_path: Path, command: str, state: str, code: int
) -> None:
    (tmp_path / "kill/epilog-1-1").mkdir()
    job = one(manager, run=command, retry=RETRY)
    view = until(manager, job)
    assert (view.state, view.exit_code, view.attempt) == (state, code, 1)
    assert [(line.hook, line.moment) for line in lines(tmp_path)][2:] == [
        ("epilog", "begins"),
        ("epilog", "begins"),
        ("epilog", "ends"),
    ]


def test_an_attempt_of_a_lost_journal_has_its_epilog_before_its_number_is_used_again(tmp_path: Path) -> None:
    site, spec = hooks(tmp_path), job_spec({"run": "sleep 60"})

    def start(journal: str) -> ProcessExecutor:
        executor = ProcessExecutor(tmp_path / "data", poll_s=0.05)
        executor.open(lambda: None)
        executor.start(Launch(1, 1, ME, spec, (0,), ("n0",), prolog=site.prolog, epilog=site.epilog, journal=journal))
        return executor

    first = start("lost")
    wait_for(lambda: (tmp_path / "data/runs/1/1/ranks.json").exists())
    first.close()
    second = start("present")
    wait_for(lambda: begun(tmp_path, "prolog", 1) == 2)
    assert [(line.hook, line.moment) for line in lines(tmp_path)][2:5] == [
        ("epilog", "begins"),
        ("epilog", "ends"),
        ("prolog", "begins"),
    ]
    second.stop(1, 1, "SIGKILL", 0.0)
    wait_for(lambda: [report for report in second.reports() if report.what == ENDED])
    second.close()


def test_an_epilog_runs_though_its_log_cannot_be_written(manager: Manager, tmp_path: Path) -> None:
    """As on a full disk: the routes of a slice must be removed all the same."""
    (tmp_path / "data/runs/1/1/epilog.log").mkdir(parents=True)
    assert ended(manager, one(manager, run="true")) == "COMPLETED"
    assert [(line.hook, line.moment) for line in lines(tmp_path)][2:] == [("epilog", "begins"), ("epilog", "ends")]


def test_a_signal_of_another_program_neither_ends_the_prolog_nor_skips_it(manager: Manager, tmp_path: Path) -> None:
    (tmp_path / "wait/prolog-1").touch()
    job = one(manager, run="true")
    wait_for(lambda: begun(tmp_path, "prolog", job))
    shim = shim_of(tmp_path / "data", job)
    os.kill(shim, signal.SIGTERM)
    wait_for(lambda: not pending(shim, signal.SIGTERM))
    (tmp_path / "wait/prolog-1").unlink()
    assert ended(manager, job) == "COMPLETED"
    assert [(line.hook, line.moment) for line in lines(tmp_path)][:2] == [("prolog", "begins"), ("prolog", "ends")]


def pending(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has yet to take a signal that it blocks."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def test_a_process_that_cannot_be_killed_yet_is_looked_for_once_per_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in uninterruptible sleep may stay for hours; the shim took a core to look for it."""
    looks, pauses = iter([{os.getpid()}] * 20), list[float]()
    monkeypatch.setattr(shim.system, "members", lambda groups: next(looks, set()))
    # It would kill the processes that `members` returns: this one.
    monkeypatch.setattr(shim.system, "kill_members", lambda groups: None)
    monkeypatch.setattr(shim, "kill", lambda processes: None)
    monkeypatch.setattr(shim.time, "sleep", pauses.append)
    shim.Shim(str(tmp_path), str(tmp_path / "notify")).recover({})
    assert len(pauses) == 20
    assert pauses[0] == shim.KILL_PAUSE_S
    assert pauses[10:] == [1.0] * 10
    assert json.loads((tmp_path / "exit.json").read_text())["lost"]
