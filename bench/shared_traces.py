"""The first jobs of a shared trace, with a cluster that they keep busy."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from headway.workloads.load import load

FOLDER = Path(os.environ.get("HEADWAY_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
LOAD = 0.9


def first_jobs(name: str, jobs: int = 600) -> tuple[Any, str]:
    """Return the first `jobs` jobs of a trace, and a cluster of 8-GPU nodes that they load to 90 %.

    The cluster holds at least the largest job. A name may have options: `muri_philly_4traces?trace=1`.
    """
    stem, mark, options = name.partition("?")
    whole = load(str(FOLDER / f"{stem}.csv.gz") + mark + options)
    some = whole.take(np.arange(min(jobs, len(whole))))
    work = float(np.dot(some.gpus.astype(np.float64), some.duration_s))
    nodes = max(
        int(np.ceil(work / max(1.0, float(np.ptp(some.submit_s))) / LOAD / 8)), int(np.ceil(some.gpus.max() / 8))
    )
    return some, f"{nodes}x8"
