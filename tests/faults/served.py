"""A manager in a process of its own, to be killed."""

import random
from pathlib import Path

from tests.mortal import Fate, Load, submit

from headway.cluster.named import cluster
from headway.live.executors import Launch
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff


class Mortal(ProcessExecutor):
    """Kills its own manager now and then: between journal and start, and between start and the next round."""

    def __init__(self, data: Path, fate: Fate) -> None:
        super().__init__(data, poll_s=0.1)
        self.fate = fate

    def start(self, launch: Launch) -> None:
        """Die before, or after."""
        self.fate.perhaps_die()
        super().start(launch)
        self.fate.perhaps_die()

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """The same for stops."""
        self.fate.perhaps_die()
        super().stop(job, attempt, signal_name, grace_s)
        self.fate.perhaps_die()


def manager(data: Path, fate: Fate) -> Manager:
    """A manager of a small cluster, quick to preempt and to try again."""
    return Manager(
        data,
        cluster("2x2"),
        "tiresias-l?threshold=0.15",
        executor=Mortal(data, fate),
        backoff=Backoff(0.02, 0.1),
    )


def serve(data: Path, out: Path, seed: int, odds: float, jobs: int) -> None:
    """Serve and submit so many jobs, until killed."""
    chance = random.Random(seed)
    served = manager(data, Fate(chance, odds))
    served.start()
    submit(served, out, seed, chance, Load(jobs, (1, 1, 2), (0.0, 0.3), 0.1))
