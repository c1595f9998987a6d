"""A complete executor: one shell script per attempt on this machine. Scripts outlive the manager; the next one adopts them.

All that is known of an attempt is in its folder, so that any manager can go on with it:
    script   what was started                           lock   held by every process of the attempt while it runs
    pid      the process group of the script            up     all ranks were started
    stop     the attempt was asked to stop              code   exit code of the rank that failed first, or 0
    own/     for the job: report.json is its progress   N.log  the output of rank N

On the command line:   headway serve --cluster 1x4 --executor own_executor:PlainExecutor
"""

import contextlib
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.io.accounts import own_account
from headway.live.executors import ENDED, PROGRESSED, STARTED, Capabilities, Executor, Launch, Report
from headway.live.executors.common.environment import environment_of, job_environment, rank_environment
from headway.live.executors.common.notices import write_notice
from headway.live.executors.common.progress import read_progress

LOOK_S = 0.05
SIGNALS = "HUP INT QUIT USR1 USR2 TERM"
SCRIPT = """trap : {signals}  # they are for the ranks
echo $$ >{folder}/pid
cd {workdir} 2>/dev/null || {{ echo "cannot enter "{workdir} >{folder}/message; echo 127 >{folder}/code; exit; }}
{ranks}
: >{folder}/up
until wait; do :; done  # a signal interrupts `wait`
[ -e {folder}/code ] || echo 0 >{folder}/code
kill -KILL 0  # also what the ranks left behind
"""
RANK = """(trap : {signals}  # a subshell forgets the traps of its parent
{exports}
{command}
code=$?  # the first rank that fails ends the others, unless all were asked to stop
if [ $code != 0 ] && (set -C; echo $code >{folder}/code) 2>/dev/null && [ ! -e {folder}/stop ]; then
  until [ -e {folder}/up ]; do :; done; kill -KILL 0
fi
) >{folder}/{rank}.log 2>&1 </dev/null &"""


def render(launch: Launch, folder: Path, port: int) -> str:
    """Return the script of an attempt. Pure, so that it can be tested."""
    place, ranks = shlex.quote(str(folder)), []
    for rank in range(launch.spec.ranks):
        variables = environment_of(None, os.environ) | launch.spec.envs | job_environment(launch, str(folder))
        variables |= rank_environment(launch, rank, "127.0.0.1", port)
        exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
        command = shlex.join(launch.spec.argv)
        ranks.append(RANK.format(signals=SIGNALS, exports=exports, command=command, folder=place, rank=rank))
    workdir = shlex.quote(launch.spec.workdir or own_account()[0])
    return SCRIPT.format(signals=SIGNALS, folder=place, workdir=workdir, ranks="\n".join(ranks))


@dataclass
class Attempt:
    """An attempt that is watched."""

    folder: Path
    started: bool = False  # STARTED was reported
    signal: str = ""  # to be sent; empty: nothing, or it was sent
    kill_at: float = float("inf")
    reported: int = 0  # when its progress changed last

    def says(self, name: str) -> str:
        """Return the text of one of its files; empty if there is none."""
        with contextlib.suppress(OSError):
            return (self.folder / name).read_text().strip()
        return ""

    def alive(self) -> bool:
        """Return whether any process of the attempt runs."""
        with open(self.folder / "lock", "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def send(self, number: int) -> None:
        """Signal all its processes."""
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.killpg(int(self.says("pid")), number)


class PlainExecutor(Executor):
    """Runs the ranks of an attempt as processes of the manager's own account; the base class refuses other users."""

    capabilities = Capabilities(numbers_gpus=True)  # no limits, no hooks, no copies of logs, no cap on logs

    def __init__(self, data: Path) -> None:
        self.runs = data.resolve() / "runs"
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._reports: deque[Report] = deque()  # appending and popping are safe between threads
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def open(self, wake: Callable[[], None]) -> None:
        """Begin to watch."""
        self.runs.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._wake = wake
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the scripts go on."""
        self._closing.set()
        self._thread.join()

    def start(self, launch: Launch) -> None:
        """Start the script of an attempt; one that was started before, perhaps by an earlier manager, is adopted."""
        key, folder = (launch.job, launch.attempt), self._folder(launch.journal, launch.job, launch.attempt)
        if folder.exists():
            self.adopt(*key)
            return
        try:
            (folder / "own").mkdir(parents=True)
            for name, text in {**launch.files, "script": render(launch, folder, free_port())}.items():
                (folder / name).write_text(text)
            with open(folder / "lock", "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # the script and its ranks inherit it
                command = ["setsid", "--fork", "/bin/sh", str(folder / "script")]
                subprocess.run(command, check=True, pass_fds=[lock.fileno()], stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:  # tried again later
            self._tell(Report(ENDED, *key, lost=True, never_ran=True, refused=True, message=f"cannot start: {error}"))
            return
        self._attempts[key] = Attempt(folder)

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Note the request; the thread signals the ranks, and kills them after the grace. The shortest grace counts."""
        watched = self._attempts.get((job, attempt))
        if watched is None:
            return
        if not (watched.folder / "stop").exists():
            watched.signal = signal_name
        (watched.folder / "stop").touch()
        watched.kill_at = min(watched.kill_at, time.monotonic() + grace_s)

    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt of any journal that belongs to this manager; without a lock it was never started."""
        for journal in reversed(self.journals or ("",)):
            folder = self._folder(journal, job, attempt)
            if (folder / "lock").exists():
                self._attempts.setdefault((job, attempt), Attempt(folder))
                return
        self._tell(Report(ENDED, job, attempt, lost=True, never_ran=True, message="it was not started"))

    def notify(self, job: int, attempt: int, until: float | None) -> None:
        """Write when the GPUs are taken back to where the job reads it."""
        if watched := self._attempts.get((job, attempt)):
            write_notice(watched.folder, until)

    def reports(self) -> list[Report]:
        """Return what happened since the last call."""
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def logs(self, job: int, attempt: int) -> list[Path]:
        """Return the logs in the order of ranks."""
        folders = [self._folder(journal, job, attempt) for journal in reversed(self.journals or ("",))]
        logs = next((list(folder.glob("*.log")) for folder in folders if folder.exists()), [])
        return sorted(logs, key=lambda path: int(path.stem))

    def _folder(self, journal: str, job: int, attempt: int) -> Path:
        """Return the folder of an attempt; a journal that was begun anew uses the same numbers again."""
        return self.runs / str(job) / str(attempt) / f"journal-{journal}"

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            for key, attempt in list(self._attempts.items()):
                with contextlib.suppress(OSError):  # no memory, no descriptors: at the next look
                    self._look(key, attempt)

    def _look(self, key: tuple[int, int], attempt: Attempt) -> None:
        """Report what is new of an attempt, and carry on with its stop."""
        alive, up = attempt.alive(), (attempt.folder / "up").exists()
        if up and not attempt.started:
            attempt.started = True
            self._tell(Report(STARTED, *key))
        progress, attempt.reported = read_progress(attempt.folder / "own/report.json", attempt.reported)
        if progress:
            self._tell(Report(PROGRESSED, *key, progress=progress))
        if alive:
            if attempt.signal and up:
                attempt.send(signal.Signals[attempt.signal])
                attempt.signal = ""
            if time.monotonic() >= attempt.kill_at:
                attempt.send(signal.SIGKILL)
            return
        stopped, code = (attempt.folder / "stop").exists(), attempt.says("code")
        if code or stopped:
            end = Report(ENDED, *key, exit_code=int(code or 137), signalled=stopped, message=attempt.says("message"))
        else:
            began = (attempt.folder / "pid").exists()  # written before the first rank is started
            end = Report(ENDED, *key, lost=True, never_ran=not began, message="its processes are gone")
        del self._attempts[key]
        self._tell(end)

    def _tell(self, report: Report) -> None:
        self._reports.append(report)
        self._wake()


def free_port() -> int:
    """Return a port that no process of this machine uses."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
