"""A manager that may die between any two steps: the jobs that it is given, and how it is killed."""

import getpass
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.waiting import wait_for

from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager

# Says so if another process of the same rank holds the lock: two attempts at once, which must never be.
SCRIPT = """
exec 9>>"$OUT/lock.$HEADWAY_JOB_ID.$RANK"
flock -n 9 || echo "$HEADWAY_JOB_ID.$RANK $HEADWAY_ATTEMPT" >> "$OUT/doubled"
sleep "$LASTS"
echo "$HEADWAY_ATTEMPT" >> "$OUT/done.$HEADWAY_JOB_ID"
"""


@dataclass(frozen=True)
class Fate:
    """When its own process dies."""

    chance: random.Random
    odds: float

    def perhaps_die(self) -> None:
        """Now and then."""
        if self.chance.random() < self.odds:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Load:
    """Jobs of such sizes and lengths, with such pauses between them."""

    jobs: int
    gpus: Sequence[int]
    lasts_s: tuple[float, float]
    most_pause_s: float


def wait_for_word(process: BaseProcess, acks: Path, size: int) -> None:
    """Wait until a new manager has acknowledged something, or is dead."""
    wait_for(lambda: not process.is_alive() or (acks.exists() and acks.stat().st_size > size))


def submit(manager: Manager, out: Path, seed: int, chance: random.Random, load: Load) -> None:
    """Submit the jobs, and write down what was acknowledged; then serve until killed."""
    acks = os.open(out / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(load.jobs):
        spec = job_spec(
            {
                "command": ["sh", "-c", SCRIPT],
                "resources": {"accelerators": chance.choice(load.gpus)},
                "num_nodes": chance.choice([1, 1, 2]),
                "envs": {"OUT": str(out), "LASTS": f"{chance.uniform(*load.lasts_s):.3f}"},
                "preemptible": chance.random() < 0.5,
                "preemption": {"grace": "1s"},
                "retry": {"on": ["failure", "node_failure"], "max": 1000},
            }
        )
        for job in manager.submit(spec, getpass.getuser(), f"{seed}-{number}"):
            os.write(acks, f"{job}\n".encode())
        time.sleep(chance.uniform(0.0, load.most_pause_s))
    time.sleep(3600)
