"""Stretch of run times compared with a clean network, and the effective load that follows."""

from typing import Any

import numpy as np

from headway.sim.run import Run

# From this effective load on, a queue has no end: waiting and JCT grow with the length of the run, and so does any gain in them.
SATURATED = 0.95


def stretch_of(run: Run) -> dict[str, Any]:
    """Time run over time alone: the mean of the jobs, by their GPU time, and the tail; then load x the second of these.

    Empty for policies that change the sizes of jobs, which do other work. Without a span of submissions there is no load.
    """
    if run.policy.allot is not None:
        return {}
    jobs, work = run.jobs, run.workload
    alone = work.duration_s
    stretch = np.divide(jobs["total"] / jobs["asked"], alone, out=np.ones(len(jobs)), where=alone > 0)
    area = alone * work.gpus
    weighted = float(np.average(stretch, weights=area)) if area.any() else 1.0
    span = float(work.submit_s[-1] - work.submit_s[0])
    offered = float(area.sum()) / span / run.cluster.total if span else None
    return {
        "run_stretch": {
            "mean": float(stretch.mean()),
            "gpu_weighted": weighted,
            "p95": float(np.percentile(stretch, 95)),
        },
        "effective_load": weighted * offered if offered else None,
    }


def stretch_told(summary: dict[str, Any]) -> list[str]:
    """What a summary says of it, in sentences: how much longer jobs ran, and where the load has no end. None on the ideal network."""
    if "run_stretch" not in summary:
        return []
    stretch, load, network = summary["run_stretch"], summary["effective_load"], summary["network"]
    longer = (
        f"{100 * (stretch['mean'] - 1):+.1f} % on average, {100 * (stretch['gpu_weighted'] - 1):+.1f} % by GPU time"
    )
    lines = [f"run times on {network}: {longer}" + (f"; effective load {load:.2f}" if load is not None else "")]
    if load is not None and load >= SATURATED:
        lines.append(f"{network} does not carry this load: waiting and JCT grow with the length of the run")
    starts = summary.get("starts", {})
    if starts.get("isolated") and starts.get("shared"):
        counts = f"{starts['isolated']:,} had links of their own, {starts['shared']:,} shared links"
        lines.append(f"of {starts['starts']:,} starts {counts}, {starts['spread']:,} were on more nodes than needed")
    return lines
