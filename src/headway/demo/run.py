"""A run of the demonstration: start a manager, submit the jobs, wait for them, and stop cleanly."""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headway.client.client import Client
from headway.client.folder import URL_FILE
from headway.client.job import JobView
from headway.demo.jobs import CLUSTER, JOBS, POLICY
from headway.errors import HeadwayError
from headway.job_state import FINAL_STATES
from headway.live.options import ServeOptions

STOP_WITHIN_S = 15.0
MOST_S = 150.0
LOOK_EVERY_S = 0.5
SERVE = "from headway.cli.main import main; main()"


class Demo:
    """One run of the demonstration."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headway-demo-"))
        self.server: subprocess.Popen[bytes] | None = None
        self.client: Client | None = None

    def start(self) -> Client:
        """Start `headway serve` on a free port, as a person would."""
        options = ServeOptions(cluster=CLUSTER, policy=POLICY, port=0, data=self.folder)
        command = [sys.executable, "-c", SERVE, "serve", *options.words]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        while not (self.folder / URL_FILE).exists():
            if self.server.poll() is not None:
                raise HeadwayError(f"the manager did not start: exit code {self.server.returncode}")
            time.sleep(LOOK_EVERY_S)
        self.client = Client(data=self.folder)
        return self.client

    def run(self, look: Callable[[list[JobView], float], None]) -> list[JobView]:
        """Submit over half a minute, and wait until all jobs have ended; `look(jobs, elapsed_s)` is called now and then."""
        client = self.client or self.start()
        waiting = list(JOBS)
        began = time.monotonic()
        jobs: list[JobView] = []
        while waiting or any(job.state not in FINAL_STATES for job in jobs):
            elapsed_s = time.monotonic() - began
            while waiting and waiting[0].at_s <= elapsed_s:
                client.submit_spec(waiting.pop(0).spec(self.folder))
            jobs = client.jobs()
            look(jobs, elapsed_s)
            if elapsed_s > MOST_S:
                raise HeadwayError(f"the jobs have not ended after {MOST_S:g} s: the machine is too busy for this")
            time.sleep(LOOK_EVERY_S)
        return jobs

    def stop(self, keep: bool) -> None:
        """Stop the manager and leave nothing behind, unless it is to be kept."""
        if self.server is not None:
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


def _cancel_rest(client: Client) -> None:
    with contextlib.suppress(HeadwayError, TimeoutError):
        for job in client.jobs():
            if job.state not in FINAL_STATES:
                client.cancel(job.job_id)
                client.wait(job.job_id, STOP_WITHIN_S)
