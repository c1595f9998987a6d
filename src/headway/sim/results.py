"""What a simulation gives back: one result, or several to compare. Both show themselves in notebooks and write reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from headway.report.seeds import mean_jct_s, ratio
from headway.sim import metrics
from headway.sim.run import Run, simulate_run
from headway.sim.table import Table


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated run: its summary, its jobs, and everything a report is drawn from."""

    run: Run
    summary: dict[str, Any]
    left_out: int = 0  # jobs larger than the cluster, left out because the caller said so

    @property
    def jobs(self) -> Table:
        """The jobs, column by column, as in `jobs.csv`."""
        return Table(metrics.job_columns(self.run))

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


@dataclass(frozen=True, slots=True)
class Comparison(Sequence[Result]):
    """Results of several policies in order: a list of the first seed's, with all seeds in `by_policy`."""

    by_policy: tuple[tuple[Result, ...], ...]

    @overload
    def __getitem__(self, place: int) -> Result: ...

    @overload
    def __getitem__(self, place: slice) -> list[Result]: ...

    def __getitem__(self, place: int | slice) -> Result | list[Result]:
        if isinstance(place, slice):
            return [results[0] for results in self.by_policy[place]]
        return self.by_policy[place][0]

    def __iter__(self) -> Iterator[Result]:
        return (results[0] for results in self.by_policy)

    def __len__(self) -> int:
        return len(self.by_policy)

    @property
    def seeds(self) -> int:
        """How many seeds each policy ran with."""
        return len(self.by_policy[0])

    @property
    def summaries(self) -> list[list[dict[str, Any]]]:
        """Summaries by policy, then by seed."""
        return [[result.summary for result in results] for results in self.by_policy]

    def over_seeds(self) -> list[dict[str, Any]]:
        """For each policy the mean JCT and its ratio to the first policy's, with 95 % confidence intervals."""
        first = self.summaries[0]
        return [
            {
                "seeds": len(found),
                "jct_mean_s": [summary["jct_s"]["mean"] for summary in found],
                "mean_jct_s": mean_jct_s(found).as_json,
                "ratio": ratio(found, first).as_json,
            }
            for found in self.summaries
        ]

    def report(self, path: Path | str) -> None:
        """Write the report: one HTML file that works offline."""
        from headway.files import write_atomically
        from headway.report.comparison import report

        write_atomically(path, report(self.study()))

    def png(self, path: Path | str) -> list[Path]:
        """Draw every figure into a folder, or all of them into one .png file; needs Chromium or Chrome."""
        from headway.report.comparison import figures
        from headway.report.png import draw

        return draw(figures(self.study()), Path(path))

    def study(self) -> Any:
        """What the report draws."""
        from headway.sim.views import study

        same = self.seeds > 1 and all(_alike(results) for results in self.by_policy)
        notes = ("all seeds gave the same result: nothing in this study is drawn at random",) if same else ()
        return study([(results[0].with_journal(), *results[1:]) for results in self.by_policy], notes)

    def _repr_html_(self) -> str:
        from headway.report.comparison import rows_of

        return rows_of(self.summaries)

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(str(result.summary['policy']) for result in self)}"


def _alike(results: Sequence[Result]) -> bool:
    return len({result.summary["jct_s"]["mean"] for result in results}) == 1
