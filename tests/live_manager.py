"""A manager of this machine, for tests: opened, and waited for."""

import getpass
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.client.job import JobView
from headway.cluster.named import cluster
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager

ME = getpass.getuser()
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


def opened(data: Path, nodes: str = "1x2", policy: str = "fifo", **given: Any) -> Manager:
    """A manager that has started."""
    manager = Manager(data, cluster(nodes), policy, **given)
    manager.start()
    return manager


def one(manager: Manager, user: str = ME, **spec: Any) -> int:
    """One job of a job file."""
    return manager.submit(job_spec(spec), user)[0]


def until(
    manager: Manager,
    job: int,
    *states: str,
    true: Callable[[JobView], bool] = lambda view: True,
    within_s: float = 90.0,
) -> JobView:
    """Wait for a job to be in one of the states (in any final one, if none is given)."""
    wanted, end, view = states or FINAL, time.monotonic() + within_s, None
    while time.monotonic() < end:
        view = manager.job(job)
        assert view is not None
        if view.state in wanted and true(view):
            return view
        time.sleep(0.02)
    story = [str(row) for row in manager.events(0) if row.job == job]
    raise AssertionError(f"job {job} is not {' or '.join(wanted)}: {view}, {manager.explain(job).message}, {story}")


def ended(manager: Manager, job: int) -> str:
    """How a job ends."""
    return until(manager, job).state


def wait_for(true: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait for anything."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
