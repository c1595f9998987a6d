"""The shim: starts the ranks of one attempt, watches them, and writes how they ended. It outlives the manager.

One starter process (`python -I -S shim.py FIFO`) forks a shim for each attempt. The shim inherits the lock of the attempt: while the lock
is held, the attempt is alive, and no manager starts it again. Standard library only.

- The shim reads launch.json, and stop.json (signal and grace).
- It writes shim.json (pid, start time), ranks.json (pids, start times), outcome.json (how the ranks ended, before the epilog) and exit.json
  (the same after the epilog, flushed to disk). It also writes the logs (log_files.py).
- If a shim is killed, the manager writes lost.json and hands the attempt to a new shim. That kills the remaining processes, runs the
  epilog and writes exit.json.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any, NoReturn

if __name__ == "__main__":  # run by its path, without a package around it
    HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "common")]
    import log_files  # type: ignore[import-not-found]
    import system  # type: ignore[import-not-found]
    import whole_files  # type: ignore[import-not-found]
else:
    from headway.live.executors.common import whole_files
    from headway.live.executors.process import log_files, system

FAIL_GRACE_S = 5.0  # from the failure of one rank until the other ranks are killed
KILL_PAUSE_S, LONGEST_KILL_PAUSE_S = 0.01, 1.0  # a process in uninterruptible sleep may stay for hours
DISK_RETRY_S = 0.5
MOST_PATH = 4096
SET_CHILD_SUBREAPER, SET_PDEATHSIG = 36, 1  # linux/prctl.h
COMMAND_NOT_FOUND = 127  # as shells have it
LOST = "its supervising process was killed, or the machine went down"
OUT_OF_MEMORY = "a process of the job was killed: it used more memory than the job asks for (resources.memory)"
TAKEN_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)  # blocked, and taken by sigtimedwait


class Shim:
    """One attempt."""

    def __init__(self, folder: str, fifo: str) -> None:
        self.folder, self.fifo = folder, fifo
        self.launch = whole_files.read(folder, "launch.json") or {"ranks": []}
        self.label = f"{self.launch.get('job')} {self.launch.get('attempt')}"
        self.ranks: dict[int, int] = {}  # pid -> rank
        self.codes: dict[int, int] = {}  # rank -> exit code
        self.first_failed: int | None = None
        self.signalled = False
        self.pump: Any = None
        self.opened: set[str] = set()  # output files
        self.message = ""
        self.started: dict[str, Any] | None = None  # content of ranks.json until it is written
        self.deadline = float("inf")

    def run(self) -> None:
        """Run the prolog, the ranks and the epilog, then write exit.json; or end an attempt whose shim was killed."""
        own = {"pid": os.getpid(), "start": system.started_ticks(os.getpid())}
        lost = whole_files.read(self.folder, "lost.json")
        if lost is not None:
            with contextlib.suppress(OSError):  # a full disk: the epilog runs all the same
                whole_files.write(self.folder, "shim.json", own)
            self.recover(lost)
            return
        whole_files.write(self.folder, "shim.json", own)
        if whole_files.read(self.folder, "stop.json") is not None:
            self.signalled = True
            self.finish(self.outcome(never_ran=True))
            return
        why = self.hook("prolog")
        if why or whole_files.read(self.folder, "stop.json") is not None:
            self.signalled, self.message = not why, why
            ended = self.outcome(never_ran=True, refused=bool(why))
            self.finish({**ended, "trouble": self.hook("epilog")})
            return
        if self.start():
            self.started = {"pids": [[pid, system.started_ticks(pid)] for pid in self.ranks], "at": system.stamp()}
            self.watch()
        self.kill_all()
        ended = self.outcome()
        with contextlib.suppress(OSError):
            whole_files.write(self.folder, "outcome.json", ended)  # kept if this shim is killed during the epilog
        if self.pump is not None:
            self.pump.finish()
        self.finish({**ended, "trouble": self.hook("epilog")})

    def recover(self, lost: dict[str, Any]) -> None:
        """End an attempt whose shim was killed: kill its processes, run the epilog, and write the known part of its end."""
        groups, users = self.launch.get("cgroup", ()), {os.geteuid(), self.launch.get("uid")}
        pause_s, before = KILL_PAUSE_S, set[int]()
        while True:
            processes = system.members(groups) | system.marked(f"HEADWAY_RUN={self.folder}", users)
            processes = {pid for pid in processes if system.started_ticks(pid) is not None}
            if not processes:
                break
            system.kill_members(groups)
            kill(processes)
            pause_s = min(LONGEST_KILL_PAUSE_S, 2 * pause_s) if processes == before else KILL_PAUSE_S
            time.sleep(pause_s)
            before = processes
        never_ran = whole_files.read(self.folder, "ranks.json") is None
        unknown = {"lost": True, "never_ran": never_ran, "message": LOST, "at": lost.get("at")}
        ended = whole_files.read(self.folder, "outcome.json") or unknown
        self.finish({**ended, "trouble": self.hook("epilog")})

    def write_started(self) -> None:
        """Write ranks.json once the ranks run, and wake the manager; OSError if the disk is full."""
        if self.started is not None:
            whole_files.write(self.folder, "ranks.json", self.started)
            self.started = None
            self.tell("started")

    def tell(self, what: str) -> None:
        """Wake the manager, if one runs. It reads the files."""
        with contextlib.suppress(OSError):
            handle = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.write(handle, f"{self.label} {what}\n".encode())
            os.close(handle)

    # ---- starting

    def start(self) -> bool:
        """Fork all ranks; return whether all could execute their command."""
        errors_out, errors_in = os.pipe()  # closed on exec: only ranks that fail before write to it
        files = resource.getrlimit(resource.RLIMIT_NOFILE)  # the shim needs two files per rank; ranks keep this limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))
        pipes = []
        try:
            for number, rank in enumerate(self.launch["ranks"]):
                cap = self.launch.get("log_cap_bytes", log_files.LOG_CAP_BYTES)
                also = self.open_output(rank.get("output"))
                log = log_files.LogFile(os.path.join(self.folder, rank["log"]), cap, also)
                out, into = os.pipe()
                pipes.append((out, log))
                pid = os.fork()
                if pid == 0:
                    os.close(errors_out)
                    resource.setrlimit(resource.RLIMIT_NOFILE, files)
                    self.become(rank, into, errors_in)
                os.close(into)
                self.ranks[pid] = number
        except OSError as error:
            what = f"write its output to {error.filename}" if error.filename else "start all ranks"
            self.message = f"cannot {what}: {error.strerror or error}"
        os.close(errors_in)
        self.pump = log_files.Pump(pipes)
        self.pump.start()
        with open(errors_out, "rb") as file:
            self.message = self.message or file.read(1000).decode(errors="replace").partition("\n")[0]
        return not self.message

    def open_output(self, path: str | None) -> int | None:
        """Open the file for the copy of a rank's log, with the rights of the job's user."""
        if path is None:
            return None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        if path not in self.opened and self.launch.get("attempt") == 1:
            flags |= os.O_TRUNC
        self.opened.add(path)
        if self.launch.get("uid") is None:
            return os.open(path, flags, 0o666)
        before, group = os.getgroups(), os.getegid()
        try:
            os.setgroups(self.launch["groups"])
            os.setegid(self.launch["gid"])
            os.seteuid(self.launch["uid"])
            return os.open(path, flags, 0o666)
        finally:
            os.seteuid(0)
            os.setegid(group)
            os.setgroups(before)

    def hook(self, name: str) -> str:
        """Run the prolog or the epilog with the manager's rights; return what went wrong, or ""."""
        hooks = self.launch.get("hooks", {})
        path = hooks.get(name)
        if not path:
            return ""
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                with contextlib.suppress(OSError):  # a full disk: it runs without a log
                    log_path = os.path.join(self.folder, f"{name}.log")
                    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                    os.dup2(log, 1)
                    os.dup2(log, 2)
                system.prctl(SET_PDEATHSIG, signal.SIGKILL)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                os.execve(path, [path], hooks["env"])
            finally:
                os._exit(COMMAND_NOT_FOUND)
        end = time.monotonic() + hooks["timeout_s"]
        ended, status = os.waitpid(pid, os.WNOHANG)
        while not ended and time.monotonic() < end:
            signal.sigtimedwait(TAKEN_SIGNALS, max(0.0, min(1.0, end - time.monotonic())))
            if name == "prolog" and whole_files.read(self.folder, "stop.json") is not None:
                break  # the job is to stop; a SIGTERM without this file does not come from the manager
            ended, status = os.waitpid(pid, os.WNOHANG)
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # also the processes that it left
        if not ended:
            os.waitpid(pid, 0)
            over = time.monotonic() >= end
            return f"the {name} took longer than {hooks['timeout_s']:g} s" if over else ""
        code = os.waitstatus_to_exitcode(status)
        return f"the {name} {path} failed with exit code {code}" if code else ""

    def become(self, rank: dict[str, Any], log: int, errors: int) -> NoReturn:
        """Turn this forked process into a rank: set its session, group, user, folder and log, then execute its command."""
        step = "start"
        try:
            os.setsid()
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            step = "enter its control group"
            for folder in self.launch.get("cgroup", ()):
                with open(os.path.join(folder, "cgroup.procs"), "w") as file:
                    file.write("0")
            if self.launch.get("uid") is not None:
                step = "become the submitting user"
                os.fchown(log, self.launch["uid"], self.launch["gid"])  # so that the job can open /dev/stderr
                os.setgroups(self.launch["groups"])
                os.setgid(self.launch["gid"])
                os.setuid(self.launch["uid"])
            step = f"enter the folder {self.launch['cwd']}"
            os.chdir(self.launch["cwd"])
            system.prctl(SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            step = f"run {rank['argv'][0]}"
            os.execvpe(rank["argv"][0], rank["argv"], rank["env"])
        except BaseException as error:
            text = f"cannot {step}: {getattr(error, 'strerror', None) or error}\n"
            os.write(errors, text.encode(errors="replace"))
        os._exit(COMMAND_NOT_FOUND)

    # ---- watching

    def watch(self) -> None:
        """Wait until all ranks have ended, or their grace is over. If they were asked to stop, wait for their children too."""
        while True:
            with contextlib.suppress(OSError):
                self.write_started()
            any_left = self.reap()
            # After a stop request, a rank may end before a child that still saves.
            if not any_left or (len(self.codes) == len(self.ranks) and not self.signalled):
                return
            seconds = self.deadline - time.monotonic()
            if seconds <= 0:
                return
            received = signal.sigtimedwait(
                TAKEN_SIGNALS, min(seconds, 3600.0 if self.started is None else DISK_RETRY_S)
            )
            if received is not None and received.si_signo == signal.SIGTERM:
                self.stop()

    def reap(self) -> bool:
        """Collect the processes that ended; return False if no process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            rank = self.ranks.get(pid)
            if rank is None:
                continue  # an orphan of a rank
            code = os.waitstatus_to_exitcode(status)
            self.codes[rank] = code if code >= 0 else 128 - code
            if code != 0 and self.first_failed is None:
                self.first_failed = rank
                if not self.signalled:
                    self.send(signal.SIGTERM, FAIL_GRACE_S)

    def stop(self) -> None:
        """Obey stop.json: signal the process group of every rank, and set the end of the grace."""
        request = whole_files.read(self.folder, "stop.json")
        if request is None or len(self.codes) == len(self.ranks):
            return
        self.signalled = True
        self.send(signal.Signals[request["signal"]], float(request["grace_s"]))

    def send(self, number: int, grace_s: float) -> None:
        """Signal the process groups of the ranks that have not ended, and set the time at which they are killed."""
        for pid, rank in self.ranks.items():
            if rank not in self.codes:
                with contextlib.suppress(OSError):
                    os.killpg(pid, number)
        self.deadline = min(self.deadline, time.monotonic() + grace_s)

    # ---- ending

    def kill_all(self) -> None:
        """Kill all processes that the ranks started. Orphans become children of the shim; control groups have all of them."""
        groups = self.launch.get("cgroup", ())
        while self.reap() or system.members(groups):
            system.kill_members(groups)
            kill(system.descendants(os.getpid()))
            signal.sigtimedwait(TAKEN_SIGNALS, KILL_PAUSE_S)

    def outcome(self, never_ran: bool = False, refused: bool = False) -> dict[str, Any]:
        """Return how the attempt ended, as the manager reads it."""
        code = 0 if self.first_failed is None else self.codes[self.first_failed]
        if self.message:
            code = COMMAND_NOT_FOUND
        groups = self.launch.get("cgroup", ())
        limit = OUT_OF_MEMORY if system.out_of_memory(groups) else ""
        if not limit and (most := system.refused_processes(groups)):
            limit = f"the job reached its limit of {most} processes and threads (headway serve --max-processes)"
        return {
            "exit_code": None if never_ran else code,
            "codes": [self.codes.get(rank) for rank in range(len(self.launch["ranks"]))],
            "signalled": self.signalled,
            "never_ran": never_ran,
            "at": system.stamp(),
            "refused": refused,
            "message": self.message or limit,
        }

    def finish(self, ended: dict[str, Any]) -> None:
        """Write how the attempt ended, and wake the manager. While the disk is full, try again: the attempt counts as alive."""
        while True:
            try:
                self.write_started()
                whole_files.write(self.folder, "exit.json", ended, durable=True)
                break
            except OSError:
                time.sleep(DISK_RETRY_S)
        self.tell("ended")


def kill(processes: Iterable[int]) -> None:
    """Send SIGKILL to processes; some may be gone already."""
    for pid in processes:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def begin(folder: str, fifo: str, lock: int) -> NoReturn:
    """Run the shim of one attempt in this forked process, and exit."""
    code = 1
    try:
        os.setsid()
        # /dev/null replaces the manager's socket, so that no pipe becomes number 0.
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.set_inheritable(lock, False)  # processes that a rank leaves must not hold the lock
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        system.prctl(SET_CHILD_SUBREAPER, 1)
        Shim(folder, fifo).run()
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    """Run the starter: fork a shim for every attempt, so that a start costs a fork and not a new interpreter.

    Standard input is a socket of the manager. A message has the attempt's folder and the descriptor that holds its lock.
    """
    fifo = sys.argv[1]
    signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN_SIGNALS)  # a signal that comes early waits for the shim
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # shims that end are reaped by the system
    manager = socket.socket(fileno=0)
    while True:
        message, handles, _, _ = socket.recv_fds(manager, MOST_PATH, 1)
        if not message:
            return  # the manager is gone; shims go on
        if os.fork() == 0:
            manager.detach()
            begin(message.decode(), fifo, handles[0])
        os.close(handles[0])


if __name__ == "__main__":
    main()
