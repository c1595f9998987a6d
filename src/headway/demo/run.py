"""`headway demo`: start a manager, submit the jobs, watch them, say what came of it, and stop cleanly."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headway.cli.tables.jobs import header, jobs_table, short, span, times
from headway.client.client import ENDED, Client
from headway.demo.jobs import CLUSTER, JOBS, POLICY
from headway.errors import HeadwayError
from headway.live.records import JobView

if TYPE_CHECKING:
    from headway.live.ask.replay import Replay

START_WITHIN_S = 300.0
STOP_WITHIN_S = 15.0
MOST_S = 150.0
LOOK_EVERY_S = 0.5
TOLD_LINES = 6
WARM = "import os; os.nice(15); import headway.sim.run"
SERVE = "from headway.cli.main import main; main()"


class Demo:
    """One run of the demonstration."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.folder = Path(tempfile.mkdtemp(prefix="headway-demo-"))
        self.server: subprocess.Popen[str] | None = None
        self.client: Client | None = None
        self.told: deque[str] = deque(maxlen=TOLD_LINES)
        self.before: dict[int, JobView] = {}
        self.began = 0.0
        self.warming: subprocess.Popen[bytes] | None = None

    def start(self) -> Client:
        """Start `headway serve` on a free port, as a person would."""
        command = [
            sys.executable,
            "-c",
            SERVE,
            "serve",
            "--cluster",
            CLUSTER,
            "--policy",
            POLICY,
            "--port",
            "0",
            "--json",
        ]
        self.server = subprocess.Popen(
            [*command, "--data", str(self.folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        ready = _read_json(self.server)
        self.client = Client(ready["url"], data=self.folder)
        # The replay at the end needs the simulator: on a fresh machine it compiles meanwhile, out of the jobs' way.
        self.warming = subprocess.Popen([sys.executable, "-c", WARM])
        return self.client

    @property
    def pid(self) -> int:
        """The manager's process."""
        return self.server.pid if self.server else 0

    def run(self) -> list[JobView]:
        """Submit over half a minute, and watch until all have ended."""
        client = self.client or self.start()
        waiting = list(JOBS)
        self.began = time.monotonic()
        jobs: list[JobView] = []
        live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        with live or contextlib.nullcontext():
            while waiting or any(job.state not in ENDED for job in jobs):
                elapsed_s = time.monotonic() - self.began
                while waiting and waiting[0].at_s <= elapsed_s:
                    client.submit_spec(waiting.pop(0).spec(self.folder))
                jobs = client.jobs()
                self._tell(jobs, elapsed_s)
                if live is not None:
                    live.update(self._screen(client, jobs), refresh=True)
                if elapsed_s > MOST_S:
                    raise HeadwayError(f"the jobs have not ended after {MOST_S:g} s: the machine is too busy for this")
                time.sleep(LOOK_EVERY_S)
        return jobs

    def warm(self) -> None:
        """Wait until the simulator is compiled."""
        if self.warming is not None:
            self.warming.wait()

    def stop(self, keep: bool) -> None:
        """Stop the manager and leave nothing behind, unless it is to be kept."""
        if self.warming is not None:
            self.warming.terminate()
            self.warming.wait()
        if self.server is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        if keep and self.server.poll() is None:
            return
        if self.client is not None:
            _cancel_rest(self.client)
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, jobs: list[JobView], elapsed_s: float) -> None:
        """Turn changes since the last look into sentences."""
        for job in jobs:
            old = self.before.get(job.job_id)
            line = _sentence(old, job)
            if line:
                self.told.append(f"{elapsed_s:5.1f}s  {line}")
                if not self.console.is_terminal:
                    self.console.print(self.told[-1])
            self.before[job.job_id] = job

    def _screen(self, client: Client, jobs: list[JobView]) -> RenderableType:
        lines = [Text(line, style="dim") for line in self.told]
        lines += [Text("")] * (TOLD_LINES - len(lines))
        head = header(client.status(), client.nodes())
        return Group(head, jobs_table(jobs, time.time()), Text(""), *lines)


def _sentence(old: JobView | None, job: JobView) -> str:
    if old is None:
        return f"{job.name} submitted: {job.gpus} GPU{'s' if job.gpus > 1 else ''}"
    if old.state == job.state:
        return ""
    if job.state == "STOPPING":
        return f"{job.name} makes room after {span(job.service_gpu_s)} of GPU time, saving its state"
    if job.state == "RUNNING":
        return f"{job.name} {'resumes from its checkpoint' if job.attempt > 1 else 'runs'} on {', '.join(dict.fromkeys(job.nodes))}"
    if job.state in ENDED:
        return f"{job.name} {job.state} after {span((job.ended_at or job.submitted_at) - job.submitted_at)}"
    return ""


def _read_json(server: subprocess.Popen[str]) -> dict[str, Any]:
    """What `serve --json` says when it is ready."""
    text = ""
    for line in server.stdout or ():
        text += line
        try:
            ready: dict[str, Any] = json.loads(text)
            return ready
        except ValueError:
            continue
    raise HeadwayError(f"the manager did not start: exit code {server.wait(START_WITHIN_S)}")


def _cancel_rest(client: Client) -> None:
    try:
        for job in client.jobs():
            if job.state not in ENDED:
                client.cancel(job.job_id)
                client.wait(job.job_id, STOP_WITHIN_S)
    except (HeadwayError, TimeoutError):
        return


def summary(jobs: list[JobView], replayed: "Replay") -> RenderableType:
    """Each job's completion time, and the mean beside what FIFO would have given."""
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
    gain = fifo.mean_s / replayed.measured.mean_s
    words = Text("\naverage completion time\n", style="bold")
    rows = (
        (replayed.measured.mean_s, f"measured, under {own.name}"),
        (fifo.mean_s, f"FIFO, by replay of the same jobs: {gain:.1f} times as long"),
        (
            own.mean_s,
            f"{own.name}, by replay: {own.mean_s / replayed.measured.mean_s - 1:+.1%}, the error of the replay",
        ),
    )
    for mean_s, label in rows:
        words.append(f"  {mean_s:6.1f} s  {label}\n", style="not bold")
    return Group(table, words)
