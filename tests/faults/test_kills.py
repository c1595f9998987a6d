"""Seeded: kill the manager, jobs, shims or everything at random moments, many times; nothing is lost, doubled or left running."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.faults.served import manager as manager_of
from tests.faults.served import serve
from tests.mortal import Fate, wait_for_word
from tests.waiting import PATIENCE_S, wait_for

from headway.job_state import JobState

IMMORTAL = Fate(random.Random(0), 0.0)
JOBS_A_LIFE = 3
MOST_DEATHS_AT_WILL = 0.05
MOST_LIVES_SERVE = 0.8  # of the others, some die while they recover
pytestmark = pytest.mark.xdist_group("live")


def _serve(given: tuple[Any, ...]) -> BaseProcess:
    """Start a manager in a process of its own, forked from a server that has everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["headway.live.manager.manager", "headway.cluster.named", "headway.policies.tiresias_l"]
    )
    process = context.Process(target=serve, args=given, daemon=True)
    process.start()
    return process


def _pids(data: Path, what: str) -> list[int]:
    """Pids of shims or ranks, from the files of all attempts that have not ended."""
    found = []
    for folder in data.glob("runs/*/*"):
        if (folder / "exit.json").exists():
            continue
        try:
            if what == "shim":
                found.append(list(json.loads((folder / "shim.json").read_text()).values()))
            else:
                found += json.loads((folder / "ranks.json").read_text())["pids"]
        except OSError:
            continue
    return [pid for pid, start in found if _started(pid) == start]


def _started(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _strike(chance: random.Random, process: BaseProcess, data: Path) -> str:
    """One blow."""
    what = chance.choices(["manager", "rank", "shim", "everything"], [5, 2, 2, 1])[0]
    shims, ranks = _pids(data, "shim"), _pids(data, "rank")
    if what == "manager":
        _kill([process.pid or 0])
    elif what == "everything":
        _kill([process.pid or 0, *shims, *ranks])
    else:
        victims = shims if what == "shim" else ranks
        _kill([chance.choice(victims)] if victims else [])
    return what


def _finish(data: Path) -> Any:
    """Let a manager that nobody kills bring everything to its end."""
    manager = manager_of(data, IMMORTAL)
    manager.start()
    wait_for(lambda: not manager._state.active, lambda: manager._state.active)
    manager.stop()
    return manager


def _left_running(data: Path) -> list[str]:
    mark, found = f"HEADWAY_RUN={data}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.skipif(shutil.which("flock") is None, reason="SKIPPED: needs flock (util-linux) to see a job run twice")
def test_kills_at_random_lose_double_and_leave_nothing(tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    chance, data, out = random.Random(20_190), tmp_path / "data", tmp_path / "out"
    out.mkdir()
    blows: Counter[str] = Counter()
    process = None
    for life in range(rounds(12, 200)):
        if process is None or not process.is_alive():
            # A new one submits a few jobs; a blow to a job leaves the manager as it is.
            odds = chance.choice([0.0, 0.0, MOST_DEATHS_AT_WILL])
            size = (out / "acks").stat().st_size if (out / "acks").exists() else 0
            process = _serve((data, out, life, odds, JOBS_A_LIFE))
            if chance.random() < MOST_LIVES_SERVE:
                wait_for_word(process, out / "acks", size)
        time.sleep(chance.uniform(0.0, 0.6))
        blows[_strike(chance, process, data)] += 1
        process.join(0.05)
    if process is not None:
        _kill([process.pid or 0])
        process.join(PATIENCE_S)  # its lock goes when it is gone
    manager = _finish(data)
    acknowledged = [int(line) for line in (out / "acks").read_text().split()]
    print(f"{sum(blows.values())} blows: {dict(blows)}; {len(acknowledged)} acknowledged")
    jobs = manager._state.jobs
    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= set(jobs), "lost"
    assert {job.final for job in jobs.values()} == {JobState.COMPLETED}, [
        job for job in jobs.values() if job.final != JobState.COMPLETED
    ]
    assert not (out / "doubled").exists(), (out / "doubled").read_text()
    for job in jobs.values():
        assert str(manager._state.attempt(job)) in (out / f"done.{job.id}").read_text().split()
    wait_for(lambda: not _left_running(data), lambda: _left_running(data))
    assert int(manager._state.tables.nodes["free"].sum()) == 4
    _check_journal(manager, data)


def _check_journal(manager: Any, data: Path) -> None:
    """No job starts while it runs, and the state at the end equals the replayed journal."""
    from headway.live.store.journal import Journal

    journal = Journal(data)
    busy: set[int] = set()
    for row in journal.each():
        if row.kind == "Start":
            assert row.job not in busy
            busy.add(row.job)
        elif row.kind in ("Stopped", "Ended"):
            busy.discard(row.job)
    journal.close()
    assert not busy
    again = manager_of(data, IMMORTAL)
    again._journal.close()
    table, other = manager._state.tables.jobs, again._state.tables.jobs
    for column in ("attempt", "state", "total", "service", "level", "waited", "preemptions", "end", "queued"):
        assert (table[column][: len(manager._state.jobs)] == other[column][: len(manager._state.jobs)]).all(), column
    assert manager._state.jobs == again._state.jobs
