"""The return values of a simulation: one result, or several to compare. Both are shown in notebooks and write reports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.report.data import Study
from headway.report.seeds import figure, figure_ratio, label, value_at
from headway.sim.experiment import Experiment, compare_command
from headway.sim.results import metrics
from headway.sim.results.table import Table
from headway.sim.results.views import study
from headway.sim.run import Run, simulate_run
from headway.sim.stacks import Stack
from headway.sim.trace import left_out, with_seed


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated run: its summary, its jobs, and everything a report is drawn from."""

    run: Run
    summary: dict[str, Any]
    experiment: Experiment
    left_out: int = 0  # jobs that can never run on the cluster, left out because the caller said so
    stack: Stack | None = None  # where stacks are compared

    @property
    def label(self) -> str:
        """Its name in tables: the stack's, or the policy's."""
        return label(self.summary)

    @property
    def skipped(self) -> str:
        """The rows of the trace that its reader left out, in words: "" where there are none."""
        return left_out(self.run.workload)

    @property
    def jobs(self) -> Table:
        """The jobs, column by column, as in `jobs.csv`."""
        return Table(metrics.job_columns(self.run))

    @property
    def receipts(self) -> Table:
        """Where the wait of each job went, in whole microseconds by cause, as in `receipts.csv`; the causes sum to `wait_us`."""
        return Table(metrics.receipt_columns(self.run))

    def report(self, path: Path | str) -> None:
        """Write the report of this run: one HTML file that works offline."""
        Comparison(((self,),)).report(path)

    def with_journal(self) -> "Result":
        """This result with its journal; where it was not kept the run is done again, and comes out the same."""
        if len(self.run.entries):
            return self
        old = self.run
        run = simulate_run(old.workload, old.cluster, old.policy, old.placement, old.setting, keep_journal=True)
        return replace(self, run=run)

    def _repr_html_(self) -> str:
        return Comparison(((self,),))._repr_html_()

    def __repr__(self) -> str:
        mean = self.summary["jct_s"]["mean"]
        return f"Result({self.summary['policy']} on {self.summary['trace']}: mean JCT {mean:,.0f} s)"


class Comparison(list[Result]):
    """Results of several policies in order: a list of the first seed's, with all seeds in `by_policy`."""

    def __init__(self, by_policy: Sequence[tuple[Result, ...]]) -> None:
        super().__init__(results[0] for results in by_policy)
        self.by_policy = tuple(by_policy)

    @property
    def seeds(self) -> int:
        """How many seeds each policy ran with."""
        return len(self.by_policy[0])

    @property
    def summaries(self) -> list[list[dict[str, Any]]]:
        """Summaries by policy, then by seed."""
        return [[result.summary for result in results] for results in self.by_policy]

    @property
    def command(self) -> str | None:
        """The command line that makes this comparison; None where an object of Python is part of it."""
        experiments = [result.experiment for result in self]
        if len(experiments) == 1 and self.seeds == 1 and self[0].stack is None:
            return experiments[0].command
        if self.seeds > 1:
            experiments = [replace(one, trace=_common(one.trace)) for one in experiments]
        stacks = ",".join(result.stack.written for result in self if result.stack)
        return compare_command(experiments, self.seeds, stacks)

    def over_seeds(self) -> list[dict[str, Any]]:
        """For each policy every figure of the summary: the value of each seed, and their mean with its 95 % confidence interval.

        `ratio` is the same against the first policy, seed by seed. `jct_mean_s`, `mean_jct_s` and `ratio` at the top are of the mean JCT.
        """
        return [_over_seeds(summaries, self.summaries[0]) for summaries in self.summaries]

    def report(self, path: Path | str) -> None:
        """Write the report: one HTML file that works offline."""
        from headway.io.files import write_atomically
        from headway.report.comparison import report

        write_atomically(path, report(self.study()))

    def png(self, path: Path | str) -> list[Path]:
        """Draw every figure into a folder, or all of them into one .png file; needs Chromium or Chrome."""
        from headway.report.comparison import figures
        from headway.report.png import draw

        return draw(figures(self.study()), Path(path))

    def study(self) -> Study:
        """What the report draws."""
        return study(self.by_policy, self.command)

    def _repr_html_(self) -> str:
        from headway.report.comparison import rows_of

        return rows_of(self.summaries)

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(result.label for result in self)}"


def _common(trace: Any) -> Any:
    """A trace without the seed that it was drawn with."""
    return with_seed(trace, None) if isinstance(trace, str) else trace


def _over_seeds(summaries: list[dict[str, Any]], first: list[dict[str, Any]]) -> dict[str, Any]:
    """One policy over seeds: the figures of a summary that seeds change, in its shape."""

    def over(*path: str) -> dict[str, Any]:
        ratio = figure_ratio(summaries, first, *path)
        values = [value_at(summary, path) for summary in summaries]
        return {"values": values, **figure(summaries, *path).as_json, "ratio": ratio and ratio.as_json}

    spreads = {name: {part: over(name, part) for part in summaries[0][name]} for name in ("jct_s", "queue_s")}
    mean = spreads["jct_s"]["mean"]
    return {
        "seeds": len(summaries),
        "jct_mean_s": mean["values"],
        "mean_jct_s": {part: mean[part] for part in ("mean", "low", "high")},
        "ratio": mean["ratio"],
        **spreads,
        **{
            name: over(name)
            for name in ("makespan_s", "gpu_utilisation", "goodput", "preemptions", "preemption_cost_s")
        },
    }
