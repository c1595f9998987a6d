"""A manager of this machine, for tests: opened, and waited for."""

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

from headway.client.job import JobView
from headway.cluster.named import cluster
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager

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


def until(manager: Manager, job: int, *states: str, true: Callable[[JobView], bool] = lambda view: True) -> JobView:
    """Wait for a job to be in one of the states (in any final one, if none is given)."""
    wanted = states or FINAL

    def view() -> JobView | None:
        shown = manager.job(job)
        assert shown is not None
        return shown if shown.state in wanted and true(shown) else None

    def story() -> str:
        rows = [str(row) for row in manager.events(0) if row.job == job]
        return f"job {job} is not {' or '.join(wanted)}: {manager.job(job)}, {manager.explain(job).message}, {rows}"

    return wait_for(view, story)


def ended(manager: Manager, job: int) -> str:
    """How a job ends."""
    return until(manager, job).state
