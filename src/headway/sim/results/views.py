"""Convert results to the data of a report: pool the seeds, resample a run over time, and cut the Gantt chart into bars."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from headway.io.units import counted
from headway.report.data import Bars, Jobs, OverTime, PolicyView, Study
from headway.sim.results.stretch import stretch_told
from headway.sim.results.timeline import Timeline, finish_time_fairness, slow_down
from headway.sim.run import Run
from headway.sim.trace import with_seed
from headway.workloads.workload import Workload

# Bins of time: more cannot be told apart on a screen.
BINS = 480
# A Gantt chart of more GPUs or bars than this shows nothing that the plots over time do not.
MOST_GPUS, MOST_BARS = 128, 4000


class Told(Protocol):
    """What a report reads of a result (`sim/results/result.py: Result`)."""

    @property
    def run(self) -> Run: ...
    @property
    def summary(self) -> dict[str, Any]: ...
    @property
    def label(self) -> str: ...
    @property
    def skipped(self) -> str: ...
    @property
    def left_out(self) -> int: ...
    def with_journal(self) -> Self: ...


def study(by_policy: Sequence[Sequence[Told]], command: str | None) -> Study:
    """Return the study of results by policy, then by seed. The first seed of each policy is drawn over time, from its journal."""
    results, seeds = [every[0] for every in by_policy], len(by_policy[0])
    first = results[0]
    run = first.run
    notes = [*run.workload.caveats]
    if first.skipped:
        notes.insert(0, f"of the trace {first.skipped}")
    if first.left_out:
        what = f"{counted(first.left_out, 'job')} left out"
        notes.insert(0, f"{what}: too large to ever run here, or of a size that no slice has")
    elastic = [result.label for result in results if result.summary["elastic"]]
    if elastic:
        notes.append(f"{', '.join(elastic)} changes the sizes of jobs: its work is not that of jobs that run as asked")
    seed = "first seed: " if seeds > 1 else ""
    notes += [f"{seed}{one.label}: {line}" for one in results for line in stretch_told(one.summary)]
    means = ({result.summary["jct_s"]["mean"] for result in every} for every in by_policy)
    if seeds > 1 and all(len(found) == 1 for found in means):
        notes.append("all seeds gave the same result: nothing in this study is drawn at random")
    return Study(
        run.workload.name if seeds == 1 else with_seed(run.workload.name, None),
        run.cluster.total,
        tuple(zip(run.cluster.nodes, run.cluster.gpus, strict=True)),
        grouping(run.workload)[0],
        tuple(map(policy_view, by_policy)),
        run.workload.job_id,
        tuple(notes),
        command,
    )


def policy_view(results: Sequence[Told]) -> PolicyView:
    """One policy; time is drawn for its first result only."""
    first = results[0].with_journal()
    line = Timeline(first.run, BINS)
    columns = zip(*(_columns(result.run) for result in results), strict=True)
    return PolicyView(
        first.label,
        tuple(result.summary for result in results),
        Jobs(*(np.concatenate(column) for column in columns)),
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


def _columns(run: Run) -> tuple[NDArray[Any], ...]:
    """The columns of `Jobs` for one run."""
    jobs, workload = run.jobs, run.workload
    jct_s, group = jobs["end"] - jobs["submit"], grouping(workload)[1]
    return jobs["asked"], workload.duration_s, jct_s, jobs["pending"], slow_down(run), finish_time_fairness(run), group


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
