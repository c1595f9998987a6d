"""From results to what a report draws: pool the seeds, put a run on a grid of time, and cut the Gantt chart into bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.report.data import Bars, Jobs, OverTime, PolicyView, Study
from headway.sim.results.timeline import Timeline, finish_time_fairness, slow_down
from headway.sim.run import Run
from headway.sim.trace import without_seed
from headway.workloads.workload import Workload

if TYPE_CHECKING:
    from headway.sim.results.result import Result

# Bins of time: more cannot be told apart on a screen.
BINS = 480
# A Gantt chart of more GPUs or bars than this shows nothing that the plots over time do not.
MOST_GPUS, MOST_BARS = 128, 4000


def study(groups: Sequence[Sequence["Result"]], command: str | None, notes: tuple[str, ...] = ()) -> Study:
    """The study of a comparison: for each policy, its results by seed. The first seed needs its journal."""
    first = groups[0][0]
    run = first.run
    name = run.workload.name if len(groups[0]) == 1 else without_seed(run.workload.name)
    by, _ = grouping(run.workload)
    left_out = (
        (f"{first.left_out:,} jobs can never run here (too large, or no slice of their size) and were left out",)
        if first.left_out
        else ()
    )
    return Study(
        name,
        run.cluster.name,
        run.cluster.total,
        tuple(zip(run.cluster.nodes, run.cluster.gpus, strict=True)),
        run.placement.name,
        by,
        tuple(policy_view(results) for results in groups),
        run.workload.job_id,
        (*left_out, *((f"of the trace {first.skipped}",) if first.skipped else ()), *run.workload.caveats, *notes),
        command,
    )


def policy_view(results: Sequence["Result"]) -> PolicyView:
    """One policy; time is drawn for its first result only."""
    line = Timeline(results[0].run, BINS)
    return PolicyView(
        results[0].run.policy.name,
        tuple(result.summary for result in results),
        _pooled([result.run for result in results]),
        OverTime(line.middles_s, line.utilisation(), line.running(), line.waiting(), line.scattered(), line.stranded()),
        line.holds.lost_gpu_s / 3600.0,
        bars(line),
    )


def grouping(workload: Workload) -> tuple[str, NDArray[np.str_]]:
    """What fairness is between: queues where the trace has several, else users, else nothing."""
    for name, column in (("queue", workload.queue), ("user", workload.user)):
        if len(set(column.tolist()) - {""}) > 1:
            return name, column
    return "", workload.queue


def _pooled(runs: Sequence[Run]) -> Jobs:
    def all_of(columns: list[NDArray[np.generic]]) -> NDArray[np.generic]:
        return columns[0] if len(columns) == 1 else np.concatenate(columns)

    columns = zip(*(_columns(run) for run in runs), strict=True)
    return Jobs(*(all_of(list(column)) for column in columns))  # type: ignore[arg-type]


def _columns(run: Run) -> tuple[NDArray[np.generic], ...]:
    jobs, workload = run.jobs, run.workload
    jct_s = jobs["end"] - jobs["submit"]
    return (
        jobs["asked"],
        workload.duration_s,
        jct_s,
        jobs["pending"],
        slow_down(run),
        finish_time_fairness(run),
        grouping(workload)[1],
    )


def bars(line: Timeline) -> Bars | None:
    """Holds as bars over neighbouring GPUs; None where there are too many to look at."""
    if line.run.cluster.total > MOST_GPUS or len(line.holds) > MOST_BARS:
        return None
    hold, gpu = line.seats
    order = np.lexsort((gpu, hold))
    hold, gpu = hold[order], gpu[order]
    new = np.ones(len(hold), np.bool_)
    new[1:] = (np.diff(hold) != 0) | (np.diff(gpu) != 1)
    at = np.flatnonzero(new)
    if len(at) > MOST_BARS:
        return None
    rows, held = hold[at], line.holds
    return Bars(held.job[rows], gpu[at], np.diff(np.append(at, len(hold))), held.start_s[rows], held.end_s[rows])
