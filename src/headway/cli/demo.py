"""`headway demo`, which `make run` starts: a manager, a dozen real training jobs, preemption at work, and a comparison with FIFO."""

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import FAILED, JsonOption, print_json
from headway.job_state import FINAL_STATES, JobState

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from headway.client.client import Client
    from headway.client.job import JobView
    from headway.demo.run import Demo
    from headway.live.queries.replay.replay import Replay

NEWS_LINES = 6


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the manager serving at the end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a manager with 2x4 slots and a dozen small training jobs for about a minute, then compare with FIFO.

    Example: headway demo --keep
    """
    from rich.console import Console

    from headway.cli.replay import run_replay
    from headway.demo.run import Demo

    console = Console(highlight=False, stderr=as_json)
    show = Demo()
    kept = False
    try:
        client = show.start()
        console.print(f"a manager on this machine with 2 nodes of 4 slots: {client.url}", style="dim")
        console.print(f"watch it in a browser: {_link(console, show)}\n", soft_wrap=True)
        screen = Screen(console, client)
        with screen.live or contextlib.nullcontext():
            jobs = show.run(screen.update)
        replayed = run_replay(client, ["fifo"], None)
        kept = keep
    finally:
        show.stop(kept)
    if as_json:
        print_json({"jobs": jobs, "replay": replayed})
    else:
        console.print()
        console.print(_summary(jobs, replayed))
    if keep and show.server:
        console.print(f"\nstill serving: {_link(console, show)}", soft_wrap=True)
        console.print(f"headway queue --data {show.folder}   (stop it with: kill {show.server.pid})")
    if any(job.state != JobState.COMPLETED.name for job in jobs):
        raise typer.Exit(FAILED)


def _link(console: "Console", show: "Demo") -> str:
    """Return a link to the dashboard; without a terminal how to get one, since a log would keep it."""
    if console.is_terminal and show.client:
        return show.client.dashboard()
    return f"headway dashboard --data {show.folder}"


class Screen:
    """What happens to the jobs: a live table with the latest news on a terminal, otherwise one line per change."""

    def __init__(self, console: "Console", client: "Client") -> None:
        from rich.live import Live

        self.console, self.client = console, client
        self.news: deque[str] = deque(maxlen=NEWS_LINES)
        self.before: dict[int, JobView] = {}
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def update(self, jobs: list["JobView"], elapsed_s: float) -> None:
        """Turn changes since the last look into sentences, and draw them."""
        for job in jobs:
            line = _sentence(self.before.get(job.job_id), job)
            if line:
                self.news.append(f"{elapsed_s:5.1f}s  {line}")
                if not self.live:
                    self.console.print(self.news[-1])
            self.before[job.job_id] = job
        if self.live:
            self.live.update(self._draw(jobs), refresh=True)

    def _draw(self, jobs: list["JobView"]) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        from headway.cli.tables.jobs import header, jobs_table

        lines = [Text(line, style="dim") for line in self.news]
        lines += [Text("")] * (NEWS_LINES - len(lines))
        head = header(self.client.status(), self.client.nodes())
        return Group(head, jobs_table(jobs, time.time()), Text(""), *lines)


def _sentence(old: "JobView | None", job: "JobView") -> str:
    """What changed since the last look; empty: nothing worth a line."""
    from headway.cli.tables.jobs import span

    if old is None:
        return f"{job.name} submitted: {job.gpus} GPU{'s' if job.gpus > 1 else ''}"
    if old.state == job.state:
        return ""
    if job.state == JobState.STOPPING.name:
        return f"{job.name} makes room after {span(job.service_gpu_s)} of GPU time, saving its state"
    if job.state == JobState.RUNNING.name:
        return f"{job.name} {'resumes from its checkpoint' if job.attempt > 1 else 'runs'} on {', '.join(dict.fromkeys(job.nodes))}"
    if job.state in FINAL_STATES:
        return f"{job.name} {job.state} after {span((job.ended_at or job.submitted_at) - job.submitted_at)}"
    return ""


def _summary(jobs: list["JobView"], replayed: "Replay") -> "RenderableType":
    """Each job's completion time, and the mean beside what FIFO would have given."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.jobs import short, span, times

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("JOB", "NAME", "GPUS", "WAITED FIRST", "DONE AFTER", "PREEMPTED"):
        table.add_column(name, justify="left" if name == "NAME" else "right")
    for job in jobs:
        first = (job.first_started_at or job.submitted_at) - job.submitted_at
        done = (job.ended_at or job.submitted_at) - job.submitted_at
        count = times(job.preemptions) if job.preemptions else ""
        table.add_row(str(job.job_id), short(job.name, 20), str(job.gpus), span(first), span(done), count)
    fifo = next(outcome for outcome in replayed.simulated if outcome.name == "fifo")
    own = replayed.simulated[0]
    gain, error = fifo.mean_s / replayed.measured.mean_s, own.mean_s / replayed.measured.mean_s - 1
    words = Text("\naverage completion time\n", style="bold")
    rows = (
        (replayed.measured.mean_s, f"measured, under {own.name}"),
        (fifo.mean_s, f"FIFO, by replay of the same jobs: {gain:.1f} times as long"),
        (own.mean_s, f"{own.name}, by replay: {error:+.1%}, the error of the replay"),
    )
    for mean_s, label in rows:
        words.append(f"  {mean_s:6.1f} s  {label}\n", style="not bold")
    return Group(table, words)
