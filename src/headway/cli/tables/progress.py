"""Progress of long runs: a bar on stderr if that is a terminal, otherwise nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ProgressBar:
    """A bar over one or several runs; silent without a terminal."""

    def __init__(self, bar: Any = None, task: Any = None, runs: int = 1) -> None:
        self._bar, self._task, self._runs, self._done = bar, task, runs, 0

    def update(self, ended: int, jobs: int) -> None:
        """Show how many jobs of this run have ended."""
        if self._bar is not None:
            self._bar.update(self._task, total=self._runs, completed=self._done + ended / jobs)

    def next_run(self, what: str) -> None:
        """The run is over; the next one begins."""
        self._done += 1
        self.say(what)

    def say(self, what: str) -> None:
        """Show what is being done now."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)


@contextmanager
def following(what: str, *, quiet: bool, runs: int = 1) -> Iterator[ProgressBar]:
    """Show a bar while the block runs."""
    if quiet or not sys.stderr.isatty():
        yield ProgressBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield ProgressBar(bar, bar.add_task(what, total=None), runs)


def kernels_ready(progress: ProgressBar) -> None:
    """Load the engine, or compile it on the first run (core/compiler/notices.py says so)."""
    from headway.sim.loop import drive_compiled

    _ = drive_compiled.entry
