"""What the commands that talk to a manager share: its address, JSON output, and exit codes for the states of a job."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.job_state import JobState

if TYPE_CHECKING:
    from headway.client.client import Client
    from headway.client.job import JobView

# Besides these, 1 is bad input and 2 wrong usage.
FAILED, NOT_FINISHED, NOT_FOUND, CANCELLED = 100, 101, 102, 103

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The manager [default: $HEADWAY_API, or the one of --data]."),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The manager's data folder, which holds its address and token [default: $HEADWAY_DATA or ~/.local/share/headway].",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
JobArgument = Annotated[int, typer.Argument(metavar="JOB", min=1, help="The job's number.")]
JobsArgument = Annotated[list[int], typer.Argument(metavar="JOB...", min=1, help="Numbers of jobs.")]


def connect(server: str | None, data: Path | None) -> "Client":
    """A client of the manager."""
    from headway.client.client import Client

    return Client(server, data=data)


def print_json(content: Any) -> None:
    """JSON, and nothing else, on stdout."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def exit_code(job: "JobView") -> int:
    """The exit code for the state of a job."""
    state = JobState[job.state]
    if not state.final:
        return NOT_FINISHED
    return {JobState.COMPLETED: 0, JobState.CANCELLED: CANCELLED}.get(state, FAILED)


def note(text: str) -> None:
    """Print a line on stderr, for people."""
    typer.echo(text, err=True)


def print_notes(notes: Iterable[str]) -> None:
    """The manager's notes on a job: what it accepted but does not enforce."""
    for line in notes:
        note(f"headway: note: {line}")
