"""A manager on a small cluster, for tests of what people and operators ask of it."""

import getpass
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client.job import JobView
from headway.cluster.named import cluster
from headway.live.ask.explain import Explanation
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.live.outcome import Backoff

ME = getpass.getuser()


class Served:
    """A manager with short words for what tests do."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    def submit(self, user: str = ME, **spec: Any) -> int:
        """Submit a job; its number, or that of its first task."""
        return self.manager.submit(job_spec({"run": "true", **spec}), user)[0]

    def explained(self, job: int, reason: str) -> Explanation:
        """What is said of a job's wait, once it waits for this reason."""
        for _ in range(200):
            found = self.manager.explain(job)
            if found.reason == reason:
                return found
            time.sleep(0.01)
        raise AssertionError(found)

    def until(self, job: int, *states: str) -> JobView:
        """Wait until the job is in one of the states, or has ended."""
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        end = time.monotonic() + 30
        view = self.manager.job(job)
        while time.monotonic() < end:
            view = self.manager.job(job)
            assert view is not None
            if view.state in wanted:
                return view
            time.sleep(0.02)
        raise AssertionError(f"{view} is not {wanted}: {[str(row) for row in self.manager.events(0)]}")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a manager; it is drained and stopped at the end."""
    made: list[Manager] = []

    def start(where: str = "1x2", policy: str = "best-effort", **given: Any) -> Served:
        manager = Manager(tmp_path / "data", cluster(where), policy, backoff=Backoff(0.2, 1.0), **given)
        manager.start()
        made.append(manager)
        return Served(manager)

    yield start
    for manager in made:
        manager.stop(drain=True)
