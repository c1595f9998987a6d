"""The first jobs of a shared trace, with a cluster that they keep busy."""

import os
from pathlib import Path
from typing import Any

import numpy as np

try:
    from headway.workloads.load import load
except ImportError:
    from headway.workloads.load import load

FOLDER = Path(os.environ.get("HEADWAY_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
LOAD = 0.9


def first_jobs(name: str, jobs: int = 600) -> tuple[Any, str]:
    """So many jobs of a trace, and a cluster of nodes of 8 GPUs that they load to 90 % (at least the largest job fits)."""
    whole = load(str(FOLDER / f"{name}.csv.gz"))
    some = whole.take(np.arange(min(jobs, len(whole))))
    work = float(np.dot(some.gpus.astype(np.float64), some.duration_s))
    nodes = max(
        int(np.ceil(work / max(1.0, float(np.ptp(some.submit_s))) / LOAD / 8)), int(np.ceil(some.gpus.max() / 8))
    )
    return some, f"{nodes}x8"
