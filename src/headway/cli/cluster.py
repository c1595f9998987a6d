"""The commands that show what a manager does: `queue`, `show`, `explain`, `logs`, `nodes`, `top`, `dashboard`."""

import sys
from time import time
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.manager_options import (
    JobArgument,
    Session,
    add_command,
    exit_code,
    number_option,
    print_json,
    print_notes,
    print_view,
)
from headway.cli.operate.selection import one_job, state_names
from headway.cli.tables.terminal import plain
from headway.errors import BadInput, unknown
from headway.io.numbers import COUNT, FROM_ZERO, Range
from headway.job_state import FINAL_STATES, SHOWN_STATES

if TYPE_CHECKING:
    from rich.console import RenderableType

VERBS = ("drain", "resume", "reserve", "unreserve")  # of nodes
UserOption = Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user.")]
StateOption = Annotated[list[str] | None, typer.Option("--state", "-s", help="Only jobs in this state; repeatable.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Only jobs of this name.")]
EveryOption = Annotated[float, number_option(Range(0.2, 86_400), "--every", help="Seconds between updates.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (queue, show, explain, logs, nodes, top, dashboard):
        add_command(app, command)


def queue(
    session: Session,
    user: UserOption = None,
    state: StateOption = None,
    name: NameOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show ended jobs.")] = False,
    limit: Annotated[int, number_option(COUNT, "--limit", "-n", help="The most jobs to show.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it up to date until Ctrl-C.")] = False,
    every: EveryOption = 1.0,
) -> None:
    """The jobs of the cluster: what each has received, where it runs or why it waits. With --json all jobs, also ended ones.

    Example: headway queue --state PENDING --watch
    """
    states, client = state_names(state or ()), session.client
    if session.as_json:
        print_json(client.jobs(user=user, state=states, name=name))
        return
    from headway.cli.tables.live import queue_view, watch_view

    chosen = tuple(states) or (SHOWN_STATES if everything else None)

    def view() -> "RenderableType":
        return queue_view(client, user=user, states=chosen, name=name, limit=limit)

    if watch:
        watch_view(view, every)
    else:
        print_view(view())


def show(
    session: Session,
    job: JobArgument,
    use_exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 0 completed, 100 failed, 101 not finished, 103 cancelled.")
    ] = False,
) -> None:
    """Everything about one job. Exit code 102 if there is no such job.

    Example: headway show 12 --json
    """
    view = session.client.job(one_job(session.client, job))
    print_notes(view.notes)
    if not session.printed_as_json(view):
        from headway.cli.tables.job_details import job_table

        print_view(job_table(view))
    if use_exit_code:
        raise typer.Exit(exit_code(view))


def explain(session: Session, job: JobArgument) -> None:
    """Why a job waits: the reason with its numbers, the jobs ahead, what would change it, and where its wait went.

    Example: headway explain 12
    """
    answer = session.client.explain(one_job(session.client, job))
    if not session.printed_as_json(answer):
        from headway.cli.tables.job_details import explanation

        print_view(explanation(answer))


def logs(
    session: Session,
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job ends, then exit with its code.")
    ] = False,
    rank: Annotated[
        int | None, number_option(FROM_ZERO, "--rank", help="Only this rank; default: all, each line labelled.")
    ] = None,
    attempt: Annotated[
        int | None, number_option(FROM_ZERO, "--attempt", help="Only this attempt; default: the latest.")
    ] = None,
    tail: Annotated[
        int | None, number_option(FROM_ZERO, "--tail", "-n", help="Only the last lines (of every rank).")
    ] = None,
) -> None:
    """What a job printed. With --follow it continues until the job ends, through preemptions and restarts of the manager; the exit
    code is then 0, 100 or 103. On a terminal, control characters are shown, not obeyed.

    Example: headway logs 12 --follow --tail 20
    """
    number = one_job(session.client, job)
    lines = session.client.logs(number, follow=follow, rank=rank, attempt=attempt, tail=tail)
    if session.as_json:
        print_json({"job_id": number, "lines": list(lines)})
    else:
        shown = plain if sys.stdout.isatty() else str
        for line in lines:
            sys.stdout.write(shown(line) + "\n")
            if follow:
                sys.stdout.flush()
    if follow:
        raise typer.Exit(exit_code(session.client.job(number)))


def nodes(
    session: Session,
    verb: Annotated[
        str | None,
        typer.Argument(
            metavar="[drain|resume|reserve|unreserve]",
            help="drain: start no new jobs there; resume: start jobs again; reserve: keep nodes for a queue for a time; "
            "unreserve: no longer.",
        ),
    ] = None,
    node: Annotated[list[str] | None, typer.Argument(metavar="NODE", help="Names of nodes.")] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", help="reserve: the queue that the nodes are kept for.")
    ] = None,
    begin: Annotated[
        str, typer.Option("--from", help="reserve: from when, a date (2027-01-31T08:00) or a time from now (2h).")
    ] = "0",
    end: Annotated[str | None, typer.Option("--to", help="reserve: until when, in the same way.")] = None,
    summary: Annotated[
        bool, typer.Option("--summary", "-s", help="Only how many nodes are alike: state, GPUs, in use or free.")
    ] = False,
) -> None:
    """The nodes and what is free on them, first how many are alike; drain some for maintenance, and resume them; keep some for a queue.

    Example: headway nodes reserve n000 n001 --queue vision --from 2027-01-31T08:00 --to 2027-01-31T20:00
    """
    client, named = session.client, node or []
    if verb is not None:
        if verb not in VERBS:
            raise unknown("verb", verb, VERBS)
        if not named:
            raise BadInput(f"which node? headway nodes {verb} {client.nodes()[0]['name']}")
        if verb == "reserve":
            if queue is None or end is None:
                raise BadInput(f"for which queue, until when? headway nodes reserve {named[0]} --queue NAME --to 8h")
            from headway.cluster.queues_file import moment  # it loads NumPy

            now = time()
            client.reserve(named, queue, moment(begin, now), moment(end, now))
        for each in named if verb != "reserve" else ():
            client.unreserve(each) if verb == "unreserve" else client.set_node(each, verb)
    views, reservations = client.nodes(), client.reservations()
    from headway.cli.tables.nodes import nodes_table, reservation_line, summarised, summary_table

    groups = summarised(views)
    if session.printed_as_json(groups if summary else views):
        return
    print_view(summary_table(groups))
    if not summary:
        print_view("")
        print_view(nodes_table(views))
    for line in map(reservation_line, reservations):
        print_view(line)


def top(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="Print it once and stop.")] = False,
    every: EveryOption = 1.0,
) -> None:
    """The whole cluster on one screen, kept up to date: GPUs, queues by level, running and waiting jobs.

    Example: headway top --every 0.5
    """
    client = session.client
    if session.as_json:
        active = client.jobs(state=[name for name in SHOWN_STATES if name not in FINAL_STATES])
        print_json({**client.status(), "nodes": client.nodes(), "jobs": active})
        return
    from rich.console import Console

    from headway.cli.tables.live import top_view, watch_view

    console = Console(highlight=False)
    if once or not console.is_terminal:
        console.print(top_view(client, console.size.height))
    else:
        watch_view(lambda: top_view(client, console.size.height), every, whole_screen=True)


def dashboard(session: Session) -> None:
    """Print a link that opens the dashboard in a browser, signed in with your token. It works once, within ten minutes.

    Example: headway dashboard
    """
    link = session.client.dashboard()
    if not session.printed_as_json({"url": link}):
        typer.echo(link)
