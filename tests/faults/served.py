"""A manager in a process of its own, to be killed: it submits jobs, writes down what was acknowledged, and may die between two steps."""

import getpass
import os
import random
import signal
import time
from pathlib import Path

from headway.cluster.named import cluster
from headway.live.executors import Launch
from headway.live.executors.process.executor import ProcessExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.live.outcome import Backoff

# Says so if another process of the same rank holds the lock: two attempts at once, which must never be.
SCRIPT = """
exec 9>>"$OUT/lock.$HEADWAY_JOB_ID.$RANK"
flock -n 9 || echo "$HEADWAY_JOB_ID.$RANK $HEADWAY_ATTEMPT" >> "$OUT/doubled"
sleep "$LASTS"
echo "$HEADWAY_ATTEMPT" >> "$OUT/done.$HEADWAY_JOB_ID"
"""


class Mortal(ProcessExecutor):
    """Kills its own manager now and then: between journal and start, and between start and the next round."""

    def __init__(self, data: Path, chance: random.Random, odds: float) -> None:
        super().__init__(data, poll_s=0.1)
        self.chance, self.odds = chance, odds

    def start(self, launch: Launch) -> None:
        """Die before, or after."""
        self._perhaps_die()
        super().start(launch)
        self._perhaps_die()

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """The same for stops."""
        self._perhaps_die()
        super().stop(job, attempt, signal_name, grace_s)
        self._perhaps_die()

    def _perhaps_die(self) -> None:
        if self.chance.random() < self.odds:
            os.kill(os.getpid(), signal.SIGKILL)


def manager(data: Path, chance: random.Random, odds: float) -> Manager:
    """A manager of a small cluster, quick to preempt and to try again."""
    return Manager(
        data,
        cluster("2x2"),
        "tiresias-l?threshold=0.15",
        executor=Mortal(data, chance, odds),
        backoff=Backoff(0.02, 0.1),
    )


def serve(data: str, out: str, seed: int, odds: float, jobs: int) -> None:
    """Serve and submit so many jobs, until killed."""
    chance = random.Random(seed)
    served = manager(Path(data), chance, odds)
    served.start()
    acks = os.open(Path(out) / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(jobs):
        gpus = chance.choice([1, 1, 2])
        spec = job_spec(
            {
                "command": ["sh", "-c", SCRIPT],
                "resources": {"accelerators": gpus},
                "num_nodes": chance.choice([1, 1, 2]),
                "envs": {"OUT": out, "LASTS": f"{chance.uniform(0.0, 0.3):.3f}"},
                "preemptible": chance.random() < 0.5,
                "preemption": {"grace": "1s"},
                "retry": {"on": ["failure", "node_failure"], "max": 1000},
            }
        )
        for job in served.submit(spec, getpass.getuser(), f"{seed}-{number}"):
            os.write(acks, f"{job}\n".encode())
        time.sleep(chance.uniform(0.0, 0.1))
    time.sleep(3600)


if "GIVEN" in globals():  # run as a process of its own (test_kills.py)
    serve(*globals()["GIVEN"])
