"""Terminal output of `headway advise`."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from headway.cli.tables.jobs import short, span
from headway.io.units import counted

if TYPE_CHECKING:
    from headway.slurm.advising.advice import JobGroup, QueueAdvice

MOST_GROUPS = 8


def advice_table(advice: "QueueAdvice") -> Table:
    """Completion times: measured, replayed, and under each policy."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"completion time of {counted(advice.jobs, 'job')}, from {advice.source}"
    for name in ("", "mean", "wait", "against Slurm", "preemptions"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    table.add_row("measured", span(advice.measured_jct_s), span(advice.measured_wait_s), "", "")
    error = f"off by {100 * advice.error:+.1f} %"
    table.add_row(f"Slurm replayed as {advice.replayed_as}", span(advice.replayed_jct_s), "", error, "")
    for change in advice.changes:
        label = f"{change.policy}{'' if change.preempts else ', no job preempted'}"
        row = (span(change.mean_jct_s), span(change.mean_wait_s), f"{change.ratio:.2f}x", str(change.preemptions))
        table.add_row(Text(label), *row)
    return table


def groups_table(title: str, groups: "tuple[JobGroup, ...]") -> Table:
    """For whom: users or sizes, with the jobs that are much better or worse off."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left", title=title)
    for name in ("", "jobs", "mean in Slurm", "mean then", "better", "worse"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for group in groups[:MOST_GROUPS]:
        counts = (str(group.better), str(group.worse))
        table.add_row(Text(short(group.name, 20)), str(group.jobs), span(group.measured_s), span(group.then_s), *counts)
    if len(groups) > MOST_GROUPS:
        table.add_row(f"and {len(groups) - MOST_GROUPS} more (--json has all)", "", "", "", "", "")
    return table
