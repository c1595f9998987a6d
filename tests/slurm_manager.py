"""A manager on a Slurm of our own, for tests."""

from pathlib import Path
from typing import Any

from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff


def manager_on(
    data: Path, policy: str = "tiresias-l?threshold=4", executor: SlurmExecutor | None = None, **given: Any
) -> Manager:
    """A manager of all nodes, quick to poll and to try again."""
    runs = executor or SlurmExecutor(data, poll_s=0.3)
    found = runs.discover()
    made = Manager(data, found.cluster, policy, executor=runs, backoff=Backoff(0.5, 2.0), **given)
    made.start()
    return made
