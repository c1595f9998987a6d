"""The process executor: the nodes of this machine. Each attempt has a folder and a shim (shim.py) that outlives the manager.

The manager locks an attempt's launch.json, and the shim inherits the lock until its own end. While the lock is held, the attempt is alive.
When it is free, the attempt has ended (exit.json says how) or was lost, and none of its ranks will start later. A lost attempt and its lock
are handed to a new shim, which runs the epilog and writes exit.json: then the attempt has ended.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.errors import BadInput
from headway.findings import Finding
from headway.live.executors import (
    ENDED,
    PROGRESSED,
    STARTED,
    Capabilities,
    Discovery,
    Executor,
    Launch,
    Report,
    start_failed,
)
from headway.live.executors.common.account import account_of
from headway.live.executors.common.environment import free_port, hook_environment, user_environment
from headway.live.executors.common.folders import (
    LAUNCH,
    alive,
    journal_of,
    lock,
    locked_launch,
    make_folder,
    set_aside,
    write_notice,
)
from headway.live.executors.common.progress import read_progress
from headway.live.executors.common.whole_files import flush_folder, read, write
from headway.live.executors.process.attempts import group_name, last_sign, signal_shim, strays, when
from headway.live.executors.process.cgroups import CPUS, DEVICES, MEMORY, PROCESSES, Cgroups, NoCgroups
from headway.live.executors.process.cgroups.find import find_cgroups
from headway.live.executors.process.checks import checks
from headway.live.executors.process.gpus import gpu_count, limits_of, renumber, this_machine
from headway.live.executors.process.log_files import LOG_CAP_BYTES
from headway.live.executors.process.render import render
from headway.live.executors.process.shim import LOST
from headway.live.executors.process.system import stamp

SHIM = Path(__file__).with_name("shim.py")
HOOK_TIMEOUT_S = 60.0  # a prolog or an epilog that takes longer is killed, and counts as failed
POLL_S = 0.5  # between two checks of all attempts
KNOWN_LOGS = 2048  # attempts whose paths of logs are cached
# Fields that exit.json and a report have in common.
EXIT_FIELDS = ("exit_code", "signalled", "lost", "never_ran", "refused", "message", "trouble")
FOREIGN = "its run folder belongs to another journal"


@dataclass(slots=True)
class _Watched:
    """An attempt that has not ended."""

    folder: Path
    started: bool = False  # STARTED was reported
    stop: tuple[str, float] | None = None  # signal and grace of a request that is not delivered yet
    notice: tuple[float | None] | None = None  # a notice to write, or (None,) to remove it
    progress_ns: int = 0  # when the job's progress report changed last
    adopting: bool = False  # it was started by an earlier manager, and is checked for the first time
    next_launch: Launch | None = None  # starts when the attempt of a lost journal in this folder has ended


class ProcessExecutor(Executor):
    """Runs attempts as processes of this machine."""

    # `enforced` is known after `open`, which looks for control groups.
    capabilities = Capabilities(copies_output=True, numbers_gpus=True, log_cap=True, hooks=True, process_limit=True)

    def __init__(self, data: Path, poll_s: float = POLL_S) -> None:
        super().__init__(data)
        self.fifo, self.poll_s = self.data / "notify", poll_s
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._starter: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._ports: dict[tuple[int, int], int] = {}
        self._emptied: set[str] = set()  # control groups to remove
        self._logs: dict[tuple[int, int], list[Path]] = {}  # cache of `logs`
        self.cgroups: Cgroups = NoCgroups("the manager has not started")
        self.log_cap_bytes = LOG_CAP_BYTES

    # ---- the hooks

    def warnings(self) -> list[str]:
        """Return one line that names the limits that are not enforced here; none if all are."""
        enforced = self.cgroups.enforced
        limits = [f"{name} of jobs" for name in (MEMORY, CPUS, PROCESSES) if name not in enforced]
        if DEVICES not in enforced and gpu_count():
            limits.append("GPUs of a job (beyond CUDA_VISIBLE_DEVICES)")
        return [f"not enforced: {', '.join(limits)}; {self.cgroups.about}"] if limits else []

    def checks(self) -> list[Finding]:
        """Return which limits are enforced on this machine, and its GPUs."""
        return list(checks(self.data))

    def cap_logs(self, most_bytes: int) -> None:
        """Keep at most this much of each log of attempts that start from now on."""
        self.log_cap_bytes = most_bytes

    def discover(self) -> Discovery:
        """Return this machine as one node."""
        return this_machine()

    def check_user(self, user: str) -> None:
        """Refuse a user without an account on this machine, if the manager runs as root."""
        account_of(user)

    def open(self, wake: Callable[[], None]) -> None:
        """Create the FIFO and the control groups; start the starter, and the thread that watches attempts."""
        super().open(wake)
        if not self.fifo.exists():
            os.mkfifo(self.fifo, 0o600)
        self.cgroups = find_cgroups(self.data)
        self.capabilities = replace(self.capabilities, enforced=self.cgroups.enforced)
        self.cgroups.tidy(self._in_use)
        # Opened to read and write: otherwise the FIFO would be at its end whenever no shim has it open.
        self._fifo_handle = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._start_starter()
        self._thread = threading.Thread(target=self._listen, name="executor", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> None:
        """Write the ranks to the folder of the attempt, then start its shim, which inherits the lock."""
        key = (launch.job, launch.attempt)
        with self._lock:
            folder = self.folder(*key)
            if key in self._watched or journal_of(folder) == launch.journal:
                self.adopt(*key)
                return
            if (folder / LAUNCH).exists():  # the number was used under a journal that is lost
                signal_shim(folder, signal.SIGKILL)
                self._watched[key] = _Watched(folder, next_launch=launch)
                self._check(key)
            else:
                self._begin(launch)

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Write the request into the attempt's folder, then signal its shim."""
        with self._lock:
            watched = self._watched.get((job, attempt))
            if watched is None:
                return
            watched.stop = (signal_name, grace_s)
            self._deliver(watched)

    def notify(self, job: int, attempt: int, until: float | None) -> None:
        """Write the notice into the attempt's folder, or remove it."""
        with self._lock:
            watched = self._watched.get((job, attempt))
            if watched is not None:
                watched.notice = (until,)
                self._write_notice(watched)

    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt that an earlier manager started, by its files."""
        with self._lock:
            if self.is_foreign(job, attempt):
                self.tell(Report(ENDED, job, attempt, lost=True, message=FOREIGN))
                return
            watched = self._watched.setdefault((job, attempt), _Watched(self.folder(job, attempt), adopting=True))
            self._check((job, attempt))
            watched.adopting = False

    def strays(self) -> list[str]:
        """Return the attempts that run and were not adopted, one line each for the operator."""
        return strays(self.runs, self._watched)

    def logs(self, job: int, attempt: int) -> list[Path]:
        """Return the logs of all ranks, in order; some may not exist yet."""
        folder = self.folder(job, attempt)
        if (job, attempt) not in self._logs and (content := read(str(folder), LAUNCH)):
            if len(self._logs) >= KNOWN_LOGS:
                self._logs.pop(next(iter(self._logs)), None)
            self._logs[(job, attempt)] = [folder / rank["log"] for rank in content["ranks"]]
        return self._logs.get((job, attempt), [])

    def close(self) -> None:
        """Stop watching; the shims go on."""
        self._closing = True
        if self._thread:
            os.write(self._fifo_handle, b"\n")
            self._thread.join()
            os.close(self._fifo_handle)
            self.cgroups.close(self._in_use)
        if self._starter:
            self._starter_socket.close()
            self._starter.wait()

    def _in_use(self, group: str) -> bool:
        """Return whether a control group belongs to an attempt that has not ended."""
        return alive(self.runs.joinpath(*group.split("-")))

    # ---- starting and stopping

    def _begin(self, launch: Launch) -> None:
        """Start an attempt in a folder of its own; BadInput or OSError if it cannot be started."""
        key = (launch.job, launch.attempt)
        try:
            self._spawn(launch, self.folder(*key))
        except (BadInput, OSError):
            raise
        except Exception as error:  # whatever a job asks for, it must not stop the manager
            raise BadInput(f"cannot start: {type(error).__name__}: {error}") from error
        self._watched[key] = _Watched(self.folder(*key))

    def _spawn(self, launch: Launch, folder: Path) -> None:
        """Write the folder of an attempt, lock its launch.json, and hand both to the starter."""
        make_folder(folder, launch.files, 0o711)
        content = self._launch_content(launch, folder)
        limits = limits_of(launch)
        content["cgroup"] = self.cgroups.make(group_name(launch.job, launch.attempt), limits)
        if limits.denied and DEVICES in self.cgroups.enforced:
            renumber(content["ranks"], launch.gpus)
        if content["uid"] is not None:
            os.chown(folder / "own", content["uid"], content["gid"])
        with locked_launch(folder, content) as handle:
            if content["hooks"]:  # the epilog must also run after a loss of power
                os.fsync(handle)
                flush_folder(str(folder))
            self._hand_to_starter(folder, handle)

    def _recover(self, watched: _Watched) -> dict[str, Any] | None:
        """Hand an attempt whose shim is gone to a new shim, which ends it. Return its end if no shim had begun, else None."""
        if not (watched.folder / LAUNCH).exists():
            return {"lost": True, "never_ran": True, "message": LOST}
        with contextlib.suppress(
            OSError
        ):  # no disk space, no memory, or another shim has it: the next check repeats this
            if not (watched.folder / "lost.json").exists():
                at = last_sign(watched.folder) if watched.adopting else stamp()
                write(str(watched.folder), "lost.json", {"at": at})
            handle = lock(watched.folder)
            try:
                self._hand_to_starter(watched.folder, handle)
            finally:
                os.close(handle)
        return None

    def _replace(self, launch: Launch) -> None:
        """Rename the folder of an ended attempt of a lost journal, and start the attempt with the same number."""
        key = (launch.job, launch.attempt)
        before = self._watched.pop(key)
        set_aside(before.folder)
        try:
            self._begin(launch)
        except (BadInput, OSError) as error:
            self.tell(start_failed(launch, error))
        if key in self._watched:
            self._watched[key].stop, self._watched[key].notice = before.stop, before.notice

    def _hand_to_starter(self, folder: Path, handle: int) -> None:
        """Send an attempt and its lock to the starter. Replace a starter that has died."""
        for _ in range(2):
            if self._starter is None or self._starter.poll() is not None:
                self._start_starter()
            try:
                socket.send_fds(self._starter_socket, [str(folder).encode()], [handle])
                return
            except OSError:
                self._starter = None
        raise OSError("the starter of processes does not answer")

    def _start_starter(self) -> None:
        self._starter_socket, standard_input = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with standard_input:
            self._starter = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SHIM), str(self.fifo)],
                stdin=standard_input.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def _launch_content(self, launch: Launch, folder: Path) -> dict[str, Any]:
        """Return the content of launch.json, but for the control groups."""
        account = account_of(launch.user)
        base = user_environment(account)
        content = render(launch, str(folder), self._port((launch.job, launch.attempt)), base)
        content["cwd"] = launch.spec.workdir or base["HOME"]
        content["journal"] = launch.journal
        content["log_cap_bytes"] = self.log_cap_bytes
        hooks = {"prolog": launch.prolog, "epilog": launch.epilog}
        rest = {"timeout_s": HOOK_TIMEOUT_S, "env": hook_environment(launch, str(folder))}
        content["hooks"] = {**hooks, **rest} if any(hooks.values()) else {}
        content["uid"], content["gid"] = (account.pw_uid, account.pw_gid) if account else (None, None)
        content["groups"] = os.getgrouplist(account.pw_name, account.pw_gid) if account else []
        return content

    def _port(self, key: tuple[int, int]) -> int:
        """Return a free port, and keep it for an attempt until its end."""
        while True:
            port = free_port()
            with self._lock:
                if port not in self._ports.values():
                    self._ports[key] = port
                    return port

    def _deliver(self, watched: _Watched) -> None:
        """Deliver a stop request, if there is one, to the shim. If the shim is not there yet, the next check repeats this."""
        if watched.stop is None or watched.next_launch is not None:
            return
        name, grace_s = watched.stop
        try:
            write(str(watched.folder), "stop.json", {"signal": name, "grace_s": grace_s})
            os.chmod(watched.folder / "stop.json", 0o644)  # the job reads it too (headway.runtime.should_stop)
        except OSError:
            return  # no disk space: the next check repeats this
        if signal_shim(watched.folder, signal.SIGTERM):
            watched.stop = None

    def _write_notice(self, watched: _Watched) -> None:
        """Write or remove the notice of an attempt, if that is not done yet. Without disk space, the next check repeats this."""
        if watched.notice is not None and watched.next_launch is None:
            with contextlib.suppress(OSError):
                write_notice(watched.folder, *watched.notice)
                watched.notice = None

    # ---- watching

    def _listen(self) -> None:
        """Check the attempts whose shims write to the FIFO, and all attempts every `poll_s` seconds."""
        poll_at = time.monotonic() + self.poll_s
        while not self._closing:
            ready, _, _ = select.select([self._fifo_handle], [], [], max(0.0, poll_at - time.monotonic()))
            changed: set[tuple[int, int]] = set()
            if ready:
                with contextlib.suppress(OSError):
                    for line in os.read(self._fifo_handle, 65536).decode(errors="replace").splitlines():
                        words = line.split()
                        if len(words) == 3 and words[0].isdigit() and words[1].isdigit():
                            changed.add((int(words[0]), int(words[1])))
            if time.monotonic() >= poll_at:
                changed |= set(self._watched)
                poll_at = time.monotonic() + self.poll_s
            for key in changed:
                with self._lock, contextlib.suppress(OSError):  # no descriptors or memory: the next check repeats this
                    self._check(key)
            with self._lock:
                self._emptied = {name for name in self._emptied if not self.cgroups.remove(name)}

    def _check(self, key: tuple[int, int]) -> None:
        """Read the files of an attempt, and report its start, its progress and its end."""
        watched = self._watched.get(key)
        if watched is None:
            return
        self._deliver(watched)
        self._write_notice(watched)
        folder = str(watched.folder)
        ended = read(folder, "exit.json")
        if ended is None and not alive(watched.folder):
            ended = read(folder, "exit.json") or self._recover(watched)  # it may have ended meanwhile
        if watched.next_launch is not None:
            if ended is not None:
                self._replace(watched.next_launch)
            return
        ranks = read(folder, "ranks.json")
        if ranks and not watched.started:
            watched.started = True
            self.tell(Report(STARTED, *key, at=when(ranks)))
        progress, watched.progress_ns = read_progress(watched.folder / "own" / "report.json", watched.progress_ns)
        if ended is None:
            if progress:
                self.tell(Report(PROGRESSED, *key, progress=progress))
            return
        del self._watched[key]
        self._ports.pop(key, None)
        self._emptied.add(group_name(*key))
        fields = {name: ended[name] for name in EXIT_FIELDS if name in ended}
        self.tell(Report(ENDED, *key, progress=progress, at=when(ended), **fields))
