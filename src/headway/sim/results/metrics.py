"""Metrics of a run: the summary of `--json`, and the table of its jobs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway import __version__
from headway.core.events import REASONS
from headway.core.receipts import MICROSECONDS
from headway.core.tables.journal import FORMAT
from headway.sim.experiment import Experiment
from headway.sim.results.stretch import stretch_of
from headway.sim.results.teams import queue_summaries
from headway.sim.run import Run


def spread_of(seconds: NDArray[np.float64]) -> dict[str, float]:
    """Mean, median, tail and maximum."""
    p95, p99 = np.percentile(seconds, (95, 99))
    statistics = {"mean": seconds.mean(), "median": np.median(seconds), "p95": p95, "p99": p99, "max": seconds.max()}
    return {name: float(value) for name, value in statistics.items()}


def summary(run: Run, experiment: Experiment, trace_sha256: str, left_out: int) -> dict[str, Any]:
    """The figures of a run and how it was made, as `simulate --json` prints them."""
    jobs = run.jobs
    makespan = float(jobs["end"].max() - jobs["submit"].min())
    used = run.setting.network.fabric
    fabric = used and {
        "fabric": used.name,
        "circuits_moved": run.circuits_moved,
        "undecided": run.undecided,
        "starts": _starts(run),
        **stretch_of(run),
    }
    return {
        "policy": run.policy.name,
        "placement": run.placement.name,
        "network": experiment.network,
        "collective": experiment.collective,
        "trace": run.workload.name,
        "cluster": run.cluster.name,
        "seed": experiment.seed,
        "jobs": len(jobs),
        "finished": int(np.isfinite(jobs["end"]).sum()),
        "jct_s": spread_of(jobs["end"] - jobs["submit"]),
        "queue_s": spread_of(jobs["pending"]),
        "makespan_s": makespan,
        "gpu_utilisation": run.held_gpu_s / (makespan * run.cluster.total) if makespan else 0.0,
        "preemptions": int(jobs["preemptions"].sum()),
        "preemption_cost_s": run.preemption_cost_s,
        "events": run.events,
        "wall_s": run.wall_s,
        "goodput": _useful_gpu_s(run) / (makespan * run.cluster.total) if makespan else 0.0,
        "resizes": int(jobs["resizes"].sum()),
        "migrations": int(jobs["migrations"].sum()),
        "zero_length_starts": int(jobs["wasted"].sum()),
        "elastic": run.policy.allot is not None,
        "wait_s": {name: float(us.mean() / MICROSECONDS) for name, us in receipts(run).items()},
        **({"queues": queue_summaries(run)} if run.teams else {}),
        **(fabric or {}),
        "left_out": left_out,
        "skipped": dict(run.workload.skipped),
        "settings": experiment.settings,
        "trace_sha256": trace_sha256,
        "version": __version__,
        "journal_format": FORMAT,
        "command": experiment.command,
    }


def _starts(run: Run) -> dict[str, int]:
    """Starts by the kind of their place; which share links is known of placements that know leaves."""
    knows = run.placement.needs_fabric or run.placement.knows_leaves
    return {kind: count for kind, count in run.starts.items() if knows or kind in ("starts", "spread")}


def _useful_gpu_s(run: Run) -> float:
    """GPU-seconds of work done: what the jobs would take on the GPUs they asked for, undisturbed."""
    return float(np.dot(run.workload.gpus.astype(np.float64), run.workload.duration_s))


def receipts(run: Run) -> dict[str, NDArray[np.int64]]:
    """Microseconds that each job waited, by cause; they sum to its JCT less the time it held GPUs. Causes that never were are left out."""
    columns = zip(REASONS[1:], run.receipts_us[:, 1:].T, strict=True)
    return {name: column for name, column in columns if column.any()}


def receipt_columns(run: Run) -> dict[str, NDArray[Any]]:
    """The wait receipt of every job, column by column, in the order of `receipts.csv`."""
    by_cause = {f"{name}_us": column for name, column in receipts(run).items()}
    return {"job_id": run.workload.job_id, "wait_us": run.receipts_us[:, 1:].sum(axis=1), **by_cause}


def _queue_column(run: Run) -> dict[str, NDArray[Any]]:
    """The queue of every job, in a run with queues."""
    if run.teams is None:
        return {}
    return {"queue": np.array(["", *(queue.name for queue in run.teams.queues.queues)])[run.teams.queue]}


def job_columns(run: Run) -> dict[str, NDArray[Any]]:
    """The jobs of a run, column by column, in the order of `jobs.csv`."""
    jobs, workload = run.jobs, run.workload
    return {
        "job_id": workload.job_id,
        "user": workload.user,
        **_queue_column(run),
        "gpus": jobs["asked"],
        "submit_s": jobs["submit"],
        "start_s": jobs["first"],
        "end_s": jobs["end"],
        "jct_s": jobs["end"] - jobs["submit"],
        "queue_s": jobs["pending"],
        "service_gpu_s": jobs["total"],
        "preemptions": jobs["preemptions"],
    }
