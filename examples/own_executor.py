"""A complete executor: the ranks of an attempt are children of a supervisor (own_supervisor.py), which outlives the manager.

The folder of an attempt holds its whole state, so that the next manager can adopt it. Files, beside those of every executor:
    launch.json   the ranks; the supervisor and its ranks keep it locked while one of them runs
    pid           the process group of the supervisor and its ranks     up    all ranks were started
    stop          the manager asked the attempt to stop                 end   the exit code, and a message

On the command line:   headway serve --cluster 1x4 --executor own_executor:PlainExecutor
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.live.executors import ENDED, PROGRESSED, STARTED, Capabilities, Executor, Launch, Report, stray
from headway.live.executors.common.environment import free_port, rank_environment, user_environment
from headway.live.executors.common.folders import (
    LAUNCH,
    alive,
    attempts_in,
    journal_of,
    locked_launch,
    make_folder,
    set_aside,
)
from headway.live.executors.common.progress import read_progress

LOOK_S = 0.05
SUPERVISOR = Path(__file__).with_name("own_supervisor.py")


@dataclass
class Watched:
    """An attempt that has not ended."""

    folder: Path
    started: bool = False  # STARTED was reported
    signal_name: str = ""  # to be sent; empty: none, or it was sent
    kill_at: float = float("inf")
    progress_ns: int = 0  # time of the last change of its progress report

    def send(self, number: int) -> None:
        """Signal the supervisor and all ranks, if they run."""
        if alive(self.folder):  # otherwise the number of the group may belong to other processes
            with contextlib.suppress(OSError, ValueError):
                os.killpg(int((self.folder / "pid").read_text()), number)


class PlainExecutor(Executor):
    """Runs the ranks of an attempt as processes of the manager's own account; the base class refuses other users."""

    capabilities = Capabilities(numbers_gpus=True)  # no limits, no prolog or epilog, no copies of logs, no cap on logs

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._watched: dict[tuple[int, int], Watched] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def open(self, wake: Callable[[], None]) -> None:
        """Begin to watch."""
        super().open(wake)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; supervisors and ranks go on."""
        self._closing.set()
        self._thread.join()

    def start(self, launch: Launch) -> None:
        """Start the supervisor of an attempt. If an earlier manager started the attempt, adopt it."""
        key, folder = (launch.job, launch.attempt), self.folder(launch.job, launch.attempt)
        if journal_of(folder) == launch.journal:
            self.adopt(*key)
            return
        if journal_of(folder) is not None:  # of a lost journal, which used the same number
            Watched(folder).send(signal.SIGKILL)
            set_aside(folder)
        make_folder(folder, launch.files)
        user, port = user_environment(None), free_port()
        environments = [
            user | rank_environment(launch, rank, str(folder), "127.0.0.1", port) for rank in range(launch.spec.ranks)
        ]
        content = {"journal": launch.journal, "argv": launch.spec.argv, "environments": environments}
        content["workdir"] = launch.spec.workdir or user["HOME"]
        with locked_launch(folder, content) as handle:
            command = ["setsid", "--fork", sys.executable, "-I", "-S", str(SUPERVISOR), str(folder), str(handle)]
            subprocess.run(command, check=False, pass_fds=[handle], stdin=subprocess.DEVNULL, env={})
        self._watched[key] = Watched(folder)

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Save the request. The thread signals the ranks, and kills them after the grace; of two stops the shorter grace counts."""
        if watched := self._watched.get((job, attempt)):
            if watched.kill_at == float("inf"):  # the first request
                watched.signal_name = signal_name
            (watched.folder / "stop").touch()
            watched.kill_at = min(watched.kill_at, time.monotonic() + grace_s)

    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt of an earlier manager; without its file it was never started."""
        folder = self.folder(job, attempt)
        if (folder / LAUNCH).exists() and not self.is_foreign(job, attempt):
            self._watched.setdefault((job, attempt), Watched(folder))
        else:
            self.tell(Report(ENDED, job, attempt, lost=True, never_ran=True, message="it was not started"))

    def strays(self) -> list[str]:
        """Return a line for each attempt of a lost journal that still runs."""
        others = [
            (job, folder) for job, attempt, folder in attempts_in(self.runs) if (job, attempt) not in self._watched
        ]
        running = [(job, folder) for job, folder in others if alive(folder)]
        return [stray(job, f"kill -9 -- -{(folder / 'pid').read_text()}") for job, folder in running]

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            for key, watched in list(self._watched.items()):
                with contextlib.suppress(OSError):  # no memory, no descriptors: at the next look
                    self._look(key, watched)

    def _look(self, key: tuple[int, int], watched: Watched) -> None:
        """Report what is new in the folder of an attempt, and carry out its stop."""
        runs, up = alive(watched.folder), (watched.folder / "up").exists()
        if up and not watched.started:
            watched.started = True
            self.tell(Report(STARTED, *key))
        progress, watched.progress_ns = read_progress(watched.folder / "own/report.json", watched.progress_ns)
        if progress:
            self.tell(Report(PROGRESSED, *key, progress=progress))
        if not runs:
            del self._watched[key]
            self.tell(self._end(key, watched.folder))
        elif time.monotonic() >= watched.kill_at:
            watched.send(signal.SIGKILL)
        elif up and watched.signal_name:
            watched.send(signal.Signals[watched.signal_name])
            watched.signal_name = ""

    def _end(self, key: tuple[int, int], folder: Path) -> Report:
        """Return the end of an attempt, none of whose processes runs."""
        stopped = (folder / "stop").exists()
        with contextlib.suppress(OSError):
            code, _, message = (folder / "end").read_text().partition(" ")
            return Report(ENDED, *key, exit_code=int(code), signalled=stopped, message=message)
        if stopped:
            return Report(ENDED, *key, exit_code=137, signalled=True)
        never_ran = not (folder / "pid").exists()  # the supervisor writes it before it starts a rank
        return Report(ENDED, *key, lost=True, never_ran=never_ran, message="its processes are gone")
