"""A manager on Slurm in a process of its own, to be killed.

It submits jobs, writes down what was acknowledged, and may die between two steps.
"""

import getpass
import os
import random
import signal
import time
from pathlib import Path

from tests.slurm_manager import manager_on

from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.slurm.commands import Commands
from headway.slurm.requests import Request

# Says so if another process of the same rank holds the lock: two attempts at once, which must never be.
SCRIPT = """
exec 9>>"$OUT/lock.$HEADWAY_JOB_ID.$RANK"
flock -n 9 || echo "$HEADWAY_JOB_ID.$RANK $HEADWAY_ATTEMPT" >> "$OUT/doubled"
sleep "$LASTS"
echo "$HEADWAY_ATTEMPT" >> "$OUT/done.$HEADWAY_JOB_ID"
"""
POLICY = "tiresias-l?threshold=2"


class Mortal(Commands):
    """Kills its own manager now and then: before a request reaches Slurm, or after it did and before that is noted."""

    def __init__(self, chance: random.Random, odds: float) -> None:
        super().__init__()
        self.chance, self.odds = chance, odds

    def send(self, request: Request) -> str:
        """Die before, or after."""
        self._perhaps_die()
        answer = super().send(request)
        self._perhaps_die()
        return answer

    def _perhaps_die(self) -> None:
        if self.chance.random() < self.odds:
            os.kill(os.getpid(), signal.SIGKILL)


def served(data: Path, chance: random.Random, odds: float) -> Manager:
    """A manager that may die."""
    executor = SlurmExecutor(data, poll_s=0.3)
    executor.door = Mortal(chance, odds)
    return manager_on(data, POLICY, executor)


def serve(data: str, out: str, seed: int, odds: float, jobs: int) -> None:
    """Serve and submit so many jobs, until killed."""
    chance = random.Random(seed)
    manager = served(Path(data), chance, odds)
    acks = os.open(Path(out) / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(jobs):
        spec = job_spec(
            {
                "command": ["sh", "-c", SCRIPT],
                "resources": {"accelerators": chance.choice([1, 2, 4])},
                "num_nodes": chance.choice([1, 1, 2]),
                "envs": {"OUT": out, "LASTS": f"{chance.uniform(0.2, 1.5):.3f}"},
                "preemptible": chance.random() < 0.5,
                "preemption": {"grace": "1s"},
                "retry": {"on": ["failure", "node_failure"], "max": 1000},
            }
        )
        for job in manager.submit(spec, getpass.getuser(), f"{seed}-{number}"):
            os.write(acks, f"{job}\n".encode())
        time.sleep(chance.uniform(0.0, 0.2))
    time.sleep(3600)


def serve_on(conf: str, data: str, out: str, seed: int, odds: float, jobs: int) -> None:
    """The same in a process that does not know yet where its Slurm is."""
    os.environ["SLURM_CONF"] = conf
    serve(data, out, seed, odds, jobs)
