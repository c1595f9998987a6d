"""`headway shell`: an interactive session as a job. The job meets this command at a socket that only its own user can reach."""

import contextlib
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.declared_options import takes
from headway.cli.manager_options import CANCELLED, FAILED, Session, add_command, note, number_option, print_notes
from headway.cli.submit import COMMAND_WORDS, CommandAfterDashes
from headway.errors import BadInput, HeadwayError
from headway.io.numbers import COUNT
from headway.job_state import FINAL_STATES
from headway.live.jobfile.options import JOB_OPTIONS, set_fields

if TYPE_CHECKING:
    from headway.client.client import Client

LOOK_S = 0.5  # between two looks at a job that waits
TERMINAL = Path(__file__).parents[2] / "runtime" / "terminal.py"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(app, shell, cls=CommandAfterDashes)


@takes(
    {path: JOB_OPTIONS[path] for path in ("queue", "time_limit", "resources.type")},
    time_limit="8h",
)
def shell(
    session: Session,
    context: typer.Context,
    gpus: Annotated[int, number_option(COUNT, "--gpus", "-g", help="GPUs.")] = 1,
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the job.")] = "shell",
    **given: Any,
) -> None:
    """An interactive shell on GPUs of the cluster, as a job: it waits its turn, and ends with the shell. After --: a command instead.

    Example: headway shell --gpus 1, or headway shell --gpus 2 -- python -i
    """
    if session.as_json:
        raise BadInput("--json: a session is for people; for programs: headway submit --wait -- COMMAND")
    with tempfile.TemporaryDirectory(prefix="headway-shell-") as folder:
        path = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(1)
            command = [sys.executable, "-I", "-S", str(TERMINAL), path, *context.meta.get(COMMAND_WORDS, [])]
            spec: dict[str, Any] = {"name": name, "command": command, "preemptible": False, "workdir": str(Path.cwd())}
            spec |= {"resources": {"accelerators": gpus}, "envs": {"TERM": os.environ.get("TERM", "dumb")}}
            set_fields(spec, given)
            answer = session.client.send_spec(spec)
            print_notes(answer.get("notes", ()))
            job = int(answer["job_id"])
            try:
                with _met(session.client, job, listening) as connected:
                    code = _carry(session.client, job, connected)
            except KeyboardInterrupt:
                session.client.cancel(job, now=True)
                note(f"\nheadway: job {job} is cancelled")
                raise typer.Exit(CANCELLED) from None
    raise typer.Exit(code)


def _met(client: "Client", job: int, listening: socket.socket) -> socket.socket:
    """The connection of the job, once it runs; says meanwhile why it waits."""
    listening.settimeout(LOOK_S)
    said = ""
    while True:
        try:
            connected, _ = listening.accept()
            connected.settimeout(None)
            _check_peer(connected)
            return connected
        except TimeoutError:
            pass
        view = client.job(job)
        if view.state in FINAL_STATES:
            lines = list(client.logs(job))[-5:]
            raise HeadwayError(
                f"job {job} {view.state}: {view.message or ' '.join(lines) or 'it did not start a session'}"
            )
        words = f"{view.state}" + (f", {view.reason}" if view.reason else "")
        if words != said:
            said = words
            note(f"headway: job {job} is {words} (Ctrl-C cancels it)")


def _check_peer(connected: socket.socket) -> None:
    """Only processes of the same user (or root) may be the other end."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user = struct.unpack("3i", raw)[1]
    if user not in {0, os.geteuid()}:
        raise HeadwayError(f"a process of another user (number {user}) answered in place of the job")


def _carry(client: "Client", job: int, connected: socket.socket) -> int:
    """Carry between this terminal and the job's until the session is over; its exit code."""
    import select
    import termios
    import tty

    from headway.runtime.terminal import SIZE, Channel

    channel = Channel(connected)

    def resized(*_: Any) -> None:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(sys.stdin.fileno())
            channel.send(b"w", SIZE.pack(size.lines, size.columns))

    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(keyboard) if os.isatty(keyboard) else None
    if before:
        tty.setraw(keyboard, termios.TCSADRAIN)  # what was typed before counts
        signal.signal(signal.SIGWINCH, resized)
        resized()
    try:
        inputs = [connected, keyboard]
        while True:
            ready, _, _ = select.select(inputs, [], [])
            if keyboard in ready:
                typed = os.read(keyboard, 1 << 12)
                if not typed:
                    inputs.remove(keyboard)
                with contextlib.suppress(OSError):  # the job has ended: its exit code may have arrived
                    channel.send(b"d", typed or b"\x04")  # the end of a file that is read from a terminal
            if connected in ready:
                messages = channel.receive()
                if messages is None:
                    break
                for kind, content in messages:
                    if kind == b"x":
                        return int(content)
                    os.write(screen, content)
    except OSError:
        pass
    finally:
        if before:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
    return _lost(client, job)


def _lost(client: "Client", job: int) -> int:
    """The connection is gone without an exit code: say what became of the job."""
    end = time.monotonic() + 5.0
    while (view := client.job(job)).state not in FINAL_STATES and time.monotonic() < end:
        time.sleep(0.1)
    note(f"\nheadway: the session is over: job {job} is {view.state}" + (f" ({view.message})" if view.message else ""))
    return CANCELLED if view.state == "CANCELLED" else FAILED
