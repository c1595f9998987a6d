"""A manager on Slurm in a process of its own, to be killed."""

import os
import random
from pathlib import Path

from tests.mortal import Fate, Load, submit
from tests.slurm_manager import manager_on

from headway.live.executors.slurm.executor import SlurmExecutor
from headway.slurm.commands import Commands
from headway.slurm.requests import Request

POLICY = "tiresias-l?threshold=2"


class Mortal(Commands):
    """Kills its own manager now and then: before a request reaches Slurm, or after it did and before that is noted."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self.fate = fate

    def send(self, request: Request) -> str:
        """Die before, or after."""
        self.fate.perhaps_die()
        answer = super().send(request)
        self.fate.perhaps_die()
        return answer


def serve_on(conf: str, data: str, out: str, seed: int, odds: float, jobs: int) -> None:
    """Serve the Slurm of this file and submit so many jobs, until killed."""
    os.environ["SLURM_CONF"] = conf
    chance, executor = random.Random(seed), SlurmExecutor(Path(data), poll_s=0.3)
    executor.door = Mortal(Fate(chance, odds))
    submit(manager_on(Path(data), POLICY, executor), Path(out), seed, chance, Load(jobs, (1, 2, 4), (0.2, 1.5), 0.2))
