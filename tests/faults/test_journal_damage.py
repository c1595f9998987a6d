"""Seeded damage to the journal and its log: no traceback, no acknowledged job is lost silently, and no job runs twice."""

import contextlib
import random
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import ended, one, opened, until
from tests.quiet import Quiet

from headway.errors import HeadwayError
from headway.live.executors import Launch
from headway.live.manager.manager import Manager
from headway.live.store.copies import back_up, check
from headway.live.store.prune import old_jobs

pytestmark = pytest.mark.xdist_group("live")
KINDS = ("killed", "stopped", "killed later")
SECTOR = 512


@dataclass
class Still(Quiet):
    """An executor that starts nothing, and remembers what it was asked to start."""

    started: set[int] = field(default_factory=set)

    def start(self, launch: Launch) -> None:
        self.started.add(launch.job)


@dataclass(frozen=True)
class Folder:
    """A data folder as a manager left it, with the states of all acknowledged jobs."""

    data: Path
    states: dict[int, str]

    @property
    def ran(self) -> set[int]:
        """Jobs that were started."""
        return {job for job, state in self.states.items() if state in ("COMPLETED", "RUNNING")}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Folder]:
    """Killed young (all is in the log), stopped (all is in the file, with a snapshot), and killed later (both)."""
    data, found = tmp_path_factory.mktemp("served") / "data", dict[str, Folder]()

    def keep(kind: str, manager: Manager) -> None:
        manager.settle()
        copy = data.with_name(kind)
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("notify"))
        found[kind] = Folder(copy, {view.job_id: view.state for view in manager.jobs()})

    manager = opened(data, "2x2")
    _submit(manager)
    keep("killed", manager)
    manager.stop()
    keep_states = found["killed"].states
    shutil.copytree(data, data.with_name("stopped"), ignore=shutil.ignore_patterns("notify"))
    found["stopped"] = Folder(data.with_name("stopped"), keep_states)
    manager = opened(data, "2x2")
    _submit(manager)
    keep("killed later", manager)
    for job, state in found["killed later"].states.items():
        if state == "RUNNING":
            manager.cancel(job, at_once=True)
            ended(manager, job)
    manager.stop()
    return found


def _submit(manager: Manager) -> None:
    """Three jobs that complete, one that runs, and those that wait behind it: forty in all."""
    manager.resume("n000")
    for _ in range(3):
        assert ended(manager, one(manager, run="true")) == "COMPLETED"
    until(manager, one(manager, run="sleep 600", preemption={"grace": 0}), "RUNNING")
    manager.drain("n000")
    manager.drain("n001")
    for number in range(30):
        spec = {"run": "true", "name": f"job-{number}" * (number % 7 + 1), "hold": number % 5 == 0}
        one(manager, **spec)
    one(manager, run="true", array="0-5", envs={"LONG": "x" * 9000})


def damage(data: Path, chance: random.Random) -> str:
    """Damage the journal or its log in one place; what was done."""
    files = [path for path in (data / "journal.db", data / "journal.db-wal") if path.exists() and path.stat().st_size]
    path = chance.choice(files)
    raw = bytearray(path.read_bytes())
    kind = chance.choice(["bit"] * 7 + ["zeros", "garbage", "cut"])
    at = chance.randrange(len(raw))
    sector = at - at % SECTOR
    if kind == "bit":
        raw[at] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del raw[at:]
    else:
        size = len(raw[sector : sector + SECTOR])
        raw[sector : sector + SECTOR] = bytes(size) if kind == "zeros" else chance.randbytes(size)
    path.write_bytes(raw)
    return f"{kind} at {at} of {path.name}"


def named_jobs(line: str) -> set[int]:
    """The jobs that a line calls lost."""
    found = re.search(r"lost: jobs? ([\d, -]+)", line)
    parts = [part.split("-") for part in found[1].replace(" ", "").rstrip(",").split(",")] if found else []
    return {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)}


def read_everything(data: Path, other: Path) -> bool:
    """Whether all is well by `journal check`; every reader of the file ends in an answer or in one line."""
    whole = False
    reads: list[Callable[[], Any]] = [
        lambda: old_jobs(data, time.time()),
        lambda: back_up(data / "journal.db", other),
    ]
    with contextlib.suppress(HeadwayError):
        whole = not check(data / "journal.db").problems
    for read in reads:
        with contextlib.suppress(HeadwayError):
            read()
    return whole


def ask_everything(manager: Manager) -> None:
    """Questions that read the journal."""
    manager.history()
    manager.workload(0.0)
    manager.late_rounds(0.0)
    manager.events(0)
    manager.trend(3600.0, 10)
    for view in manager.jobs():
        manager.story(view)
        manager.explain(view.job_id)


@pytest.mark.parametrize("kind", KINDS)
def test_an_undamaged_folder_is_opened_without_a_word(kind: str, folders: dict[str, Folder], tmp_path: Path) -> None:
    shutil.copytree(folders[kind].data, tmp_path / "data")
    manager = opened(tmp_path / "data", "2x2", executor=Still())
    states = {view.job_id: view.state for view in manager.jobs()}
    manager.stop()
    assert manager.warnings == []
    assert states == folders[kind].states


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_silent_or_a_traceback(
    kind: str, folders: dict[str, Folder], tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    for seed in range(rounds(9, 100)):
        one_damage(folders[kind], f"{kind} {seed}", tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))


def one_damage(folder: Folder, seed: str, place: Path) -> None:
    data, chance = place / "data", random.Random(seed)
    shutil.copytree(folder.data, data)
    about = f"seed {seed!r}: {damage(data, chance)}"
    shutil.copytree(data, place / "read", ignore=shutil.ignore_patterns("runs"))
    whole = read_everything(place / "read", place / "copy.db")
    executor = Still()
    manager = opened(data, "2x2", executor=executor)
    try:
        manager.settle()
        said = " ".join(manager.warnings)
        about += f", {said!r}"
        assert "\n" not in said, about
        states = {view.job_id: view.state for view in manager.jobs()}
        lost = named_jobs(said)
        assert set(folder.states) - set(states) <= lost, about
        assert not executor.started & folder.ran, about
        for job, state in states.items():
            before = folder.states[job]
            if job in folder.ran:
                # An attempt that the journal knows is adopted: its folder says how it ended.
                assert state in (before, "HELD", "STARTING", "RUNNING"), (about, job, before, state)
            elif not said:
                assert state == before, (about, job, before, state)
        if "damaged" in said:
            assert list(data.glob("journal.db.damaged-1")), about
            assert not whole or "write-ahead" in said, about
        ask_everything(manager)
        assert one(manager, run="true") > max(folder.states), about
    finally:
        manager.stop()
    found = check(data / "journal.db")
    assert not found.problems, (about, found.problems)
    again = opened(data, "2x2", executor=Still())
    after = {view.job_id: view.state for view in again.jobs()}
    again.stop()
    assert again.warnings == [], about
    assert {job: after[job] for job in states if states[job] == "HELD"} == {
        job: "HELD" for job in states if states[job] == "HELD"
    }, about
