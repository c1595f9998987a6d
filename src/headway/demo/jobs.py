"""The dozen jobs of the demonstration, and when each is submitted.

As on real clusters most jobs are small and short, and a few large ones take most of the GPU time: under FIFO the small ones wait behind
them. Sizes are chosen so that 8 slots are busy for about 45 seconds.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEP_S = 0.1
GRACE = "5s"


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One training job: how many ranks, one per slot, and how many steps."""

    at_s: float
    name: str
    nodes: int
    gpus: int
    steps: int

    def spec(self, folder: Path) -> dict[str, Any]:
        """The job as it is submitted: it checkpoints, so it may be preempted."""
        train = [sys.executable, "-m", "headway.demo.train", "--steps", str(self.steps), "--step-s", str(STEP_S)]
        return {
            "name": self.name,
            "command": train,
            "num_nodes": self.nodes,
            "resources": {"accelerators": self.gpus},
            "tasks_per_node": "gpu",
            # The machine has fewer cores than slots: one thread per rank.
            "envs": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            "checkpoint": {"dir": str(folder / "checkpoints" / self.name)},
            "preemption": {"grace": GRACE},
        }


JOBS = (
    DemoJob(0.0, "large-1", 2, 4, 150),
    DemoJob(1.0, "large-2", 1, 4, 200),
    DemoJob(2.0, "medium-1", 1, 4, 70),
    DemoJob(4.0, "small-1", 1, 1, 25),
    DemoJob(6.0, "small-2", 1, 2, 20),
    DemoJob(9.0, "small-3", 1, 1, 30),
    DemoJob(12.0, "medium-2", 2, 2, 40),
    DemoJob(15.0, "small-4", 1, 1, 20),
    DemoJob(18.0, "small-5", 1, 2, 25),
    DemoJob(21.0, "small-6", 1, 1, 20),
    DemoJob(25.0, "small-7", 1, 1, 25),
    DemoJob(30.0, "small-8", 1, 2, 15),
)
# Two queues: a job leaves the first after this many GPU-seconds, as Tiresias's discretised 2D-LAS does after an hour or so.
POLICY = "tiresias-l?threshold=40"
CLUSTER = "2x4"
