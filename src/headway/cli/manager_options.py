"""Options shared by the commands that talk to a manager: its address, JSON output, and exit codes for job states."""

import functools
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.tables.terminal import plain_lines
from headway.client.folder import DATA_HELP
from headway.errors import BadInput
from headway.io.json_file import shown
from headway.io.numbers import Range
from headway.job_state import JobState

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headway.client.job import JobView

# Besides these, 1 is bad input and 2 wrong usage.
FAILED, NOT_FINISHED, NOT_FOUND, CANCELLED = 100, 101, 102, 103

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The manager; default: $HEADWAY_API, or the one of --data."),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help=DATA_HELP,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's number, or 12_3 for task 3 of array 12.")]


def number_option(allowed: Range, *declaration: Any, help: str) -> Any:
    """Return an option that takes the numbers of a range, in plain digits: typer itself reads 1_2 as 12."""
    flag = next(part for part in declaration if str(part).startswith("--"))

    def parse(text: Any) -> float:
        value = allowed.read(str(text))  # a default is a number already
        if value is None:
            raise BadInput(f"{flag} {shown(str(text))} is not {allowed}")
        return value

    return typer.Option(*declaration, parser=parse, metavar=f"{allowed.least:g}..{allowed.most:g}", help=help)


class Session:
    """One command's manager, and how its answers are printed."""

    def __init__(self, server: str | None, data: Path | None, as_json: bool) -> None:
        from headway.client.client import Client

        self.client: Client = Client(server, data=data)
        self.as_json = as_json

    def printed_as_json(self, content: Any) -> bool:
        """Print the content if JSON is asked for; whether it was."""
        if self.as_json:
            print_json(content)
        return self.as_json


def add_command(app: typer.Typer, command: Callable[..., None], **settings: Any) -> None:
    """Add a command whose first parameter is a Session: the options --server, --data and --json take its place, at the end."""
    own = list(inspect.signature(command).parameters.values())[1:]
    of_session = [
        inspect.Parameter("server", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ServerOption),
        inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=DataOption),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    ]

    @functools.wraps(command)
    def run(server: str | None, data: Path | None, as_json: bool, **options: Any) -> None:
        command(Session(server, data, as_json), **options)

    run.__signature__ = inspect.Signature([*own, *of_session])  # type: ignore[attr-defined]
    app.command(**settings)(run)


def print_json(content: Any) -> None:
    """JSON, and nothing else, on stdout; a dataclass becomes an object."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False, default=asdict))


def print_view(view: "RenderableType", style: str | None = None) -> None:
    """Print a table or styled text on stdout."""
    from rich.console import Console

    Console(highlight=False).print(view, style=style)


def exit_code(job: "JobView") -> int:
    """The exit code for the state of a job."""
    state = JobState[job.state]
    if not state.final:
        return NOT_FINISHED
    return {JobState.COMPLETED: 0, JobState.CANCELLED: CANCELLED}.get(state, FAILED)


def note(text: str) -> None:
    """Print a line on stderr, for people."""
    typer.echo(plain_lines(text), err=True)


def print_notes(notes: Iterable[str]) -> None:
    """The manager's notes on a job: what it accepted but does not enforce."""
    for line in notes:
        note(f"headway: note: {line}")
