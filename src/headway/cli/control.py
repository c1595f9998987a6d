"""The commands that change jobs: `cancel`, `hold`, `release`, `requeue`. Each takes many jobs and acts on as many as it can."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.manager_options import Session, add_command, note
from headway.cli.operate.selection import ask, chosen, first_of_array, is_filtered, state_names
from headway.client.job import JobQuery
from headway.io.units import counted

if TYPE_CHECKING:
    from headway.client.job import JobView

JOBS = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB...]", help="Jobs: 12, 100-120, 12_3, 12_[3-7], '12_*' (a whole array)."),
]
FILTERS: dict[str, Any] = {
    "user": Annotated[str | None, typer.Option("--user", "-u", help="All jobs of this user.")],
    "state": Annotated[list[str] | None, typer.Option("--state", "-s", help="All jobs in this state; repeatable.")],
    "name": Annotated[str | None, typer.Option("--name", "-n", help="All jobs with this in their name.")],
    "queue": Annotated[str | None, typer.Option("--queue", "-q", help="All jobs of this queue.")],
}
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again before many jobs are changed.")]


@dataclass(frozen=True, slots=True)
class JobSelection:
    """The jobs that a verb is for, and whether it has been said that many may be changed."""

    words: Sequence[str]
    query: JobQuery
    yes: bool

    def numbers(self, session: Session, verb: str, state: str = "") -> list[int]:
        """Their numbers. A verb that applies to one state takes the jobs in that state where filters name none."""
        query = self.query
        if state and is_filtered(query) and not query.states:
            query = replace(query, states=frozenset([state]))
        return chosen(session.client, self.words, query, verb, self.yes)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (cancel, hold, release, requeue):
        add_command(app, _with_choice(command))


def _with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose second parameter is a Choice: the jobs, the filters and --yes take its place."""
    session, _, *own = inspect.signature(command).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    of_choice = [
        inspect.Parameter("jobs", keyword, default=None, annotation=JOBS),
        *(inspect.Parameter(name, keyword, default=None, annotation=option) for name, option in FILTERS.items()),
        inspect.Parameter("yes", keyword, default=False, annotation=YES),
    ]

    @functools.wraps(command)
    def run(session: Session, jobs: list[str] | None, yes: bool, **options: Any) -> None:
        user, state, name, queue = (options.pop(each) for each in FILTERS)
        command(
            session,
            JobSelection(
                jobs or (), JobQuery(user=user, states=state_names(state or ()), name=name or "", queue=queue), yes
            ),
            **options,
        )

    own = [parameter.replace(kind=keyword) for parameter in own]
    run.__signature__ = inspect.Signature([session, *of_choice, *own])  # type: ignore[attr-defined]
    return run


def cancel(
    session: Session,
    choice: JobSelection,
    now: Annotated[bool, typer.Option("--now", help="Kill at once, without a grace.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the jobs have ended.")] = False,
) -> None:
    """Stop jobs and remove them from the queue. They get their grace to save, or none with --now.

    Example: headway cancel 12 100-120 '31_[3-7]', or headway cancel --user ada --state PENDING
    """
    _act(session, "cancel", choice.numbers(session, "cancel"), now, wait)


def hold(session: Session, choice: JobSelection) -> None:
    """Keep waiting jobs from starting, until they are released. Jobs that run are left alone: see requeue --hold.

    Example: headway hold 12
    """
    _act(session, "hold", choice.numbers(session, "hold", "PENDING"))


def release(session: Session, choice: JobSelection) -> None:
    """Let held jobs start again.

    Example: headway release 12
    """
    _act(session, "release", choice.numbers(session, "release", "HELD"))


def requeue(
    session: Session,
    choice: JobSelection,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep them from starting again until they are released.")
    ] = False,
) -> None:
    """Stop running jobs (or take ended ones) and put them back into the queue; says what work that loses.

    Example: headway requeue --hold 12
    """
    numbers = choice.numbers(session, "requeue")
    _say_what_is_lost(session, numbers, choice.yes)
    _act(session, "requeue", numbers, hold)


def _say_what_is_lost(session: Session, numbers: Sequence[int], yes: bool) -> None:
    """What running jobs have not saved; on a terminal, where there is somebody to answer, go on only after a yes."""
    if len(numbers) > 1:
        running = session.client.jobs(state=("RUNNING", "STARTING"))
        jobs = [job for job in running if job.job_id in set(numbers)]
    else:
        jobs = [session.client.job(number) for number in numbers]
    lines = [line for job in jobs if (line := lost(job))]
    for line in lines[:10]:
        note(f"headway: {line}")
    if len(lines) > 10:
        note(f"headway: and {counted(len(lines) - 10, 'other job')} the same")
    if lines and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        ask("stop " + ("it?" if len(lines) == 1 else "them?"), "")


def lost(job: "JobView") -> str:
    """What stopping a job loses, in one line; empty where it does not run."""
    from headway.cli.tables.jobs import span

    if job.unsaved_s is None:
        return ""
    work = f"{span(job.unsaved_s)} of work on {counted(job.gpus, 'GPU')} ({span(job.unsaved_s * job.gpus)} of GPU time)"
    saved = job.progress.get("checkpointed")
    if saved is not None:
        return (
            f"job {job.job_id} saved step {saved} {span(job.unsaved_s)} ago; what it does not save in its grace is lost"
        )
    return f"job {job.job_id} has reported no checkpoint: {work} is lost, unless it saves in its grace"


def _act(session: Session, verb: str, numbers: Sequence[int], option: bool = False, wait: bool = False) -> None:
    """Act on every job; refusals are printed, and the first one gives the exit code."""
    client, code = session.client, 0
    done, refused = client.act_all(verb, numbers, option)
    for error in refused:
        note(f"headway: {error}")
        code = code or error.exit_code
    if wait:
        done = [client.wait(job.job_id) for job in done]
    if not session.printed_as_json(done):
        for job in done[:20]:
            typer.echo(f"job {job.job_id} is {job.state}")
        if len(done) > 20:
            typer.echo(f"and {counted(len(done) - 20, 'more job')}")
    if not numbers:
        note("headway: there are no such jobs")
    if task := first_of_array(done):
        note(f"headway: job {task.job_id} is the first task of an array; the whole array is '{task.job_id}_*'")
    if code:
        raise typer.Exit(code)
