"""The commands that change jobs: `cancel`, `hold`, `release`, `requeue`. Each takes several jobs and acts on as many as it can."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.manager_options import DataOption, JobsArgument, JsonOption, ServerOption, connect, note, print_json

WaitOption = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the job has ended.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (cancel, hold, release, requeue):
        app.command()(command)


def cancel(
    jobs: JobsArgument,
    wait: WaitOption = False,
    server: ServerOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop jobs and remove them from the queue.

    Example: headway cancel 12 13
    """
    _each("cancel", jobs, server, data, as_json, wait=wait)


def hold(jobs: JobsArgument, server: ServerOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Keep waiting jobs from starting, until they are released.

    Example: headway hold 12
    """
    _each("hold", jobs, server, data, as_json)


def release(
    jobs: JobsArgument, server: ServerOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Let held jobs start again.

    Example: headway release 12
    """
    _each("release", jobs, server, data, as_json)


def requeue(
    jobs: JobsArgument, server: ServerOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Stop running jobs (or take ended ones) and put them back into the queue.

    Example: headway requeue 12
    """
    _each("requeue", jobs, server, data, as_json)


def _each(
    verb: str, jobs: list[int], server: str | None, data: Path | None, as_json: bool, *, wait: bool = False
) -> None:
    """Act on every job; refusals are printed, and the first one gives the exit code."""
    from dataclasses import asdict

    from headway.client.transport import ApiError

    client = connect(server, data)
    done, code = [], 0
    for number in jobs:
        try:
            job = client.act(number, verb)
            done.append(client.wait(number) if wait else job)
        except ApiError as error:
            note(f"headway: {error}")
            code = code or error.exit_code
    if as_json:
        print_json([asdict(job) for job in done])
    else:
        for job in done:
            typer.echo(f"job {job.job_id} is {job.state}")
    if code:
        raise typer.Exit(code)
