"""A manager on a small cluster, for tests of what people and operators ask of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import ME, until
from tests.waiting import wait_for

from headway.client.job import JobView
from headway.cluster.named import cluster
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff
from headway.live.queries.explain.explain import Explanation


class Served:
    """A manager with short words for what tests do."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    def submit(self, user: str = ME, **spec: Any) -> int:
        """Submit a job; its number, or that of its first task."""
        return self.manager.submit(job_spec({"run": "true", **spec}), user)[0]

    def explained(self, job: int, reason: str) -> Explanation:
        """Return the explanation of a job's wait, once a decision has found this reason."""
        self.manager.settle()  # until the engine has recorded a job, its reason is `gpus`
        wait_for(lambda: self.manager.explain(job).reason == reason, lambda: self.manager.explain(job))
        return self.manager.explain(job)

    def until(self, job: int, *states: str) -> JobView:
        """Wait until the job is in one of the states, or has ended."""
        return until(self.manager, job, *states)


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
