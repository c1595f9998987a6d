"""The commands that change jobs: `cancel`, `hold`, `release`, `requeue`. Each takes several jobs and acts on as many as it can."""

from typing import Annotated

import typer

from headway.cli.manager_options import JobsArgument, Session, add_command, note

WaitOption = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the job has ended.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (cancel, hold, release, requeue):
        add_command(app, command)


def cancel(session: Session, jobs: JobsArgument, wait: WaitOption = False) -> None:
    """Stop jobs and remove them from the queue.

    Example: headway cancel 12 13
    """
    _each(session, "cancel", jobs, wait)


def hold(session: Session, jobs: JobsArgument) -> None:
    """Keep waiting jobs from starting, until they are released.

    Example: headway hold 12
    """
    _each(session, "hold", jobs)


def release(session: Session, jobs: JobsArgument) -> None:
    """Let held jobs start again.

    Example: headway release 12
    """
    _each(session, "release", jobs)


def requeue(session: Session, jobs: JobsArgument) -> None:
    """Stop running jobs (or take ended ones) and put them back into the queue.

    Example: headway requeue 12
    """
    _each(session, "requeue", jobs)


def _each(session: Session, verb: str, jobs: list[int], wait: bool = False) -> None:
    """Act on every job; refusals are printed, and the first one gives the exit code."""
    from headway.client.transport import ApiError

    done, code = [], 0
    for number in jobs:
        try:
            job = session.client.act(number, verb)
            done.append(session.client.wait(number) if wait else job)
        except ApiError as error:
            note(f"headway: {error}")
            code = code or error.exit_code
    if not session.printed_as_json(done):
        for job in done:
            typer.echo(f"job {job.job_id} is {job.state}")
    if code:
        raise typer.Exit(code)
