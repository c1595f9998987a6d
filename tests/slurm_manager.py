"""A manager on a Slurm of our own, for tests."""

import getpass
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.client.job import JobView
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.live.outcome import Backoff

ME = getpass.getuser()
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


def manager_on(
    data: Path, policy: str = "tiresias-l?threshold=4", executor: SlurmExecutor | None = None, **given: Any
) -> Manager:
    """A manager of all nodes, quick to poll and to try again."""
    runs = executor or SlurmExecutor(data, poll_s=0.3)
    found = runs.discover()
    made = Manager(data, found.cluster, policy, executor=runs, backoff=Backoff(0.5, 2.0), **given)
    made.start()
    return made


def submit(manager: Manager, user: str = ME, **spec: Any) -> int:
    """One job."""
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
        if view is not None and view.state in wanted and true(view):
            return view
        time.sleep(0.05)
    raise AssertionError(f"job {job} is not {' or '.join(wanted)}: {view}, {manager.explain(job).message}")
